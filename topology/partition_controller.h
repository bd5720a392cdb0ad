#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/loop.h"
#include "net/work_queue.h"
#include "topology/objects.h"
#include "topology/partition_set.h"

namespace kintsugi::topology {

/// Keeps the Partitions and the status of every PartitionSet equal to what the shards demand
/// (specs/topology.md 13.1). Level-based: an event marks the set, a run reads everything and writes
/// the difference. Threads: one loop.
class PartitionController {
 public:
  /// @param shards the registered shards now; must answer at any time on this loop.
  PartitionController(net::Loop& loop, Objects& objects,
                      std::function<std::vector<ShardFacts>()> shards);

  /// Marks every set. Call it when a Shard is added, removed or relabelled.
  void shards_changed();

  struct Stats {
    std::uint64_t runs = 0, writes = 0, failures = 0;
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  [[nodiscard]] bool idle() const noexcept { return queue_.busy() == 0; }

 private:
  struct Run;
  void reconcile(const std::string& key, net::WorkQueue::Finished finished);
  void write_next(const std::shared_ptr<Run>& run);
  void write_status(const std::shared_ptr<Run>& run);

  Objects& objects_;
  std::function<std::vector<ShardFacts>()> shards_;
  net::WorkQueue queue_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  Stats stats_;
};

}  // namespace kintsugi::topology
