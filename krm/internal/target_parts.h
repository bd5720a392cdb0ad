#pragma once

#include <cstddef>
#include <string_view>

#include "krm/request_target.h"

/// Questions that the reading of a target asks about its path. Pure functions, any thread.
namespace kintsugi::krm {

/// Well-formed UTF-8 without the control characters U+0080 to U+009F.
[[nodiscard]] bool is_text(std::string_view bytes);

/// Where the trail begins, or in a path of no known form what would be one: only behind that are
/// escaped dots cleaned away (FP-107).
/// @param target  whose prefix has been read.
[[nodiscard]] std::size_t front_of(std::string_view path, const RequestTarget& target);

}  // namespace kintsugi::krm
