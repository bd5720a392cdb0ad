#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "endpointslice/slice_builder.h"
#include "endpointslice/world.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "topology/objects.h"

namespace kintsugi::endpointslice {

/// Keeps the status of every APIExportEndpointSlice right, and one default slice per export
/// (specs/topology.md 13.2, 13.3). Level-based; endpoints and conditions are one write, and no
/// write when nothing changed. Threads: one loop.
class SliceController {
 public:
  SliceController(net::Loop& loop, topology::Objects& objects, World& world,
                  SliceDefaults defaults);

  /// A Shard was added, removed, relabelled, or its URLs, health or sync state changed: every slice
  /// is looked at again.
  void shards_changed();
  /// An export appeared, changed or went, or its first consumer on a shard came or its last one
  /// left.
  void export_changed(std::string_view cluster, std::string_view name);

  struct Stats {
    std::uint64_t runs = 0, writes = 0;
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  [[nodiscard]] bool idle() const noexcept { return slices_.busy() + defaults_queue_.busy() == 0; }

 private:
  void reconcile(const std::string& key, net::WorkQueue::Finished finished);
  void reconcile_default(const std::string& key, net::WorkQueue::Finished finished);
  void mark_all();

  topology::Objects& objects_;
  World& world_;
  SliceDefaults defaults_;
  net::WorkQueue slices_;
  net::WorkQueue defaults_queue_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  Stats stats_;
};

}  // namespace kintsugi::endpointslice
