#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "controlplane/clusters/cluster_index.h"
#include "kinds/rbac/rbac.h"

namespace kintsugi::controlplane {

/// Gives the authorizer of a loop the copies of ClusterRoles and ClusterRoleBindings of other
/// shards' logical clusters, so that it can decide there too (bind, use, apiexports/content,
/// maximal permission policies). A cluster of this shard has its own objects only. Threads: its
/// loop.
class ReplicatedRights {
 public:
  /// @param changed called after rights in a cluster of another shard changed; may be empty.
  ReplicatedRights(ClusterIndex& index, kinds::RbacAuthorizer& rbac,
                   std::function<void(std::string_view cluster)> changed);
  /// Reads what is stored and follows every change. All must outlive this or stop(); the index
  /// must be started before.
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscriptions_.clear(); }

 private:
  void moved(std::string_view cluster, bool here);

  ClusterIndex& index_;
  kinds::RbacAuthorizer& rbac_;
  std::function<void(std::string_view cluster)> changed_;
  const apiserver::ApiServer* server_ = nullptr;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::controlplane
