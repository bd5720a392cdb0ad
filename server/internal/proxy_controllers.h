#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "endpointslice/slice_controller.h"
#include "kinds/controllers/garbage_collector.h"
#include "kinds/registry.h"
#include "net/loop.h"
#include "proxy/feed_world.h"
#include "proxy/routing/local_kinds.h"
#include "server/internal/api_objects.h"
#include "store/duty.h"
#include "topology/cluster_sweeper.h"
#include "topology/feed.h"
#include "topology/import.h"
#include "topology/partition_controller.h"
#include "topology/shard_status.h"
#include "topology/store_import_log.h"

namespace kintsugi::server {

struct ProxyControllersParams {
  net::Loop& loop;
  store::Store& store;
  apiserver::ApiServer& server;
  const kinds::StaticPlusCrdRegistry& registry;
  topology::Feed& feed;
  proxy::FeedWorld& world;
  endpointslice::SliceDefaults slices;
  /// A shard with the proxy's own credential; empty: nothing is imported.
  decltype(topology::ImportParams::upstream) upstream;
  http::HeaderList headers;  ///< of what is asked for imports
  proxy::GroupModes groups;
  bool has_shards = false;  ///< Shards are objects of the proxy
};

/// What acts by itself on the kinds that the proxy stores: Partitions of sets, statuses and default
/// slices, what goes with an owner or a logical cluster, imports, conditions of Shards. Of the
/// proxies that share a store the one with the duty does it, and all that it writes has the duty's
/// fence (GR-206, GR-208). At the others the controllers only look, so that people can ask them.
/// Made anew with each duty: all that they keep is in the store. Threads: the control loop's.
class ProxyControllers {
 public:
  /// @param held  of the duty; nullopt: another proxy has it
  ProxyControllers(const ProxyControllersParams& params, std::optional<store::Fence> held);
  ~ProxyControllers();
  ProxyControllers(const ProxyControllers&) = delete;
  ProxyControllers& operator=(const ProxyControllers&) = delete;

  /// Before the shards are known nothing can be computed from them: a restart must not take every
  /// Partition away and make it again. Lets go what waits for what is known now.
  /// @returns whether nothing waits any more
  bool release();

  // What the feed tells.
  void shards_changed();
  void shards_relisted() { slices_.full_pass(); }
  void export_changed(std::string_view cluster, std::string_view name) {
    slices_.export_changed(cluster, name);
  }
  void cluster_gone(std::string_view cluster);
  void path_changed(std::string_view segment) { slices_.path_changed(segment); }
  /// Nothing is left to be imported from the shard.
  [[nodiscard]] bool is_imported(topology::ShardId shard) const {
    return importer_ == nullptr || importer_->is_done(shard);
  }

  [[nodiscard]] const topology::PartitionController& partitions() const { return partitions_; }
  [[nodiscard]] endpointslice::SliceController& slices() { return slices_; }

 private:
  void start_collector(const ProxyControllersParams& params);
  void start_sweeper(const ProxyControllersParams& params);
  void start_import(const ProxyControllersParams& params);

  const std::optional<store::Fence> held_;
  net::Loop& loop_;
  topology::Feed& feed_;
  ApiObjects objects_;
  store::DutyStore store_;
  topology::PartitionController partitions_;
  endpointslice::SliceController slices_;
  std::unique_ptr<kinds::GarbageCollector> collector_;
  std::unique_ptr<topology::ClusterSweeper> sweeper_;
  std::unique_ptr<topology::StoreImportLog> import_log_;
  std::unique_ptr<topology::Importer> importer_;
  std::unique_ptr<topology::ShardStatusKeeper> shard_status_;
  bool partitions_held_ = true, slices_held_ = true;
  TimePoint listed_at_{};
};

}  // namespace kintsugi::server
