#include "cmd/kintsugi/rebalance_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace kintsugi::cmd {
namespace {

using krm::Json;

RebalanceShard shard(const std::string& name, const std::string& region = "") {
  return {name, region, Json::object({{"region", region}}), false};
}
RebalanceCluster cluster(const std::string& name, const std::string& where, std::int64_t objects,
                         std::int64_t bytes) {
  RebalanceCluster out;
  out.name = name;
  out.path = "root:" + name;
  out.shard = where;
  out.objects = objects;
  out.bytes = bytes;
  return out;
}

TEST(Rebalance, GR605_WhatIsEvenStays) {
  const RebalancePlan plan = plan_rebalance(
      {shard("a"), shard("b")}, {cluster("x", "a", 100, 10), cluster("y", "b", 80, 900)}, {});
  EXPECT_TRUE(plan.moves.empty());
  EXPECT_TRUE(plan.left.empty());
}

TEST(Rebalance, GR605_MovesTheFewestBytes) {
  const std::vector<RebalanceCluster> clusters = {
      cluster("heavy", "a", 60, 9'000), cluster("light", "a", 60, 1'000),
      cluster("small", "a", 5, 10), cluster("other", "b", 20, 100)};
  const RebalancePlan plan = plan_rebalance({shard("a"), shard("b")}, clusters, {});
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0],
            (RebalanceMove{"light", "root:light", "a", "b", "a has 1.72 of the mean", 60, 1'000}));
}

TEST(Rebalance, GR605_KeepsToRegionsSelectorsAndWhoTakesNothing) {
  std::vector<RebalanceShard> shards = {shard("a", "eu"), shard("b", "eu"), shard("c", "us")};
  std::vector<RebalanceCluster> clusters = {cluster("x", "a", 50, 1), cluster("y", "a", 50, 1)};
  RebalancePlan plan = plan_rebalance(shards, clusters, {});
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].to, "b");
  shards[1].unschedulable = true;
  plan = plan_rebalance(shards, clusters, {});
  EXPECT_TRUE(plan.moves.empty());
  RebalanceLimits across;
  across.across = true;
  plan = plan_rebalance(shards, clusters, across);
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].to, "c");
  for (RebalanceCluster& one : clusters) {
    one.selector = *krm::Selector::parse("region=eu");
  }
  plan = plan_rebalance(shards, clusters, across);
  EXPECT_TRUE(plan.moves.empty());
  EXPECT_EQ(plan.left, std::vector<std::string>{"a: 2.00 of the mean, and no other shard has room "
                                                "for any of its clusters"});
}

TEST(Rebalance, GR605_StopsAtTheMostMoves) {
  std::vector<RebalanceCluster> clusters;
  for (int i = 0; i < 20; ++i) {
    clusters.push_back(cluster("c" + std::to_string(i), "a", 1, 1));
  }
  RebalanceLimits limits;
  limits.most_moves = 3;
  const RebalancePlan plan = plan_rebalance({shard("a"), shard("b")}, clusters, limits);
  EXPECT_EQ(plan.moves.size(), 3U);
  EXPECT_EQ(plan.left, std::vector<std::string>{"a: 1.70 of the mean, after --max-moves"});
}

TEST(Rebalance, GR605_APlanAfterThePlanIsEmpty) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<RebalanceShard> shards;
    for (int i = 0; i < 5; ++i) {
      shards.push_back(shard("s" + std::to_string(i), i % 2 == 0 ? "eu" : "us"));
      shards.back().unschedulable = random() % 7 == 0;
    }
    std::vector<RebalanceCluster> clusters;
    for (int i = 0; i < 1'000; ++i) {
      const auto objects = static_cast<std::int64_t>(random() % 1'000);
      // Some shards have much more than others.
      const std::size_t where = std::min<std::size_t>(random() % 5, random() % 5);
      clusters.push_back(cluster("c" + std::to_string(i), "s" + std::to_string(where), objects,
                                 objects * static_cast<std::int64_t>(random() % 4'000)));
      clusters.back().watches = static_cast<std::int64_t>(random() % 50);
    }
    RebalanceLimits limits;
    constexpr RebalanceBy kAll[] = {RebalanceBy::kObjects, RebalanceBy::kBytes,
                                    RebalanceBy::kWatches};
    limits.by = kAll[round % 3];
    limits.across = round % 4 == 0;
    const RebalancePlan plan = plan_rebalance(shards, clusters, limits);
    std::map<std::string, std::string> moved;
    for (const RebalanceMove& move : plan.moves) {
      EXPECT_TRUE(moved.emplace(move.cluster, move.to).second) << "twice";
    }
    for (RebalanceCluster& one : clusters) {
      one.shard = moved.contains(one.name) ? moved[one.name] : one.shard;
    }
    EXPECT_TRUE(plan_rebalance(shards, clusters, limits).moves.empty()) << round;
  }
}

TEST(Rebalance, GR605_ByWatches_TheWatchedOneGoesWhateverItsObjects) {
  std::vector<RebalanceCluster> clusters = {
      cluster("large", "a", 900, 90'000), cluster("watched", "a", 10, 1'000),
      cluster("quiet", "a", 1, 10), cluster("other", "b", 20, 100)};
  clusters[0].watches = 40;
  clusters[1].watches = 40;
  const RebalancePlan plan =
      plan_rebalance({shard("a"), shard("b")}, clusters, {.by = RebalanceBy::kWatches});
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].cluster, "watched") << "of those that are enough the one of fewest bytes";
  EXPECT_EQ(plan.moves[0].watches, 40);
}

TEST(Rebalance, GR605_APlanIsReadAsItWasWritten) {
  RebalancePlan plan;
  plan.moves.push_back({"c", "root:c", "a", "b", "a has 2.00 of the mean", 3, 9, 4});
  const auto again = read_rebalance_plan(to_json(plan).dump());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->moves, plan.moves);
  for (const char* text : {"", "{}", "[]", R"({"kind":"RebalancePlan"})",
                           R"({"kind":"RebalancePlan","moves":[{"cluster":"c"}]})"}) {
    EXPECT_FALSE(read_rebalance_plan(text)) << text;
  }
}

}  // namespace
}  // namespace kintsugi::cmd
