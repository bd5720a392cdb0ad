#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"

/// What every answer below /ui has (OP-703).
namespace kintsugi::proxy {

/// What the browser may do with the page: nothing but run it, and ask where it came from.
[[nodiscard]] http::HeaderList console_headers(std::string_view content_type,
                                               std::string_view cache_control);
/// A complete answer. A body does not go out for HEAD.
[[nodiscard]] std::unique_ptr<http::RequestHandler> console_answer(const http::RequestHead& head,
                                                                   http::ResponseStream& stream,
                                                                   int status,
                                                                   http::HeaderList headers,
                                                                   std::string_view body);
/// A Status-less error of the console's API: {"error": "…"}.
[[nodiscard]] std::unique_ptr<http::RequestHandler> console_error(const http::RequestHead& head,
                                                                  http::ResponseStream& stream,
                                                                  int status,
                                                                  std::string_view message);

}  // namespace kintsugi::proxy
