#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace kintsugi::shards {

/// Decides whether a shard counts as up. Source: specs/front-proxy.md R-27: 3 failed probes, or 5
/// connection-level failures in a row within 10 s, make it down; 1 success makes it up; while it is
/// down one trial request a second is let through. Answers of any status are successes.
/// No sockets, no clock. Threads: one at a time.
class HealthFsm {
 public:
  enum class Change : std::uint8_t { kNone, kUp, kDown };

  [[nodiscard]] Change on_probe(bool answered, TimePoint now) noexcept;
  /// A request found no connection, or lost it.
  [[nodiscard]] Change on_failure(TimePoint now) noexcept;
  /// A request got a response head.
  [[nodiscard]] Change on_success(TimePoint now) noexcept;
  /// False: answer E6 at once. While down, true once a second.
  [[nodiscard]] bool admit(TimePoint now) noexcept;
  [[nodiscard]] bool up() const noexcept { return up_; }

  static constexpr std::size_t kProbes = 3;
  static constexpr std::size_t kFailures = 5;
  static constexpr Duration kWindow = seconds(10);
  static constexpr Duration kTrial = seconds(1);

 private:
  [[nodiscard]] Change go_down(TimePoint now) noexcept;

  bool up_ = true;
  std::size_t probes_failed_ = 0;
  std::size_t failures_ = 0;                 // in a row
  std::array<TimePoint, kFailures> when_{};  // of the last ones, a ring
  TimePoint trial_{};
};

}  // namespace kintsugi::shards
