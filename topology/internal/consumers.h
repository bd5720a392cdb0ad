#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "topology/snapshot.h"

namespace kintsugi::topology {

/// An APIBinding object as far as endpoints need it.
struct BindingReport {
  std::string cluster, name;
  std::string export_cluster;  ///< status.apiExportClusterName, "" while it is not bound
  std::string export_path;     ///< spec.reference.export.path, "" = the binding's own cluster
  std::string export_name;     ///< spec.reference.export.name, "" = it binds no export
};

/// The first APIBinding of an export came to a shard, or the last one left it.
struct ConsumerChange {
  ShardId shard = 0;
  std::string cluster, name;  ///< of the export
  bool present = false;
};
using ConsumerChanges = std::vector<ConsumerChange>;

/// Counts the APIBindings of every export on every shard. A binding counts from the moment it is
/// there, bound or not (docs/glossary.md): it belongs to the export in the cluster that its
/// status names, else in the one that its path leads to now, which is looked up again by settle().
/// Memory: about 150 bytes a binding. Threads: one at a time.
class ConsumerTable {
 public:
  void upsert(const Snapshot& facts, ShardId shard, const BindingReport& report,
              ConsumerChanges& changes);
  void erase(ShardId shard, std::string_view cluster, std::string_view name,
             ConsumerChanges& changes);
  void erase_shard(ShardId shard, ConsumerChanges& changes);
  /// Follows the paths of bindings without status again. Cost: O(unsettled()).
  void settle(const Snapshot& facts, ConsumerChanges& changes);
  [[nodiscard]] std::size_t unsettled() const noexcept { return open_.size(); }

 private:
  /// Of an export, "<cluster>|<name>": how many bindings each shard holds.
  using Counts = std::map<ShardId, std::uint32_t>;
  using ExportEntry = std::pair<const std::string, Counts>;
  struct Open {
    std::string cluster, path, name;
  };
  using BindingKey = std::pair<ShardId, std::string>;

  void point(ShardId shard, const std::string& key, std::string_view export_key,
             ConsumerChanges& changes);
  void release(ShardId shard, ExportEntry* from, ConsumerChanges& changes);

  StringMap<Counts> exports_;
  std::map<ShardId, StringMap<ExportEntry*>> rows_;  ///< by <cluster>|<name>; null: leads nowhere
  std::map<BindingKey, Open> open_;                  ///< those whose status names no cluster
};

}  // namespace kintsugi::topology
