#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "krm/json.h"

/// Which values of objects count, and what becomes of the others (KK-292): a value that does not
/// agree with what the server knows is logged, counted and repaired, never obeyed.
namespace kintsugi::controlplane {

enum class UntrustedValue : std::uint8_t {
  kPlacement,       ///< shard or cluster that a Workspace's annotations name
  kNamedCluster,    ///< spec.cluster of a Workspace
  kWorkspaceOwner,  ///< owner annotation of a Workspace
  kRequiredGroups,  ///< required groups of a Workspace
  kPath,            ///< kcp.io/path of a LogicalCluster, or of an object in it
  kClusterOwner,    ///< spec.owner of a LogicalCluster under a name that a Workspace was given
  kCreator,         ///< groups or extras of spec.createdBy
  kAdminBinding,    ///< ClusterRoleBinding workspace-admin
  kHome,            ///< the logical cluster under the name of a user's home
};
inline constexpr std::size_t kUntrustedValues = 9;

/// Logs (the first hundred of a kind, then every thousandth) and counts. Threads: any.
void note_untrusted(UntrustedValue value, std::string_view cluster, std::string_view name,
                    std::string_view detail);
/// Of this process, for kintsugi_untrusted_fact_total. Threads: any.
[[nodiscard]] std::uint64_t untrusted_count(UntrustedValue value) noexcept;
/// As metrics and logs say it ("workspace-owner").
[[nodiscard]] std::string_view untrusted_name(UntrustedValue value) noexcept;

/// A user's document ({username, uid, groups, extra}) without what nobody may pass on: groups
/// system:masters and system:kcp:*, and extras of the domain kcp.io and below (KK-057). Members of
/// other names are dropped; {} when `user` is none.
[[nodiscard]] krm::Json clean_owner(const krm::Json& user);
/// kcp.io or a domain below it: "authentication.kcp.io/scopes".
[[nodiscard]] bool is_kcp_extra(std::string_view key) noexcept;

/// spec.owner of the LogicalCluster is exactly this Workspace (KK-063).
[[nodiscard]] bool is_owned_by(const krm::Json& logical_cluster, std::string_view cluster,
                               std::string_view name, std::string_view uid);

}  // namespace kintsugi::controlplane
