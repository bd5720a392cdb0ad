#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "net/loop.h"
#include "net/work_queue.h"
#include "topology/objects.h"
#include "topology/partition_set.h"

namespace kintsugi::topology {

/// Keeps the Partitions and the status of every PartitionSet equal to what the shards demand
/// (T-15). Level-based: an event marks the set, a run reads everything and writes
/// the difference; a full pass every 10 minutes finds what no event told. Threads: one loop.
class PartitionController {
 public:
  /// @param shards the registered shards now; must answer at any time on this loop.
  PartitionController(net::Loop& loop, Objects& objects,
                      std::function<std::vector<ShardFacts>()> shards);

  /// Marks every set. Call it when a Shard is added, removed or relabelled.
  void shards_changed();
  /// Looks at every set.
  void full_pass();

  /// Nothing is written until release() was called as often as hold(); then everything is looked
  /// at. For times in which the picture is known to be incomplete.
  void hold() { ++holds_; }
  void release();

  struct Stats {
    std::uint64_t runs = 0, writes = 0, failures = 0;
    WriteCounts partitions, sets;
  };
  [[nodiscard]] const net::WorkQueue::Times& times() const noexcept { return queue_.times(); }
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  [[nodiscard]] bool idle() const noexcept { return queue_.busy() == 0; }

 private:
  struct Run;
  void remember(const std::string& key, const krm::Json* partition);
  [[nodiscard]] std::vector<krm::Json> partitions_near(const std::string& cluster,
                                                       const krm::Json& set) const;
  void reconcile(const std::string& key, net::WorkQueue::Finished finished);
  [[nodiscard]] bool held(const Run& run) const;
  void write_next(const std::shared_ptr<Run>& run);
  void write_status(const std::shared_ptr<Run>& run);

  Objects& objects_;
  std::function<std::vector<ShardFacts>()> shards_;
  net::WorkQueue queue_;
  net::Timer pass_timer_;
  std::set<std::string, std::less<>> sets_;                 ///< cluster|name
  std::map<std::string, std::string, std::less<>> owners_;  ///< Partitions: cluster|name to the uid
                                                            ///< of the owning set, "" for none
  std::map<std::string, std::set<std::string>, std::less<>> owned_;  ///< that uid to cluster|name
  std::vector<std::shared_ptr<void>> subscriptions_;
  int holds_ = 0;
  Stats stats_;
};

}  // namespace kintsugi::topology
