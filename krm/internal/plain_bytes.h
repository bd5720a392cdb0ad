#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kintsugi::krm {

/// Whether all bytes are below 0x80. Cost: 16 bytes a step.
[[nodiscard]] inline bool is_ascii(std::string_view text) noexcept {
  std::size_t i = 0;
#if defined(__SSE2__)
  __m128i all = _mm_setzero_si128();
  for (; i + 16 <= text.size(); i += 16) {
    all = _mm_or_si128(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i)));
  }
  if (_mm_movemask_epi8(all) != 0) {
    return false;
  }
#endif
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) {
      return false;
    }
  }
  return true;
}

/// Whether any byte is one of those from `first` to `last`. Cost: 16 bytes a step.
[[nodiscard]] inline bool has_any_of(std::string_view text, unsigned char first,
                                     unsigned char last) noexcept {
  const auto width = static_cast<unsigned char>(last - first);
  std::size_t i = 0;
#if defined(__SSE2__)
  __m128i all = _mm_setzero_si128();
  for (; i + 16 <= text.size(); i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i));
    const __m128i over = _mm_sub_epi8(bytes, _mm_set1_epi8(static_cast<char>(first)));
    const __m128i least = _mm_min_epu8(over, _mm_set1_epi8(static_cast<char>(width)));
    all = _mm_or_si128(all, _mm_cmpeq_epi8(least, over));
  }
  if (_mm_movemask_epi8(all) != 0) {
    return true;
  }
#endif
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(static_cast<unsigned char>(text[i]) - first) <= width) {
      return true;
    }
  }
  return false;
}

/// Where the first byte from `from` on stands that cannot be in a JSON string as it is: a quote, a
/// backslash, a control character. text.size(): nowhere. Cost: 16 bytes a step.
[[nodiscard]] inline std::size_t end_of_plain(std::string_view text, std::size_t from) noexcept {
  std::size_t i = from;
#if defined(__SSE2__)
  for (; i + 16 <= text.size(); i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                       _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    const int found = _mm_movemask_epi8(_mm_or_si128(marks, control));
    if (found != 0) {
      return i + static_cast<std::size_t>(std::countr_zero(static_cast<std::uint32_t>(found)));
    }
  }
#endif
  while (i < text.size() && text[i] != '"' && text[i] != '\\' &&
         static_cast<unsigned char>(text[i]) >= 0x20) {
    ++i;
  }
  return i;
}

}  // namespace kintsugi::krm
