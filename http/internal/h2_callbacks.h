#pragma once

#include <nghttp2/nghttp2.h>

#include "http/session.h"

namespace kintsugi::http {

class H2Engine;

/// A session with the options and SETTINGS of protocol_limits.h, whose callbacks act on
/// `engine`.
[[nodiscard]] nghttp2_session* make_nghttp2_session(H2Engine& engine, const SessionLimits& limits,
                                                    bool server) noexcept;
/// Hands out the H2Stream's queue without copying (PERF-221).
[[nodiscard]] nghttp2_data_provider body_provider() noexcept;

}  // namespace kintsugi::http
