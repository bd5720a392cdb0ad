#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/alive.h"
#include "controlplane/clusters/cluster_access.h"
#include "controlplane/controllers/internal/binding_controller.h"
#include "controlplane/controllers/internal/cached_resource_controller.h"
#include "controlplane/controllers/internal/default_bindings.h"
#include "controlplane/controllers/internal/identity_controller.h"
#include "controlplane/controllers/internal/logical_cluster_controller.h"
#include "controlplane/controllers/internal/migration_controller.h"
#include "controlplane/controllers/internal/workspace_scheduler.h"
#include "controlplane/controllers/internal/workspace_type_controller.h"
#include "controlplane/internal/bootstrap.h"
#include "controlplane/internal/shard_loop.h"
#include "controlplane/internal/shard_registration.h"
#include "controlplane/replication/cached_replicator.h"
#include "controlplane/replication/replication.h"
#include "controlplane/views/claim_labeller.h"
#include "kinds/controllers/controllers.h"
#include "store/duty.h"

namespace kintsugi::controlplane {

/// Everything that writes by itself on a shard. One per store, on the first loop: in the process
/// that has the duty, as long as it has that.
class ShardControllers {
 public:
  ShardControllers(ShardLoop& parts, store::Store& store, const store::Fence& fence,
                   const ShardServerParams& params, const std::string& base_url,
                   std::shared_ptr<ReplicationReport> replication);
  ~ShardControllers();
  ShardControllers(const ShardControllers&) = delete;
  ShardControllers& operator=(const ShardControllers&) = delete;
  void start();
  /// As ShardServer::set_replicas.
  void set_replicas(const std::vector<std::string>& urls) { registration_.set_replicas(urls); }
  /// The shard is registered in root (or root does not answer); on the root shard its first objects
  /// are there.
  [[nodiscard]] bool ready() const noexcept;

 private:
  void on_content(std::string_view cluster, bool deleting);
  /// Rows of moves that have ended go; again and again.
  void drop_moves();
  /// The same for fences that nobody ends.
  void end_fences();

  ShardLoop& parts_;
  store::DutyStore store_;
  apiserver::ControllerContext context_;
  ShardClusterAccess access_;
  kinds::ControllerSet common_;
  LogicalClusterController clusters_;
  IdentityController identities_, cached_identities_;
  CachedResourceController cached_;
  CachedSliceController cached_slices_;
  BindingController bindings_;
  ClaimLabeller claims_;
  WorkspaceTypeController types_;
  DefaultBindings default_bindings_;
  WorkspaceScheduler scheduler_;
  std::unique_ptr<MigrationController> migrations_;  // on the root shard
  ShardRegistration registration_;
  Replicator replicator_;
  CachedReplicator cached_replicator_;
  std::unique_ptr<Bootstrap> bootstrap_;  // on the root shard
  Bootstrap policy_;
  net::Timer moves_timer_, fences_timer_;
  std::set<std::string, std::less<>> started_;  // clusters that the controllers know
  Alive alive_;
};

}  // namespace kintsugi::controlplane
