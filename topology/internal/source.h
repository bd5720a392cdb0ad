#pragma once

#include <string_view>
#include <vector>

#include "krm/json.h"
#include "topology/index.h"

/// Reads the objects that describe the topology. Source: T-05, KK-065.
namespace kintsugi::topology {

/// A Shard object. Missing URLs get their defaults from the index.
[[nodiscard]] ShardSpec shard_from_json(const krm::Json& object);
/// A LogicalCluster or Workspace object of `cluster` (annotation kcp.io/cluster).
[[nodiscard]] ClusterReport cluster_from_json(std::string_view cluster, const krm::Json& object);
[[nodiscard]] WorkspaceReport workspace_from_json(std::string_view cluster,
                                                  const krm::Json& object);
/// An APIExport object of `cluster`.
[[nodiscard]] ExportReport export_from_json(std::string_view cluster, const krm::Json& object);

/// An APIBinding object of `cluster`.
[[nodiscard]] BindingReport binding_from_json(std::string_view cluster, const krm::Json& object);

/// Source `static` (FP-149): makes the index hold exactly these shards, each with
/// one logical cluster of its own name and everything synced.
void apply_static(Index& index, const std::vector<ShardSpec>& shards);

}  // namespace kintsugi::topology
