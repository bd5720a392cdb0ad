#include "base/sha256.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace kintsugi {
namespace {

using Words = std::array<std::uint32_t, 8>;
using Block = std::array<unsigned char, 64>;

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(Words& state, const unsigned char* block) noexcept {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24U |
           static_cast<std::uint32_t>(block[4 * i + 1]) << 16U |
           static_cast<std::uint32_t>(block[4 * i + 2]) << 8U |
           static_cast<std::uint32_t>(block[4 * i + 3]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15];
    const std::uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3U) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10U);
  }
  Words s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t t1 = s[7] + sum1 + choice + kRound[i] + w[i];
    const std::uint32_t sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {t1 + sum0 + majority, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) {
    state[i] += s[i];
  }
}

Words digest(Words state, std::string_view bytes) noexcept {
  const std::uint64_t bits = static_cast<std::uint64_t>(bytes.size()) * 8;
  while (bytes.size() >= 64) {
    compress(state, reinterpret_cast<const unsigned char*>(bytes.data()));
    bytes.remove_prefix(64);
  }
  Block last{};
  if (!bytes.empty()) {
    std::memcpy(last.data(), bytes.data(), bytes.size());
  }
  last[bytes.size()] = 0x80;
  if (bytes.size() >= 56) {
    compress(state, last.data());
    last = {};
  }
  for (std::size_t i = 0; i < 8; ++i) {
    last[56 + i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  }
  compress(state, last.data());
  return state;
}

template <std::size_t Size>
std::array<unsigned char, Size> to_bytes(const Words& words) noexcept {
  std::array<unsigned char, Size> out;
  for (std::size_t i = 0; i < Size; ++i) {
    out[i] = static_cast<unsigned char>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

}  // namespace

std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept {
  return to_bytes<32>(digest({0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                              0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                             bytes));
}

std::array<unsigned char, 28> sha224(std::string_view bytes) noexcept {
  return to_bytes<28>(digest({0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31,
                              0x68581511, 0x64f98fa7, 0xbefa4fa4},
                             bytes));
}

}  // namespace kintsugi
