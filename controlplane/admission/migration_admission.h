#pragma once

#include "apiserver/resource.h"
#include "auth/authorizer.h"

/// Who may move logical clusters. Source: KK-211, KK-212.
namespace kintsugi::controlplane {

/// Of a new LogicalClusterMigration: SYS and ADMIN make it, in root, for a cluster that may move
/// and that no other one moves. @error (in done) kForbidden, kConflict
void approve_migration(const apiserver::WriteContext& context, const krm::Json* object,
                       const krm::Json* old, const apiserver::Hooks::AdmitDone& done);

/// Whether a request for migration.kcp.io is nobody's but SYS's, ADMIN's and other shards'.
[[nodiscard]] bool is_denied_migration(const auth::Attributes& attributes) noexcept;
/// What they are told who ask for the rows of a logical cluster.
[[nodiscard]] Error denied_dump();

}  // namespace kintsugi::controlplane
