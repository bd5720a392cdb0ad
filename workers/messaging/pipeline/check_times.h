#pragma once

#include <set>

#include "base/time.h"

namespace kintsugi::workers {

/// When components are looked at as a whole, so that many of them do not ask for everything at
/// once: no two within a second. Source: MS-067. No clock. Cost: O(log n), n components.
/// Threads: one at a time.
class CheckTimes {
 public:
  /// @returns  the first time not before `wished` that is kApart from all that were given out; it
  /// is the caller's. What lies before `now` is forgotten.
  [[nodiscard]] TimePoint take(TimePoint wished, TimePoint now);

  /// A second, and what timers are late by.
  static constexpr Duration kApart = milliseconds(1100);

 private:
  std::set<TimePoint> taken_;
};

}  // namespace kintsugi::workers
