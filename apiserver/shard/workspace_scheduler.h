#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "apiserver/shard/cluster_access.h"
#include "apiserver/shard/cluster_index.h"
#include "apiserver/shard/placement.h"
#include "apiserver/shard/root_view.h"
#include "apiserver/shard/workspace_types.h"

namespace kintsugi::apiserver {

/// Gives each Workspace of this shard its logical cluster, on whichever shard fits, and takes that
/// away again. Source: specs/api-machinery.md AM-483, AM-489; specs/topology.md 4.
/// Steps, each safe to repeat after a restart of either shard: 1. note shard, cluster name and
/// finalizer on the Workspace; 2. make the LogicalCluster there, owned by the Workspace's uid;
/// 3. wait until it is Ready; 4. write spec.cluster, spec.URL and the label, then status.
/// A placement that is noted stays, whatever happens to the shard, so that there is never a second
/// cluster; only a Shard object that is gone before step 4 frees it.
class WorkspaceScheduler final : public ControllerBase {
 public:
  struct Params {
    std::string own_shard;
    ClusterAccess& access;
    ClusterIndex& index;
    RootView& root;
    const WorkspaceTypeLookup& types;
  };
  WorkspaceScheduler(const ControllerContext& context, Params params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  void process(const std::string& key, Finished finished) override;
  void follow_workspace(const ApiServer::Change& change);
  void count(const krm::Json& workspace, int change);

  void place(const JobPtr& job);
  void try_shard(const JobPtr& job, std::vector<std::string> shards, std::size_t next);
  void note_placement(const JobPtr& job, const std::string& shard);
  void forget_placement(const JobPtr& job);
  void unschedulable(const JobPtr& job, std::string_view message);
  void check_cluster(const JobPtr& job);
  void make_cluster(const JobPtr& job);
  void publish(const JobPtr& job, const krm::Json& logical_cluster);
  void publish_status(const JobPtr& job, krm::Json workspace, const krm::Json& logical_cluster);
  void remove(const JobPtr& job);
  void publish_removal(const JobPtr& job, const krm::Json& logical_cluster);
  void release(const JobPtr& job);

  /// Looks again soon, later and later while nothing changes.
  void wait(const JobPtr& job, Duration longest);
  void progress(const JobPtr& job);

  Params params_;
  PlacementCounts counts_;
  std::set<std::string, std::less<>> unplaced_;  // keys that wait for shards
  StringMap<unsigned> waits_;
};

}  // namespace kintsugi::apiserver
