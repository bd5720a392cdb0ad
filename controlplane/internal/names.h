#pragma once

#include <string>
#include <string_view>

#include "apiserver/replicas.h"
#include "krm/json.h"

/// Names of the kcp API that the files of this folder share, and small readings of objects.
namespace kintsugi::controlplane {

inline constexpr std::string_view kCoreGroup = "core.kcp.io";
inline constexpr std::string_view kTenancyGroup = "tenancy.kcp.io";
inline constexpr std::string_view kApisGroup = "apis.kcp.io";
inline constexpr std::string_view kShards = "shards";
inline constexpr std::string_view kLogicalClusters = "logicalclusters";
inline constexpr std::string_view kWorkspaces = "workspaces";
inline constexpr std::string_view kWorkspaceTypes = "workspacetypes";
inline constexpr std::string_view kApiExports = "apiexports";
inline constexpr std::string_view kApiBindings = "apibindings";
inline constexpr std::string_view kApiResourceSchemas = "apiresourceschemas";

inline constexpr std::string_view kRootCluster = "root";
inline constexpr std::string_view kClusterName = "cluster";  ///< of every LogicalCluster

inline constexpr std::string_view kClusterAnnotation = "kcp.io/cluster";
inline constexpr std::string_view kPathAnnotation = "kcp.io/path";
inline constexpr std::string_view kShardAnnotation = "core.kcp.io/shard";
inline constexpr std::string_view kTypeAnnotation = "internal.tenancy.kcp.io/type";
/// On a copy of another shard's object: that shard.
inline constexpr std::string_view kReplicatedFromAnnotation = "internal.kcp.io/replicated-from";
inline constexpr std::string_view kOwnerAnnotation = "experimental.tenancy.kcp.io/owner";
/// On a LogicalCluster, and on the Workspace that it is made for: groups of those who may enter.
inline constexpr std::string_view kRequiredGroupsAnnotation =
    "authorization.kcp.io/required-groups";
/// On a Workspace: where its logical cluster is made, from before it exists.
inline constexpr std::string_view kPlacedClusterAnnotation = "internal.tenancy.kcp.io/cluster";
inline constexpr std::string_view kPlacedShardAnnotation = "internal.tenancy.kcp.io/shard";

inline constexpr std::string_view kPhaseLabel = "tenancy.kcp.io/phase";
inline constexpr std::string_view kWorkspaceFinalizer = "core.kcp.io/logicalcluster";
inline constexpr std::string_view kLogicalClusterFinalizer = "core.kcp.io/logicalcluster-deletion";
/// On a LogicalCluster as long as it has terminators; ours above is what holds it.
inline constexpr std::string_view kTerminatorsFinalizer = "kcp.io/has-terminators";
inline constexpr std::string_view kApiBindingsInitializer = "system:apibindings";

[[nodiscard]] inline std::string annotation(const krm::Json& object, std::string_view key) {
  return std::string(object.text({"metadata", "annotations", key}));
}
[[nodiscard]] inline std::string cluster_of(const krm::Json& object) {
  return annotation(object, kClusterAnnotation);
}

}  // namespace kintsugi::controlplane
