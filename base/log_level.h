#pragma once

#include <optional>
#include <string_view>

#include "base/log.h"

namespace kintsugi {

/// Whether lines of this level are written: asked where their fields cost something. Threads: any.
[[nodiscard]] bool is_logged(LogLevel level) noexcept;
/// What set_log_level() was told last. Threads: any.
[[nodiscard]] LogLevel log_level() noexcept;

/// "error", "warn", "info", "debug".
[[nodiscard]] std::string_view level_name(LogLevel level) noexcept;
[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view name) noexcept;

}  // namespace kintsugi
