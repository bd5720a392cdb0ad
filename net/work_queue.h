#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/strings.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::net {

/// How often something took at most so long.
struct TimeHistogram {
  static constexpr std::array<Duration, 6> kBounds = {
      milliseconds(1), milliseconds(10), milliseconds(100), seconds(1), seconds(10), seconds(60)};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< the last: longer than all bounds
  Duration sum{};
  void add(Duration time) noexcept {
    std::size_t i = 0;
    while (i < kBounds.size() && time > kBounds[i]) {
      ++i;
    }
    ++counts[i];
    sum += time;
  }
  void add(const TimeHistogram& more) noexcept {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] += more.counts[i];
    }
    sum += more.sum;
  }
};

/// The queue of a level-based controller: keys, not events. A key waits once however often it is
/// added, never runs twice at a time, runs again when it was added while running, and is retried
/// with back-off (5 ms doubled up to 5 min, ± 20 %: SE-100) when its work fails. Threads: one loop.
/// Lifetime: work that is running when the queue dies is forgotten.
class WorkQueue {
 public:
  using Finished = std::function<void(bool ok)>;
  /// Does the work of one key; calls `finished` once, at once or later.
  using Work = std::function<void(const std::string& key, Finished finished)>;

  /// @param parallel keys that may run at the same time.
  WorkQueue(Loop& loop, Work work, std::size_t parallel = 32);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::string_view key);
  void add_after(std::string_view key, Duration delay);
  /// The same, but one at a time: nothing happens when one that is due earlier waits already. For
  /// work that asks for its own next run, so that many events do not make many such chains.
  void add_once_after(std::string_view key, Duration delay);
  /// The work of this key, which runs, waits for something that takes long: another one may run
  /// beside it, until it is finished. No effect on a key that does not run.
  void park(std::string_view key);
  /// Keys waiting or running now; retries that rest are not counted.
  struct Times {
    TimeHistogram work;  ///< of one run, from its begin to its end
    TimeHistogram lag;   ///< from the first event to the end of the run that saw it, when it was ok
  };
  [[nodiscard]] const Times& times() const noexcept { return times_; }
  [[nodiscard]] std::size_t busy() const noexcept { return waiting_.size() + running_ + parked_; }

 private:
  struct Item {
    bool queued = false;
    bool running = false;
    bool parked = false;  ///< runs, and has no place
    std::uint32_t failures = 0;
    TimePoint added;  ///< oldest event that is not worked off
    TimePoint begun;
    TimePoint seen;  ///< `added` of the run that is going on
  };
  void pump();
  void pump_soon();
  void finish(const std::string& key, bool ok);

  Loop& loop_;
  Work work_;
  std::size_t parallel_;
  std::size_t running_ = 0;  ///< without those that are parked
  std::size_t parked_ = 0;
  bool pump_posted_ = false;
  Times times_;
  StringMap<Item> items_;
  StringMap<TimePoint> looks_;  // when add_once_after is due
  std::deque<std::string> waiting_;
  std::shared_ptr<WorkQueue*> alive_;
};

}  // namespace kintsugi::net
