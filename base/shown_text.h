#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kintsugi {

/// The beginning of a text from outside, for lines that people and programs read: at most `most`
/// bytes, no part of a character, and UTF-8: where it is none, '?' in the place of each foreign
/// byte.
[[nodiscard]] std::string shown_text(std::string_view text,
                                     std::size_t most = std::string_view::npos);

}  // namespace kintsugi
