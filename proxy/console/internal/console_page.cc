#include "proxy/console/internal/console_page.h"

#include <utility>

#include "proxy/console/console.h"
#include "proxy/console/console_answer.h"
#include "proxy/console/internal/static_files.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kApiV1 = "/ui/api/v1/";

const StaticFiles& files() {
  static const StaticFiles kFiles;
  return kFiles;
}

/// A browser says that another site's page asks: its user's certificate would go along. Nothing of
/// an answer could be read there, but places of live streams would be taken.
bool is_of_another_site(const http::RequestHead& head) {
  const std::string_view site = head.headers.get("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return true;
  }
  const std::string_view origin = head.headers.get("origin");
  const std::size_t scheme = origin.find("://");
  return !origin.empty() &&
         (scheme == std::string_view::npos || origin.substr(scheme + 3) != head.authority);
}

}  // namespace

std::string_view console_name(std::string_view path) noexcept {
  return path.starts_with(kApiV1) ? path.substr(kApiV1.size()) : std::string_view();
}

std::unique_ptr<http::RequestHandler> answer_page(const http::RequestHead& head,
                                                  http::ResponseStream& stream,
                                                  std::string_view path) {
  if (head.method != "GET" && head.method != "HEAD") {
    http::HeaderList headers = console_headers("application/json", "no-store");
    headers.add("allow", "GET, HEAD");
    return console_answer(head, stream, 405, std::move(headers), "{\"error\":\"only GET\"}\n");
  }
  if (path == "/ui") {
    http::HeaderList headers = console_headers("text/plain; charset=utf-8", "no-cache");
    headers.add("location", "/ui/");
    return console_answer(head, stream, 308, std::move(headers), {});
  }
  if (Console::is_public(path)) {
    return files().answer(head, stream, path.substr(std::string_view("/ui/").size()));
  }
  if (is_of_another_site(head)) {
    return console_error(head, stream, 403, "a page of another site asks");
  }
  return nullptr;
}

}  // namespace kintsugi::proxy
