#pragma once

#include <memory>
#include <set>
#include <string>

#include "apiserver/controllers/controllers.h"
#include "apiserver/shard/binding_controller.h"
#include "apiserver/shard/bootstrap.h"
#include "apiserver/shard/cluster_access.h"
#include "apiserver/shard/default_bindings.h"
#include "apiserver/shard/identity_controller.h"
#include "apiserver/shard/logical_cluster_controller.h"
#include "apiserver/shard/replication.h"
#include "apiserver/shard/shard_loop.h"
#include "apiserver/shard/shard_registration.h"
#include "apiserver/shard/views/claim_labeller.h"
#include "apiserver/shard/workspace_scheduler.h"
#include "apiserver/shard/workspace_type_controller.h"

namespace kintsugi::apiserver {

/// Everything that writes by itself on a shard. One per store, on the first loop.
class ShardControllers {
 public:
  ShardControllers(ShardLoop& parts, store::Store& store, const ShardServerParams& params,
                   const std::string& base_url, std::shared_ptr<ReplicationReport> replication);
  ~ShardControllers();
  ShardControllers(const ShardControllers&) = delete;
  ShardControllers& operator=(const ShardControllers&) = delete;
  void start();
  /// The shard is registered in root (or root does not answer); on the root shard its first objects
  /// are there.
  [[nodiscard]] bool ready() const noexcept;

 private:
  void on_content(std::string_view cluster, bool deleting);

  ShardLoop& parts_;
  ControllerContext context_;
  ShardClusterAccess access_;
  ControllerSet common_;
  LogicalClusterController clusters_;
  IdentityController identities_;
  BindingController bindings_;
  ClaimLabeller claims_;
  WorkspaceTypeController types_;
  DefaultBindings default_bindings_;
  WorkspaceScheduler scheduler_;
  ShardRegistration registration_;
  Replicator replicator_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::set<std::string, std::less<>> started_;  // clusters that the controllers know
};

}  // namespace kintsugi::apiserver
