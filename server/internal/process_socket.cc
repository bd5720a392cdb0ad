#include "server/internal/process_socket.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "server/files.h"
#include "serving/answer.h"

namespace kintsugi::server {

ProcessSocket::ProcessSocket(net::Loop& loop, const std::string& path, Pages pages)
    : log_(loop), path_(path), pages_(std::move(pages)) {
  net::ListenerParams params;
  params.address = path;
  auto made = make_directories(std::filesystem::path(path).parent_path().string());
  auto listener = made ? net::Listener::open(loop, std::move(params), *this)
                       : Expected<std::unique_ptr<net::Listener>>(fail(std::move(made.error())));
  if (!listener) {
    log_warn("the admin socket cannot be had", {{"error", listener.error().to_string()}});
    return;
  }
  listener_ = std::move(*listener);
}

ProcessSocket::~ProcessSocket() {
  if (listener_ != nullptr) {
    ::unlink(path_.c_str());
  }
}

std::unique_ptr<http::RequestHandler> ProcessSocket::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  const std::string_view target = head.target;
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const bool is_log = path == "/debug/log";
  const bool reads = head.method == "GET" || head.method == "HEAD";
  const krm::Query query(question == std::string_view::npos ? std::string_view()
                                                            : target.substr(question + 1));
  if (is_log && (reads || head.method == "PUT")) {
    return log_.on_request(head, stream, query);
  }
  if (!reads) {
    return serving::answer_text(
        head, stream, 405,
        is_log ? "only GET and PUT are served here\n" : "only GET is served here\n");
  }
  if (path == "/livez") {
    return serving::answer_text(head, stream, 200, "ok\n");
  }
  if (const auto page = pages_.find(path); page != pages_.end()) {
    return page->second(head, stream, query);
  }
  std::string there = "there are /debug/log, /livez";
  for (const auto& [name, page] : pages_) {
    there += ", " + name;
  }
  return serving::answer_text(head, stream, 404, there + "\n");
}

ProcessSocket::Page readiness_page(std::function<std::string()> not_ready) {
  return [not_ready = std::move(not_ready)](const http::RequestHead& head,
                                            http::ResponseStream& stream,
                                            const krm::Query& /*query*/) {
    const std::string why = not_ready();
    return serving::answer_text(head, stream, why.empty() ? 200 : 500,
                                why.empty() ? "ok" : "[-]shard failed: " + why + "\n");
  };
}

}  // namespace kintsugi::server
