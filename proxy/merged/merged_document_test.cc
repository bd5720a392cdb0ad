#include "aggregation/documents/merged_document.h"

#include "krm/json.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Shards `alpha` and `beta`, told apart by the path of their URLs. Documents by shard and path;
/// a missing one is 404, an empty one 503.
class TwoShards : public ::testing::Test {
 protected:
  TwoShards() : rig(nullptr, [](ProxyHandlerParams& params) { params.wildcard = true; }) {
    rig.log_in();
    rig.local.status = 404;
    topology::ShardSpec spec = rig.index.now().shard("alpha")->spec;
    const std::string base = spec.base_url;
    for (const char* name : {"alpha", "beta"}) {
      spec.name = name;
      spec.base_url = base + "/" + name;
      rig.index.upsert_shard(spec);
    }
    rig.publisher.publish(rig.index.freeze());
    const std::uint64_t wanted = rig.index.now().generation();
    EXPECT_TRUE(rig.until([&] { return rig.view->current().generation() == wanted; }));
    aggregation::SlotChange slots;
    slots.present = {"alpha", "beta"};
    rig.handler->set_slots(std::make_shared<const aggregation::SlotHistory>(
                               *aggregation::SlotHistory().changed(slots, 1)),
                           {{1, Secret::copy_of("secret")}});
    rig.shard.answer = [this](Exchange& exchange) { serve(exchange); };
  }

  void serve(Exchange& exchange) {
    const std::string& target = exchange.head.target;
    const std::size_t end = target.find('/', 1);
    const std::string shard = target.substr(1, end - 1);
    const std::string path = target.substr(end + std::string_view("/clusters/*").size());
    const auto found = documents[shard].find(path);
    if (found == documents[shard].end()) {
      FakeShard::reply(exchange, 404, R"({"kind":"Status","code":404})");
      return;
    }
    if (found->second.empty()) {
      FakeShard::reply(exchange, 503, "down", "text/plain");
      return;
    }
    const std::string tag = '"' + aggregation::content_digest(found->second).substr(0, 8) + '"';
    http::HeaderList headers;
    headers.add("content-type",
                path == "/openapi/v3" ? "text/plain; charset=utf-8"  // as kube-apiserver has it
                : exchange.head.headers.get("accept").starts_with(kAggregated) && aggregates
                    ? kAggregated
                    : "application/json");
    headers.add("etag", tag);
    headers.add("x-kubernetes-pf-flowschema-uid", "f");
    if (exchange.head.headers.get("if-none-match") == tag) {
      ++unchanged;
      exchange.stream->send_head(304, headers, true);
      return;
    }
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(found->second, true);
  }

  struct Got {
    int status = 0;
    std::string body, etag, audit, location, cache_control, type;
    [[nodiscard]] Json json() const {
      auto parsed = Json::parse(body);
      return parsed ? std::move(*parsed) : Json();
    }
  };
  Got get(const std::string& trail, const std::string& accept = {}, const std::string& tag = {},
          const std::string& method = "GET") {
    http::RequestHead head = Rig::request(method, "/clusters/*" + trail);
    if (!accept.empty()) {
      head.headers.add("accept", accept);
    }
    if (!tag.empty()) {
      head.headers.add("if-none-match", tag);
    }
    Answer answer;
    rig.ask(answer, head);
    EXPECT_FALSE(answer.headers.contains("x-kubernetes-pf-flowschema-uid"));
    return {answer.status,
            answer.body,
            answer.header("etag"),
            answer.header("audit-id"),
            answer.header("location"),
            answer.header("cache-control"),
            answer.header("content-type")};
  }
  static std::string resource(const std::string& name, const std::string& verbs) {
    return R"({"resource":")" + name + R"(","verbs":[)" + verbs + "]}";
  }
  static std::string group(const std::string& name, const std::string& version,
                           const std::string& resources) {
    return R"({"metadata":{"name":")" + name + R"("},"versions":[{"version":")" + version +
           R"(","freshness":"Current","resources":[)" + resources + "]}]}";
  }
  static std::string groups(const std::string& items) {
    return R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[)" +
           items + "]}";
  }

  Rig rig;
  std::map<std::string, std::map<std::string, std::string>> documents;
  int unchanged = 0;
  bool aggregates = true;
};
using MergedDocuments = TwoShards;

TEST_F(MergedDocuments, T94_AGG1601_WhenShardsDiffer_AllTheyServeIsShownWithCommonVerbs) {
  documents["alpha"]["/apis"] =
      groups(group("ex.io", "v1beta1", resource("a", R"("get","list","watch")")));
  documents["beta"]["/apis"] = groups(
      group("ex.io", "v1", resource("a", R"("list")")) + "," +
      group("more.io", "v1",
            resource("c", R"("create","list","watch")") + "," + resource("d", R"("create")")));
  const Got got = get("/apis", std::string(kAggregated) + ",application/json");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.type, kAggregated);
  const Json all = got.json();
  const Json::Array& items = all.find("items")->items();
  ASSERT_EQ(items.size(), 2U);
  const Json::Array& versions = items[0].find("versions")->items();
  ASSERT_EQ(versions.size(), 2U);
  EXPECT_EQ(versions[0].text({"version"}), "v1") << "GA first";
  EXPECT_EQ(versions[0].find("resources")->dump(), R"([{"resource":"a","verbs":["list"]}])");
  EXPECT_EQ(versions[1].find("resources")->dump(),
            R"([{"resource":"a","verbs":["list","watch"]}])");
  EXPECT_EQ(items[1].find("versions")->items()[0].find("resources")->dump(),
            R"([{"resource":"c","verbs":["list","watch"]}])");
}

TEST_F(MergedDocuments, T94_AGG1603_WhenNothingChanged_NothingIsSentOrMadeAgain) {
  documents["alpha"]["/apis"] = groups(group("a.io", "v1", resource("a", R"("list")")));
  documents["beta"]["/apis"] = groups(group("b.io", "v1", resource("b", R"("list")")));
  const Got first = get("/apis", kAggregated);
  ASSERT_EQ(first.etag.size(), 66U);
  const Got again = get("/apis", kAggregated, first.etag);
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(again.etag, first.etag);
  EXPECT_EQ(unchanged, 2) << "the shards were asked with their own tags";
  EXPECT_EQ(rig.handler->document_stats().built, 1U);
  documents["beta"]["/apis"] = groups("");
  const Got changed = get("/apis", kAggregated, first.etag);
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.etag, first.etag);
}

TEST_F(MergedDocuments, T94_AGG1602_WhenAShardIsDown_WhatItServedStaysStale) {
  documents["alpha"]["/apis"] = groups(group("a.io", "v1", resource("a", R"("list")")));
  documents["beta"]["/apis"] = groups(group("b.io", "v1", resource("b", R"("list")")) + "," +
                                      group("a.io", "v1", resource("a", R"("list")")));
  documents["alpha"]["/apis/b.io/v1"] = "";
  documents["beta"]["/apis/b.io/v1"] =
      R"({"kind":"APIResourceList","resources":[{"name":"b","verbs":["list"]}]})";
  const Got before = get("/apis", kAggregated);
  EXPECT_EQ(get("/apis/b.io/v1").status, 200);
  documents["beta"]["/apis"] = documents["beta"]["/apis/b.io/v1"] = "";
  const Got after = get("/apis", kAggregated);
  EXPECT_EQ(after.status, 200);
  EXPECT_NE(after.etag, before.etag);
  const Json all = after.json();
  const Json::Array& items = all.find("items")->items();
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].find("versions")->items()[0].text({"freshness"}), "Current");
  EXPECT_EQ(items[1].text({"metadata", "name"}), "b.io");
  EXPECT_EQ(items[1].find("versions")->items()[0].text({"freshness"}), "Stale");
  EXPECT_GT(rig.handler->document_stats().stale, 0U);
  EXPECT_EQ(get("/apis/b.io/v1").status, 503) << "nobody lets the caller in";
  documents["alpha"].erase("/apis/b.io/v1");
  EXPECT_EQ(get("/apis/b.io/v1").status, 200) << "alpha knows the caller, and beta's word stands";
}

TEST_F(MergedDocuments, AGG1601_WhenAShardHasNoAggregatedForm_PlainOnesAreMerged) {
  aggregates = false;
  const auto plain = [](const std::string& name) {
    return R"({"kind":"APIGroupList","groups":[{"name":")" + name +
           R"(","versions":[{"groupVersion":")" + name + R"(/v1","version":"v1"}]}]})";
  };
  documents["alpha"]["/apis"] = plain("a.io");
  documents["beta"]["/apis"] = plain("b.io");
  const Got got = get("/apis", std::string(kAggregated) + ",application/json");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.type, "application/json");
  EXPECT_EQ(got.json().find("groups")->size(), 2U);
  EXPECT_EQ(get("/apis", kAggregated).status, 406);
}

TEST_F(MergedDocuments, FP165_WhenAVersionHasNothingToRead_NoListHasIt) {
  const auto group = [](const std::string& name) {
    return R"("name":")" + name + R"(","versions":[{"groupVersion":")" + name +
           R"(/v1","version":"v1"}])";
  };
  const auto list = [](const std::string& verb) {
    return R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":[")" + verb + R"("]}]})";
  };
  documents["alpha"]["/apis"] =
      R"({"kind":"APIGroupList","groups":[{)" + group("a.io") + "},{" + group("b.io") + "}]}";
  documents["alpha"]["/apis/a.io"] = R"({"kind":"APIGroup",)" + group("a.io") + "}";
  documents["alpha"]["/apis/b.io"] = R"({"kind":"APIGroup",)" + group("b.io") + "}";
  documents["alpha"]["/apis/a.io/v1"] = list("create");
  documents["alpha"]["/apis/b.io/v1"] = list("list");
  const Got got = get("/apis");
  ASSERT_EQ(got.json().find("groups")->size(), 1U) << got.body;
  EXPECT_EQ(got.json().find("groups")->items()[0].text({"name"}), "b.io");
  EXPECT_EQ(get("/apis/b.io").status, 200);
  EXPECT_EQ(get("/apis/b.io/v1").status, 200);
  EXPECT_EQ(get("/apis/a.io").status, 404);
  EXPECT_EQ(get("/apis/a.io/v1").status, 404);
}

TEST_F(MergedDocuments, T95_AGG1604_WhenOpenApiIsRead_LinksLeadToTheFirstSlotsDocuments) {
  const auto index = [](const std::string& entries) { return R"({"paths":{)" + entries + "}}"; };
  const auto entry = [](const std::string& key, const std::string& hash) {
    return "\"" + key + R"(":{"serverRelativeURL":"/clusters/*/openapi/v3/)" + key +
           "?hash=" + hash + "\"}";
  };
  const auto document = [](const std::string& title) {
    return R"({"openapi":"3.0.0","info":{"title":")" + title + "\"}}";
  };
  const auto hash = [](const std::string& body) {
    return aggregation::content_digest(body).substr(0, 8);
  };
  const std::string common = document("alpha"), other = document("beta"), own = document("only");
  documents["alpha"]["/openapi/v3"] = index(entry("api/v1", hash(common)));
  documents["beta"]["/openapi/v3"] =
      index(entry("api/v1", hash(other)) + "," + entry("apis/b.io/v1", hash(own)));
  documents["alpha"]["/openapi/v3/api/v1"] = common;
  documents["beta"]["/openapi/v3/api/v1"] = other;
  documents["beta"]["/openapi/v3/apis/b.io/v1"] = own;
  const Got root = get("/openapi/v3");
  EXPECT_EQ(root.status, 200);
  EXPECT_EQ(rig.handler->document_stats().differences, 1U);
  const Json paths = *root.json().find("paths");
  ASSERT_EQ(paths.size(), 2U);
  for (const auto& [key, body] : {std::pair{"api/v1", common}, {"apis/b.io/v1", own}}) {
    const std::string link(paths.find(key)->text({"serverRelativeURL"}));
    ASSERT_TRUE(link.starts_with("/clusters/*/openapi/v3/" + std::string(key) + "?hash=")) << link;
    EXPECT_EQ(link.find(hash(body)), std::string::npos) << "not the shard's own";
    const Got found = get(link.substr(std::string_view("/clusters/*").size()));
    EXPECT_EQ(found.status, 200) << link;
    EXPECT_EQ(found.body, body);
    EXPECT_EQ(found.cache_control, "public, immutable");
    EXPECT_EQ('"' + link.substr(link.find("hash=") + 5) + '"', found.etag);
    const Got stale = get("/openapi/v3/" + std::string(key) + "?hash=OLD");
    EXPECT_EQ(stale.status, 301);
    EXPECT_EQ(stale.location, link);
    EXPECT_EQ(get("/openapi/v3/" + std::string(key), {}, found.etag).status, 304);
  }
  EXPECT_EQ(get("/openapi/v3/apis/none/v1").status, 404);
  documents["alpha"]["/openapi/v3/api/v1"] = documents["alpha"]["/openapi/v3"] = "";
  EXPECT_EQ(get("/openapi/v3/api/v1").body, common) << "known of alpha, beta lets the caller in";
  EXPECT_EQ(get("/openapi/v3").etag, root.etag);
}

TEST_F(MergedDocuments, AGG1604_WhenOpenApiV2IsRead_ItHasThePathsOfAll) {
  documents["alpha"]["/openapi/v2"] =
      R"({"swagger":"2.0","paths":{"/a":{"x":1}},"definitions":{"A":{"x":1}}})";
  documents["beta"]["/openapi/v2"] =
      R"({"swagger":"2.0","paths":{"/a":{"x":2},"/b":{}},"definitions":{"A":{"x":2},"B":{}}})";
  EXPECT_EQ(
      get("/openapi/v2").body,
      R"({"definitions":{"A":{"x":1},"B":{}},"paths":{"/a":{"x":1},"/b":{}},"swagger":"2.0"})");
}

TEST_F(MergedDocuments, T94_AGG1605_WhenVersionsDiffer_TheOldestIsShown) {
  documents["alpha"]["/version"] = R"({"gitVersion":"v1.36.1"})";
  documents["beta"]["/version"] = R"({"gitVersion":"v1.35.9"})";
  EXPECT_EQ(get("/version").body, R"({"gitVersion":"v1.35.9"})");
}

TEST_F(MergedDocuments, WhenAShardRefusesTheCaller_ItsWordCounts) {
  documents["alpha"]["/apis"] = groups("");
  rig.shard.answer = [this](Exchange& exchange) {
    if (exchange.head.target.starts_with("/beta/")) {
      FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
    } else {
      serve(exchange);
    }
  };
  EXPECT_EQ(get("/apis", kAggregated).status, 403);
}

TEST_F(MergedDocuments, WhenTheProxyHasKindsOfItsOwn_TheyAreShown_TP105) {
  rig.local.status = 200;
  rig.local.body = R"({"kind":"APIGroupList","groups":[{"name":"topology.kcp.io","versions":[]}]})";
  documents["alpha"]["/apis"] =
      R"({"kind":"APIGroupList","groups":[{"name":"a.io","versions":[]}]})";
  documents["beta"]["/apis"] = "";
  const Got got = get("/apis");
  EXPECT_EQ(got.json().find("groups")->size(), 2U);
  EXPECT_EQ(rig.local.last.target, "/clusters/*/apis");
  documents["alpha"]["/apis"] = "";
  EXPECT_EQ(get("/apis").json().find("groups")->size(), 2U) << "known, and the proxy lets one in";
}

TEST_F(MergedDocuments, T96_WhenAnAuditIdComesOrNot_AllShardsAndTheAnswerHaveIt) {
  documents["alpha"]["/apis"] = documents["beta"]["/apis"] = groups("");
  for (const char* target :
       {"/clusters/*/apis", "/clusters/*/api/v1/configmaps", "/clusters/*/apis/none"}) {
    for (const char* sent : {"", "mine"}) {
      http::RequestHead head = Rig::get(target);
      if (*sent != '\0') {
        head.headers.add("audit-id", sent);
      }
      rig.shard.exchanges.clear();
      Answer answer;
      rig.ask(answer, head);
      const std::string id = answer.header("audit-id");
      EXPECT_FALSE(id.empty()) << target;
      EXPECT_TRUE(*sent == '\0' || id == sent) << target;
      ASSERT_EQ(rig.shard.exchanges.size(), 2U) << target;
      for (const Exchange& exchange : rig.shard.exchanges) {
        EXPECT_EQ(exchange.head.headers.get("audit-id"), id) << target;
        EXPECT_EQ(exchange.head.headers.get("via"), "2.0 kintsugi-test");
      }
    }
  }
  Answer refused;
  rig.ask(refused, Rig::request("POST", "/clusters/*/api/v1/configmaps"));
  EXPECT_EQ(refused.status, 405);
  EXPECT_FALSE(refused.header("audit-id").empty());
}

TEST_F(MergedDocuments, T104_WhenARequestComesAround_508) {
  for (const char* target : {"/clusters/*/apis", "/clusters/*/api/v1/configmaps"}) {
    http::RequestHead head = Rig::get(target);
    head.headers.add("via", "1.1 other, 2.0 kintsugi-test");
    Answer own;
    rig.ask(own, head);
    EXPECT_EQ(own.status, 508) << target;
    EXPECT_TRUE(rig.shard.exchanges.empty());
    rig.shard.answer = [](Exchange& exchange) {
      EXPECT_EQ(exchange.head.headers.get("x-kcp-virtual-resource-hops"), "4");
      FakeShard::reply(exchange, 508, R"({"kind":"Status","code":508})");
    };
    http::RequestHead hops = Rig::get(target);
    hops.headers.add("x-kcp-virtual-resource-hops", "4");
    Answer passed;
    rig.ask(passed, hops);
    EXPECT_EQ(passed.status, 508) << "a shard's own word, " << target;
    rig.shard.exchanges.clear();
  }
}

TEST_F(MergedDocuments, T16_AGG1706_WhenOtherMethodsOrTypesAreUsed_405And406) {
  for (const char* trail : {"/apis", "/openapi/v3", "/version", "/api/v1/configmaps"}) {
    for (const char* method : {"HEAD", "OPTIONS", "TRACE"}) {
      const Got got = get(trail, {}, {}, method);
      EXPECT_EQ(got.status, 405) << method << trail;
      EXPECT_EQ(got.body.empty(), method == std::string_view("HEAD")) << method << trail;
    }
  }
  EXPECT_EQ(get("/apis", "image/png").status, 406);
  EXPECT_EQ(get("/openapi/v3", "application/cbor").status, 406);
  EXPECT_EQ(get("/apis", "image/png").json().text({"kind"}), "Status");
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

}  // namespace
}  // namespace kintsugi::proxy
