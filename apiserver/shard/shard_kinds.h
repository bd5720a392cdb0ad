#pragma once

#include <vector>

#include "apiserver/registry.h"
#include "apiserver/shard/api_catalog.h"
#include "apiserver/shard/cluster_index.h"
#include "apiserver/shard/home_workspace.h"
#include "apiserver/shard/workspace_types.h"
#include "auth/authorizer.h"

/// The kcp kinds as a shard serves them: with the admission that needs to know the shard.
namespace kintsugi::apiserver {

/// What the hooks ask; all outlive the kinds. Threads: one loop.
struct ShardKindContext {
  ClusterIndex& index;
  const WorkspaceTypeLookup& types;
  auth::Authorizer& authorizer;
  HomeWorkspaces& homes;
  const ApiCatalog& catalog;
  bool claims_escalation = false;  ///< ShardServerParams::claims_escalation
};

/// Shards (in root only), logical clusters, workspaces and their types, schemas, exports and
/// bindings, in discovery order.
[[nodiscard]] std::vector<StaticPlusCrdRegistry::StaticKind> shard_kinds(
    const ShardKindContext& context);

}  // namespace kintsugi::apiserver
