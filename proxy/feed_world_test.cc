#include "proxy/feed_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using krm::Json;
using State = endpointslice::ExportFacts::State;

Json parse(std::string_view text) { return *Json::parse(text); }

/// A feed that only has Shards, as with source `objects`.
class World : public ::testing::Test {
 protected:
  World() : feed(loop, params(), publisher), world(feed) {
    world.set_events(
        {.shards_changed = {},
         .shards_relisted = {},
         .export_changed =
             [this](std::string_view cluster, std::string_view name) {
               told.push_back(std::string(cluster) + "|" + std::string(name));
             },
         .cluster_gone = {},
         .path_changed =
             [this](std::string_view segment) { told.push_back("path " + std::string(segment)); },
         .imported = {}});
    for (const char* name : {"b", "a"}) {
      Json shard = parse(R"({"metadata":{"labels":{"x":"y"}},"spec":{"baseURL":"https://h"}})");
      shard["metadata"]["name"] = name;
      feed.put_shard(shard);
    }
    feed.shards_complete();
  }
  static topology::FeedParams params() {
    topology::FeedParams params;
    params.has_root = params.lists_shards = false;
    params.shard = [](const std::string&, const std::string&) -> Expected<net::UpstreamParams> {
      return fail(Errc::kConfig, "no connections here");
    };
    return params;
  }
  void report(topology::ShardId shard, std::string_view cluster, std::string_view name,
              const Json* object) {
    topology::ExportChanged change;
    change.shard = shard;
    change.cluster = cluster;
    change.name = name;
    change.object = object;
    world.on_change(change);
  }

  net::Loop loop{"test"};
  topology::SnapshotPublisher publisher;
  topology::Feed feed;
  FeedWorld world;
  std::vector<std::string> told;
};

TEST_F(World, KK103_WhenExportsSayAPath_NobodyFindsThemByIt) {
  const Json at = parse(R"({"metadata":{"uid":"u","annotations":{"kcp.io/path":"root:org",)"
                        R"("apiexports.apis.kcp.io/skip-endpointslice":""}}})");
  EXPECT_EQ(world.find_export("root:org", "e").state, State::kUnknown) << "nothing is listed yet";
  report(1, "one", "e", &at);
  EXPECT_NE(world.find_export("root:org", "e").state, State::kFound);
  ASSERT_NE(world.export_record("one", "e"), nullptr);
  EXPECT_TRUE(world.export_record("one", "e")->skip_default_slice);
  report(2, "one", "e", &at);
  report(1, "one", "e", nullptr);
  EXPECT_NE(world.export_record("one", "e"), nullptr) << "it moved to another shard before";
  report(2, "one", "e", nullptr);
  EXPECT_EQ(world.export_record("one", "e"), nullptr);
}

TEST_F(World, WhenAShardGoes_ItsExportsGo) {
  const Json at = parse(R"({"metadata":{"annotations":{"kcp.io/path":"root:org"}}})");
  report(feed.index().shard("b")->id, "one", "e", &at);
  feed.drop_shard("b");
  EXPECT_EQ(world.export_record("one", "e"), nullptr);
  EXPECT_NE(world.find_export("root:org", "e").state, State::kFound);
  ASSERT_EQ(world.shard_table().size(), 1U);
  EXPECT_EQ(world.shard_table().front().name, "a");
}

TEST_F(World, WhenConsumersOrPathsChange_SlicesAreTold) {
  const topology::ConsumerChange change{1, "one", "e", true};
  world.on_change(topology::ConsumersChanged{change});
  topology::WorkspaceChanged workspace;
  workspace.name = "org";
  world.on_change(workspace);
  topology::LogicalClusterChanged cluster;
  const Json object = parse("{}");
  cluster.object = &object;
  world.on_change(cluster);
  EXPECT_THAT(told, testing::ElementsAre("|e", "path org", "path "));
}

}  // namespace
}  // namespace kintsugi::proxy
