#include "cmd/kintsugi/store_key.h"

#include <charconv>

#include "base/hex.h"

namespace kintsugi::cmd {

std::string shown_key(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\0') {
      out += '/';
    } else if (byte < 0x20 || byte > 0x7e || c == '\\') {
      out += "\\x";
      append_hex(out, byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string stored_key(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view code = text.substr(i, 4);
    unsigned byte = 0;
    if (code.size() == 4 && code.starts_with("\\x") &&
        std::from_chars(code.data() + 2, code.data() + 4, byte, 16).ptr == code.data() + 4) {
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += text[i] == '/' ? '\0' : text[i];
    }
  }
  return out;
}

}  // namespace kintsugi::cmd
