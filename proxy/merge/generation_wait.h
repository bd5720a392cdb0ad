#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/waiting_request.h"

namespace kintsugi::proxy {

/// Requests whose cursor or token is of a generation that another replica, or another loop, made a
/// moment ago: they wait for its record (specs/aggregation.md 5.3). Threads: its loop.
class GenerationWait {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  /// @param longest zero: nothing waits.
  GenerationWait(net::Loop& loop, Duration longest) : loop_(loop), longest_(longest) {}
  GenerationWait(const GenerationWait&) = delete;
  GenerationWait& operator=(const GenerationWait&) = delete;

  /// False when so many wait that the next is better refused at once.
  [[nodiscard]] bool has_room() const noexcept;
  /// Calls `then`, once, as soon as a generation not smaller than this is known, after `longest` at
  /// the latest; never when the stream is gone by then.
  [[nodiscard]] Answer hold(std::uint32_t generation, std::function<Answer()> then);
  void known(std::uint32_t generation);

 private:
  struct Held {
    std::uint32_t generation;
    std::shared_ptr<WaitingRequest*> request;
    std::function<Answer()> then;
  };
  static void go_on(Held& held);

  net::Loop& loop_;
  Duration longest_;
  std::list<std::shared_ptr<Held>> held_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kintsugi::proxy
