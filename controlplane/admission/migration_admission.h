#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "controlplane/clusters/root_view.h"

/// Who may move logical clusters. Source: KK-211, KK-212.
namespace kintsugi::controlplane {

/// Asks why a logical cluster cannot move to a shard; "" also where nobody can say.
using RefusesCluster = std::function<void(const std::string& shard, const std::string& cluster,
                                          std::function<void(std::string_view why)> done)>;

/// Of a new LogicalClusterMigration: SYS and ADMIN make it, in root, for a cluster that may move
/// and that no other one moves, to a shard that there is, which is of this program, and where it
/// is not.
/// @param root  null: shards are not looked at
/// @error (in done) kForbidden, kConflict, kInvalid
void approve_migration(const RootView* root, const RefusesCluster& refuses,
                       const apiserver::WriteContext& context, const krm::Json* object,
                       const krm::Json* old, apiserver::Hooks::AdmitDone done);

/// Whether a request for migration.kcp.io is nobody's but SYS's, ADMIN's and other shards'.
[[nodiscard]] bool is_denied_migration(const auth::Attributes& attributes) noexcept;
/// What they are told who ask for the rows of a logical cluster.
[[nodiscard]] Error denied_dump();

}  // namespace kintsugi::controlplane
