#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string_view>

#include "base/strings.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::apiserver {

/// How fast one write of a tenant takes others' objects along (SE-100): contents of a namespace, a
/// logical cluster, a definition or a binding, dependents of an owner. Each logical cluster has a
/// bucket of its own, so that none waits for another. A machine without a clock.
class CascadePace {
 public:
  static constexpr int kPerSecond = 200;  ///< deletions in a logical cluster
  static constexpr int kBurst = 200;      ///< of them at once after a rest

  using Go = std::function<void()>;
  /// True: a deletion in this cluster may go on at once. Else `go` waits behind those that came
  /// earlier.
  [[nodiscard]] bool enter(std::string_view cluster, TimePoint now, Go go);
  /// Calls those whose turn has come, in their order within a cluster.
  /// @returns when the next one's comes; max: nobody waits.
  TimePoint release(TimePoint now);
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
  /// Clusters that something is remembered of: those that have deleted a moment ago.
  [[nodiscard]] std::size_t clusters() const noexcept { return buckets_.size(); }

 private:
  struct Bucket {
    TimePoint full;  ///< when it is again
    std::deque<Go> waiting;
    [[nodiscard]] TimePoint due() const noexcept;
    void take(TimePoint now) noexcept;
  };
  void forget(TimePoint now);

  StringMap<Bucket> buckets_;
  std::size_t waiting_ = 0;
  std::size_t forget_at_ = 64;
};

/// The same on a loop, for all controllers that have it in their context. Threads: the loop's.
class CascadeGate {
 public:
  explicit CascadeGate(net::Loop& loop) : loop_(loop), timer_(loop) {}
  /// True: now. Else `go` is called later; never when the gate dies before.
  [[nodiscard]] bool enter(std::string_view cluster, CascadePace::Go go);
  [[nodiscard]] std::size_t waiting() const noexcept { return pace_.waiting(); }

 private:
  void release();

  net::Loop& loop_;
  CascadePace pace_;
  net::Timer timer_;
  bool runs_ = false;
};

}  // namespace kintsugi::apiserver
