#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/strings.h"
#include "endpointslice/world.h"
#include "topology/feed.h"
#include "topology/partition_set.h"

namespace kintsugi::proxy {

/// The controllers' picture of shards and exports, kept from the topology feed, whose index counts
/// the bindings. Threads: the control loop's.
class FeedWorld final : public endpointslice::World, public topology::FeedListener {
 public:
  struct Events {
    std::function<void()> shards_changed;
    /// Something else that slices depend on may have changed with a shard: its exports went with
    /// it, or a first list is complete. Comes after shards_changed.
    std::function<void()> shards_relisted;
    std::function<void(std::string_view cluster, std::string_view name)> export_changed;
    std::function<void(std::string_view cluster)> cluster_gone;
    /// A Workspace of this name came, changed or went; "" when a logical cluster did.
    std::function<void(std::string_view segment)> path_changed;
    /// Exports of a shard get default slices from then on: before, it may hold some of its own that
    /// are still to be imported. Unset: always.
    std::function<bool(topology::ShardId shard)> imported;
  };
  explicit FeedWorld(topology::Feed& feed);
  ~FeedWorld();
  FeedWorld(const FeedWorld&) = delete;
  FeedWorld& operator=(const FeedWorld&) = delete;
  void set_events(Events events) { events_ = std::move(events); }

  /// Events::imported holds for the shard now.
  void shard_imported(topology::ShardId shard);

  [[nodiscard]] const std::vector<topology::ShardFacts>& shard_table() const override;
  [[nodiscard]] std::vector<endpointslice::SliceShard> shards(
      std::string_view export_cluster, std::string_view export_name) const override;
  [[nodiscard]] endpointslice::ExportFacts find_export(std::string_view path,
                                                       std::string_view name) const override;
  void exports(const std::function<void(const endpointslice::ExportRecord&)>& visit) const override;
  [[nodiscard]] const endpointslice::ExportRecord* export_record(
      std::string_view cluster, std::string_view name) const override;

  void on_change(const topology::ShardChanged& change) override;
  void on_change(const topology::ExportChanged& change) override;
  void on_change(const topology::ConsumersChanged& change) override;
  void on_change(const topology::WorkspaceChanged& change) override;
  void on_change(const topology::LogicalClusterChanged& change) override;
  void on_change(const topology::SyncedChanged& change) override;

 private:
  struct Export {
    endpointslice::ExportRecord record;
    topology::ShardId shard = 0;
  };
  static std::string key(std::string_view cluster, std::string_view name);
  void forget_table();

  topology::Feed& feed_;
  Events events_;
  std::map<std::string, Export, std::less<>> exports_;  ///< cluster|name
  mutable std::vector<topology::ShardFacts> table_;     ///< sorted by name
  mutable std::vector<topology::ShardId> table_ids_;    ///< parallel to table_
  mutable bool table_known_ = false;
};

}  // namespace kintsugi::proxy
