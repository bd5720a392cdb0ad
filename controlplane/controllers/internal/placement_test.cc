#include "controlplane/controllers/internal/placement.h"

#include <gtest/gtest.h>

#include <set>

#include "controlplane/internal/shard_registration.h"
#include "krm/request_info.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using Names = std::vector<std::string>;

Json parse(std::string_view text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

void put(RootView& root, std::string_view name, std::string_view region, bool closed = false) {
  Json shard;
  shard.make({"metadata", "labels", "region"}) = region;
  if (closed) {
    shard.make({"metadata", "annotations", "experimental.core.kcp.io/unschedulable"}) = "true";
  }
  shard.make({"spec", "baseURL"}) = "https://127.0.0.1:1";
  root.put_shard(name, &shard);
}

Names candidates(const RootView& root, std::string_view selector = "null",
                 const PlacementCounts& counts = {}) {
  const Json parsed = parse(selector);
  auto found = placement_candidates(root, &parsed, counts);
  return found ? *found : Names{"error: " + std::string(found.error().message())};
}

TEST(PlacementTest, WhenShardsMatch_EmptiestComesFirst) {
  RootView root;
  put(root, "a", "eu");
  put(root, "b", "us");
  put(root, "c", "eu");
  EXPECT_EQ(candidates(root), (Names{"a", "b", "c"}));
  EXPECT_EQ(candidates(root, "null", {{"a", 2}, {"b", 1}}), (Names{"c", "b", "a"}));
  EXPECT_EQ(candidates(root, R"({"matchLabels": {"region": "eu"}})", {{"a", 1}}),
            (Names{"c", "a"}));
}

TEST(PlacementTest, WhenShardIsUnschedulable_IsLeftOut) {
  RootView root;
  put(root, "a", "eu", true);
  EXPECT_EQ(candidates(root), Names{});
  put(root, "a", "eu");
  EXPECT_EQ(candidates(root), Names{"a"});
}

TEST(PlacementTest, WhenSelectorIsMalformed_SaysWhy) {
  RootView root;
  put(root, "a", "eu");
  const Names found =
      candidates(root, R"({"matchExpressions": [{"key": "region", "operator": "Foo"}]})");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().rfind("error: ", 0), 0U);
}

TEST(PlacementTest, WhenShardsChange_TellsListenersOnce) {
  RootView root;
  int calls = 0;
  root.listen([&] { ++calls; });
  put(root, "a", "eu");
  put(root, "a", "eu");
  EXPECT_EQ(calls, 1);
  put(root, "a", "us");
  EXPECT_EQ(calls, 2);
  root.put_shard("a", nullptr);
  root.put_shard("a", nullptr);
  EXPECT_EQ(calls, 3);
}

TEST(PlacementTest, WhenIdentityIsAsked_UsesTheOwningExport) {
  RootView root;
  Json one;
  one.make({"status", "identityHash"}) = "h1";
  root.put_export("tenancy.kcp.io", &one);
  one.make({"status", "identityHash"}) = "h2";
  root.put_export("shards.core.kcp.io", &one);
  EXPECT_TRUE(root.is_identity("tenancy.kcp.io", "workspaces", "h1"));
  EXPECT_TRUE(root.is_identity("core.kcp.io", "shards", "h2"));
  EXPECT_FALSE(root.is_identity("core.kcp.io", "shards", "h1"));
  EXPECT_FALSE(root.is_identity("core.kcp.io", "logicalclusters", "h2"));
  EXPECT_FALSE(root.is_identity("ex.io", "widgets", ""));
}

TEST(RandomClusterNameTest, WhenMade_IsAValidNameOf16Characters) {
  std::set<std::string> names;
  for (int i = 0; i < 200; ++i) {
    const std::string name = random_cluster_name();
    EXPECT_EQ(name.size(), 16U);
    EXPECT_TRUE(krm::is_cluster_name(name)) << name;
    EXPECT_GE(name.front(), 'a');
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 200U);
}

ShardSelf self() {
  return {"s1", "https://127.0.0.1:7001", "https://127.0.0.1:6443", {{"region", "eu"}}};
}

TEST(WantedShardTest, WhenAbsent_HasUrlsAndLabels) {
  const auto shard = wanted_shard(self(), nullptr);
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->text({"metadata", "labels", "name"}), "s1");
  EXPECT_EQ(shard->text({"metadata", "labels", "region"}), "eu");
  EXPECT_EQ(shard->text({"spec", "baseURL"}), "https://127.0.0.1:7001");
  EXPECT_EQ(shard->text({"spec", "virtualWorkspaceURL"}), "https://127.0.0.1:7001");
  EXPECT_EQ(shard->text({"spec", "externalURL"}), "https://127.0.0.1:6443");
  EXPECT_FALSE(wanted_shard(self(), &*shard)) << "nothing is rewritten when equal";
}

TEST(WantedShardTest, GR301_WhereOthersServeTheSame_IsSaidAsLongAsTheyDo) {
  ShardSelf several = self();
  several.replica_urls = {"https://127.0.0.1:7002", "https://127.0.0.1:7003"};
  const auto shard = wanted_shard(several, nullptr);
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->text({"metadata", "annotations", "kintsugi.dev/replica-urls"}),
            "https://127.0.0.1:7002,https://127.0.0.1:7003");
  EXPECT_FALSE(wanted_shard(several, &*shard));
  const auto alone = wanted_shard(self(), &*shard);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->at({"metadata", "annotations", "kintsugi.dev/replica-urls"}), nullptr);
  EXPECT_FALSE(wanted_shard(self(), &*alone));
}

TEST(WantedShardTest, WhenUserRelabelled_KeepsTheLabel) {
  Json present = *wanted_shard(self(), nullptr);
  present.make({"metadata", "labels", "region"}) = "mars";
  present.make({"metadata", "labels", "tier"}) = "gold";
  EXPECT_FALSE(wanted_shard(self(), &present));
  ShardSelf moved = self();
  moved.base_url = "https://127.0.0.1:7002";
  const auto updated = wanted_shard(moved, &present);
  ASSERT_TRUE(updated);
  EXPECT_EQ(updated->text({"metadata", "labels", "region"}), "mars");
  EXPECT_EQ(updated->text({"metadata", "labels", "tier"}), "gold");
  EXPECT_EQ(updated->text({"spec", "baseURL"}), "https://127.0.0.1:7002");
}

}  // namespace
}  // namespace kintsugi::controlplane
