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
#include "controlplane/moves/move_steps.h"

namespace kintsugi::controlplane {

/// Drives the moves that LogicalClusterMigrations in root ask for (KK-210), on the root shard; what
/// is done where is in MoveSteps. All it has to remember is in the object: after a restart it goes
/// on with the phase. A copy that does not come to its end in half a minute is given up, and the
/// cluster goes on where it was. A finalizer keeps the object until the move is over.
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
  void find_origin(const JobPtr& job);
  void copy(const JobPtr& job);
  void fence(const JobPtr& job);
  void next_page(const JobPtr& job);
  void arrive(const JobPtr& job);
  void clean(const JobPtr& job);
  void finalize(const JobPtr& job);
  /// Asks a shard for a step until it is done, then the next phase begins. @param fault  for the
  /// log
  void insist(const JobPtr& job, const std::string& shard, const char* step, const char* fault,
              const char* phase);
  void failed(const JobPtr& job, const Error& error);
  void give_up(const JobPtr& job, const std::string& why);
  void release(const JobPtr& job, const std::string& why);
  void forget(const JobPtr& job);
  /// Writes phase and what came of it; the change queues the object again.
  void enter(const JobPtr& job, std::string_view phase, std::string_view reason = {},
             const std::string& message = {});
  void wait(const JobPtr& job, std::string_view reason, const std::string& message);
  void ask(const JobPtr& job, const std::string& shard, std::string_view step, krm::Json more,
           Answered done);

  Params params_;
  std::map<std::string, TimePoint, std::less<>> since_;  // by key: when this process began to copy
};

}  // namespace kintsugi::controlplane
