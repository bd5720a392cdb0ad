#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace kintsugi::shards {

/// Decides whether a shard counts as up. Source: R-27: 3 failed probes, or 5
/// connection-level failures in a row within 10 s, make it down; 1 success makes it up. While it is
/// down one trial request a second is let through, but for the first 10 s after the first failure,
/// when it may just be starting again: then all are, to wait in the pool for their second. Answers
/// of any status are successes. No sockets, no clock. Threads: one at a time.
class HealthFsm {
 public:
  enum class Change : std::uint8_t { kNone, kUp, kDown };

  [[nodiscard]] Change on_probe(bool answered, TimePoint now) noexcept;
  /// A request found no connection, or lost it.
  [[nodiscard]] Change on_failure(TimePoint now) noexcept;
  /// A request got a response head.
  [[nodiscard]] Change on_success(TimePoint now) noexcept;
  /// What another loop found out.
  [[nodiscard]] Change on_verdict(bool up, TimePoint now) noexcept;
  /// False: answer E6 at once.
  [[nodiscard]] bool admit(TimePoint now) noexcept;
  [[nodiscard]] bool up() const noexcept { return up_; }

  static constexpr std::size_t kProbes = 3;
  static constexpr std::size_t kFailures = 5;
  static constexpr Duration kWindow = seconds(10);
  static constexpr Duration kTrial = seconds(1);
  static constexpr Duration kRestart = seconds(10);

 private:
  [[nodiscard]] Change go_down(TimePoint now) noexcept;
  void note_failure(TimePoint now) noexcept;

  bool up_ = true;
  std::size_t probes_failed_ = 0;
  std::size_t failures_ = 0;                 // in a row
  std::array<TimePoint, kFailures> when_{};  // of the last ones, a ring
  TimePoint trial_{};
  TimePoint failing_since_{};  // while one of the two counts is not 0
};

}  // namespace kintsugi::shards
