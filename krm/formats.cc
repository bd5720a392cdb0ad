#include "krm/formats.h"

#include <algorithm>
#include <cstddef>

namespace kintsugi::krm {

bool is_request_uri(std::string_view text) {
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (text.empty() || std::any_of(text.begin(), text.end(), is_bad)) {
    return false;
  }
  if (text.front() == '/') {
    return true;
  }
  const std::size_t colon = text.find(':');
  const auto is_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '-' || c == '.';
  };
  if (colon == std::string_view::npos || colon == 0 ||
      !((text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z') ||
      !std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), is_scheme)) {
    return false;
  }
  const std::string_view rest = text.substr(colon + 1);
  if (!rest.starts_with("//")) {
    return true;
  }
  const std::string_view host = rest.substr(2, rest.find_first_of("/?#", 2) - 2);
  return host.find_first_of(" <>\"\\^`{|}") == std::string_view::npos;
}

}  // namespace kintsugi::krm
