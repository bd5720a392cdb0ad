#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kintsugi::krm {

/// Zero bytes that have to stand behind a text that JsonReader reads.
inline constexpr std::size_t kJsonPadding = 32;

/// Reads a JSON text (RFC 8259) of valid UTF-8 in place, without recursion, and tells a handler of
/// its parts; views into the text last as long as that. Escaped halves of surrogate pairs that have
/// no other half become U+FFFD, as in Go. The handler has
///   bool open(bool object)   false: the reader stops
///   bool in_object()         of the innermost that is open
///   bool is_open()           whether any is
///   void close()
///   void key(string_view), text(string_view), literal(Json), bool number(string_view)
/// Threads: as an int.
template <class Handler>
class JsonReader {
 public:
  /// @param text  `size` bytes and kJsonPadding zero ones; the strings in it are decoded in place.
  JsonReader(char* text, std::size_t size, Handler& handler) noexcept
      : at_(text), end_(text + size), handler_(handler) {}

  /// False: the text is no JSON, or the handler wants no more of it.
  [[nodiscard]] bool read() {
    if (!value(next())) {
      return false;
    }
    while (handler_.is_open()) {
      if (!step()) {
        return false;
      }
    }
    return next() == '\0' && at_ == end_;
  }

 private:
  /// The next byte that is no blank.
  [[nodiscard]] char next() noexcept {
    while (static_cast<unsigned char>(*at_) <= ' ' &&
           (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) {
      ++at_;
    }
    return *at_;
  }

  /// A member, or the end of what is open.
  [[nodiscard]] bool step() {
    const bool object = handler_.in_object();
    char c = next();
    if (c == (object ? '}' : ']')) {
      ++at_;
      handler_.close();
      first_ = false;
      return true;
    }
    if (!first_) {
      if (c != ',') {
        return false;
      }
      ++at_;
      c = next();
    }
    first_ = false;
    if (object) {
      std::string_view key;
      if (c != '"' || !string(key) || next() != ':') {
        return false;
      }
      handler_.key(key);
      ++at_;
      c = next();
    }
    return value(c);
  }

  /// A scalar, or the beginning of an object or array.
  [[nodiscard]] bool value(char c) {
    switch (c) {
      case '{':
      case '[':
        ++at_;
        first_ = true;
        return handler_.open(c == '{');
      case '"': {
        std::string_view text;
        if (!string(text)) {
          return false;
        }
        handler_.text(text);
        return true;
      }
      case 't':
        return literal("true", true);
      case 'f':
        return literal("false", false);
      case 'n':
        return literal("null", nullptr);
      default:
        return number();
    }
  }

  template <class Value>
  [[nodiscard]] bool literal(std::string_view word, Value value) {
    if (std::memcmp(at_, word.data(), word.size()) != 0) {
      return false;
    }
    at_ += word.size();
    handler_.literal(value);
    return true;
  }

  [[nodiscard]] bool digits() noexcept {
    const char* const first = at_;
    while (*at_ >= '0' && *at_ <= '9') {
      ++at_;
    }
    return at_ != first;
  }
  [[nodiscard]] bool number() {
    const char* const first = at_;
    at_ += *at_ == '-' ? 1 : 0;
    if (*at_ == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (*at_ == '.') {
      ++at_;
      if (!digits()) {
        return false;
      }
    }
    if (*at_ == 'e' || *at_ == 'E') {
      ++at_;
      at_ += *at_ == '+' || *at_ == '-' ? 1 : 0;
      if (!digits()) {
        return false;
      }
    }
    return handler_.number({first, static_cast<std::size_t>(at_ - first)});
  }

  /// The first quote, backslash or control character: at the latest the zero behind the text.
  [[nodiscard]] static char* special(char* at) noexcept {
#if defined(__SSE2__)
    while (true) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
      const __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                      _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))),
                                         control);
      if (const auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(found)); mask != 0) {
        return at + std::countr_zero(mask);
      }
      at += 16;
    }
#else
    while (*at != '"' && *at != '\\' && static_cast<unsigned char>(*at) > 0x1F) {
      ++at;
    }
    return at;
#endif
  }

  /// A string whose quote is at `at_`.
  [[nodiscard]] bool string(std::string_view& out) noexcept {
    char* const first = ++at_;
    char* to = nullptr;  // where decoded bytes go; null: the text is as it should be
    char* from = first;
    while (true) {
      char* const found = special(from);
      const auto run = static_cast<std::size_t>(found - from);
      if (to != nullptr) {
        std::memmove(to, from, run);
        to += run;
      }
      if (*found == '"') {
        char* const last = to == nullptr ? found : to;
        out = {first, static_cast<std::size_t>(last - first)};
        at_ = found + 1;
        return true;
      }
      if (*found != '\\') {
        return false;
      }
      to = to == nullptr ? found : to;
      from = found + 1;
      if (!escape(from, to)) {
        return false;
      }
    }
  }

  /// What stands behind a backslash at `from`.
  [[nodiscard]] static bool escape(char*& from, char*& to) noexcept {
    const char c = *from++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        *to++ = c;
        return true;
      case 'b':
        *to++ = '\b';
        return true;
      case 'f':
        *to++ = '\f';
        return true;
      case 'n':
        *to++ = '\n';
        return true;
      case 'r':
        *to++ = '\r';
        return true;
      case 't':
        *to++ = '\t';
        return true;
      case 'u':
        return character(from, to);
      default:
        return false;
    }
  }

  /// Four hexadecimal digits; kNoCode: they are not there.
  static constexpr std::uint32_t kNoCode = 0xFFFFFFFF;
  [[nodiscard]] static std::uint32_t hex(const char* at) noexcept {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at[i];
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') {
        code = code << 4U | static_cast<std::uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code << 4U | static_cast<std::uint32_t>(lower - 'a' + 10);
      } else {
        return kNoCode;
      }
    }
    return code;
  }

  [[nodiscard]] static bool character(char*& from, char*& to) noexcept {
    std::uint32_t code = hex(from);
    if (code == kNoCode) {
      return false;
    }
    from += 4;
    if (code >= 0xD800 && code < 0xE000) {
      const bool pair = code < 0xDC00 && from[0] == '\\' && from[1] == 'u';
      const std::uint32_t low = pair ? hex(from + 2) : kNoCode;
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        from += 6;
      } else {
        code = 0xFFFD;
      }
    }
    const auto put = [&to](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0U | code >> 6U);
      put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      put(0xE0U | code >> 12U);
      put(0x80U | (code >> 6U & 0x3FU));
      put(0x80U | (code & 0x3FU));
    } else {
      put(0xF0U | code >> 18U);
      put(0x80U | (code >> 12U & 0x3FU));
      put(0x80U | (code >> 6U & 0x3FU));
      put(0x80U | (code & 0x3FU));
    }
    return true;
  }

  char* at_;
  char* const end_;
  Handler& handler_;
  bool first_ = false;  // of what is open, nothing has come yet
};

}  // namespace kintsugi::krm
