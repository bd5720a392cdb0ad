#include "controlplane/clusters/root_view.h"

#include <gtest/gtest.h>

#include "shards/testing/support.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using shards::testing::FakeServer;
using shards::testing::run_until;

constexpr const char* kShardList = "/clusters/root/apis/core.kcp.io/v1alpha1/shards";
constexpr const char* kTypeList = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspacetypes";
constexpr const char* kExportList = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports";

Json shard_at(const char* url) {
  Json shard = Json::object();
  shard.make({"spec", "baseURL"}) = url;
  return shard;
}

TEST(RootView, WhenRootHasNotAnswered_WhatWasKnownHolds) {
  RootView view;
  int told = 0;
  view.listen([&] { ++told; });
  view.remember(RootView::Part::kShards, "one", shard_at("https://old"));
  view.remember(RootView::Part::kShards, "two", shard_at("https://two"));
  view.remember(RootView::Part::kTypes, "team", Json::object());
  Json api_export = Json::object();
  api_export.make({"status", "identityHash"}) = "h";
  view.remember(RootView::Part::kExports, "tenancy.kcp.io", api_export);
  EXPECT_FALSE(view.synced());
  ASSERT_NE(view.shard("one"), nullptr);
  EXPECT_NE(view.type("team"), nullptr);
  EXPECT_TRUE(view.is_identity("tenancy.kcp.io", "workspaces", "h"));
  EXPECT_EQ(told, 2);

  const Json now = shard_at("https://new");
  view.put_shard("one", &now);
  EXPECT_NE(view.shard("two"), nullptr);
  view.listed(RootView::Part::kShards);
  EXPECT_TRUE(view.synced());
  EXPECT_EQ(view.shard("one")->base_url, "https://new");
  EXPECT_EQ(view.shard("two"), nullptr) << "root does not name it";
  EXPECT_NE(view.type("team"), nullptr) << "types have not been listed";
  view.listed(RootView::Part::kTypes);
  EXPECT_EQ(view.type("team"), nullptr);
  EXPECT_FALSE(view.type("team"));
  view.listed(RootView::Part::kExports);
  EXPECT_FALSE(view.is_identity("tenancy.kcp.io", "workspaces", "h"));
}

TEST(RootView, WhenFedFromAnotherShard_FollowsIt) {
  net::Loop loop("test");
  FakeServer root(loop);
  root.open();
  for (const char* path : {kShardList, kTypeList, kExportList}) {
    root.add_collection(path);
  }
  root.put(kShardList, "root", "one", R"(,"spec":{"baseURL":"https://one"})");
  RootView view;
  view.remember(RootView::Part::kShards, "gone", shard_at("https://gone"));
  RemoteRootFeed feed(loop, view, [&]() -> Expected<net::UpstreamParams> {
    return FakeServer::upstream(root.url());
  });
  ASSERT_TRUE(run_until(loop, [&] { return view.synced(); }));
  EXPECT_EQ(view.shard("one")->base_url, "https://one");
  EXPECT_EQ(view.shard("gone"), nullptr);
  root.put(kTypeList, "root", "team");
  root.remove(kShardList, "root", "one");
  ASSERT_TRUE(run_until(loop, [&] { return view.type("team") && view.shards().empty(); }));
  feed.stop();
}

}  // namespace
}  // namespace kintsugi::controlplane
