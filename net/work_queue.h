#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/strings.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::net {

/// The queue of a level-based controller: keys, not events. A key waits once however often it is
/// added, never runs twice at a time, runs again when it was added while running, and is retried
/// with back-off (10 ms doubled up to 30 s) when its work fails. Threads: one loop. Lifetime: work
/// that is running when the queue dies is forgotten.
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
  /// Keys waiting or running now; retries that rest are not counted.
  [[nodiscard]] std::size_t busy() const noexcept { return waiting_.size() + running_; }

 private:
  struct Item {
    bool queued = false;
    bool running = false;
    std::uint32_t failures = 0;
  };
  void pump();
  void finish(const std::string& key, bool ok);

  Loop& loop_;
  Work work_;
  std::size_t parallel_;
  std::size_t running_ = 0;
  bool pump_posted_ = false;
  StringMap<Item> items_;
  std::deque<std::string> waiting_;
  std::shared_ptr<WorkQueue*> alive_;
};

}  // namespace kintsugi::net
