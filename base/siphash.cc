#include "base/siphash.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/strings.h"

namespace kintsugi {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;
  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) noexcept {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

/// Little-endian, as far as there are bytes.
std::uint64_t word_of(std::string_view bytes) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

}  // namespace

SipKey SipKey::random() {
  const std::string bytes = random_bytes(sizeof(SipKey));
  SipKey key;
  std::memcpy(&key, bytes.data(), sizeof key);
  return key;
}

std::uint64_t siphash(const SipKey& key, std::string_view text) noexcept {
  SipState state{key.low ^ 0x736f6d6570736575U, key.high ^ 0x646f72616e646f6dU,
                 key.low ^ 0x6c7967656e657261U, key.high ^ 0x7465646279746573U};
  const std::uint64_t length = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) {
    state.take(word_of(text.substr(0, 8)));
  }
  state.take(word_of(text) | length << 56U);
  state.v2 ^= 0xffU;
  for (int i = 0; i < 4; ++i) {
    state.round();
  }
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace kintsugi
