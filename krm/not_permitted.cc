#include "krm/not_permitted.h"

#include <string>

#include "base/hex.h"
#include "base/strings.h"

namespace kintsugi::krm {

std::string quoted_path(std::string_view text) {
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
      append_hex(out, byte);
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
