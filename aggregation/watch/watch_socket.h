#pragma once

#include <functional>
#include <memory>

#include "http/handler.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Makes the handler of a watch that answers on `stream`.
using MakeWatch = std::function<std::unique_ptr<http::RequestHandler>(
    http::RequestHead head, http::ResponseStream& stream)>;

/// Answers a watch over a WebSocket (AGG-708): one event is one text message,
/// the end is a close frame with 1000. The watch itself is any that answers 200 and JSON events;
/// what it refuses is refused without an upgrade.
/// @param head  http::asks_for_web_socket() holds; the watch is asked without what is about
/// sockets. Threads: its loop.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_over_socket(net::Loop& loop,
                                                                       http::RequestHead head,
                                                                       http::ResponseStream& stream,
                                                                       const MakeWatch& make);

}  // namespace kintsugi::aggregation
