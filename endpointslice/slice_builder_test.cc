#include "endpointslice/slice_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::endpointslice {
namespace {

using krm::Json;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

Json parse(std::string_view text) { return *Json::parse(text); }

struct TestShard {
  topology::ShardFacts facts;
  bool has_consumer = true;
  bool bindings_synced = true;
  bool stays = false;
};

TestShard shard(std::string name, std::string_view labels, std::string vw = "") {
  TestShard one;
  one.facts.name = name;
  one.facts.labels = parse(labels);
  one.facts.base_url = "https://" + name;
  one.facts.virtual_workspace_url = vw.empty() ? "https://vw-" + name : std::move(vw);
  return one;
}

/// A slice with its surroundings; `settle` stores the computed status as the controller does.
struct Case {
  Case() {
    slice = parse(
        R"({"metadata":{"name":"s"},"spec":{"export":{"path":"root:org","name":"my-export"}}})");
    export_facts = {ExportFacts::State::kFound, "org1"};
    shards = {shard("a", R"({"region":"eu","name":"a"})"),
              shard("b", R"({"region":"us","name":"b"})"),
              shard("c", R"({"region":"eu","name":"c"})")};
    defaults.external_url = "https://proxy.example.test/kcp/";
  }
  Json status() {
    SliceInput input;
    input.slice = &slice;
    input.cluster = "ws1";
    input.export_facts = export_facts;
    std::vector<topology::ShardFacts> facts;
    for (const TestShard& one : shards) {
      facts.push_back(one.facts);
      input.shards.push_back({&one.facts, one.has_consumer, one.bindings_synced, one.stays});
    }
    const ShardSelection selection = select_shards(partition, facts);
    input.partition = partition.is_null() ? nullptr : &selection;
    input.now = "2026-01-01T00:00:00Z";
    input.foreign_urls = foreign;
    leaving = leaving_shards(input, defaults);
    return build_slice_status(input, defaults);
  }
  Json settle() {
    slice["status"] = status();
    return *slice.find("status");
  }
  Json slice, partition;
  ExportFacts export_facts;
  std::vector<TestShard> shards;
  std::vector<std::string> foreign;
  std::vector<std::string> leaving;  ///< of the last evaluation
  SliceDefaults defaults;
};

std::vector<std::string> urls(const Json& status) {
  std::vector<std::string> out;
  if (const Json* endpoints = status.find("endpoints")) {
    for (const Json& one : endpoints->items()) {
      out.emplace_back(one.text({"url"}));
    }
  }
  return out;
}

/// "True", or "False <reason> <severity> <message>".
std::string condition(const Json& status, std::string_view type) {
  for (const Json& one : status.find("conditions")->items()) {
    if (one.text({"type"}) == type) {
      std::string text(one.text({"status"}));
      for (const std::string_view field : {"reason", "severity", "message"}) {
        if (!one.text({field}).empty()) {
          text += " " + std::string(one.text({field}));
        }
      }
      return text;
    }
  }
  return "absent";
}

TEST(SliceStatus, TP028_WhenTheExportIsGone_SaysSoAndEmptiesTheList) {
  Case c;
  EXPECT_EQ(urls(c.settle()).size(), 3U);
  c.export_facts.state = ExportFacts::State::kAbsent;
  const Json status = c.settle();
  EXPECT_THAT(urls(status), IsEmpty());
  EXPECT_EQ(condition(status, "APIExportValid"),
            "False APIExportNotFound Error Error getting APIExport root:org|my-export");
  EXPECT_EQ(condition(status, "EndpointURLsReady"),
            "False ErrorGeneratingURLs Error APIExportValid is False");
}

TEST(SliceStatus, TP029_WhenTheExportCannotBeKnown_KeepsEndpoints) {
  Case c;
  const Json before = c.settle();
  c.export_facts.state = ExportFacts::State::kUnknown;
  const Json status = c.settle();
  EXPECT_EQ(urls(status).size(), 3U);
  EXPECT_EQ(condition(status, "APIExportValid"),
            "False InternalError Error Error getting APIExport root:org|my-export");
  EXPECT_EQ(condition(status, "EndpointURLsReady"), "True 3 endpoints");
  c.export_facts = {ExportFacts::State::kFound, "org1"};
  EXPECT_EQ(c.settle(), before) << "right again once it can be looked up";
}

TEST(SliceStatus, TP030_TP128_WhenThePartitionVanishesAndReturns_Heals) {
  Case c;
  c.slice["spec"]["partition"] = "p";
  Json status = c.settle();
  EXPECT_THAT(urls(status), IsEmpty());
  EXPECT_EQ(condition(status, "PartitionValid"),
            "False PartitionInvalidReference Error partition.topology.kcp.io \"p\" not found");
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  status = c.settle();
  EXPECT_EQ(condition(status, "PartitionValid"), "True");
  EXPECT_EQ(status.text({"shardSelector"}), "region=eu");
  EXPECT_THAT(urls(status), ElementsAre("https://vw-a/services/apiexport/org1/my-export",
                                        "https://vw-c/services/apiexport/org1/my-export"));
}

TEST(SliceStatus, TP132_WhenTheSelectorTurnsInvalid_KeepsEndpointsInOneWrite) {
  Case c;
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  const auto before = urls(c.settle());
  c.partition =
      parse(R"({"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}}})");
  const Json status = c.settle();
  EXPECT_EQ(urls(status), before);
  EXPECT_EQ(status.text({"shardSelector"}), "region=eu");
  EXPECT_EQ(condition(status, "PartitionValid"),
            "False PartitionInvalidReference Error \"Foo\" is not a valid label selector operator");
  EXPECT_EQ(c.status(), *c.slice.find("status")) << "a second run changes nothing";
}

TEST(SliceStatus, TP129_WhenAShardIsRelabelled_ItsEntryMayStay) {
  Case c;
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  const Json before = c.settle();
  EXPECT_THAT(c.leaving, IsEmpty());
  c.shards[0].facts.labels["region"] = "us";
  c.shards[0].stays = true;
  EXPECT_EQ(c.status(), before) << "nothing changes";
  EXPECT_THAT(c.leaving, ElementsAre("a")) << "b was never listed";
  c.defaults.consumers = Consumers::kRequired;
  EXPECT_EQ(c.status(), before);
  c.shards[0].has_consumer = false;
  EXPECT_EQ(urls(c.status()).size(), 1U) << "its last consumer went";
  c.shards[0].has_consumer = true;
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"name":"c"}}}})");
  EXPECT_EQ(urls(c.status()).size(), 1U);
  EXPECT_THAT(c.leaving, IsEmpty()) << "the Partition changed, not the shard";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  c.shards[0].facts.virtual_workspace_url = "https://moved";
  EXPECT_EQ(urls(c.status()).size(), 1U) << "only the entry that is there stays";
  EXPECT_THAT(c.leaving, IsEmpty());
}

TEST(SliceStatus, TP129_InOtherModes_OnlyEntriesOfShardsLeave) {
  Case c;
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  for (const char* mode : {"proxied", "aggregated"}) {
    c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = mode;
    c.shards[0].facts.labels["region"] = "eu";
    const Json before = c.settle();
    c.shards[0].facts.labels["region"] = "us";
    EXPECT_NE(c.status().find("conditions"), nullptr);
    EXPECT_EQ(c.leaving.size(), std::string_view(mode) == "proxied" ? 1U : 0U) << mode;
  }
}

TEST(SliceStatus, TP037_TP039_UrlsAreCleanedAndKeepPrefixes) {
  Case c;
  c.shards = {shard("a", "{}", "https://server-1.kcp.dev/"), shard("b", "{}", "https://h/kcp/")};
  EXPECT_THAT(urls(c.settle()),
              ElementsAre("https://server-1.kcp.dev/services/apiexport/org1/my-export",
                          "https://h/kcp/services/apiexport/org1/my-export"));
}

TEST(SliceStatus, TP035_TP036_TP117_ConsumersPolicy) {
  Case c;
  c.shards[1].has_consumer = false;
  EXPECT_EQ(urls(c.settle()).size(), 3U) << "ignored is the default";
  c.slice["metadata"]["annotations"]["kintsugi.dev/consumers"] = "required";
  EXPECT_EQ(urls(c.settle()).size(), 2U);
  for (TestShard& one : c.shards) {
    one.has_consumer = false;
  }
  EXPECT_EQ(
      condition(c.settle(), "EndpointURLsReady"),
      "False NoConsumers Info no APIBinding to root:org|my-export on any of the 3 selected shards");
  c.slice["metadata"]["annotations"]["kintsugi.dev/consumers"] = "perhaps";
  EXPECT_EQ(annotation_warnings(c.slice, {}).size(), 1U);
  EXPECT_EQ(urls(c.settle()).size(), 3U);
}

TEST(SliceStatus, WhenBindingsAreNotSynced_KeepsWhatThereIsAndAddsNothing) {
  Case c;
  c.defaults.consumers = Consumers::kRequired;
  c.shards[2].has_consumer = false;
  EXPECT_EQ(urls(c.settle()).size(), 2U);
  for (TestShard& one : c.shards) {
    one.has_consumer = false;
    one.bindings_synced = false;
  }
  EXPECT_THAT(urls(c.settle()), ElementsAre("https://vw-a/services/apiexport/org1/my-export",
                                            "https://vw-b/services/apiexport/org1/my-export"));
}

TEST(SliceStatus, WhenBindingsAreNotSynced_AnAggregatedEntryStaysAndNoneIsMade) {
  Case c;
  c.defaults.consumers = Consumers::kRequired;
  c.defaults.mode = EndpointMode::kAggregated;
  for (TestShard& one : c.shards) {
    one.has_consumer = false;
    one.bindings_synced = false;
  }
  EXPECT_THAT(urls(c.settle()), IsEmpty());
  c.shards[0].has_consumer = c.shards[0].bindings_synced = true;
  EXPECT_EQ(urls(c.settle()).size(), 1U);
  c.shards[0].has_consumer = c.shards[0].bindings_synced = false;
  EXPECT_EQ(urls(c.settle()).size(), 1U);
  c.shards[0].bindings_synced = c.shards[1].bindings_synced = c.shards[2].bindings_synced = true;
  EXPECT_THAT(urls(c.settle()), IsEmpty());
}

TEST(SliceStatus, TP115_WhenTheModeChanges_OldEntriesGoInOneWrite) {
  Case c;
  c.foreign = {"https://vw.example"};
  c.slice["status"] = parse(R"({"endpoints":[{"url":"https://vw.example"}]})");
  EXPECT_EQ(urls(c.settle()).size(), 4U);
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "proxied";
  const std::string path = "/services/apiexport/org1/my-export";
  const std::string proxy = "https://proxy.example.test/kcp";
  EXPECT_THAT(urls(c.settle()),
              ElementsAre("https://vw.example", proxy + "/shards/a" + path,
                          proxy + "/shards/b" + path, proxy + "/shards/c" + path));
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "aggregated";
  EXPECT_THAT(urls(c.settle()), ElementsAre("https://vw.example", proxy + path));
}

TEST(SliceStatus, TP131_WhenTwoShardsShareAUrl_ItStaysUntilTheLastConsumerLeft) {
  Case c;
  c.defaults.consumers = Consumers::kRequired;
  c.shards[1].facts.virtual_workspace_url = "https://vw-a";
  c.shards[2].has_consumer = false;
  const std::string url = "https://vw-a/services/apiexport/org1/my-export";
  EXPECT_THAT(urls(c.settle()), ElementsAre(url));
  c.shards[0].has_consumer = false;
  const Json status = c.settle();
  EXPECT_THAT(urls(status), ElementsAre(url));
  EXPECT_EQ(condition(status, "EndpointURLsReady"), "True 1 endpoints");
  c.shards[1].has_consumer = false;
  EXPECT_THAT(urls(c.settle()), IsEmpty());
}

TEST(SliceStatus, TP038_TP048_TP049_TP050_WhenConsumersComeAndGo_EntriesFollow) {
  Case c;
  c.defaults.consumers = Consumers::kRequired;
  for (TestShard& one : c.shards) {
    one.has_consumer = false;
  }
  EXPECT_THAT(urls(c.settle()), IsEmpty());
  c.shards[0].has_consumer = true;
  EXPECT_EQ(urls(c.settle()).size(), 1U);
  const Json before = *c.slice.find("status");
  EXPECT_EQ(c.settle().dump(), before.dump()) << "nothing to write";
  c.shards[1].has_consumer = true;
  EXPECT_EQ(urls(c.settle()).size(), 2U);
  c.shards[1].has_consumer = false;
  EXPECT_EQ(urls(c.settle()).size(), 1U);
}

TEST(SliceShards, WhenAShardHasNoEndpoint_SaysWhy) {
  Case c;
  c.slice["metadata"]["annotations"]["kintsugi.dev/consumers"] = "required";
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  c.shards.push_back(shard("d", R"({"region":"eu"})", "nonsense"));
  c.shards.push_back(shard("e", R"({"region":"eu"})"));
  c.shards[2].has_consumer = false;
  c.shards[4].has_consumer = c.shards[4].bindings_synced = false;
  SliceInput input;
  input.slice = &c.slice;
  input.export_facts = c.export_facts;
  std::vector<topology::ShardFacts> facts;
  for (const TestShard& one : c.shards) {
    facts.push_back(one.facts);
    input.shards.push_back({&one.facts, one.has_consumer, one.bindings_synced});
  }
  const ShardSelection selection = select_shards(c.partition, facts);
  input.partition = &selection;
  std::vector<std::string> lines;
  for (const ShardPart& part : explain_shards(input, c.defaults)) {
    lines.push_back(part.shard + (part.selected ? "+" : "-") + (part.effective ? "+ " : "- ") +
                    part.why);
  }
  EXPECT_THAT(lines,
              ElementsAre("a++ ", "b-- its labels do not match the selector of the Partition",
                          "c+- it holds no APIBinding of the export",
                          "d++ shard \"d\": \"nonsense\" is not an http or https URL",
                          "e+- its APIBindings are not listed yet"));
}

TEST(SliceStatus, TP114_TP116_ModesAndTheirShardSelectors) {
  Case c;
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "proxied";
  Json status = c.settle();
  EXPECT_EQ(
      status.find("endpoints")->items()[1].dump(),
      R"({"shards":{"selector":{"matchLabels":{"name":"b"}}},)"
      R"("url":"https://proxy.example.test/kcp/shards/b/services/apiexport/org1/my-export"})");
  c.shards[0].facts.labels.erase("name");
  status = c.settle();
  for (const Json& one : status.find("endpoints")->items()) {
    EXPECT_EQ(one.find("shards"), nullptr);
  }
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "aggregated";
  EXPECT_EQ(
      c.settle().find("endpoints")->dump(),
      R"([{"shards":{"matchAll":true},"url":"https://proxy.example.test/kcp/services/apiexport/org1/my-export"}])");
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  EXPECT_EQ(
      c.settle().find("endpoints")->dump(),
      R"([{"shards":{"selector":{"matchLabels":{"region":"eu"}}},)"
      R"("url":"https://proxy.example.test/kcp/partitions/ws1/p/services/apiexport/org1/my-export"}])");
  c.defaults.external_url.clear();
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "False ErrorGeneratingURLs Error external_url is not configured");
}

TEST(SliceStatus, GR502_EntriesLeadToTheProxiesOfTheirRegion) {
  Case c;
  const std::string tail = "services/apiexport/org1/my-export";
  c.defaults.mode = EndpointMode::kProxied;
  c.defaults.regions.urls = {{"eu", "https://eu.test/"}, {"us", "https://us.test"}};
  c.shards.push_back(shard("d", R"({"region":"asia"})"));
  const auto with = [&c](const std::string& value) {
    c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-region"] = value;
    return urls(c.status());
  };
  const auto by_shard = ElementsAre(
      "https://eu.test/shards/a/" + tail, "https://us.test/shards/b/" + tail,
      "https://eu.test/shards/c/" + tail, "https://proxy.example.test/kcp/shards/d/" + tail);
  EXPECT_THAT(urls(c.status()), by_shard);
  EXPECT_THAT(with("shard"), by_shard);
  EXPECT_THAT(with("mars"), by_shard) << "the default";
  EXPECT_THAT(with("any"), Each(StartsWith("https://proxy.example.test/kcp/shards/")));
  EXPECT_THAT(with("us"), Each(StartsWith("https://us.test/shards/")));

  // One entry for all: at the region that all that it selects are in.
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "aggregated";
  EXPECT_THAT(with("shard"), ElementsAre("https://proxy.example.test/kcp/" + tail));
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  EXPECT_THAT(with("shard"), ElementsAre("https://eu.test/partitions/ws1/p/" + tail));
  EXPECT_THAT(with("any"), ElementsAre("https://proxy.example.test/kcp/partitions/ws1/p/" + tail));
  EXPECT_THAT(with("us"), ElementsAre("https://us.test/partitions/ws1/p/" + tail));
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"asia"}}}})");
  EXPECT_THAT(with("shard"),
              ElementsAre("https://proxy.example.test/kcp/partitions/ws1/p/" + tail));

  // Another label; direct entries are no proxy's.
  c.defaults.regions.label = "topology.kubernetes.io/region";
  c.shards[3].facts.labels["topology.kubernetes.io/region"] = "us";
  EXPECT_THAT(with("shard"), ElementsAre("https://us.test/partitions/ws1/p/" + tail));
  c.slice["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"] = "direct";
  EXPECT_THAT(with("us"), ElementsAre("https://vw-d/" + tail));
}

TEST(SliceStatus, GR502_WhatIsNoRegionIsWarnedOf) {
  const Regions regions{"region", {{"eu", "https://eu.test"}}};
  const auto warned = [&regions](const std::string& value) {
    return annotation_warnings(
        Json::object({{"metadata",
                       Json::object({{"annotations",
                                      Json::object({{"kintsugi.dev/endpoint-region", value}})}})}}),
        regions);
  };
  EXPECT_THAT(warned("mars"),
              ElementsAre("annotation kintsugi.dev/endpoint-region: unknown value \"mars\", the "
                          "default is used"));
  for (const char* known : {"eu", "any", "shard"}) {
    EXPECT_THAT(warned(known), IsEmpty());
  }
}

TEST(SliceStatus, TP113_EveryReasonOfAnEmptyList) {
  Case c;
  c.shards[1].facts.up = false;
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "True SomeShardsUnavailable 1 of 3 selected shards are not reachable: b");
  c.slice["spec"]["partition"] = "p";
  c.partition = parse(R"({"spec":{"selector":{"matchLabels":{"region":"none"}}}})");
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "False NoShardMatches Warning selector \"region=none\" matches none of the 3 shards");
  c.shards.clear();
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "False NoShards Warning no Shard is registered");
  c.partition = parse(R"({"spec":{}})");
  c.shards = {shard("a", "{}"), shard("b", "{}")};
  c.defaults.consumers = Consumers::kRequired;
  c.shards[0].has_consumer = c.shards[1].has_consumer = c.shards[1].bindings_synced = false;
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "False ShardsNotSynced Warning 1 of 2 selected shards are not reachable: b");
  c.defaults.consumers = Consumers::kIgnored;
  c.shards = {shard("a", "{}", "nonsense")};
  EXPECT_EQ(condition(c.settle(), "EndpointURLsReady"),
            "False InvalidShardURL Warning shard \"a\": \"nonsense\" is not an http or https URL");
}

TEST(SliceStatus, TP120_TP131_ForeignEntriesAndSharedUrls) {
  Case c;
  c.foreign = {"https://vw.example"};
  c.slice["status"] = parse(
      R"({"endpoints":[{"url":"https://vw.example","shards":{"matchAll":true}},{"url":"https://old"}]})");
  c.shards[1].facts.virtual_workspace_url = "https://vw-a";
  EXPECT_THAT(urls(c.settle()),
              ElementsAre("https://vw.example", "https://vw-a/services/apiexport/org1/my-export",
                          "https://vw-c/services/apiexport/org1/my-export"));
}

TEST(ForeignUrls, TP120_WhenManagersOwnEntries_OnlyThoseOfThirdPartiesAreForeign) {
  const Json slice = parse(R"({"metadata":{"managedFields":[
      {"manager":"kintsugi","fieldsV1":{"f:status":{"f:endpoints":{
          ".":{},"k:{\"url\":\"https://ours\"}":{},"k:{\"url\":\"https://both\"}":{}}}}},
      {"manager":"a","fieldsV1":{"f:status":{"f:endpoints":{"k:{\"url\":\"https://shard\"}":{}}}}},
      {"manager":"third","fieldsV1":{"f:status":{"f:endpoints":{
          "k:{\"url\":\"https://theirs\"}":{".":{},"f:url":{}},
          "k:{\"url\":\"https://both\"}":{},"k:broken":{},"v:1":{}}}}},
      {"manager":"fourth","fieldsV1":{"f:spec":{"f:partition":{}}}}]}})");
  EXPECT_THAT(foreign_urls(slice, {shard("a", "{}").facts}),
              testing::UnorderedElementsAre("https://theirs", "https://both"));
  EXPECT_THAT(foreign_urls(parse("{}"), {}), IsEmpty());
}

TEST(SliceStatus, WhenShardsComeAndGo_OrderIsStable) {
  Case c;
  c.settle();
  c.shards.insert(c.shards.begin(), shard("0-first", "{}"));
  c.shards.erase(c.shards.begin() + 1);
  EXPECT_THAT(urls(c.settle()),
              ElementsAre("https://vw-b/services/apiexport/org1/my-export",
                          "https://vw-c/services/apiexport/org1/my-export",
                          "https://vw-0-first/services/apiexport/org1/my-export"));
}

TEST(SliceStatus, WhenFirstEndpointHasNoConsumer_TradesPlacesWithTheFirstThatHas) {
  Case c;
  c.defaults.mode = EndpointMode::kProxied;
  c.shards[0].has_consumer = c.shards[1].has_consumer = false;
  const std::string base = "https://proxy.example.test/kcp/shards/";
  const std::string rest = "/services/apiexport/org1/my-export";
  EXPECT_THAT(urls(c.settle()),
              ElementsAre(base + "c" + rest, base + "b" + rest, base + "a" + rest));
  c.shards[1].has_consumer = true;  // the first one is of use already
  EXPECT_THAT(urls(c.settle()),
              ElementsAre(base + "c" + rest, base + "b" + rest, base + "a" + rest));
  c.shards[2].has_consumer = false;
  EXPECT_THAT(urls(c.settle()),
              ElementsAre(base + "b" + rest, base + "c" + rest, base + "a" + rest));
  c.shards[1].has_consumer = false;  // none is
  EXPECT_THAT(urls(c.settle()),
              ElementsAre(base + "b" + rest, base + "c" + rest, base + "a" + rest));
}

TEST(JoinUrl, WhenTheBaseIsNoUrl_Refuses) {
  EXPECT_EQ(*join_url("https://h/kcp/", "services/x"), "https://h/kcp/services/x");
  for (const char* bad : {"", "h/x", "ftp://h", "https://", "https:///x", "https://a b/x"}) {
    EXPECT_FALSE(join_url(bad, "x")) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::endpointslice
