#pragma once

#include <cstdint>
#include <string>

namespace kintsugi {

/// Appends the last digits of a number in base 16, lower case: by default those of a byte.
/// Whole texts: hex_encode() in base/strings.h.
inline void append_hex(std::string& out, std::uint32_t value, unsigned digits = 2) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (unsigned shift = 4 * digits; shift > 0; shift -= 4) {
    out.push_back(kDigits[(value >> (shift - 4)) & 15U]);
  }
}

}  // namespace kintsugi
