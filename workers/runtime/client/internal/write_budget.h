#pragma once

#include <algorithm>

#include "base/time.h"

namespace kintsugi::workers {

/// A token bucket whose takers wait in the order in which they came. Source: RT-16. No clock.
/// Threads: one at a time.
class WriteBudget {
 public:
  /// @param rate  tokens a second, > 0
  /// @param burst  most tokens at a time, >= 1
  WriteBudget(double rate, double burst) noexcept : rate_(rate), burst_(burst), tokens_(burst) {}

  /// Takes one. @returns how long its taker has to wait before he may use it; 0: not at all.
  [[nodiscard]] Duration take(TimePoint now) noexcept {
    if (now > at_) {
      if (at_ != TimePoint{}) {
        tokens_ = std::min(burst_, tokens_ + seconds_of(now - at_) * rate_);
      }
      at_ = now;
    }
    tokens_ -= 1;
    return tokens_ >= 0 ? Duration{} : duration_of(-tokens_ / rate_);
  }

 private:
  static double seconds_of(Duration time) noexcept {
    return std::chrono::duration<double>(time).count();
  }
  static Duration duration_of(double time) noexcept {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(time));
  }

  double rate_, burst_, tokens_;
  TimePoint at_{};
};

}  // namespace kintsugi::workers
