#include "krm/not_permitted.h"

#include <string>

#include "base/strings.h"

namespace kintsugi::krm {

std::string quoted_path(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out;
}

Error not_permitted(std::string_view method, std::string_view path) {
  return Error(Errc::kForbidden, "forbidden: User \"\" cannot " + to_lower(method) + " path \"" +
                                     quoted_path(path) + "\": workspace access not permitted");
}

}  // namespace kintsugi::krm
