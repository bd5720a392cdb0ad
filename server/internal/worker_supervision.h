#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/time.h"

namespace kintsugi::server {

/// When the process of one role is started again after it ended, and whether that happens too
/// often. Source: RT-2. No processes, no clock: time comes in. Threads: one at a time.
class RestartPolicy {
 public:
  static constexpr Duration kFirst = seconds(1), kLast = seconds(30);
  static constexpr std::size_t kMostDeaths = 5;
  static constexpr Duration kWindow = seconds(60);

  void on_started(TimePoint now) noexcept;
  /// @returns how long until the next start: 1, 2, 4 … 30 s; 30 s in a crash loop. After a life of
  /// kWindow it begins with 1 s again.
  [[nodiscard]] Duration on_ended(TimePoint now);
  /// It ended kMostDeaths times within kWindow, and has not lived for kWindow since.
  [[nodiscard]] bool crash_loop(TimePoint now) const noexcept {
    return loops_ && !(runs_ && now - started_ >= kWindow);
  }
  [[nodiscard]] bool runs() const noexcept { return runs_; }
  [[nodiscard]] std::uint64_t restarts() const noexcept { return starts_ > 0 ? starts_ - 1 : 0; }

 private:
  std::deque<TimePoint> deaths_;  // of the last kWindow, at most kMostDeaths
  Duration pause_ = kFirst;
  TimePoint started_{};
  bool runs_ = false, loops_ = false;
  std::uint64_t starts_ = 0;
};

/// What the memory of a process means for its limit. Source: RT-5.
enum class WorkerMemory : std::uint8_t { kCalm, kPressure, kExceeded };
/// @param used, limit [bytes]. From 80 % on pressure, from 100 % on exceeded.
[[nodiscard]] constexpr WorkerMemory judge_memory(std::size_t used, std::size_t limit) noexcept {
  return used >= limit           ? WorkerMemory::kExceeded
         : used / 4 >= limit / 5 ? WorkerMemory::kPressure
                                 : WorkerMemory::kCalm;
}

}  // namespace kintsugi::server
