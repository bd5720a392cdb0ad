#pragma once

#include <cstdint>

namespace kintsugi {

/// What is added to a state for the next number of a row.
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15U;

/// The finish of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that leaves no
/// pattern. For jitter and spreading, not for secrets.
[[nodiscard]] constexpr std::uint64_t stir(std::uint64_t state) noexcept {
  state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27U)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31U);
}

/// The next number of the row of that state.
[[nodiscard]] constexpr std::uint64_t split_mix(std::uint64_t& state) noexcept {
  return stir(state += kSplitMixStep);
}

}  // namespace kintsugi
