#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace kintsugi::workers {

/// Which slot a timer waits in: five wheels of 64 slots, of 10 ms, 640 ms, 41 s, 44 min and 47 h.
/// Timers further away than 124 days wait in the last slot and are placed again. The lists of the
/// slots are the caller's. Source: RT-44. Cost: O(1); an empty stretch of time costs nothing.
class TimerWheel {
 public:
  static constexpr Duration kTick = milliseconds(10);
  static constexpr std::uint32_t kSlots = 5 * 64;

  explicit TimerWheel(TimePoint now) noexcept : tick_(tick_of(now)) {}

  /// The tick that holds a moment; moments before the clock's zero count as zero.
  [[nodiscard]] static std::uint64_t tick_of(TimePoint at) noexcept {
    const Duration since = at.time_since_epoch();
    return since.count() <= 0 ? 0 : static_cast<std::uint64_t>(since / kTick);
  }
  /// The first tick that begins at that moment or later, and lies in the future.
  [[nodiscard]] std::uint64_t due_tick(TimePoint at) const noexcept;
  [[nodiscard]] std::uint64_t tick() const noexcept { return tick_; }

  /// Where a timer waits; the slot counts as occupied from now on. @param due  > tick().
  [[nodiscard]] std::uint32_t place(std::uint64_t due) noexcept;
  void emptied(std::uint32_t slot) noexcept {
    occupied_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  }
  /// Moves time to the next occupied slot up to `to`, and gives that slot; it counts as empty then:
  /// of its timers those with due <= tick() have fired, the others have to be placed again. nullopt
  /// when there is none: time stands at `to`, or where it was if that is later.
  [[nodiscard]] std::optional<std::uint32_t> step(std::uint64_t to) noexcept;
  /// When step() should be called again, at the latest; no timer fires before.
  [[nodiscard]] std::optional<TimePoint> next() const noexcept;

 private:
  static constexpr std::uint32_t kLevels = kSlots / 64;
  /// When an occupied slot begins next.
  [[nodiscard]] std::optional<std::uint64_t> next_tick() const noexcept;

  std::uint64_t tick_;           // all slots up to here were visited
  std::uint32_t unvisited_ = 0;  // levels whose slot that begins with tick_ was not given out
  std::array<std::uint64_t, kLevels> occupied_{};
};

}  // namespace kintsugi::workers
