#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"

namespace kintsugi::cmd {

/// A setter for a length of time as people type it: digits and one of s, m, h, d ("90s", "1h",
/// "366d"); at most ten years. @param target [s]
[[nodiscard]] std::function<Expected<void>(std::string_view)> into_span(std::int64_t& target);

}  // namespace kintsugi::cmd
