#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kintsugi {

/// Monotonic time for deadlines and timers. Machines get it as an argument and never read a clock.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = std::chrono::nanoseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Wall clock, whole seconds since 1970, UTC; for creationTimestamp and the like.
[[nodiscard]] std::int64_t unix_seconds();
/// "2026-01-02T03:04:05Z".
[[nodiscard]] std::string rfc3339(std::int64_t unix_seconds);
/// "2026-01-02T03:04:05.000006Z", the form of MicroTime fields.
[[nodiscard]] std::string rfc3339_micro(std::int64_t unix_microseconds);
/// Wall clock in microseconds since 1970, UTC.
[[nodiscard]] std::int64_t unix_microseconds();

}  // namespace kintsugi
