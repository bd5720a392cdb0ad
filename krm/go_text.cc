#include "krm/go_text.h"

#include <cstdint>

#include "base/hex.h"

namespace kintsugi::krm {
namespace {

/// Decodes one character at `at`; length 0 when the bytes are no UTF-8.
std::uint32_t decode(std::string_view text, std::size_t at, std::size_t& length) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) : 0U;
  };
  const std::uint32_t first = byte(at);
  length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (length == 1) {
    return first;
  }
  if (length == 0 || first > 0xF4) {
    length = 0;
    return 0;
  }
  std::uint32_t code = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) {
      length = 0;
      return 0;
    }
    code = code << 6U | (byte(at + i) & 0x3FU);
  }
  if ((length == 3 && (code < 0x800 || (code >= 0xD800 && code <= 0xDFFF))) ||
      (length == 4 && (code < 0x10000 || code > 0x10FFFF))) {
    length = 0;
  }
  return code;
}

bool is_printable(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) {
    return false;
  }
  const bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200F) ||
                     (code >= 0x2028 && code <= 0x202F) || (code >= 0x205F && code <= 0x206F) ||
                     code == 0x3000 || code == 0xFEFF;
  const bool unassigned = (code >= 0xE000 && code <= 0xF8FF) ||
                          (code >= 0xFFF0 && code <= 0xFFFB) || (code & 0xFFFEU) == 0xFFFEU ||
                          code >= 0xE0000;
  return !space && !unassigned;
}

void append_control(std::string& out, std::uint32_t code) {
  constexpr std::string_view kNames = "abtnvfr";  // 7..13
  out.push_back('\\');
  if (code >= 7 && code <= 13) {
    out.push_back(kNames[code - 7]);
  } else if (code < 0x20 || code == 0x7F) {
    out.push_back('x');
    append_hex(out, code, 2);
  } else if (code < 0x10000) {
    out.push_back('u');
    append_hex(out, code, 4);
  } else {
    out.push_back('U');
    append_hex(out, code, 8);
  }
}

}  // namespace

std::string go_quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const std::uint32_t code = decode(text, at, length);
    if (length == 0) {
      out.append("\\x");
      append_hex(out, static_cast<unsigned char>(text[at]), 2);
      ++at;
      continue;
    }
    if (code == '"' || code == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(code));
    } else if (is_printable(code)) {
      out.append(text, at, length);
    } else {
      append_control(out, code);
    }
    at += length;
  }
  out.push_back('"');
  return out;
}

std::string go_quote_byte(char c) {
  if (c == '\'') {
    return "'\\''";
  }
  if (c == '"') {
    return "'\"'";
  }
  const auto code = static_cast<unsigned char>(c);
  std::string text;
  if (code < 0x80) {
    text.push_back(c);
  } else {
    text.push_back(static_cast<char>(0xC0U | code >> 6U));
    text.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  }
  std::string quoted = go_quote(text);
  quoted.front() = '\'';
  quoted.back() = '\'';
  return quoted;
}

std::string not_registered(std::string_view api_version, std::string_view kind) {
  return "no kind " + go_quote(kind) + " is registered for version " + go_quote(api_version) +
         " in scheme \"pkg/runtime/scheme.go:111\"";
}

std::string go_string_slice(const std::vector<std::string>& items) {
  std::string out = "[]string{";
  for (std::size_t i = 0; i < items.size(); ++i) {
    out.append(i == 0 ? "" : ", ");
    out.append(go_quote(items[i]));
  }
  out.push_back('}');
  return out;
}

}  // namespace kintsugi::krm
