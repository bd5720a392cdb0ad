#include "topology/partition_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kintsugi::topology {
namespace {

using krm::Json;
using testing::UnorderedElementsAre;

Json parse(std::string_view text) { return *Json::parse(text); }

ShardFacts shard(std::string name, std::string_view labels) {
  ShardFacts facts;
  facts.name = std::move(name);
  facts.labels = parse(labels);
  return facts;
}

/// Fixture T of docs/spec/topology.md.
std::vector<ShardFacts> fixture() {
  return {shard("a", R"({"environment":"prod","region":"Europe","cloud":"Azure","az":"EU-1"})"),
          shard("b", R"({"environment":"prod","region":"Europe","cloud":"Azure","az":"EU-2"})"),
          shard("c", R"({"environment":"prod","region":"Europe","cloud":"Azure","az":"EU-3"})"),
          shard("d", R"({"environment":"prod","region":"Europe","cloud":"AWS"})"),
          shard("e", R"({"environment":"prod","region":"Asia","cloud":"Azure"})")};
}

Json make_set(std::string_view spec, std::string_view name = "foo") {
  Json set = Json::object(
      {{"metadata", Json::object({{"name", name}, {"uid", "uid-" + std::string(name)}})}});
  set["spec"] = parse(spec);
  return set;
}

/// Does what the store would: gives uids and creation times, applies the plan.
class Stored {
 public:
  void apply(const PartitionSetPlan& plan) {
    for (const Json& gone : plan.remove) {
      std::erase_if(items, [&](const Json& one) {
        return one.text({"metadata", "name"}) == gone.text({"metadata", "name"});
      });
    }
    for (const Json& changed : plan.update) {
      for (Json& one : items) {
        if (one.text({"metadata", "uid"}) == changed.text({"metadata", "uid"})) {
          one = changed;
        }
      }
    }
    for (Json created : plan.create) {
      for (const Json& one : items) {
        ASSERT_NE(one.text({"metadata", "name"}), created.text({"metadata", "name"}));
      }
      created["metadata"]["uid"] = "p" + std::to_string(++counter);
      created["metadata"]["creationTimestamp"] =
          "2026-01-01T00:00:" + std::to_string(10 + counter % 50) + "Z";
      items.push_back(std::move(created));
    }
  }
  [[nodiscard]] std::vector<std::string> selectors() const {
    std::vector<std::string> out;
    for (const Json& one : items) {
      out.push_back(selector_of(one.at({"spec", "selector"}))->to_string());
    }
    return out;
  }
  [[nodiscard]] std::map<std::string, std::string> uids() const {
    std::map<std::string, std::string> out;
    for (const Json& one : items) {
      out.emplace(one.text({"metadata", "name"}), one.text({"metadata", "uid"}));
    }
    return out;
  }
  std::vector<Json> items;
  int counter = 0;
};

std::int64_t tuples(std::string_view spec) {
  return plan_partition_set(make_set(spec), fixture(), {}).count;
}

TEST(PartitionSetPlan, TP001_TP002_TP003_TP004_CountsTuples) {
  EXPECT_EQ(tuples(R"({"dimensions":[]})"), 0);
  EXPECT_EQ(tuples(R"({})"), 0);
  EXPECT_EQ(tuples(R"({"dimensions":["doesnotexist"]})"), 0);
  EXPECT_EQ(tuples(R"({"dimensions":["region"]})"), 2);
  EXPECT_EQ(tuples(R"({"dimensions":["region","cloud"]})"), 3);
}

TEST(PartitionSetPlan, TP005_MatchLabelsStandInEverySelector) {
  Stored stored;
  const Json set = make_set(
      R"({"dimensions":["region","cloud"],"shardSelector":{"matchLabels":{"environment":"prod"}}})");
  stored.apply(plan_partition_set(set, fixture(), {}));
  EXPECT_THAT(stored.selectors(),
              UnorderedElementsAre("cloud=Azure,environment=prod,region=Asia",
                                   "cloud=AWS,environment=prod,region=Europe",
                                   "cloud=Azure,environment=prod,region=Europe"));
}

TEST(PartitionSetPlan, TP008_TP009_CreatesOnlyWhatIsMissing) {
  const Json set = make_set(R"({"dimensions":["region","cloud"]})");
  Stored stored;
  stored.apply(plan_partition_set(set, fixture(), {}));
  ASSERT_EQ(stored.items.size(), 3U);
  stored.items.erase(stored.items.begin() + 1, stored.items.end());
  stored.items[0]["metadata"]["name"] = "some-foreign-name";
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), stored.items);
  EXPECT_EQ(plan.create.size(), 2U);
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PartitionSetPlan, TP010_RemovesAWrongOne) {
  const Json set = make_set(R"({"dimensions":["region","cloud"]})");
  Stored stored;
  stored.apply(plan_partition_set(set, fixture(), {}));
  Json wrong = stored.items[0];
  wrong["metadata"]["name"] = "wrong";
  wrong["metadata"]["uid"] = "wrong";
  wrong["spec"]["selector"]["matchLabels"]["az"] = "EU-1";
  stored.items.push_back(wrong);
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), stored.items);
  ASSERT_EQ(plan.remove.size(), 1U);
  EXPECT_EQ(plan.remove[0].text({"metadata", "name"}), "wrong");
  EXPECT_TRUE(plan.create.empty());
}

TEST(PartitionSetPlan, TP011_KeyInDimensionsAndMatchLabelsCountsOnce) {
  const Json set = make_set(
      R"({"dimensions":["region","cloud"],"shardSelector":{"matchLabels":{"cloud":"Azure"}}})");
  Stored stored;
  const PartitionSetPlan first = plan_partition_set(set, fixture(), {});
  EXPECT_EQ(first.count, 2);
  stored.apply(first);
  EXPECT_FALSE(plan_partition_set(set, fixture(), stored.items).writes());
}

TEST(PartitionName, TP012_TP021_IsCutAt58And63) {
  const std::string name = partition_name("set", {{"a", std::string(600, 'x')}});
  EXPECT_EQ(name.size(), 63U);
  std::vector<std::pair<std::string, std::string>> dimensions;
  for (int i = 1; i <= 5; ++i) {
    std::string value = "label" + std::to_string(i) + "-";
    for (int k = 0; k < 5; ++k) {
      value += "1234567890";
    }
    dimensions.emplace_back("partition-test-label" + std::to_string(i), value);
  }
  EXPECT_EQ(partition_name("test-partitionset", dimensions),
            "test-partitionset-label1-1234567890123456789012345678901235b759");
}

TEST(PartitionName, TP133_Vectors) {
  using Dimensions = std::vector<std::pair<std::string, std::string>>;
  const Dimensions europe{{"cloud", "Azure"}, {"region", "Europe"}};
  EXPECT_EQ(partition_name("foo", europe), "foo-azure-europe-z4nd7");
  EXPECT_EQ(partition_name("foo", europe, 1), "foo-azure-europe-djgp8");
  EXPECT_EQ(partition_name("foo", {{"cloud", "Azure"}, {"region", "Asia"}}),
            "foo-azure-asia-m6lrx");
  EXPECT_EQ(partition_name("cowboys", {}), "cowboys-55whz");
  EXPECT_EQ(partition_name("zones", {{"topology.kubernetes.io/zone", "eu_1.a"}}),
            "zones-eu-1-a-5fthw");
  EXPECT_EQ(partition_name("zones", {{"topology.kubernetes.io/zone", "EU-1.a"}}),
            "zones-eu-1-a-tcws2");
  EXPECT_EQ(partition_name("x", {{"region", ""}}), "x--vtrbd");
}

TEST(PartitionSetPlan, TP133_NameTakenByAForeignObjectGetsTheNextOne) {
  const Json set = make_set(R"({"dimensions":["region","cloud"]})");
  const Json foreign =
      parse(R"({"metadata":{"name":"foo-azure-europe-z4nd7","uid":"f"},"spec":{}})");
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), {foreign});
  std::vector<std::string> names;
  for (const Json& one : plan.create) {
    names.emplace_back(one.text({"metadata", "name"}));
  }
  EXPECT_THAT(names, testing::Contains("foo-azure-europe-djgp8"));
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PartitionSetPlan, TP014_TP015_TP016_TP017_TP018_FollowsShards) {
  const Json set = make_set(
      R"({"dimensions":["r"],"shardSelector":{"matchExpressions":[{"key":"excluded","operator":"DoesNotExist"}]}})");
  Stored stored;
  std::vector<ShardFacts> shards{shard("one", R"({"r":"1"})")};
  const auto settle = [&] {
    const PartitionSetPlan plan = plan_partition_set(set, shards, stored.items);
    stored.apply(plan);
    EXPECT_FALSE(plan_partition_set(set, shards, stored.items).writes());
    EXPECT_EQ(stored.items.size(), static_cast<std::size_t>(plan.count));
    return plan.count;
  };
  EXPECT_EQ(settle(), 1);
  shards.push_back(shard("two", R"({"r":"2"})"));
  EXPECT_EQ(settle(), 2);
  shards[1].labels["r"] = "1";
  EXPECT_EQ(settle(), 1);
  shards.push_back(shard("three", R"({"r":"3"})"));
  EXPECT_EQ(settle(), 2);
  shards[2].labels["excluded"] = "";
  EXPECT_EQ(settle(), 1);
}

TEST(PartitionSetPlan, TP023_RestoresAnEditedSelectorInPlace) {
  const Json set = make_set(R"({"dimensions":["region"]})");
  Stored stored;
  stored.apply(plan_partition_set(set, fixture(), {}));
  const auto before = stored.uids();
  stored.items[0]["spec"]["selector"] = parse(R"({"matchLabels":{"x":"y"}})");
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), stored.items);
  EXPECT_EQ(plan.update.size(), 1U);
  stored.apply(plan);
  EXPECT_EQ(stored.uids(), before);
  EXPECT_THAT(stored.selectors(), UnorderedElementsAre("region=Asia", "region=Europe"));
}

TEST(PartitionSetPlan, TP024_DoubledDimensionCountsOnce) {
  EXPECT_EQ(tuples(R"({"dimensions":["region","region"]})"), 2);
  Stored stored;
  stored.apply(
      plan_partition_set(make_set(R"({"dimensions":["region","region"]})"), fixture(), {}));
  EXPECT_FALSE(plan_partition_set(make_set(R"({"dimensions":["region"]})"), fixture(), stored.items)
                   .writes());
}

TEST(PartitionSetPlan, TP025_TP126_ExactValuesInSelectors) {
  Stored stored;
  stored.apply(
      plan_partition_set(make_set(R"({"dimensions":["r"]})"),
                         {shard("a", R"({})"), shard("b", R"({"r":""})"),
                          shard("c", R"({"r":"eu_1.a"})"), shard("d", R"({"r":"EU-1.a"})")},
                         {}));
  EXPECT_THAT(stored.selectors(), UnorderedElementsAre("r=", "r=eu_1.a", "r=EU-1.a"));
}

TEST(PartitionSetPlan, TP125_RemovesPlantedDuplicatesAndKeepsTheOldest) {
  const Json set = make_set(R"({"dimensions":["region"]})");
  Stored stored;
  stored.apply(plan_partition_set(set, fixture(), {}));
  for (int i = 0; i < 3; ++i) {
    Json copy = stored.items[0];
    copy["metadata"]["name"] = "dup-" + std::to_string(i);
    copy["metadata"]["uid"] = "dup-" + std::to_string(i);
    stored.items.push_back(copy);
  }
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), stored.items);
  EXPECT_EQ(plan.remove.size(), 3U);
  EXPECT_TRUE(plan.create.empty() && plan.update.empty());
}

TEST(PartitionSetPlan, TP127_ChangedExpressionsKeepNamesAndUids) {
  Stored stored;
  stored.apply(plan_partition_set(make_set(R"({"dimensions":["region"]})"), fixture(), {}));
  const auto before = stored.uids();
  const Json changed = make_set(
      R"({"dimensions":["region"],"shardSelector":{"matchExpressions":[{"key":"cloud","operator":"Exists"}]}})");
  stored.apply(plan_partition_set(changed, fixture(), stored.items));
  EXPECT_EQ(stored.uids(), before);
  EXPECT_THAT(stored.selectors(), UnorderedElementsAre("cloud,region=Asia", "cloud,region=Europe"));
}

TEST(PartitionSetStatus, TP013_TP006_TP007_CountAndConditions) {
  const Json set = make_set(R"({"dimensions":["nothing"]})");
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), {});
  Json status = partition_set_status(set, plan, "", "2026-01-01T00:00:00Z");
  EXPECT_EQ(
      status.dump(),
      R"({"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"PartitionSetValid"},)"
      R"({"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"PartitionsReady"}],"count":0})");
  Json later = set;
  later["status"] = status;
  status =
      partition_set_status(later, plan, "partition could not get created", "2026-01-02T00:00:00Z");
  EXPECT_EQ(status["conditions"].items()[0].text({"lastTransitionTime"}), "2026-01-01T00:00:00Z");
  EXPECT_EQ(
      status["conditions"].items()[1].dump(),
      R"({"lastTransitionTime":"2026-01-02T00:00:00Z","message":"partition could not get created",)"
      R"("reason":"ErrorGeneratingPartitions","severity":"Error","status":"False","type":"PartitionsReady"})");
}

TEST(PartitionSetStatus, WhenSelectorIsInvalid_KeepsCountAndPartitions) {
  Json set = make_set(
      R"({"dimensions":["region"],"shardSelector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}})");
  set["status"] = parse(R"({"count":2})");
  Stored stored;
  stored.apply(plan_partition_set(make_set(R"({"dimensions":["region"]})"), fixture(), {}));
  const PartitionSetPlan plan = plan_partition_set(set, fixture(), stored.items);
  EXPECT_FALSE(plan.writes());
  const Json status = partition_set_status(set, plan, "", "2026-01-01T00:00:00Z");
  EXPECT_EQ(status.find("count")->as_integer(), 2);
  EXPECT_EQ(status.find("conditions")->items()[0].text({"reason"}), "InvalidSelector");
  EXPECT_EQ(status.find("conditions")->items()[0].text({"message"}),
            "\"Foo\" is not a valid label selector operator");
}

/// The invariants of 13.1 over random sets and random shard changes.
TEST(PartitionSetPlan, TP124_RandomSetsConvergeInOnePass) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  const std::vector<std::string> keys{"region", "cloud", "az", "tier"};
  for (int round = 0; round < 1000; ++round) {
    Json spec = Json::object({{"dimensions", Json::array()}});
    for (unsigned i = below(4); i > 0; --i) {
      spec["dimensions"].push_back(keys[below(4)]);
    }
    if (below(2) == 0) {
      spec["shardSelector"]["matchLabels"][keys[below(4)]] = std::to_string(below(2));
    }
    if (below(2) == 0) {
      spec["shardSelector"]["matchExpressions"].push_back(Json::object(
          {{"key", keys[below(4)]}, {"operator", below(2) == 0 ? "Exists" : "DoesNotExist"}}));
    }
    Json set = make_set("{}", "s" + std::to_string(round));
    set["spec"] = spec;
    Stored stored;
    std::vector<ShardFacts> shards;
    for (int step = 0; step < 10; ++step) {
      if (shards.size() < 2 || below(3) == 0) {
        shards.push_back(shard("shard" + std::to_string(step), "{}"));
      }
      ShardFacts& one = shards[below(static_cast<unsigned>(shards.size()))];
      one.labels[keys[below(4)]] = std::to_string(below(3));
      if (below(5) == 0) {
        shards.erase(shards.begin());
      }
      std::vector<Json> shuffled = stored.items;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      const PartitionSetPlan plan = plan_partition_set(set, shards, shuffled);
      stored.apply(plan);
      ASSERT_EQ(stored.items.size(), static_cast<std::size_t>(plan.count));
      ASSERT_LE(static_cast<std::size_t>(plan.count), shards.size());
      auto selectors = stored.selectors();
      std::sort(selectors.begin(), selectors.end());
      ASSERT_EQ(std::unique(selectors.begin(), selectors.end()), selectors.end());
      ASSERT_FALSE(plan_partition_set(set, shards, stored.items).writes());
    }
  }
}

}  // namespace
}  // namespace kintsugi::topology
