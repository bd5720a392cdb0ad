#pragma once

#include <memory>

#include "base/log.h"
#include "http/handler.h"
#include "krm/request_info.h"
#include "net/loop.h"

namespace kintsugi::serving {

/// /debug/log: GET tells what level is logged, PUT ?level=debug[&for=10m] changes it, with `for` (1
/// s to 24 h) until then (OP-303). Both answer {"level", "secondsLeft", "after"}, the last two only
/// while a change ends by itself. Threads: the control loop's.
class LogControl {
 public:
  explicit LogControl(net::Loop& loop) : timer_(loop) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(const http::RequestHead& head,
                                                                 http::ResponseStream& stream,
                                                                 const krm::Query& query);

 private:
  net::Timer timer_;
  TimePoint until_{};                 ///< not set: the level stays
  LogLevel after_ = LogLevel::kInfo;  ///< from then on
};

}  // namespace kintsugi::serving
