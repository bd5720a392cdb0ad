#pragma once

#include "base/log.h"

namespace kintsugi {

/// Whether lines of this level are written: asked where their fields cost something. Threads: any.
[[nodiscard]] bool is_logged(LogLevel level) noexcept;

}  // namespace kintsugi
