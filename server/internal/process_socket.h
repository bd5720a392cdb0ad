#pragma once

#include <memory>
#include <string>

#include "http/handler.h"
#include "net/listener.h"
#include "net/loop.h"
#include "serving/log_control.h"

namespace kintsugi::server {

/// Where a shard or a worker is asked, as a proxy is at its `admin.socket`: a Unix socket for
/// processes of this user and of root, with /debug/log (OP-303) and /livez. Threads: the loop's.
class ProcessSocket final : private http::Handler {
 public:
  /// Listens there, in a folder that is made. Where that fails it is a warning: nothing depends on
  /// it.
  ProcessSocket(net::Loop& loop, const std::string& path);
  ~ProcessSocket();
  ProcessSocket(const ProcessSocket&) = delete;
  ProcessSocket& operator=(const ProcessSocket&) = delete;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

  serving::LogControl log_;
  const std::string path_;
  std::unique_ptr<net::Listener> listener_;  ///< null: it could not be had
};

}  // namespace kintsugi::server
