#include "workers/runtime/journal/internal/crc32c.h"

#include <array>
#include <cstring>

namespace kintsugi::workers {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82F63B78;  // bits reflected

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kCastagnoli : 0);
    }
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_processor(std::string_view bytes,
                                                                    std::uint32_t crc) noexcept {
  std::uint64_t state = ~crc;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto narrow = static_cast<std::uint32_t>(state);
  for (; left > 0; --left, ++at) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*at));
  }
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t internal::crc32c_by_table(std::string_view bytes, std::uint32_t crc) noexcept {
  std::uint32_t state = ~crc;
  for (const char c : bytes) {
    state = (state >> 8) ^ kCrcTable[(state ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return ~state;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return crc32c_by_processor(bytes, crc);
  }
#endif
  return internal::crc32c_by_table(bytes, crc);
}

}  // namespace kintsugi::workers
