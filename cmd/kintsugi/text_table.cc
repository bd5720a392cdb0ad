#include "cmd/kintsugi/text_table.h"

#include <algorithm>
#include <string_view>

namespace kintsugi::cmd {
namespace {

constexpr std::size_t kApart = 3;

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;  // begins a character of UTF-8
  }));
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max({widths[i], width_of(row[i]), std::size_t{1}});
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string text = row[i].empty() ? "-" : row[i];
      out += text;
      if (i + 1 < row.size()) {
        out.append(widths[i] - width_of(text) + kApart, ' ');
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace kintsugi::cmd
