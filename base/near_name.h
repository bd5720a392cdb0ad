#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kintsugi {

/// The known name that somebody may have meant, "" for none: up to two letters added, left out,
/// changed or swapped (one in words of up to three), else the only name that begins so.
[[nodiscard]] std::string nearest_name(std::string_view typed,
                                       const std::vector<std::string>& known);

}  // namespace kintsugi
