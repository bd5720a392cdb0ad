#pragma once

#include <string>
#include <vector>

namespace kintsugi::cmd {

/// Rows as kubectl prints them: columns three blanks apart, as wide as their widest text (counted
/// in characters), nothing behind the last one. Empty texts are shown as "-".
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace kintsugi::cmd
