// The controllers of the proxy over its real API server and store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "server/testing/stack.h"
#include "topology/cluster_sweeper.h"

namespace kintsugi::server::testing_stack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(Controllers, TP109_WhenOneOfAHundredShardsIsRelabelled_OnlyItsSlicesAreWritten) {
  for (int i = 0; i < 100; ++i) {
    world_.add("shard-" + std::to_string(1000 + i), {{"zone", "z" + std::to_string(i % 10)}});
  }
  Replica& proxy = start();
  make_set("zones", R"({"dimensions":["zone"]})");
  settle();
  const std::map<std::string, std::string> partitions = tuples_of("zones");
  ASSERT_EQ(partitions.size(), 10U);
  std::map<std::string, std::string> zone_of;  // Partition to its labels
  int number = 0;
  for (const auto& [tuple, name] : partitions) {
    zone_of[name] = tuple;
    for (int i = 0; i < 100; ++i) {
      make_slice("s" + std::to_string(number++), name);
    }
  }
  settle();
  shards_changed();  // nothing did, but from now on it is known what the slices were told
  const auto before = versions(kApis, kSlices);
  ASSERT_EQ(before.size(), 1000U);
  const auto partitions_before = versions(kTopology, "partitions");
  const auto runs = proxy.slices.stats();
  const std::uint64_t writes = proxy.writes();

  world_.table[0].labels["zone"] = "z1";  // was z0
  shards_changed();

  std::size_t changed = 0;
  for (const auto& [name, version] : versions(kApis, kSlices)) {
    const Json slice = get(kApis, kSlices, name);
    const std::string& tuple = zone_of[std::string(slice.text({"spec", "partition"}))];
    const bool dependent = tuple == R"({"zone":"z0"})" || tuple == R"({"zone":"z1"})";
    EXPECT_EQ(version != before.at(name), dependent) << name << " " << tuple;
    const std::size_t expected = tuple == R"({"zone":"z0"})"   ? 9U
                                 : tuple == R"({"zone":"z1"})" ? 11U
                                                               : 10U;
    EXPECT_EQ(urls(slice).size(), expected) << name;
    changed += version != before.at(name) ? 1 : 0;
  }
  EXPECT_EQ(changed, 200U);
  EXPECT_EQ(proxy.writes() - writes, 200U);
  EXPECT_EQ(versions(kTopology, "partitions"), partitions_before);
  EXPECT_EQ(proxy.slices.stats().selections - runs.selections, 10U);
  // Those that select the shard before or after, and once more each that was written.
  EXPECT_EQ(proxy.slices.stats().runs - runs.runs, 400U);
}

TEST_F(Controllers, TP123_WhenNothingChanged_AFullPassWritesNothing) {
  for (int i = 0; i < 20; ++i) {
    world_.add("shard-" + std::to_string(100 + i), {{"zone", "z" + std::to_string(i)}});
  }
  Replica& proxy = start();
  make_partition("p", R"({"selector":{"matchExpressions":[{"key":"zone","operator":"Exists"}]}})");
  settle();
  for (int i = 0; i < 450; ++i) {
    make_set("set" + std::to_string(i), R"({"dimensions":["zone"]})");
  }
  for (int i = 0; i < 1000; ++i) {
    make_slice("s" + std::to_string(i), "p");
  }
  settle();
  // 450 sets, 9,000 Partitions of theirs and one more, 1,000 slices.
  ASSERT_EQ(versions(kTopology, "partitions").size(), 9001U);
  const store::Revision revision = store_->current();
  const auto partition_stats = proxy.partitions.stats();
  const auto slice_stats = proxy.slices.stats();
  proxy.partitions.full_pass();
  proxy.slices.full_pass();
  settle();
  EXPECT_EQ(store_->current(), revision);
  EXPECT_EQ(proxy.partitions.stats().runs - partition_stats.runs, 450U);
  EXPECT_EQ(proxy.partitions.stats().writes, partition_stats.writes);
  EXPECT_EQ(proxy.slices.stats().runs - slice_stats.runs, 1000U);
  EXPECT_EQ(proxy.slices.stats().writes, slice_stats.writes);
  // 1,000 slices on one Partition: its selector met each shard once.
  EXPECT_EQ(proxy.slices.stats().selections - slice_stats.selections, 1U);
}

TEST_F(Controllers, TP125_WhenTwoProxiesShareAStore_NoTupleHasTwoPartitions) {
  for (int i = 0; i < 6; ++i) {
    world_.add("shard-" + std::to_string(i), {{"region", "r" + std::to_string(i % 3)}});
  }
  start();
  start();
  for (int i = 0; i < 200; ++i) {
    make_set("set" + std::to_string(i), R"({"dimensions":["region"]})");
  }
  settle();
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    world_.table[random() % 6].labels["region"] = "r" + std::to_string(random() % 5);
    for (const auto& replica : replicas_) {
      replica->shards_changed();
    }
    // Both are at work while the shards go on changing.
    const std::uint64_t writes = replicas_[0]->writes() + replicas_[1]->writes();
    run_until([&] {
      return replicas_[0]->writes() + replicas_[1]->writes() > writes + 50 ||
             (replicas_[0]->idle() && replicas_[1]->idle());
    });
    for (int i = 0; i < 200; i += 20) {
      (void)tuples_of("set" + std::to_string(i));  // reports doubles
    }
  }
  shards_changed();
  std::set<std::string> regions;
  for (const topology::ShardFacts& shard : world_.table) {
    regions.emplace(shard.labels.text({"region"}));
  }
  // A lost race rests before it is tried again.
  for (int i = 0; i < 200; ++i) {
    const std::string name = "set" + std::to_string(i);
    run_until([&] {
      const Json set = get(kTopology, "partitionsets", name);
      return tuples_of(name).size() == regions.size() &&
             condition(set, "PartitionsReady") == "True ";
    });
  }
  // A double of any origin goes, the oldest stays; of the same second, the first by name.
  const Json set = get(kTopology, "partitionsets", "set0");
  const auto good = tuples_of("set0");
  const Json model = get(kTopology, "partitions", good.begin()->second);
  for (const char* name : {"with-1", "with-2", "with-3"}) {
    Json copy = Json::object({{"apiVersion", "topology.kcp.io/v1alpha1"},
                              {"kind", "Partition"},
                              {"metadata", Json::object({{"name", name}})},
                              {"spec", *model.find("spec")}});
    copy["metadata"]["ownerReferences"] = *model.at({"metadata", "ownerReferences"});
    create(kTopology, "partitions", std::move(copy));
  }
  settle();  // before it, none of them need be stored
  run_until([&] {
    return get(kTopology, "partitions", "with-1").is_null() &&
           get(kTopology, "partitions", "with-2").is_null() &&
           get(kTopology, "partitions", "with-3").is_null() && replicas_[0]->idle() &&
           replicas_[1]->idle();
  });
  EXPECT_EQ(tuples_of("set0"), good);
}

TEST_F(Controllers, TP126_TP133_WhenValuesAreOdd_NamesAreCleanAndSelectorsExact) {
  const std::string longest(63, 'v');
  world_.add("a", {{"zone", "eu_1.a"}});
  world_.add("b", {{"zone", "EU-1.a"}});
  world_.add("c", {{"zone", longest}});
  world_.add("d", {{"zone", ""}});
  start();
  make_partition(topology::partition_name("zones", {{"zone", ""}}), R"({"selector":{}})");
  settle();
  make_set("zones", R"({"dimensions":["zone"]})");
  settle();
  const auto all = tuples_of("zones");
  const auto name_of = [](const std::string& value, int attempt = 0) {
    return topology::partition_name("zones", {{"zone", value}}, attempt);
  };
  EXPECT_EQ(
      all, (std::map<std::string, std::string>{{R"({"zone":"eu_1.a"})", name_of("eu_1.a")},
                                               {R"({"zone":"EU-1.a"})", name_of("EU-1.a")},
                                               {R"({"zone":")" + longest + "\"}", name_of(longest)},
                                               // Its first name belongs to somebody else.
                                               {R"({"zone":""})", name_of("", 1)}}));
}

TEST_F(Controllers, TP127_WhenASetIsMadeAgainOrChanged_NamesAndUidsStay) {
  world_.add("a", {{"region", "eu"}, {"cloud", "x"}, {"env", "prod"}});
  world_.add("b", {{"region", "us"}, {"cloud", "x"}, {"env", "test"}});
  start();
  const auto uids = [&] {
    std::map<std::string, std::string> all;
    for (const auto& [tuple, name] : tuples_of("set")) {
      all.emplace(name, get(kTopology, "partitions", name).text({"metadata", "uid"}));
    }
    return all;
  };
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& [tuple, name] : tuples_of("set")) {
      all.insert(name);
    }
    return all;
  };
  make_set("set", R"({"dimensions":["region"]})");
  settle();
  const auto first = uids();
  const auto first_names = names();
  ASSERT_EQ(first.size(), 2U);
  // Other expressions: the same objects with another selector.
  Json set = get(kTopology, "partitionsets", "set");
  set["spec"] = parse(R"({"dimensions":["region"],"shardSelector":{"matchExpressions":[
      {"key":"cloud","operator":"Exists"}]}})");
  replicas_[0]->objects.update(kCluster, kTopology, "partitionsets", "", set, counted());
  settle();
  EXPECT_EQ(uids(), first);
  for (const auto& [name, uid] : first) {
    EXPECT_EQ(
        get(kTopology, "partitions", name).at({"spec", "selector", "matchExpressions"})->dump(),
        R"([{"key":"cloud","operator":"Exists"}])");
  }
  // Another matchLabels value: the same name, another tuple.
  for (const char* env : {"prod", "test"}) {
    set = get(kTopology, "partitionsets", "set");
    set["spec"] = parse(R"({"dimensions":["cloud"],"shardSelector":{"matchLabels":{"env":")" +
                        std::string(env) + "\"}}}");
    replicas_[0]->objects.update(kCluster, kTopology, "partitionsets", "", set, counted());
    settle();
    EXPECT_EQ(
        tuples_of("set"),
        (std::map<std::string, std::string>{{R"({"cloud":"x","env":")" + std::string(env) + "\"}",
                                             topology::partition_name("set", {{"cloud", "x"}})}}));
  }
  // Made again after everything is gone.
  remove(kTopology, "partitionsets", "set");
  for (const std::string& name : names()) {
    remove(kTopology, "partitions", name);
  }
  settle();
  make_set("set", R"({"dimensions":["region"]})");
  settle();
  EXPECT_EQ(names(), first_names);
}

TEST_F(Controllers, TP128_WhenTheTupleOfASliceVanishesAndReturns_HealsByItself) {
  world_.add("a", {{"region", "eu"}});
  world_.add("b", {{"region", "us"}});
  start();
  make_set("regions", R"({"dimensions":["region"]})");
  settle();
  const std::string eu = tuples_of("regions").at(R"({"region":"eu"})");
  make_slice("s", eu);
  settle();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-a/services/apiexport/ws1/widgets"));
  world_.table[0].labels["region"] = "us";
  shards_changed();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "PartitionValid"),
            "False PartitionInvalidReference");
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), IsEmpty());
  world_.table[0].labels["region"] = "eu";
  shards_changed();
  EXPECT_EQ(tuples_of("regions").at(R"({"region":"eu"})"), eu);
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "PartitionValid"), "True ");
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-a/services/apiexport/ws1/widgets"));
}

TEST_F(Controllers, TP110_WhenShardsChange_EachChangeIsOneWrite) {
  world_.add("a", {});
  Replica& proxy = start();
  make_slice("s");
  settle();
  const auto changes = [&](const std::function<void()>& change) {
    const std::uint64_t before = proxy.slices.stats().writes;
    change();
    shards_changed();
    return proxy.slices.stats().writes - before;
  };
  const std::string path = "/services/apiexport/ws1/widgets";
  EXPECT_EQ(changes([&] { world_.add("b", {}); }), 1U);
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-a" + path, "https://vw-b" + path));
  EXPECT_EQ(changes([&] { world_.table[0].virtual_workspace_url = "https://new"; }), 1U);
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-b" + path, "https://new" + path));
  EXPECT_EQ(changes([&] { world_.table[1].base_url = "https://elsewhere"; }), 0U);
  EXPECT_EQ(changes([&] { world_.table.pop_back(); }), 1U);
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), ElementsAre("https://new" + path));
}

TEST_F(Controllers, TP111_TP132_WhenASelectorIsOrTurnsInvalid_OneWriteSaysSo) {
  world_.add("a", {{"region", "eu"}});
  Replica& proxy = start();
  make_partition("bad", R"({"selector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}})");
  make_partition("good", R"({"selector":{"matchLabels":{"region":"eu"}}})");
  settle();
  make_slice("on-bad", "bad");
  make_slice("on-good", "good");
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "on-bad"), "PartitionValid"),
            "False PartitionInvalidReference");
  const auto before = urls(get(kApis, kSlices, "on-good"));
  ASSERT_EQ(before.size(), 1U);
  const std::uint64_t writes = proxy.slices.stats().writes;
  Json partition = get(kTopology, "partitions", "good");
  partition["spec"] = parse(R"({"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}})");
  proxy.objects.update(kCluster, kTopology, "partitions", "", partition, counted());
  settle();
  const Json slice = get(kApis, kSlices, "on-good");
  EXPECT_EQ(condition(slice, "PartitionValid"), "False PartitionInvalidReference");
  EXPECT_EQ(urls(slice), before);
  EXPECT_EQ(slice.text({"status", "shardSelector"}), "region=eu");
  EXPECT_EQ(proxy.slices.stats().writes - writes, 1U);
}

TEST_F(Controllers, TP130_WhenASliceIsMade_ItsFirstStatusIsWhole) {
  world_.add("a", {});
  start();
  std::vector<Json> seen;
  const auto token =
      replicas_[0]->objects.on_change(kApis, kSlices, [&](const topology::Objects::Change& change) {
        seen.push_back(change.object != nullptr ? *change.object : Json());
      });
  make_slice("s");
  settle();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].find("status"), nullptr);
  EXPECT_EQ(seen[1].at({"status", "conditions"})->size(), 3U);
  EXPECT_EQ(urls(seen[1]).size(), 1U);
}

TEST_F(Controllers, TP034_WhenTheLookUpFailsOnce_WritesNothingThenRight) {
  TimePoint now{};
  world_.now = [&now] { return now; };
  world_.add("a", {});
  Replica& proxy = start();
  world_.lookup_fails = true;
  make_slice("s");
  settle();
  EXPECT_EQ(get(kApis, kSlices, "s").find("status"), nullptr) << "a first status is a whole one";
  world_.lookup_fails = false;
  proxy.slices.export_changed(kCluster, "widgets");
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "APIExportValid"), "True ");
  EXPECT_EQ(urls(get(kApis, kSlices, "s")).size(), 1U);
  // The same for a status that is there.
  const auto before = versions(kApis, kSlices);
  world_.lookup_fails = true;
  proxy.slices.full_pass();
  settle();
  now += milliseconds(999);
  proxy.slices.full_pass();
  settle();
  world_.lookup_fails = false;
  proxy.slices.full_pass();
  settle();
  EXPECT_EQ(versions(kApis, kSlices), before);
  EXPECT_EQ(proxy.slices.stats().writes, 1U);
}

TEST_F(Controllers, TP029_WhenTheLookUpKeepsFailing_OneWriteSaysSo) {
  TimePoint now{};
  world_.now = [&now] { return now; };
  world_.add("a", {});
  Replica& proxy = start();
  make_slice("s");
  settle();
  const auto endpoints = urls(get(kApis, kSlices, "s"));
  world_.lookup_fails = true;
  make_slice("fresh");
  proxy.slices.full_pass();
  settle();
  const std::uint64_t writes = proxy.slices.stats().writes;
  now += seconds(1);
  for (int i = 0; i < 3; ++i) {
    proxy.slices.full_pass();
    settle();
  }
  for (const char* name : {"s", "fresh"}) {
    EXPECT_EQ(condition(get(kApis, kSlices, name), "APIExportValid"), "False InternalError");
  }
  EXPECT_EQ(urls(get(kApis, kSlices, "s")), endpoints);
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "EndpointURLsReady"), "True ");
  EXPECT_EQ(proxy.slices.stats().writes - writes, 2U) << "one each";
  world_.lookup_fails = false;
  proxy.slices.full_pass();
  settle();
  for (const char* name : {"s", "fresh"}) {
    EXPECT_EQ(condition(get(kApis, kSlices, name), "APIExportValid"), "True ");
    EXPECT_EQ(urls(get(kApis, kSlices, name)), endpoints);
  }
}

TEST_F(Controllers, TP029_WhenNobodyTells_ItIsLookedAtAgainByItself) {
  world_.add("a", {});
  start();
  world_.lookup_fails = true;
  make_slice("s");
  run_until([&] {
    return condition(get(kApis, kSlices, "s"), "APIExportValid") == "False InternalError";
  });
}

TEST_F(Controllers, TP129_WhenAShardIsRelabelled_ItsEntryGoesAfterTheGrace) {
  TimePoint now{};
  world_.now = [&now] { return now; };
  world_.defaults.leave_grace = seconds(30);
  world_.add("a", {{"region", "eu"}});
  world_.add("b", {{"region", "eu"}});
  Replica& proxy = start();
  make_partition("p", R"({"selector":{"matchLabels":{"region":"eu"}}})");
  settle();
  make_slice("s", "p");
  settle();
  const std::string path = "/services/apiexport/ws1/widgets";
  const auto both = ElementsAre("https://vw-a" + path, "https://vw-b" + path);
  const auto before = versions(kApis, kSlices);
  // Out, and back after 10 s: never gone.
  world_.table[0].labels["region"] = "us";
  shards_changed();
  now += seconds(10);
  proxy.slices.full_pass();
  settle();
  world_.table[0].labels["region"] = "eu";
  shards_changed();
  EXPECT_EQ(versions(kApis, kSlices), before);
  // Out for good. The 10 s from before do not count.
  world_.table[0].labels["region"] = "us";
  shards_changed();
  now += milliseconds(29'999);
  proxy.slices.full_pass();
  settle();
  EXPECT_EQ(versions(kApis, kSlices), before);
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), both);
  now += milliseconds(1);
  proxy.slices.full_pass();
  settle();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), ElementsAre("https://vw-b" + path));
  // Deleted: at once.
  world_.table.pop_back();
  shards_changed();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), IsEmpty());
}

TEST_F(Controllers, TP129_WithoutGrace_TheEntryGoesAtOnce) {
  TimePoint now{};
  world_.now = [&now] { return now; };
  world_.add("a", {{"region", "eu"}});
  world_.add("b", {{"region", "eu"}});
  start();
  make_partition("p", R"({"selector":{"matchLabels":{"region":"eu"}}})");
  settle();
  make_slice("s", "p");
  settle();
  world_.table[0].labels["region"] = "us";
  shards_changed();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-b/services/apiexport/ws1/widgets"));
}

TEST_F(Controllers, TP129_WhenTheGraceIsOver_NoEventIsNeeded) {
  world_.defaults.leave_grace = milliseconds(20);
  world_.add("a", {{"region", "eu"}});
  world_.add("b", {{"region", "eu"}});
  start();
  make_partition("p", R"({"selector":{"matchLabels":{"region":"eu"}}})");
  settle();
  make_slice("s", "p");
  settle();
  world_.table[0].labels["region"] = "us";
  shards_changed();
  run_until([&] { return urls(get(kApis, kSlices, "s")).size() == 1U; });
}

TEST_F(Controllers, TP137_WhenTheStoreIsFull_StartReadsItOnceAndWritesNothing) {
  for (int i = 0; i < 4; ++i) {
    world_.add("shard-" + std::to_string(i), {{"zone", "z" + std::to_string(i)}});
  }
  constexpr int kEach = 500;
  start();
  make_partition("p", R"({"selector":{}})");
  for (int i = 0; i < kEach; ++i) {
    make_set("set" + std::to_string(i), R"({"dimensions":["zone"]})");
    make_slice("s" + std::to_string(i), "p");
  }
  settle();
  replicas_.clear();
  const store::Revision revision = store_->current();
  Replica& again = start();
  settle();
  EXPECT_EQ(store_->current(), revision);
  EXPECT_EQ(again.partitions.stats().runs, static_cast<std::uint64_t>(kEach));
  EXPECT_EQ(again.slices.stats().runs, static_cast<std::uint64_t>(kEach));
  EXPECT_EQ(again.slices.stats().selections, 1U);
  EXPECT_EQ(again.writes(), 0U);
}

TEST_F(Controllers, TP106_WhenAClusterIsGone_ItsObjectsGoAndOfAMovedOneTheyStay) {
  world_.add("a", {{"region", "eu"}});
  Replica& proxy = start();
  bool exists = true;
  topology::ClusterSweeper sweeper(
      loop_, proxy.objects,
      {{"apis.kcp.io", "apiexportendpointslices"},
       {"topology.kcp.io", "partitionsets"},
       {"topology.kcp.io", "partitions"}},
      [&](std::string_view) { return exists; }, milliseconds(5));
  make_set("set", R"({"dimensions":["region"]})");
  make_slice("s");
  proxy.objects.create(kCluster, kTopology, "partitions",
                       parse(R"({"metadata":{"name":"held","finalizers":["x.test/hold"]},
                                 "spec":{"selector":{}}})"),
                       counted());
  settle();
  const auto rest = [&] {  // longer than the grace of the sweeper
    bool over = false;
    net::Timer timer(loop_);
    timer.start(milliseconds(30), [&] { over = true; });
    run_until([&] { return over; });
    settle();
  };
  sweeper.cluster_gone(kCluster);
  rest();
  EXPECT_EQ(versions(kTopology, "partitions").size(), 2U);
  exists = false;
  sweeper.cluster_gone(kCluster);
  run_until([&] {
    return versions(kTopology, "partitions").empty() &&
           versions(kTopology, "partitionsets").empty() && versions(kApis, kSlices).empty();
  });
  EXPECT_THAT(versions(kTopology, "partitions"), IsEmpty());
  EXPECT_THAT(versions(kTopology, "partitionsets"), IsEmpty());
  EXPECT_THAT(versions(kApis, kSlices), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::server::testing_stack
