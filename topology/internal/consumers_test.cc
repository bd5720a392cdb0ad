#include "topology/internal/consumers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/index.h"
#include "topology/internal/source.h"
#include "topology/testing/reports.h"

namespace kintsugi::topology {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Consumers : public ::testing::Test {
 protected:
  Consumers() {
    for (const char* name : {"a", "b"}) {
      ShardSpec spec;
      spec.name = name;
      spec.base_url = std::string("https://") + name;
      const ShardId id = index.upsert_shard(spec).id;
      index.set_synced(id, Resource::kWorkspaces, true);
      index.set_synced(id, Resource::kLogicalClusters, true);
    }
    index.upsert_cluster(1, {"root", "root", {}, false});
    index.set_shards_listed();
  }
  void bind(ShardId shard, const std::string& name, const std::string& export_cluster,
            const std::string& path = "", const std::string& export_name = "widgets") {
    index.upsert_binding(shard, {"ws", name, export_cluster, path, export_name}, changes);
  }
  /// What changed since the last call: "+<shard> <cluster>|<name>".
  std::vector<std::string> news() {
    std::vector<std::string> lines;
    for (const ConsumerChange& change : std::exchange(changes, {})) {
      lines.push_back((change.present ? "+" : "-") + std::to_string(change.shard) + " " +
                      change.cluster + "|" + change.name);
    }
    return lines;
  }
  [[nodiscard]] std::vector<ShardId> of(const std::string& cluster,
                                        const std::string& name = "widgets") const {
    return index.now().consumers(cluster, name);
  }

  Index index;
  ConsumerChanges changes;
};

TEST_F(Consumers, TP048_TP049_TP050_WhenBindingsComeAndGo_TheFirstAndTheLastAreTold) {
  bind(2, "x", "org");
  EXPECT_THAT(news(), ElementsAre("+2 org|widgets"));
  bind(2, "y", "org");
  bind(2, "y", "org");
  EXPECT_THAT(news(), IsEmpty());
  bind(1, "x", "org");
  EXPECT_THAT(news(), ElementsAre("+1 org|widgets"));
  EXPECT_THAT(of("org"), ElementsAre(1, 2));
  EXPECT_TRUE(index.now().has_consumer(1, "org", "widgets"));
  EXPECT_FALSE(index.now().has_consumer(1, "org", "gadgets"));
  index.delete_binding(2, "ws", "x", changes);
  EXPECT_THAT(news(), IsEmpty());
  index.delete_binding(2, "ws", "y", changes);
  index.delete_binding(2, "ws", "y", changes);
  EXPECT_THAT(news(), ElementsAre("-2 org|widgets"));
  EXPECT_THAT(of("org"), ElementsAre(1));
  EXPECT_THAT(index.now().consumed_exports(1), ElementsAre("org|widgets"));
  EXPECT_THAT(index.now().consumed_exports(2), IsEmpty());
}

TEST_F(Consumers, WhenABindingNamesAnotherExport_BothAreTold) {
  bind(1, "x", "org");
  news();
  bind(1, "x", "org", "", "gadgets");
  EXPECT_THAT(news(), ElementsAre("+1 org|gadgets", "-1 org|widgets"));
  bind(1, "x", "org", "", "");
  EXPECT_THAT(news(), ElementsAre("-1 org|gadgets"));
}

TEST_F(Consumers, WhenAnUnboundBindingNamesAPath_ItIsFollowed) {
  bind(1, "x", "", "root:org");
  EXPECT_THAT(news(), IsEmpty()) << "the path leads nowhere yet";
  index.upsert_workspace(1, edge("root", "org", "one"));
  index.upsert_cluster(2, owned("one", "root", "org"));
  EXPECT_TRUE(index.settle_bindings(changes));
  EXPECT_THAT(news(), ElementsAre("+1 one|widgets"));
  EXPECT_FALSE(index.settle_bindings(changes));
  index.upsert_workspace(1, edge("root", "org", "two"));
  index.upsert_cluster(2, owned("two", "root", "org"));
  index.settle_bindings(changes);
  EXPECT_THAT(news(), ElementsAre("+1 two|widgets", "-1 one|widgets"));
  bind(1, "x", "one", "root:org");  // bound: its status has the word, whatever the path becomes
  EXPECT_THAT(news(), ElementsAre("+1 one|widgets", "-1 two|widgets"));
  index.delete_workspace(1, "root", "org");
  index.settle_bindings(changes);
  EXPECT_THAT(news(), IsEmpty());
  bind(2, "own", "", "");
  index.upsert_cluster(2, {"ws", "", {}, false});
  index.settle_bindings(changes);
  EXPECT_THAT(news(), ElementsAre("+2 ws|widgets"));
}

TEST_F(Consumers, WhenAShardGoes_ItsConsumersGo) {
  bind(1, "x", "org");
  bind(2, "x", "org");
  bind(2, "open", "", "root:org");
  index.delete_shard("b");
  EXPECT_THAT(of("org"), ElementsAre(1));
  news();
  index.upsert_workspace(1, edge("root", "org", "root"));
  index.settle_bindings(changes);
  EXPECT_THAT(news(), IsEmpty());
  bind(7, "x", "org");
  EXPECT_THAT(news(), IsEmpty()) << "no such shard";
}

TEST_F(Consumers, WhenNamesAreLong_NothingIsLost) {
  const std::string name(253, 'n');
  bind(1, "x", "org", "", name);
  EXPECT_THAT(of("org", name), ElementsAre(1));
  EXPECT_THAT(index.now().consumed_exports(1), ElementsAre("org|" + name));
  EXPECT_THAT(of("orh", name), IsEmpty());
}

TEST(BindingReport, WhenAnObjectIsRead_TheExportIsTaken) {
  const auto object = krm::Json::parse(
      R"({"metadata":{"name":"b"},"spec":{"reference":{"export":{"path":"root:org","name":"e"}}},)"
      R"("status":{"apiExportClusterName":"one","phase":"Bound"}})");
  const BindingReport report = binding_from_json("ws", *object);
  EXPECT_EQ(report.cluster, "ws");
  EXPECT_EQ(report.name, "b");
  EXPECT_EQ(report.export_cluster, "one");
  EXPECT_EQ(report.export_path, "root:org");
  EXPECT_EQ(report.export_name, "e");
}

}  // namespace
}  // namespace kintsugi::topology
