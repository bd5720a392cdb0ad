// Requests to virtual workspaces on their way through the proxy.
#include "krm/json.h"
#include "proxy/forwarding/admission.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kGet = "/services/apiexport/root:one/e/clusters/root:one/api";

void reply_ok(Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); }

/// Publishes what a test changed in the index.
void publish(Rig& rig) {
  rig.publisher.publish(rig.index.freeze());
  const std::uint64_t wanted = rig.index.now().generation();
  ASSERT_TRUE(rig.until([&] { return rig.view->current().generation() == wanted; }));
}

topology::ShardSpec alpha_of(const Rig& rig) { return rig.index.now().shard("alpha")->spec; }

TEST(Services, WhenThereIsAVirtualWorkspaceUrl_ItsPrefixIsKept_FP120) {
  Rig rig;
  rig.shard.answer = reply_ok;
  Answer plain;
  rig.ask(plain, Rig::get(kGet));
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/services/apiexport/c1/e/clusters/c1/api");
  topology::ShardSpec spec = alpha_of(rig);
  spec.virtual_workspace_url = spec.base_url + "/kcp/vw/";
  rig.index.upsert_shard(spec);
  publish(rig);
  Answer apart;
  rig.ask(apart, Rig::get(kGet));
  EXPECT_EQ(apart.status, 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target,
            "/kcp/vw/services/apiexport/c1/e/clusters/c1/api");
  Answer cluster;
  rig.ask(cluster, Rig::get("/clusters/root/api"));
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/root/api");
}

TEST(Services, WhenForwarded_IdentityIsStampedAndHopsPass_FP131_TP078) {
  Rig rig;
  rig.shard.answer = reply_ok;
  rig.log_in();
  for (const char* hops : {"0", "1", "2", "3", "4", "x", "-1"}) {
    http::RequestHead head = Rig::get(kGet);
    head.headers.add("x-kcp-virtual-resource-hops", hops);
    head.headers.add("x-remote-user", "admin");
    Answer answer;
    rig.ask(answer, head);
    EXPECT_EQ(answer.status, 200) << hops;
    const http::RequestHead& seen = rig.shard.exchanges.back().head;
    EXPECT_EQ(seen.headers.get("x-kcp-virtual-resource-hops"), hops);
    EXPECT_EQ(seen.headers.get("x-remote-user"), "alice");
    EXPECT_EQ(seen.headers.get("via"), "2.0 kintsugi-test");
  }
  http::RequestHead again = Rig::get(kGet);
  for (std::size_t pass = 0; pass <= Admission::kMostPasses; ++pass) {
    again.headers.add("via", "2.0 kintsugi-test");
    const std::size_t before = rig.shard.exchanges.size();
    Answer answer;
    rig.ask(answer, again);
    const bool passes = pass < Admission::kMostPasses;
    EXPECT_EQ(answer.status, passes ? 200 : 508) << pass;
    EXPECT_EQ(rig.shard.exchanges.size(), before + (passes ? 1U : 0U));
  }
}

TEST(Services, WhenNothingServesThePath_SaysE4_FP040) {
  Rig rig(nullptr, [](ProxyHandlerParams& params) { params.wildcard = true; });
  for (const char* target :
       {"/services", "/services/", "/services/apiexport/c/e/api", "/services/none/clusters/c1/api",
        "/partitions/root/nope/services/apiexport/c1/e/clusters/c1/api", "/partitions/root/p",
        "/partitions/root/nope/clusters/*/api/v1/configmaps",
        "/partitions/root/nope/clusters/*/apis", "/partitions/root/p/clusters/c1/api",
        "/shards/nope/clusters/c1/api", "/clusters", "/anything", "/healthz/none"}) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, 404) << target;
    EXPECT_EQ(answer.body, "404 page not found\n") << target;
  }
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

TEST(Services, WhenBelowAPartition_ItsShardsAreLookedUpLive_FP109_TP135) {
  Rig rig;
  rig.log_in();
  rig.shard.answer = reply_ok;
  rig.partitions["root/eu"] =
      *krm::Json::parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  const auto ask = [&](const std::string& target) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    return answer.status;
  };
  const std::string below = "/partitions/root/eu";
  EXPECT_EQ(ask(below + kGet), 403) << "alpha is no member";
  topology::ShardSpec spec = alpha_of(rig);
  spec.labels = {{"region", "eu"}};
  rig.index.upsert_shard(spec);
  publish(rig);
  EXPECT_EQ(ask(below + kGet), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/services/apiexport/c1/e/clusters/c1/api");
  rig.shard.answer = [](Exchange& exchange) {
    FakeShard::reply(exchange, 200,
                     R"({"kind":"ThingList","metadata":{"resourceVersion":"7"},"items":[]})");
  };
  EXPECT_EQ(ask(below + "/services/apiexport/c1/e/clusters/*/apis/g/v1/things"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target,
            "/services/apiexport/c1/e/clusters/*/apis/g/v1/things");
  EXPECT_EQ(ask(below + "/clusters/*/api/v1/configmaps"), 403);
  EXPECT_EQ(ask("/partitions/root:nope/eu" + std::string(kGet)), 403);
  EXPECT_EQ(ask("/partitions/root%3Aclosed/eu" + std::string(kGet)), 503);
}

TEST(Services, WhenAnyShardWouldDo_OneThatFailedPauses_FP123) {
  Rig rig;
  rig.shard.answer = reply_ok;
  topology::ShardSpec dead;
  dead.name = "dead";
  dead.base_url = "http://127.0.0.1:1";
  rig.index.upsert_shard(dead);
  publish(rig);
  int failed = 0;
  for (int i = 0; i < 12; ++i) {
    Answer answer;
    rig.ask(answer, Rig::get("/services/admin/shards"));
    failed += answer.status == 200 ? 0 : 1;
  }
  EXPECT_EQ(failed, 1);
}

TEST(Services, WhenSeveralShardsHoldConsumers_DiscoveryIsTheirUnion_TP118) {
  Rig rig;
  rig.log_in();
  topology::ConsumerChanges changes;
  topology::ShardSpec spec = alpha_of(rig);
  const std::string base = spec.base_url;
  for (const char* name : {"alpha", "beta"}) {
    spec.name = name;
    spec.virtual_workspace_url = base + "/" + name;
    const topology::ShardId id = rig.index.upsert_shard(spec).id;
    rig.index.set_synced(id, topology::Resource::kBindings, true);
    rig.index.upsert_binding(id, {name, "b", "c1", "", "e"}, changes);
  }
  publish(rig);
  int beta_status = 200;
  rig.shard.answer = [&](Exchange& exchange) {
    const bool beta = exchange.head.target.starts_with("/beta/");
    const std::string_view path = beta ? "/beta" : "/alpha";
    EXPECT_EQ(exchange.head.target,
              std::string(path) + "/services/apiexport/c1/e/clusters/*/apis/g/v1");
    EXPECT_EQ(exchange.head.headers.get("accept"), "application/json");
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    headers.add("etag", beta ? "\"2\"" : "\"1\"");
    exchange.stream->send_head(beta ? beta_status : 200, headers, false);
    exchange.stream->send_data(
        std::string(
            beta ? R"({"kind":"APIResourceList","resources":[{"name":"b","verbs":["get"]}]})"
                 : R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get"]}]})"),
        true);
  };
  const char* target = "/services/apiexport/root:one/e/clusters/*/apis/g/v1";
  Answer both;
  rig.ask(both, Rig::get(target));
  EXPECT_EQ(both.status, 200);
  const std::string united =
      R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get"]},)"
      R"({"name":"b","verbs":["get"]}]})"
      "\n";
  EXPECT_EQ(both.body, united);
  http::RequestHead again = Rig::get(target);
  again.headers.add("if-none-match", both.header("etag"));
  Answer unchanged;
  rig.ask(unchanged, again);
  EXPECT_EQ(unchanged.status, 304);
  EXPECT_EQ(unchanged.body, "");
  beta_status = 500;
  Answer left;
  rig.ask(left, Rig::get(target));
  EXPECT_EQ(left.status, 200);
  EXPECT_EQ(left.body, united) << "what is known of it stays (AGG-1602)";
  beta_status = 404;
  Answer without;
  rig.ask(without, Rig::get(target));
  EXPECT_EQ(
      without.body,
      "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\",\"verbs\":[\"get\"]}]}\n");
  rig.stop_shard();
  Answer away;
  rig.ask(away, Rig::get(target));
  EXPECT_EQ(away.status, 503);
}

TEST(Services, WhenAShardReportsItsUrl_TheSliceIsReadInstead_TP119) {
  const std::string slice = "/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/s";
  const auto apply = [&](const std::string& manager) {
    http::RequestHead head =
        Rig::request("PATCH", slice + "/status?fieldManager=" + manager + "&force=false", false);
    head.headers.add("content-type", "application/apply-patch+yaml");
    return head;
  };
  const auto send = [](Rig& rig, const http::RequestHead& head) {
    Answer answer;
    rig.send(answer, head, "status: {}");
    EXPECT_TRUE(rig.until([&] { return answer.closed; }));
    return answer.status;
  };
  Rig rig;
  rig.log_in("system:kcp:external-logical-cluster-admin");
  EXPECT_EQ(send(rig, apply("alpha")), 403);
  EXPECT_EQ(rig.permissions.asked.verb, "patch");
  EXPECT_EQ(rig.permissions.asked.subresource, "status");
  EXPECT_EQ(rig.permissions.asked.name, "s");
  EXPECT_EQ(rig.permissions.asked.cluster, "root");
  rig.permissions.allow = true;
  EXPECT_EQ(send(rig, apply("alpha")), 200);
  EXPECT_EQ(rig.local.last.method, "GET");
  EXPECT_EQ(rig.local.last.target, slice);
  EXPECT_EQ(rig.handler->ignored_applies().at("alpha"), 1U);
  EXPECT_EQ(send(rig, apply("somebody")), 200);
  EXPECT_EQ(rig.local.last.method, "PATCH") << "no Shard of that name";
  http::RequestHead impersonated = apply("alpha");
  impersonated.headers.add("impersonate-user", "bob");
  EXPECT_EQ(send(rig, impersonated), 200);
  EXPECT_EQ(rig.local.last.method, "PATCH");
  Rig other;
  other.log_in("team");
  EXPECT_EQ(send(other, apply("alpha")), 200);
  EXPECT_EQ(other.local.last.method, "PATCH") << "not a shard's identity";
  EXPECT_TRUE(other.handler->ignored_applies().empty());
}

TEST(Services, WhenAWildcardIsRefused_AnIdentityComesFirst_TP079) {
  Rig rig;
  rig.identity =
      std::make_shared<serving::ConnectionIdentity>();  // a certificate that does not hold
  Answer post;
  rig.ask(post, Rig::request("POST", "/services/apiexport/c1/e/clusters/*/apis/g/v1/things"));
  EXPECT_EQ(post.status, 401);
  Answer unknown;
  rig.ask(unknown, Rig::get("/services/apiexport/c1/e/clusters/nope/api"));
  EXPECT_EQ(unknown.status, 403);
}

TEST(Services, WhenNobodyAsksForAMergedRead_AGG1705_TheProxyRefusesAsAVirtualWorkspace) {
  Rig rig;
  const std::size_t before = rig.shard.exchanges.size();
  const std::string below = "/services/apiexport/c1/e/clusters/*/apis/g/v1/things";
  for (const auto& [query, verb] :
       {std::pair{"", "list"}, std::pair{"?watch=1", "watch"}, std::pair{"?limit=1", "list"}}) {
    Answer answer;
    rig.ask(answer, Rig::get(below + query));
    EXPECT_EQ(answer.status, 403);
    EXPECT_NE(answer.body.find(std::string("things.g is forbidden: User \\\"system:anonymous\\\" "
                                           "cannot ") +
                               verb +
                               " resource \\\"things\\\" in API group \\\"g\\\" at the cluster "
                               "scope: access denied"),
              std::string::npos)
        << answer.body;
  }
  EXPECT_EQ(rig.shard.exchanges.size(), before);
  Answer token;
  http::RequestHead head = Rig::get(below);
  head.headers.add("authorization", "Bearer t");  // a shard may know it
  rig.shard.answer = reply_ok;
  rig.send(token, head);
  EXPECT_TRUE(rig.until([&] { return rig.shard.exchanges.size() > before; }));
}

}  // namespace
}  // namespace kintsugi::proxy
