#pragma once

#include <bitset>
#include <cstddef>
#include <functional>
#include <string_view>

#include "workers/runtime/ring/ring_driver.h"

namespace kintsugi::workers {

using PartitionSet = std::bitset<kRingPartitions>;

/// Partitions that are to be given away, each as soon as nothing of it runs. Source: RT-65.
/// No I/O, no clock. Threads: one at a time.
class Drains {
 public:
  void add(PartitionId partition) { draining_.set(partition); }
  /// It is ours again, or gone without us.
  void remove(PartitionId partition) { draining_.reset(partition); }
  [[nodiscard]] bool any() const noexcept { return draining_.any(); }
  /// Takes out those of which nothing runs.
  [[nodiscard]] PartitionSet take_idle(const PartitionSet& busy) {
    const PartitionSet idle = draining_ & ~busy;
    draining_ &= busy;
    return idle;
  }

 private:
  PartitionSet draining_;
};

/// Gives partitions away: first `close` ends what there is of them besides reconciles, all in one
/// call, then each is `acknowledge`d: from then on another worker may have it.
/// @param acknowledge  false: stop here, nothing is there any more.
inline void give_away(
    const PartitionSet& idle,
    const std::function<void(const std::function<bool(std::string_view)>&)>& close,
    const std::function<bool(PartitionId)>& acknowledge) {
  if (idle.none()) {
    return;
  }
  if (close) {
    close([&idle](std::string_view ring_key) { return idle.test(partition_of(ring_key)); });
  }
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    if (idle.test(p) && !acknowledge(static_cast<PartitionId>(p))) {
      return;
    }
  }
}

}  // namespace kintsugi::workers
