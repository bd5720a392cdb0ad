#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace kintsugi::workers {

/// How often something took at most so long, as plain numbers. Source: docs/spec/worker-runtime.md
/// section 12: 12 buckets, 10 ns × 10ⁿ (10 ns … 1,000 s).
struct DurationHistogram {
  static constexpr std::size_t kBounds = 12;
  /// Upper bound of bucket i [ns], itself included.
  [[nodiscard]] static constexpr std::uint64_t bound_ns(std::size_t i) noexcept {
    std::uint64_t bound = 10;
    for (; i > 0; --i) {
      bound *= 10;
    }
    return bound;
  }

  std::array<std::uint64_t, kBounds + 1> counts{};  ///< the last: longer than all bounds
  std::uint64_t count = 0;
  Duration sum{};

  /// Negative durations count as 0.
  void add(Duration time) noexcept {
    const auto ns = time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
    std::size_t i = 0;
    for (std::uint64_t bound = 10; i < kBounds && ns > bound; bound *= 10) {
      ++i;
    }
    ++counts[i];
    ++count;
    sum += Duration(static_cast<Duration::rep>(ns));
  }
};

}  // namespace kintsugi::workers
