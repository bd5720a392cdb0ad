#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// What bytes mean in a path as it is sent. Pure functions, any thread.
namespace kintsugi::krm {

enum class Byte : std::uint8_t { kPlain, kDot, kEscape, kBackslash, kBad };

inline constexpr std::array<Byte, 256> kBytes = [] {
  std::array<Byte, 256> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = i <= 0x20 || i >= 0x7F || i == '#' ? Byte::kBad : Byte::kPlain;
  }
  out['.'] = Byte::kDot;
  out['%'] = Byte::kEscape;
  out['\\'] = Byte::kBackslash;
  return out;
}();

[[nodiscard]] inline Byte byte_of(char c) noexcept { return kBytes[static_cast<unsigned char>(c)]; }

/// Nothing is escaped or has to be, and no segment but the last one is empty or begins with a dot:
/// there is nothing to find, segment by segment.
[[nodiscard]] inline bool is_plain_path(std::string_view path) noexcept {
  char before = '\0';
  for (const char c : path) {
    const Byte kind = byte_of(c);
    if (kind > Byte::kDot || (before == '/' && (c == '/' || kind == Byte::kDot))) {
      return false;
    }
    before = c;
  }
  return true;
}

}  // namespace kintsugi::krm
