#pragma once

#include <nghttp2/nghttp2.h>

#include <span>
#include <string_view>

#include "http/session.h"

namespace kintsugi::http {

class H2Engine;

/// A session with the options and SETTINGS of protocol_limits.h, whose callbacks act on
/// `engine`.
[[nodiscard]] nghttp2_session* make_nghttp2_session(H2Engine& engine, const SessionLimits& limits,
                                                    bool server) noexcept;
/// A server's first frame: its SETTINGS, with the number of streams of which nghttp2 is not told.
/// It would end the connection of a client that opens one more than it has acknowledged; here only
/// that stream is refused (SE-083).
/// @returns the part of `out` that it takes
[[nodiscard]] std::string_view take_greeting(nghttp2_session* session, const SessionLimits& limits,
                                             std::span<char> out) noexcept;
/// Hands out the H2Stream's queue without copying (PERF-221).
[[nodiscard]] nghttp2_data_provider body_provider() noexcept;

}  // namespace kintsugi::http
