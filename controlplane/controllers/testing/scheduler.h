#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/testing/controller_server.h"
#include "controlplane/controllers/internal/workspace_scheduler.h"
#include "controlplane/internal/bootstrap.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "store/memory/memory_store.h"

/// For tests of the scheduler: shards in memory, and a scheduler over them.
namespace kintsugi::controlplane::testing {

using krm::Json;

/// Logical clusters of all shards in memory; a cluster is Ready at the second look.
class FakeAccess final : public ClusterAccess {
 public:
  explicit FakeAccess(net::Loop& loop) : loop_(loop) {}

  void get(const std::string& shard, const std::string& cluster, Got done) override {
    ++asked[shard];
    loop_.post([this, place = shard + "/" + cluster, shard, done = std::move(done)] {
      if (unreachable.count(shard) > 0) {
        done(fail(Errc::kUnreachable));
        return;
      }
      const auto found = clusters.find(place);
      if (found == clusters.end()) {
        done(std::optional<Json>());
        return;
      }
      Json answer = found->second;
      if (answer.text({"status", "phase"}).empty()) {
        found->second.make({"status", "phase"}) = phase;
        found->second.make({"status", "URL"}) = "https://proxy/clusters/x";
      }
      done(std::optional<Json>(std::move(answer)));
    });
  }
  void create(const std::string& shard, const std::string& cluster, Json object,
              Done done) override {
    loop_.post([this, place = shard + "/" + cluster, shard, object = std::move(object),
                done = std::move(done)] {
      if (unreachable.count(shard) > 0 || refuse_creation) {
        done(fail(Errc::kUnreachable));
        return;
      }
      object_uid = "uid-" + place;
      Json stored = object;
      stored.make({"metadata", "uid"}) = object_uid;
      ++creations;
      if (!clusters.emplace(place, std::move(stored)).second) {
        done(fail(Errc::kAlreadyExists));
      } else if (lose_answers-- > 0) {
        done(fail(Errc::kReset));
      } else {
        done({});
      }
    });
  }
  void remove(const std::string& shard, const std::string& cluster, const std::string&,
              Done done) override {
    loop_.post([this, place = shard + "/" + cluster, done = std::move(done)] {
      clusters.erase(place);
      done({});
    });
  }
  void probe(const std::string& shard, std::function<void(bool)> done) override {
    loop_.post([this, shard, done = std::move(done)] { done(unreachable.count(shard) == 0); });
  }

  std::map<std::string, Json> clusters;  // "<shard>/<cluster>"
  std::set<std::string> unreachable;
  std::map<std::string, int> asked;  // get, by shard
  std::string phase = "Ready", object_uid;
  int creations = 0;
  int lose_answers = 0;
  bool refuse_creation = false;

 private:
  net::Loop& loop_;
};

class WorkspaceSchedulerTest : public ::testing::Test {
 protected:
  WorkspaceSchedulerTest() : loop_("test"), server_(loop_), access_(loop_), types_(index_, root_) {
    server_.serve("tenancy.kcp.io", "workspaces", "Workspace", false);
    server_.serve("core.kcp.io", "logicalclusters", "LogicalCluster", false);
    Json cluster;
    cluster.make({"metadata", "annotations", "kcp.io/path"}) = "root";
    cluster.make({"status", "phase"}) = "Ready";
    index_.put_cluster("root", &cluster);
    for (const BootstrapObject& one : bootstrap_objects("root")) {
      if (one.key.resource == kWorkspaceTypes) {
        root_.put_type(one.key.name, &one.object);
      }
    }
    root_.listed(RootView::Part::kShards);
  }
  void add_shard(std::string_view name, std::string_view region) {
    Json shard;
    shard.make({"metadata", "labels", "region"}) = region;
    shard.make({"spec", "baseURL"}) = "https://127.0.0.1:1";
    root_.put_shard(name, &shard);
  }
  void start() {
    scheduler_ = std::make_unique<WorkspaceScheduler>(
        apiserver::ControllerContext{loop_, server_, server_},
        WorkspaceScheduler::Params{"root", store_, access_, index_, root_, types_});
    scheduler_->start();
    scheduler_->add_cluster("root");
  }
  static apiserver::ObjectKey key_of(std::string_view name) {
    return {"root", "tenancy.kcp.io", "workspaces", "", std::string(name)};
  }
  void add_workspace(std::string_view name, std::string_view extra = "{}") {
    Expected<Json> workspace = Json::parse(extra);
    ASSERT_TRUE(workspace);
    workspace->make({"spec", "type"}) = Json::object({{"name", "universal"}, {"path", "root"}});
    workspace->make({"status", "phase"}) = "Scheduling";
    workspace->make({"metadata", "annotations", krm::kOwnerAnnotation}) = R"({"username":"ann"})";
    server_.put(key_of(name), std::move(*workspace));
  }
  std::string text(std::string_view name, std::initializer_list<std::string_view> path) {
    const Json* found = server_.find(key_of(name));
    return found == nullptr ? "<gone>" : std::string(found->text(path));
  }
  /// "<shard>/<cluster>" as the Workspace shows it.
  std::string placed(std::string_view name) {
    const std::string cluster =
        text(name, {"metadata", "annotations", krm::kPlacedClusterAnnotation});
    return cluster.empty() ? ""
                           : text(name, {"metadata", "annotations", krm::kPlacedShardAnnotation}) +
                                 "/" + cluster;
  }
  void restart() {
    scheduler_.reset();
    start();
  }
  void run_to_phase(std::string_view name, std::string_view phase) {
    server_.run_until([&] { return text(name, {"status", "phase"}) == phase; });
  }

  net::Loop loop_;
  apiserver::TestingServer server_;
  store::MemoryStore store_;
  FakeAccess access_;
  ClusterIndex index_;
  RootView root_;
  WorkspaceTypeLookup types_;
  std::unique_ptr<WorkspaceScheduler> scheduler_;
};

}  // namespace kintsugi::controlplane::testing
