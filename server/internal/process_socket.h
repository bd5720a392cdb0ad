#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "http/handler.h"
#include "krm/request_info.h"
#include "net/listener.h"
#include "net/loop.h"
#include "serving/log_control.h"

namespace kintsugi::server {

/// Where a shard, a worker or `kintsugi up` is asked, as a proxy is at its `admin.socket`: a Unix
/// socket for processes of this user and of root, with /debug/log (OP-303), /livez and what else
/// the process has to say. Threads: the loop's.
class ProcessSocket final : private http::Handler {
 public:
  /// A page: GET and HEAD. @param query  of the target
  using Page = std::function<std::unique_ptr<http::RequestHandler>(
      const http::RequestHead& head, http::ResponseStream& stream, const krm::Query& query)>;
  /// By path.
  using Pages = std::map<std::string, Page, std::less<>>;

  /// Listens there, in a folder that is made. Where that fails it is a warning: nothing depends on
  /// it.
  ProcessSocket(net::Loop& loop, const std::string& path, Pages pages = {});
  ~ProcessSocket();
  ProcessSocket(const ProcessSocket&) = delete;
  ProcessSocket& operator=(const ProcessSocket&) = delete;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

  serving::LogControl log_;
  const std::string path_;
  const Pages pages_;
  std::unique_ptr<net::Listener> listener_;  ///< null: it could not be had
};

/// /readyz of one process: 200 "ok", or 500 with the reason. @param not_ready  "": it is ready
[[nodiscard]] ProcessSocket::Page readiness_page(std::function<std::string()> not_ready);

}  // namespace kintsugi::server
