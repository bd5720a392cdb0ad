#pragma once

#include <algorithm>

#include "base/time.h"

namespace kintsugi::workers {

/// The token bucket that the error retries of a controller share (RT-43). Full at the start.
class RetryBucket {
 public:
  /// @param period  one token per so long; zero: no limit.
  RetryBucket(Duration period, int burst, TimePoint now) noexcept
      : period_(period), full_(period * burst), saved_(full_), at_(now) {}

  [[nodiscard]] bool try_take(TimePoint now) noexcept {
    refill(now);
    if (saved_ < period_) {
      return false;
    }
    saved_ -= period_;
    return true;
  }
  /// When a token will be there, if nobody takes one before.
  [[nodiscard]] TimePoint next_token() const noexcept {
    return at_ + std::max(period_ - saved_, Duration::zero());
  }

 private:
  void refill(TimePoint now) noexcept {
    if (now > at_) {
      saved_ = now - at_ >= full_ ? full_ : std::min<Duration>(full_, saved_ + (now - at_));
      at_ = now;
    }
  }

  Duration period_;
  Duration full_;
  Duration saved_;  // tokens, in the time that they took
  TimePoint at_;
};

}  // namespace kintsugi::workers
