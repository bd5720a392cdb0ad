#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace kintsugi::krm {

/// Bytes of a JSON text that can go so that a member is not in it.
struct MemberSpan {
  std::size_t begin = 0, end = 0;
};

/// Looks for a member of a JSON object: the first of each name, names as they are written, without
/// escapes. Of what is before it and of its value only brackets and strings are looked at.
/// @param path  names from the outermost object on.
/// @returns nullopt: it is not there, or only a parser can tell: brackets that do not match, more
/// than 64 of them open at once, a comma that is missing or too many.
/// Cost: one pass over the bytes up to the member's end, no allocation.
[[nodiscard]] std::optional<MemberSpan> find_member(
    std::string_view text, std::span<const std::string_view> path) noexcept;

}  // namespace kintsugi::krm
