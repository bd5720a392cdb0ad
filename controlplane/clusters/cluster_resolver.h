#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "controlplane/clusters/cluster_index.h"

/// Which logical cluster a request target of a shard means, and what is answered when it means
/// none. Source: AM-470 to AM-481, KK-361.
namespace kintsugi::controlplane {

/// For ServerParams::resolve. `index` must outlive it. Errors:
///   kBadRequest  a segment that is neither name nor path
///   kForbidden   unknown name, in the words of a denied request; inactive cluster; create in a
///                cluster that is being deleted
///   kNotFound    unknown path
///   kTooManyRequests a path that leads to another shard
/// Members of system:masters and system:kcp:external-logical-cluster-admin, and other shards, may
/// address the LogicalCluster of a cluster that does not exist (yet). The system alone gets to
/// clusters `system:<name>` (KK-379), and to what is left below the name of a cluster that is gone,
/// to read and to delete (KK-300). A bare /metrics is asked of root's rights (KK-366).
[[nodiscard]] apiserver::ClusterResolver make_cluster_resolver(ClusterIndex& index);

/// Groups that manage logical clusters from outside.
[[nodiscard]] bool is_bootstrap_identity(const auth::UserInfo& user) noexcept;

/// 403 in the words of a request that RBAC denies: "access denied" for this API path of a cluster.
/// @param rest  path and query below the API root.
[[nodiscard]] Error access_denied(const http::RequestHead& head, const auth::UserInfo& user,
                                  std::string_view cluster, std::string_view rest);
/// Whether the state of a cluster lets the request in. @param user who asks the cluster itself;
/// null in virtual workspaces, which have no way into inactive clusters. @error kForbidden inactive
/// (KK-112, KK-113), or being deleted and the request creates something.
[[nodiscard]] Expected<void> check_cluster_state(const ClusterInfo& cluster,
                                                 const http::RequestHead& head,
                                                 std::string_view rest,
                                                 const auth::UserInfo* user = nullptr);

/// What a shard answers as plain text before anybody looks at credentials.
struct TextAnswer {
  int status = 0;
  std::string text;
  int retry_after = 0;  ///< [s], 0: no header
};
/// 501 for /metrics below any name of a cluster, 429 for paths that lead to another shard.
[[nodiscard]] std::optional<TextAnswer> text_answer(ClusterIndex& index, std::string_view target);

/// The target that is served in place of a health check below the name of a cluster, known or not,
/// or the path of one of this shard ("/livez" for "/clusters/root/livez"): it needs no rights there
/// (KK-301, KK-363). nullopt: any other target, and clusters that are inactive.
[[nodiscard]] std::optional<std::string> health_target(ClusterIndex& index,
                                                       std::string_view target);

/// True when `hash` is the identity under which the resource is exported.
using IdentityCheck =
    std::function<bool(std::string_view group, std::string_view resource, std::string_view hash)>;
/// "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:<hash>?watch=1" without the identity, when
/// it is the right one. nullopt: the target stays as it is, and with a wrong identity ends in 404.
[[nodiscard]] std::optional<std::string> without_identity(std::string_view target,
                                                          const IdentityCheck& is_identity);

}  // namespace kintsugi::controlplane
