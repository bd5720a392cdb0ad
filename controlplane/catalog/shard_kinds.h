#pragma once

#include <functional>
#include <vector>

#include "auth/authorizer.h"
#include "controlplane/admission/migration_admission.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/controllers/home_workspace.h"
#include "controlplane/controllers/workspace_types.h"
#include "kinds/registry.h"

/// The kcp kinds as a shard serves them: with the admission that needs to know the shard.
namespace kintsugi::controlplane {

/// What the hooks ask; all outlive the kinds. Threads: one loop.
struct ShardKindContext {
  ClusterIndex& index;
  const WorkspaceTypeLookup& types;
  auth::Authorizer& authorizer;
  HomeWorkspaces& homes;
  const ApiCatalog& catalog;
  bool claims_escalation = false;                          ///< ShardServerParams::claims_escalation
  std::function<const apiserver::Registry&()> registry{};  ///< of the shard, once it serves
  /// @{ For LogicalClusterMigrations (admission/migration_admission.h).
  const RootView* root = nullptr;
  RefusesCluster refuses{};
  /// @}
};

/// Shards (in root only), logical clusters, workspaces and their types, schemas, exports and
/// bindings, in discovery order.
[[nodiscard]] std::vector<kinds::StaticPlusCrdRegistry::StaticKind> shard_kinds(
    const ShardKindContext& context);

}  // namespace kintsugi::controlplane
