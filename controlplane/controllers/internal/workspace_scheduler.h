#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "controlplane/clusters/cluster_access.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/clusters/server_facts.h"
#include "controlplane/controllers/internal/placement.h"
#include "controlplane/controllers/workspace_types.h"

namespace kintsugi::controlplane {

/// Gives each Workspace of this shard its logical cluster, on whichever shard fits, and takes that
/// away again. Source: AM-483, AM-489; KK-065.
/// Steps, each safe to repeat after a restart of either shard: 1. note shard and cluster name as a
/// fact of the server, then with the finalizer on the Workspace; 2. make the LogicalCluster there,
/// owned by the Workspace's uid; 3. wait until it is Ready; 4. write spec.cluster, spec.URL and the
/// label, then status.
/// A placement that is noted stays, whatever happens to the shard, so that there is never a second
/// cluster; only a Shard object that is gone before step 4 frees it.
/// What the Workspace says of itself is a hint (KK-062, KK-268, KK-292): placement and owner are
/// the facts, required groups those of the parent. A logical cluster that a Workspace names without
/// a fact is its own only when that names it back with uid; else the Workspace gets condition
/// Stalled and rests until somebody changes it.
class WorkspaceScheduler final : public apiserver::ControllerBase {
 public:
  struct Params {
    std::string own_shard;
    store::Store& store;
    ClusterAccess& access;
    ClusterIndex& index;
    RootView& root;
    const WorkspaceTypeLookup& types;
  };
  WorkspaceScheduler(const apiserver::ControllerContext& context, Params params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  struct Search;
  void process(const std::string& key, Finished finished) override;
  void follow_workspace(const apiserver::ApiServer::Change& change);
  void count(const krm::Json& workspace, int change);

  [[nodiscard]] JobPtr read(const std::string& text, Finished finished);
  void place(const JobPtr& job);
  void try_shard(const JobPtr& job, std::vector<std::string> shards, std::size_t next);
  void choose_name(const JobPtr& job, const std::string& shard);
  void note_placement(const JobPtr& job, const std::string& shard, const std::string& cluster);
  void show_placement(const JobPtr& job);
  void forget_placement(const JobPtr& job);
  void keep_fact(const JobPtr& job, ServerFacts::Done done);
  void find_own(const JobPtr& job, std::function<void(bool found, bool sure)> done);
  void adopt(const JobPtr& job);
  void drop_claims(const JobPtr& job);
  void look_at(const std::shared_ptr<Search>& search);
  void stall(const JobPtr& job, const std::string& message);
  void unschedulable(const JobPtr& job, std::string_view message);
  void check_cluster(const JobPtr& job);
  void make_cluster(const JobPtr& job);
  void publish(const JobPtr& job, const krm::Json& logical_cluster);
  void publish_status(const JobPtr& job, krm::Json workspace, const krm::Json& logical_cluster);
  void remove(const JobPtr& job);
  void publish_removal(const JobPtr& job, const krm::Json& logical_cluster);
  void remove_cluster_of(const JobPtr& job);
  void find_moved(const JobPtr& job);
  void remove_moved(const JobPtr& job);
  void find_or_make(const JobPtr& job);
  void release(const JobPtr& job);

  /// Looks again soon, later and later while nothing changes.
  void wait(const JobPtr& job, Duration longest);
  void progress(const JobPtr& job);

  Params params_;
  ServerFacts facts_;  // of Workspaces: {uid, createdBy, shard, cluster}
  PlacementCounts counts_;
  std::set<std::string, std::less<>> unplaced_;  // keys that wait for shards
  std::set<std::string, std::less<>> leaving_;   // keys whose logical cluster is being deleted
  StringMap<unsigned> waits_;
  StringMap<krm::Json> first_;  // facts of Workspaces that were just made, not stored yet
};

}  // namespace kintsugi::controlplane
