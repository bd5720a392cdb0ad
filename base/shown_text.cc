#include "base/shown_text.h"

#include <algorithm>

#include "base/strings.h"

namespace kintsugi {

std::string shown_text(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  if (out.size() < text.size()) {
    while (!out.empty() && (static_cast<unsigned char>(text[out.size()]) & 0xC0U) == 0x80) {
      out.pop_back();
    }
  }
  if (!is_valid_utf8(out)) {
    std::replace_if(
        out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  return out;
}

}  // namespace kintsugi
