#pragma once

#include <string>
#include <string_view>

#include "kinds/replicas.h"
#include "krm/annotations.h"
#include "krm/json.h"

/// Names of the kcp API that the files of this folder share, and small readings of objects. Keys of
/// annotations and labels, and finalizers: krm/annotations.h, labels.h, finalizers.h.
namespace kintsugi::controlplane {

inline constexpr std::string_view kCoreGroup = "core.kcp.io";
inline constexpr std::string_view kTenancyGroup = "tenancy.kcp.io";
inline constexpr std::string_view kApisGroup = "apis.kcp.io";
inline constexpr std::string_view kShards = "shards";
inline constexpr std::string_view kLogicalClusters = "logicalclusters";
inline constexpr std::string_view kWorkspaces = "workspaces";
inline constexpr std::string_view kWorkspaceTypes = "workspacetypes";
inline constexpr std::string_view kAuthentications = "workspaceauthenticationconfigurations";
inline constexpr std::string_view kApiExports = "apiexports";
/// The only kind of maximal permission policy: roles of the export's own cluster.
inline constexpr std::string_view kLocalPolicy = "local";
inline constexpr std::string_view kApiBindings = "apibindings";
inline constexpr std::string_view kApiResourceSchemas = "apiresourceschemas";
inline constexpr std::string_view kApiConversions = "apiconversions";

inline constexpr std::string_view kCacheGroup = "cache.kcp.io";
inline constexpr std::string_view kCachedResources = "clustercachedresources";
inline constexpr std::string_view kCachedSlices = "clustercachedresourceendpointslices";

inline constexpr std::string_view kMigrationGroup = "migration.kcp.io";
inline constexpr std::string_view kMigrations = "logicalclustermigrations";
inline constexpr std::string_view kClusterDumps = "logicalclusterdumps";

inline constexpr std::string_view kRootCluster = "root";
inline constexpr std::string_view kClusterName = "cluster";  ///< of every LogicalCluster
/// A shard's own, for the system alone: its ClusterRoles and ClusterRoleBindings hold everywhere.
inline constexpr std::string_view kLocalAdminCluster = "system:admin";

/// Logical clusters without LogicalCluster, which every shard has for itself (KK-305, KK-379).
inline constexpr std::string_view kSystemPrefix = "system:";
[[nodiscard]] inline bool is_system_cluster(std::string_view cluster) noexcept {
  return cluster.starts_with(kSystemPrefix);
}

inline constexpr std::string_view kApiBindingsInitializer = "system:apibindings";

[[nodiscard]] inline std::string annotation(const krm::Json& object, std::string_view key) {
  return std::string(object.text({"metadata", "annotations", key}));
}
[[nodiscard]] inline std::string cluster_of(const krm::Json& object) {
  return annotation(object, krm::kClusterAnnotation);
}

}  // namespace kintsugi::controlplane
