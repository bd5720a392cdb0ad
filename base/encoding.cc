// base64 and hexadecimal text of base/strings.h, by OpenSSL. What is not canonical in it is judged
// here: its decoder takes '=' anywhere and skips white space.
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace kintsugi {
namespace {

constexpr std::size_t kGroups = std::size_t{1}
                                << 20U;  // of 3 bytes, 4 letters, in a call: it counts in int

unsigned char* bytes_of(std::string& text) noexcept {
  return reinterpret_cast<unsigned char*>(text.data());
}
const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// For each byte the letter of the standard alphabet that it stands for, 0 if none.
constexpr std::array<char, 256> letters_with(char plus, char slash) {
  std::array<char, 256> out{};
  for (const auto& [first, last] :
       {std::pair('A', 'Z'), std::pair('a', 'z'), std::pair('0', '9')}) {
    for (char c = first; c <= last; ++c) {
      out[static_cast<unsigned char>(c)] = c;
    }
  }
  out[static_cast<unsigned char>(plus)] = '+';
  out[static_cast<unsigned char>(slash)] = '/';
  return out;
}
constexpr std::array<char, 256> kLetters = letters_with('+', '/');
constexpr std::array<char, 256> kUrlLetters = letters_with('-', '_');

/// @param typed  without padding.
std::optional<std::string> decode64(std::string_view typed, const std::array<char, 256>& letters) {
  if (typed.size() % 4 == 1) {
    return std::nullopt;
  }
  std::string text((typed.size() + 3) / 4 * 4, '=');
  bool known = true;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const char letter = letters[static_cast<unsigned char>(typed[i])];
    known = known && letter != '\0';
    text[i] = letter;
  }
  if (!known) {
    return std::nullopt;
  }
  std::string out(text.size() / 4 * 3, '\0');
  for (std::size_t at = 0; at < text.size(); at += kGroups * 4) {
    const std::size_t length = std::min(kGroups * 4, text.size() - at);
    if (EVP_DecodeBlock(bytes_of(out) + at / 4 * 3, bytes_of(text) + at, static_cast<int>(length)) <
        0) {
      return std::nullopt;
    }
  }
  out.resize(typed.size() * 3 / 4);
  return out;
}

/// Takes up to two padding characters off; false: there are some, and the text is no whole groups.
bool strip_padding(std::string_view& text) noexcept {
  const std::size_t whole = text.size();
  while (text.ends_with('=') && whole - text.size() < 2) {
    text.remove_suffix(1);
  }
  return text.size() == whole || whole % 4 == 0;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  for (std::size_t at = 0; at < bytes.size(); at += kGroups * 3) {
    const std::size_t length = std::min(kGroups * 3, bytes.size() - at);
    EVP_EncodeBlock(bytes_of(out) + at / 3 * 4, bytes_of(bytes) + at, static_cast<int>(length));
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0 || !strip_padding(text)) {
    return std::nullopt;
  }
  return decode64(text, kLetters);
}

std::string base64url_encode(std::string_view bytes) {
  std::string out = base64_encode(bytes);
  out.resize((bytes.size() * 4 + 2) / 3);
  std::replace(out.begin(), out.end(), '+', '-');
  std::replace(out.begin(), out.end(), '/', '_');
  return out;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  if (!strip_padding(text)) {
    return std::nullopt;
  }
  return decode64(text, kUrlLetters);
}

std::string hex_encode(std::string_view bytes) {
  std::string out(bytes.size() * 2, '\0');
  // It writes a NUL behind the text, where the string has one.
  if (OPENSSL_buf2hexstr_ex(out.data(), out.size() + 1, nullptr, bytes_of(bytes), bytes.size(),
                            '\0') != 1) {
    return {};
  }
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return static_cast<char>(c | 0x20); });
  return out;
}

}  // namespace kintsugi
