// Requests that entries of a mapping file answer, and groups that a shard serves itself.
#include "krm/json.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kNotPermitted = "workspace access not permitted";

void reply_ok(Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); }

/// A backend besides the shard, and the entries that lead there.
class Backend {
 public:
  explicit Backend(Rig& rig) : listener_(Rig::must(net::Listener::open(rig.loop, {}, shard))) {
    shard.answer = reply_ok;
  }
  ~Backend() { listener_->close(); }
  /// @param fields  of each entry, behind path and backend.
  std::shared_ptr<const RouteTable> map(Rig& rig, const std::vector<std::string>& paths,
                                        const std::string& fields = "",
                                        const std::string& prefix = "") const {
    std::string text;
    for (const std::string& path : paths) {
      text += "- path: \"" + path + "\"\n  backend: " + url() + prefix + "\n" + fields;
    }
    auto entries = parse_mapping(text, "mapping.yaml");
    EXPECT_TRUE(entries) << entries.error().to_string();
    auto table = std::make_shared<const RouteTable>(entries ? std::move(*entries)
                                                            : std::vector<MappingEntry>());
    rig.handler->set_routes(table, true);
    return table;
  }
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(listener_->port());
  }
  [[nodiscard]] std::string last() const {
    return shard.exchanges.empty() ? "" : shard.exchanges.back().head.target;
  }
  FakeShard shard;

 private:
  std::unique_ptr<net::Listener> listener_;
};

int ask(Rig& rig, const std::string& target, std::string* body = nullptr) {
  Answer answer;
  rig.ask(answer, Rig::get(target));
  if (body != nullptr) {
    *body = answer.body;
  }
  return answer.status;
}

TEST(MappedRequest, WhenNothingElseMatches_FP040_FP041_TheFallbackAnswers) {
  Rig rig;
  rig.shard.answer = reply_ok;
  EXPECT_EQ(ask(rig, "/unmatched"), 404);
  Backend backend(rig);
  backend.map(rig, {"/"});
  EXPECT_EQ(ask(rig, "/unmatched/x?a=%zz&b"), 200);
  EXPECT_EQ(backend.last(), "/unmatched/x?a=%zz&b");
  EXPECT_EQ(ask(rig, "/clusters/root/api"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/root/api");
  EXPECT_EQ(ask(rig, "/services/apiexport/root/e/clusters/root/api"), 200);
  EXPECT_EQ(rig.shard.exchanges.size(), 2U);
  EXPECT_EQ(ask(rig, "/services/elsewhere/x"), 200);
  EXPECT_EQ(backend.last(), "/services/elsewhere/x");
  for (const char* none : {"/clusters", "/clusters/", "/shards/nope/x"}) {
    EXPECT_EQ(ask(rig, none), 404) << none;
  }
  EXPECT_EQ(ask(rig, "/livez"), 200);
  EXPECT_EQ(backend.shard.exchanges.size(), 2U);
}

TEST(MappedRequest, WhenThePatternNamesACluster_FP042_ItIsResolvedAndThePathStays) {
  Rig rig;
  rig.log_in();
  Backend backend(rig);
  backend.map(rig, {"/e2e/clusters/{cluster}/"}, "", "/prefix/");
  EXPECT_EQ(ask(rig, "/e2e/clusters/root:one/foo?x=1"), 200);
  EXPECT_EQ(backend.last(), "/prefix/e2e/clusters/root:one/foo?x=1");
  EXPECT_EQ(backend.shard.exchanges.back().head.headers.get("x-remote-user"), "alice");
  std::string body;
  EXPECT_EQ(ask(rig, "/e2e/clusters/root:nobody/foo", &body), 403);
  EXPECT_NE(body.find(kNotPermitted), std::string::npos) << body;
  EXPECT_EQ(ask(rig, "/e2e/clusters/root:closed/foo"), 503);
  EXPECT_EQ(ask(rig, "/e2e/clusters/root:one/a%00b"), 400);
  EXPECT_EQ(backend.shard.exchanges.size(), 1U);
}

TEST(MappedRequest, WhenAVirtualWorkspaceIsStatic_FP048_ItsBackendGetsEverything) {
  Rig rig;
  Backend backend(rig);
  backend.map(rig, {"/services/"}, "  static: true\n");
  std::string body;
  EXPECT_EQ(ask(rig, "/services/apiexport/root/e/clusters/root:nobody/api", &body), 403);
  EXPECT_NE(body.find(kNotPermitted), std::string::npos) << body;
  EXPECT_EQ(ask(rig, "/services/apiexport/root/e/clusters/*/api"), 200);
  EXPECT_EQ(backend.last(), "/services/apiexport/root/e/clusters/*/api");
  EXPECT_EQ(ask(rig, "/services/contentconfigurations/apis/v1/x"), 200);
  EXPECT_EQ(backend.last(), "/services/contentconfigurations/apis/v1/x");
  EXPECT_EQ(ask(rig, "/services/apiexport/root:one/e/clusters/root:one/api"), 200);
  EXPECT_EQ(backend.last(), "/services/apiexport/root:one/e/clusters/root:one/api");
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

TEST(MappedRequest, WhenAnEntryIsLonger_FP120_ItGoesBeforeOwnerRouting) {
  Rig rig;
  rig.shard.answer = reply_ok;
  Backend backend(rig);
  backend.map(rig, {"/services/", "/services/replication/", "/clusters/root:one/special"});
  EXPECT_EQ(ask(rig, "/services/apiexport/root:one/e/clusters/root:one/api"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/services/apiexport/c1/e/clusters/c1/api");
  EXPECT_EQ(ask(rig, "/services/replication/root/s/clusters/*/api"), 200);
  EXPECT_EQ(backend.last(), "/services/replication/root/s/clusters/*/api");
  EXPECT_EQ(ask(rig, "/clusters/root:one/special/x"), 200);
  EXPECT_EQ(backend.last(), "/clusters/root:one/special/x");
  EXPECT_EQ(ask(rig, "/clusters/root:one/specialx"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/c1/specialx");
}

TEST(MappedRequest, WhenTheEntryHasItsOwnHeaderNames_FP055_TheyAreStampedAndForgedOnesGo) {
  Rig rig;
  rig.log_in();
  Backend backend(rig);
  backend.map(rig, {"/x/"}, "  user_header: X-User\n  group_header: X-Group\n");
  http::RequestHead head = Rig::get("/x/y");
  for (const char* forged : {"x-user", "x-remote-user", "x-group", "x_user"}) {
    head.headers.add(forged, "admin");
  }
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  const http::HeaderList& seen = backend.shard.exchanges.back().head.headers;
  EXPECT_EQ(seen.get("x-user"), "alice");
  EXPECT_EQ(seen.get("x-group"), "team");
  EXPECT_FALSE(seen.contains("x-remote-user"));
  EXPECT_FALSE(seen.contains("x_user"));
}

TEST(MappedRequest, WhenTheFileIsReplaced_FP105_TheNextRequestUsesTheNewOne) {
  Rig rig;
  Backend first(rig), second(rig);
  first.map(rig, {"/x/"});
  EXPECT_EQ(ask(rig, "/x/1"), 200);
  second.map(rig, {"/x/", "/y/"});
  EXPECT_EQ(ask(rig, "/x/2"), 200);
  EXPECT_EQ(ask(rig, "/y/3"), 200);
  EXPECT_EQ(first.shard.exchanges.size(), 1U);
  EXPECT_EQ(second.last(), "/y/3");
}

TEST(MappedRequest, WhenClustersAreNotMapped_TheyAreLikeAnyPath) {
  Rig rig;
  Backend backend(rig);
  rig.handler->set_routes(nullptr, false);
  EXPECT_EQ(ask(rig, "/clusters/root/api"), 404);
  const auto table = backend.map(rig, {"/"});
  rig.handler->set_routes(table, false);
  EXPECT_EQ(ask(rig, "/clusters/root/api"), 200);
  EXPECT_EQ(backend.last(), "/clusters/root/api");
}

TEST(GroupModes, WhenTheShardServesAGroup_TP032_ItsAnswersPassUnchanged) {
  const char* slice = R"({"kind":"APIExportEndpointSlice","status":{"conditions":[{"status":)"
                      R"("False","type":"PartitionValid"}]}})";
  Rig rig(nullptr, [](ProxyHandlerParams& params) {
    params.groups = {GroupMode::kShard, GroupMode::kShard};
  });
  rig.log_in();
  rig.shard.complete = [slice](Exchange& exchange) { FakeShard::reply(exchange, 200, slice); };
  for (const std::string path :
       {"/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/s",
        "/apis/topology.kcp.io/v1alpha1/partitions", "/apis", "/apis/apis.kcp.io/v1alpha1",
        "/openapi/v3", "/openapi/v3/apis/topology.kcp.io/v1alpha1"}) {
    std::string body;
    EXPECT_EQ(ask(rig, "/clusters/root:one" + path, &body), 200) << path;
    EXPECT_EQ(body, slice) << path;
    EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/c1" + path);
  }
  EXPECT_EQ(rig.local.last.target, "") << "nothing was served by the proxy";
  // What kcp's controllers write arrives there, too.
  http::RequestHead apply =
      Rig::request("PATCH",
                   "/clusters/root:one/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/s/status"
                   "?fieldManager=alpha&force=false",
                   false);
  apply.headers.add("content-type", "application/apply-patch+yaml");
  Answer answer;
  rig.send(answer, apply, "status: {}");
  ASSERT_TRUE(rig.until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.method, "PATCH");
  EXPECT_EQ(rig.shard.exchanges.back().body, "status: {}");
}

struct AutoParts {
  Duration fresh = seconds(30);
  std::unique_ptr<net::Upstream> asked;
  std::unique_ptr<GroupOwners> owners;
};

/// Mode auto for both groups; the shard is asked as itself.
struct AutoRig : AutoParts, Rig {
  AutoRig()
      : Rig(nullptr, [this](ProxyHandlerParams& params) {
          net::UpstreamParams to_shard;
          to_shard.url = net::Url{"http", "127.0.0.1", shard_port, ""};
          to_shard.prior_knowledge = true;
          asked = net::Upstream::make(loop, to_shard);
          params.groups = {GroupMode::kAuto, GroupMode::kAuto};
          owners = std::make_unique<GroupOwners>(
              loop,
              [this](std::string_view cluster) -> Expected<ReviewTarget> {
                return ReviewTarget{asked.get(), "/clusters/" + std::string(cluster)};
              },
              params.groups, GroupOwners::Limits{fresh, milliseconds(1)});
          params.owners = owners.get();
        }) {
    log_in();
  }
  ~AutoRig() {  // before the loop
    owners.reset();
    asked.reset();
  }
};

TEST(GroupModes, WhenTheModeIsAuto_TP032_TheShardsDiscoveryDecides) {
  AutoRig rig;
  std::size_t documents = 0;
  rig.shard.answer = [&](Exchange& exchange) {
    const std::string& target = exchange.head.target;
    if (target == "/clusters/c1/apis/apis.kcp.io/v1alpha1") {
      ++documents;
      FakeShard::reply(exchange, 200, R"({"resources":[{"name":"apiexportendpointslices"}]})");
    } else if (target == "/clusters/c1/apis/topology.kcp.io/v1alpha1") {
      ++documents;
      FakeShard::reply(exchange, 404, "{}");
    } else {
      FakeShard::reply(exchange, 200, R"({"from":"shard"})");
    }
  };
  rig.local.body = R"({"from":"proxy"})";
  for (int i = 0; i < 3; ++i) {
    std::string body;
    EXPECT_EQ(
        ask(rig, "/clusters/root:one/apis/apis.kcp.io/v1alpha1/apiexportendpointslices", &body),
        200);
    EXPECT_EQ(body, R"({"from":"shard"})");
    EXPECT_EQ(ask(rig, "/clusters/root:one/apis/topology.kcp.io/v1alpha1/partitions/p", &body),
              200);
    EXPECT_EQ(body, R"({"from":"proxy"})");
  }
  EXPECT_EQ(documents, 2U) << "asked once per group";
}

TEST(GroupModes, WhenTheShardCannotSay_TP032_TheAnswerIsNotGuessed) {
  AutoRig rig;
  rig.shard.answer = [&](Exchange& exchange) { FakeShard::reply(exchange, 500, "{}"); };
  std::string body;
  EXPECT_EQ(ask(rig, "/clusters/root:one/apis/topology.kcp.io/v1alpha1/partitions/p", &body), 503);
  EXPECT_EQ(rig.local.last.target, "");
}

/// What a shard says of a logical cluster that is being migrated reaches the client as it is.
TEST(Migration, WhenTheShardMigratesACluster_FP084_FP085_FP086_ItsAnswersPass) {
  Rig rig;
  rig.log_in("system:kcp:external-logical-cluster-admin");
  const std::string list = "/clusters/root:one/api/v1/namespaces/default/configmaps";
  rig.shard.answer = [](Exchange& exchange) {
    const std::string& target = exchange.head.target;
    http::HeaderList headers;
    if (target.find("resourceVersion=1234") != std::string::npos) {
      FakeShard::reply(exchange, 410, R"({"kind":"Status","reason":"Expired","code":410})");
    } else if (target.starts_with("/clusters/c1/")) {
      headers.add("retry-after", "1");
      headers.add("content-type", "text/plain; charset=utf-8");
      exchange.stream->send_head(503, headers, false);
      exchange.stream->send_data("logical cluster is being migrated\n", true);
    } else {
      FakeShard::reply(exchange, 200, "{}");
    }
  };
  for (const std::string query : {"", "/one", "?resourceVersion=0", "/one?resourceVersion=7"}) {
    Answer answer;
    rig.ask(answer, Rig::get(list + query));
    EXPECT_EQ(answer.status, 503) << query;
    EXPECT_EQ(answer.body, "logical cluster is being migrated\n");
    EXPECT_EQ(answer.header("retry-after"), "1");
  }
  for (const std::string query : {"?resourceVersion=1234&resourceVersionMatch=NotOlderThan",
                                  "?watch=1&resourceVersion=1234"}) {
    Answer answer;
    rig.ask(answer, Rig::get(list + query));
    EXPECT_EQ(answer.status, 410) << query;
    EXPECT_NE(answer.body.find("Expired"), std::string::npos);
    EXPECT_EQ(answer.header("retry-after"), "");
  }
  EXPECT_EQ(rig.shard.exchanges.size(), 6U) << "nothing is tried again";
  EXPECT_EQ(ask(rig, "/clusters/root/api"), 200) << "other clusters are not concerned";
  const http::HeaderList& seen = rig.shard.exchanges.back().head.headers;
  EXPECT_EQ(seen.get("x-remote-group"), "system:kcp:external-logical-cluster-admin");
  EXPECT_NE(seen.get("x-remote-user"), "");
}

}  // namespace
}  // namespace kintsugi::proxy
