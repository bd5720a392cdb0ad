#pragma once

#include <memory>
#include <string_view>

#include "http/handler.h"

/// What both ways to the console answer alike (OP-703).
namespace kintsugi::proxy {

/// Of the API: what follows its prefix; "" for another path.
[[nodiscard]] std::string_view console_name(std::string_view path) noexcept;
/// The page and its files, and everything that is refused whoever asks. nullptr: a question of the
/// API. @param path  of head.target, without the query. Threads: any.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_page(const http::RequestHead& head,
                                                                http::ResponseStream& stream,
                                                                std::string_view path);

}  // namespace kintsugi::proxy
