#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/time.h"

namespace kintsugi::net {

/// How far away an origin is: the shortest of the newest measurements, as whatever happens at both
/// ends makes them only longer. Threads: its owner's.
class RoundTrip {
 public:
  /// A measurement; zero is none.
  void note(Duration measured) noexcept {
    if (measured > Duration::zero()) {
      newest_[noted_++ % newest_.size()] = measured;
      value_ = *std::min_element(newest_.begin(), newest_.begin() + kept());
    }
  }
  /// Zero: nobody knows.
  [[nodiscard]] Duration value() const noexcept { return value_; }

 private:
  [[nodiscard]] std::ptrdiff_t kept() const noexcept {
    return static_cast<std::ptrdiff_t>(std::min(noted_, newest_.size()));
  }
  std::array<Duration, 4> newest_{};
  std::size_t noted_ = 0;
  Duration value_{};
};

}  // namespace kintsugi::net
