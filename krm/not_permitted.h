#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::krm {

/// E1: the same for a logical cluster that does not exist and for one that the caller may not enter
/// (SE-161). It names nobody and shows the path as it was asked for.
/// @param path  decoded, without query.
[[nodiscard]] Error not_permitted(std::string_view method, std::string_view path);

/// Go's %q without the quotes, then the entities that kcp writes.
[[nodiscard]] std::string quoted_path(std::string_view text);

/// Header field by which a shard says of a refusal whether its caller may enter the logical
/// cluster. A proxy in front answers an E1 of its own, with the path as its client sent it, and
/// takes the field away.
inline constexpr std::string_view kAccessHeader = "x-kintsugi-access";
inline constexpr std::string_view kAccessDenied = "denied", kAccessGranted = "granted";

}  // namespace kintsugi::krm
