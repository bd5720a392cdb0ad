#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/testing/scheduler.h"
#include "krm/finalizers.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::WorkspaceSchedulerTest;

TEST_F(WorkspaceSchedulerTest, WhenDeleted_TakesTheClusterAway) {
  add_shard("s1", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  server_.erase(key_of("w"));
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
  EXPECT_TRUE(access_.clusters.empty());
}

TEST_F(WorkspaceSchedulerTest, GR601_WhenItsClusterMovedLongAgo_IsFoundWhereItIs) {
  add_shard("a", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  const std::string cluster = text("w", {"spec", "cluster"});
  const auto move = [&](const std::string& from, const std::string& to) {
    access_.clusters[to + "/" + cluster] = access_.clusters.at(from + "/" + cluster);
    access_.clusters.erase(from + "/" + cluster);
  };
  move("a", "b");
  add_shard("b", "eu");
  add_shard("c", "eu");
  access_.unreachable.insert("c");
  // It is held up: its cluster is looked at, and no second one is made.
  Json held = *server_.find(key_of("w"));
  set_kcp_condition(held, "Other", "False", "Error", "Reason", "text");
  held.make({"status", "phase"}) = "Unavailable";
  server_.put(key_of("w"), std::move(held));
  server_.run_until([&] { return placed("w") == "b/" + cluster; });
  EXPECT_EQ(access_.creations, 1);
  // Deleted after another move: while not all shards answer it may be anywhere.
  move("b", "d");
  access_.asked.clear();
  server_.erase(key_of("w"));
  server_.run_until([&] { return access_.asked["c"] >= 3; });
  ASSERT_NE(server_.find(key_of("w")), nullptr);
  add_shard("d", "eu");
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
  EXPECT_TRUE(access_.clusters.empty());
  EXPECT_EQ(access_.creations, 1);
}

TEST_F(WorkspaceSchedulerTest, WhenDeletedOnItsOwnShard_NobodyElseIsAsked) {
  add_shard("a", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  add_shard("away", "eu");
  access_.unreachable.insert("away");
  server_.erase(key_of("w"));
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
  EXPECT_EQ(access_.asked.count("away"), 0U);
}

TEST_F(WorkspaceSchedulerTest, WhenAnotherFinalizerHolds_OursStaysUntilLast) {
  add_shard("s1", "eu");
  start();
  add_workspace("w", R"({"metadata": {"finalizers": ["example.test/hold"]}})");
  run_to_phase("w", "Ready");
  server_.erase(key_of("w"));
  server_.run_until([&] { return access_.clusters.empty(); });
  Json held = *server_.find(key_of("w"));
  EXPECT_TRUE(apiserver::has_finalizer(held, krm::kWorkspaceFinalizer));
  ASSERT_TRUE(apiserver::drop_finalizer(held, "example.test/hold"));
  server_.put(key_of("w"), std::move(held));
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
}

}  // namespace
}  // namespace kintsugi::controlplane
