#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "controlplane/clusters/cluster_access.h"
#include "controlplane/clusters/peer_shards.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/moves/move_drive.h"
#include "controlplane/moves/move_steps.h"

namespace kintsugi::controlplane {

/// Drives the moves that LogicalClusterMigrations in root ask for (KK-210), on the root shard: what
/// is asked for is MoveDrive's business, what is done where MoveSteps'. All that has to outlive
/// this process is in the object: phase, origin, number of the try. A finalizer keeps the object
/// until the move is over; who deletes it before the origin has given the cluster away ends the
/// move.
class MigrationController final : public apiserver::ControllerBase {
 public:
  struct Params {
    std::string shard;  ///< own name
    ClusterAccess& access;
    PeerShards& peers;
    RootView& root;
    MoveSteps& steps;
  };
  MigrationController(const apiserver::ControllerContext& context, Params params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  using Answered = std::function<void(Expected<krm::Json>)>;

  void process(const std::string& key, Finished finished) override;
  void prepare(const JobPtr& job);
  /// Whether it can come there at all.
  void look_at_destination(const JobPtr& job);
  void find_origin(const JobPtr& job);
  /// Does what the drive says until it is to be stored, or waited for.
  void drive(const JobPtr& job);
  void forget(const JobPtr& job);
  /// Writes phase and what came of it; the change queues the object again.
  void enter(const JobPtr& job, std::string_view phase, std::string_view reason = {},
             const std::string& message = {});
  void wait(const JobPtr& job, std::string_view reason, const std::string& message);
  void ask(const JobPtr& job, const std::string& shard, std::string_view step, krm::Json more,
           Answered done);

  Params params_;
  std::map<std::string, std::unique_ptr<MoveDrive>, std::less<>> drives_;  // by key
};

}  // namespace kintsugi::controlplane
