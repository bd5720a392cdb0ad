#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>

#include "net/loop.h"

namespace kintsugi::net {

/// Two-level hashed wheel: 1,024 slots of one tick, 4,096 slots of 1,024 ticks; what is further
/// away waits in its slot for another round. A tick is 1 ms, counted from 0. Arm and cancel are
/// O(1), nodes are recycled. Threads: one. Reads no clock.
class TimerWheel {
 public:
  TimerWheel();

  /// @param deadline tick; the past counts as the next tick.
  Loop::TimerId arm(std::uint64_t deadline, std::function<void()> function);
  /// @returns false for fired, cancelled and zero ids.
  bool cancel(Loop::TimerId id) noexcept;
  /// Fires everything up to and including `tick`, in order of deadline, then of arming. Functions
  /// may arm and cancel.
  void advance(std::uint64_t tick);
  /// Tick at which advance() has something to do (perhaps only re-sorting); kNever when nothing is
  /// armed.
  [[nodiscard]] std::uint64_t next() const noexcept;
  /// No timer fires before this tick, and none before the first advance() that reaches it. Not
  /// later than the earliest deadline, and much earlier at most when timers were cancelled since.
  /// Costs nothing.
  [[nodiscard]] std::uint64_t not_before() const noexcept { return not_before_; }
  [[nodiscard]] std::size_t size() const noexcept { return armed_; }

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

 private:
  static constexpr std::uint32_t kNil = ~std::uint32_t{0};
  static constexpr std::uint32_t kNearBits = 10, kNear = 1U << kNearBits;
  static constexpr std::uint32_t kFar = 4'096;
  static constexpr std::uint32_t kFiring = kNear + kFar;  ///< the list being fired

  struct Node {
    std::uint64_t deadline = 0;
    std::uint32_t next = kNil, previous = kNil;
    std::uint32_t list = kNil;
    std::uint32_t generation = 1;
    std::function<void()> function;
  };

  void insert(std::uint32_t index) noexcept;
  void append(std::uint32_t list, std::uint32_t index) noexcept;
  void unlink(std::uint32_t index) noexcept;
  void cascade(std::uint32_t far_slot) noexcept;
  void fire(std::uint32_t near_slot);

  std::deque<Node> nodes_;  // grows without a copy, and no further than needed
  std::uint32_t free_ = kNil;
  std::array<std::uint32_t, kNear + kFar + 1> heads_;
  std::array<std::uint64_t, (kNear + kFar) / 64> used_{};  ///< one bit per list that is not empty
  std::uint64_t current_ = 0;                              ///< everything up to here has fired
  std::uint64_t not_before_ = kNever;
  std::size_t armed_ = 0;
};

}  // namespace kintsugi::net
