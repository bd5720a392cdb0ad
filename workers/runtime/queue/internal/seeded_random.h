#pragma once

#include <cstdint>

#include "base/time.h"

namespace kintsugi::workers {

/// SplitMix64: 8 bytes of state, equal seeds give equal rows. For jitter, not for secrets.
class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// In [0, 1).
  [[nodiscard]] double unit() noexcept { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  /// In [from, to), or `from` when that is empty.
  [[nodiscard]] Duration between(Duration from, Duration to) noexcept {
    return to <= from ? from
                      : from + Duration(static_cast<Duration::rep>(
                                   unit() * static_cast<double>((to - from).count())));
  }

 private:
  std::uint64_t state_;
};

}  // namespace kintsugi::workers
