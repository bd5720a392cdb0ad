#include "proxy/console/console_answer.h"

#include <utility>

#include "krm/json.h"
#include "serving/answer.h"

namespace kintsugi::proxy {

http::HeaderList console_headers(std::string_view content_type, std::string_view cache_control) {
  http::HeaderList headers;
  headers.add("content-type", content_type);
  headers.add("cache-control", cache_control);
  headers.add("content-security-policy",
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
              "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
              "require-trusted-types-for 'script'; trusted-types 'none'");
  headers.add("x-content-type-options", "nosniff");
  headers.add("referrer-policy", "no-referrer");
  headers.add("cross-origin-opener-policy", "same-origin");
  headers.add("cross-origin-resource-policy", "same-origin");
  return headers;
}

std::unique_ptr<http::RequestHandler> console_answer(const http::RequestHead& head,
                                                     http::ResponseStream& stream, int status,
                                                     http::HeaderList headers,
                                                     std::string_view body) {
  if (status != 304) {
    headers.add("content-length", std::to_string(body.size()));
  }
  const bool bare = head.method == "HEAD" || status == 304 || body.empty();
  stream.send_head(status, headers, bare);
  if (!bare) {
    stream.send_data(body, true);
  }
  return serving::swallow(stream);
}

std::unique_ptr<http::RequestHandler> console_error(const http::RequestHead& head,
                                                    http::ResponseStream& stream, int status,
                                                    std::string_view message) {
  return console_answer(head, stream, status, console_headers("application/json", "no-store"),
                        krm::Json::object({{"error", message}}).dump() + "\n");
}

}  // namespace kintsugi::proxy
