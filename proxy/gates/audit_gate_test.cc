#include "proxy/gates/audit_gate.h"

#include "auth/audit_refusals.h"
#include "base/strings.h"
#include "krm/json.h"
#include "proxy/testing/gate_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

/// The rig's handler behind a gate.
struct AuditRig : Rig {
  explicit AuditRig(const std::string& rules = "- level: Metadata\n")
      : gate(
            loop, [this](std::string line) { lines.push_back(std::move(line)); }, *handler) {
    const std::string head = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n";
    gate.set_policy(std::make_shared<const auth::AuditPolicy>(
        must(auth::AuditPolicy::parse(head + rules, "policy.yaml"))));
    log_in();
    shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  }
  [[nodiscard]] Json line(std::size_t at) const {
    return at < lines.size() ? *Json::parse(lines[at]) : Json();
  }
  std::vector<std::string> lines;
  AuditGate gate;
  testing::GateFront front_of_it{*this, gate};
};

std::int64_t code_of(const Json& event) {
  const Json* code = event.at({"responseStatus", "code"});
  return code == nullptr ? 0 : code->as_integer();
}

TEST(AuditGate, WhenARequestIsAnswered_FP143_OneEventHasTheShardsAuditId) {
  AuditRig rig;
  http::RequestHead head = Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a?x=1");
  head.headers.add("user-agent", "test/1");
  head.headers.add("impersonate-user", "bob");
  head.headers.add("authorization", "Bearer t0ken");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.lines[0].find("t0ken"), std::string::npos);
  const Json event = rig.line(0);
  EXPECT_EQ(event.text({"kind"}), "Event");
  EXPECT_EQ(event.text({"level"}), "Metadata");
  EXPECT_EQ(event.text({"stage"}), "ResponseComplete");
  EXPECT_EQ(event.text({"requestURI"}), head.target);
  EXPECT_EQ(event.text({"verb"}), "get");
  EXPECT_EQ(event.text({"user", "username"}), "alice");
  EXPECT_EQ(event.text({"impersonatedUser", "username"}), "bob");
  EXPECT_EQ(event.text({"userAgent"}), "test/1");
  EXPECT_EQ(event.text({"annotations", "kcp.io/cluster"}), "root:one");
  EXPECT_EQ(event.at({"objectRef"})->dump(),
            R"({"apiVersion":"v1","name":"a","namespace":"t1","resource":"secrets"})");
  EXPECT_EQ(code_of(event), 200);
  const std::string id(event.text({"auditID"}));
  EXPECT_EQ(id.size(), 36U);
  EXPECT_EQ(rig.shard.exchanges.back().head.headers.get("audit-id"), id);
}

TEST(AuditGate, WhenACallerNamesTheRequest_FP143_ThatIsItsId) {
  AuditRig rig;
  http::RequestHead head = Rig::get("/clusters/root:nobody/api");
  head.headers.add("audit-id", "mine");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 403) << "answered here";
  EXPECT_EQ(answer.header("audit-id"), "mine");
  EXPECT_EQ(rig.line(0).text({"auditID"}), "mine");
  EXPECT_EQ(code_of(rig.line(0)), 403);
  head = Rig::get("/clusters/root/api");
  head.headers.add("audit-id", std::string(200, 'a'));
  Answer other;
  rig.ask(other, head);
  EXPECT_EQ(rig.line(1).text({"auditID"}), rig.shard.exchanges.back().head.headers.get("audit-id"));
}

TEST(AuditGate, WhenAWatchRuns_FP143_ItsBeginAndItsEndAreEvents) {
  AuditRig rig;
  rig.shard.answer = [](Exchange& exchange) {
    exchange.stream->send_head(200, {}, false);
    exchange.stream->send_data(std::string_view("{}\n"), false);
  };
  Answer watch;
  rig.send(watch, Rig::get("/clusters/root/api/v1/configmaps?watch=1"));
  ASSERT_TRUE(rig.until([&] { return !watch.body.empty(); }));
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.line(0).text({"stage"}), "ResponseStarted");
  EXPECT_EQ(code_of(rig.line(0)), 200);
  rig.shard.exchanges.back().stream->send_data(std::string_view(), true);
  ASSERT_TRUE(rig.until([&] { return watch.closed; }));
  ASSERT_EQ(rig.lines.size(), 2U);
  EXPECT_EQ(rig.line(1).text({"stage"}), "ResponseComplete");
  EXPECT_EQ(rig.line(1).text({"auditID"}), rig.line(0).text({"auditID"}));
  // One whose client goes ends as well.
  {
    Answer gone;
    rig.send(gone, Rig::get("/clusters/root/api/v1/configmaps?watch=1"));
    ASSERT_TRUE(rig.until([&] { return rig.lines.size() == 3; }));
  }
  ASSERT_TRUE(rig.until([&] { return rig.lines.size() == 4; }));
  EXPECT_EQ(rig.line(3).text({"stage"}), "ResponseComplete");
}

TEST(AuditGate, WhenTheClientGoesBeforeTheAnswer_FP143_TheEventHasNoCode) {
  AuditRig rig;
  rig.shard.answer = nullptr;
  {
    Answer gone;
    rig.send(gone, Rig::get("/clusters/root/api"));
    ASSERT_TRUE(rig.until([&] { return !rig.shard.exchanges.empty(); }));
  }
  ASSERT_TRUE(rig.until([&] { return !rig.lines.empty(); }));
  EXPECT_EQ(rig.line(0).text({"stage"}), "ResponseComplete");
  EXPECT_EQ(code_of(rig.line(0)), 0);
}

TEST(AuditGate, WhenThePolicySaysSo_FP143_NothingIsWritten) {
  AuditRig rig(
      "- {level: None, users: [alice], resources: [{group: \"\", resources: [configmaps]}]}\n"
      "- {level: RequestResponse, omitStages: [ResponseStarted]}\n");
  for (const char* target : {"/clusters/root/api/v1/configmaps", "/clusters/root/api/v1/secrets",
                             "/services/apiexport/root/e/clusters/*/api/v1/configmaps"}) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
  }
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.line(0).text({"objectRef", "resource"}), "secrets");
  EXPECT_EQ(rig.line(0).text({"level"}), "Metadata") << "bodies stream through";
  rig.gate.set_policy(nullptr);
  Answer answer;
  rig.ask(answer, Rig::get("/clusters/root/api/v1/secrets"));
  EXPECT_EQ(rig.lines.size(), 1U);
}

TEST(AuditGate, WhenSomethingIsRefused_SE_007_SE_T073_ALineIsWrittenUnderNone) {
  AuditRig rig("- {level: None}\n");
  const std::uint64_t before = auth::audit_refusals().written();
  int status = 200;
  rig.shard.answer = [&](Exchange& exchange) { FakeShard::reply(exchange, status, "{}"); };
  const std::pair<int, const char*> cases[] = {{403, "/clusters/root/api/v1/secrets"},
                                               {429, "/clusters/root/api/v1/configmaps?watch=1"},
                                               {401, "/clusters/root/version"},
                                               {400, "/clusters/root/a%00b"},
                                               {405, "/clusters/root/api"},
                                               {508, "/clusters/root/api/v1/nodes/x/proxy"}};
  for (const auto& [code, target] : cases) {
    status = code;
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, code) << target;
    ASSERT_FALSE(rig.lines.empty()) << target;
    const Json event = rig.line(rig.lines.size() - 1);
    EXPECT_EQ(code_of(event), code);
    EXPECT_EQ(event.text({"requestURI"}), target);
    EXPECT_EQ(event.text({"stage"}), "ResponseComplete");
    EXPECT_EQ(event.text({"user", "username"}), "alice");
    EXPECT_EQ(event.text({"annotations", "kcp.io/cluster"}), "root");
  }
  EXPECT_EQ(rig.lines.size(), std::size(cases)) << "one each";
  for (const int fine : {200, 201, 404, 409, 410, 500, 503}) {
    status = fine;
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root/api/v1/secrets"));
  }
  EXPECT_EQ(rig.lines.size(), std::size(cases)) << "the policy holds for all else";
  EXPECT_EQ(auth::audit_refusals().written() - before, std::size(cases));
}

TEST(AuditGate, WhenRefusalsFlood_SE_T075_TheyAreCountedAndTheNextLineTells) {
  AuditRig rig("- {level: None}\n");
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 403, "{}"); };
  auth::AuditRefusals& all = auth::audit_refusals();
  (void)all.take_left_out();
  const std::string target = "/clusters/root/api/v1/secrets/x";
  const auto refuse = [&] {
    Answer answer;
    rig.ask(answer, Rig::get(target));
  };
  ASSERT_TRUE(rig.until([&] {  // within one second of the clock there is no room any more
    if (all.may_write(rig.loop.now())) {
      all.wrote(auth::AuditRefusals::kBytesPerSecond);
    }
    const std::uint64_t counted = all.counted();
    const std::size_t lines = rig.lines.size();
    refuse();
    return all.counted() > counted && rig.lines.size() == lines;
  }));
  const std::uint64_t sent = all.counted();
  EXPECT_GT(sent, 0U);
  std::uint64_t told = 0;
  ASSERT_TRUE(rig.until([&] {  // the next second
    refuse();
    if (!rig.lines.empty()) {
      const Json event = rig.line(rig.lines.size() - 1);
      told = parse_decimal(event.text({"annotations", "audit.kintsugi.io/refusals-left-out"}))
                 .value_or(0);
    }
    return told > 0;
  }));
}

/// Only requests for secrets have lines.
constexpr const char* kSecrets =
    "- {level: Metadata, omitStages: [ResponseStarted], resources: [{group: \"\", resources: "
    "[secrets]}]}\n- {level: None}\n";

TEST(AuditGate, WhenARequestTakesAnyForm_SET006_ItsLineNamesClusterVerbAndObject) {
  const std::string claims = base64url_encode(R"({"kubernetes.io":{"clusterName":"c1"}})");
  const std::string bearer = "Bearer " + base64url_encode(R"({"alg":"ES256"})") + "." + claims +
                             "." + base64url_encode("x");
  struct Case {
    const char* method;
    const char* target;
    const char* cluster;
    const char* verb;
    int code;
  };
  for (const Case& one : {
           Case{"PUT", "/shards/alpha/clusters/root:one/api/v1/namespaces/t/secrets/a", "root:one",
                "update", 200},
           Case{"POST", "/shards/nope/clusters/c1/api/v1/namespaces/t/secrets", "c1", "create",
                404},
           Case{"GET", "/shards/alpha/clusters/*/api/v1/secrets", "*", "list", 403},
           Case{"GET", "/partitions/root/nope/clusters/*/api/v1/secrets", "*", "list", 403},
           Case{"DELETE", "/partitions/root/nope/clusters/*/api/v1/secrets", "*",
                "deletecollection", 403},
           Case{"PATCH", "/services/apiexport/c1/e/clusters/c1/api/v1/namespaces/t/secrets/a", "c1",
                "patch", 200},
           Case{"PATCH",
                "/shards/alpha/services/apiexport/c1/e/clusters/c1/api/v1/namespaces/t/secrets/a",
                "c1", "patch", 200},
           Case{"GET", "/services/apiexport/c1/e/clusters/none/api/v1/secrets", "none", "list",
                403},
           Case{"GET", "/%63lusters/root%3Aone/%61pi%2Fv1/secrets", "root:one", "list", 200},
           Case{"GET", "/clusters/c1/api/v1/%77atch/secrets", "c1", "watch", 200},
           Case{"DELETE", "/clusters/none/api/v1/namespaces/t/secrets/a", "none", "delete", 403},
           Case{"GET", "/clusters/c1/api/v1/namespaces/t/secrets/a%00", "c1", "get", 400},
           Case{"GET", "/clusters/c1/../c1/api/v1/secrets", "c1", "get", 0},
           Case{"GET", "/api/v1/namespaces/t/secrets/a", "c1", "get", 200},
       }) {
    AuditRig rig(one.code == 0 ? "- level: Metadata\n" : kSecrets);
    rig.permissions.allow = true;
    http::RequestHead head = Rig::request(one.method, one.target);
    if (std::string_view(one.target).starts_with("/api")) {
      head.headers.add("authorization", bearer);
    }
    Answer answer;
    rig.ask(answer, head);
    ASSERT_EQ(rig.lines.size(), 1U) << one.method << ' ' << one.target << ' ' << answer.body;
    const Json event = rig.line(0);
    EXPECT_EQ(event.text({"requestURI"}), one.target);
    EXPECT_EQ(event.text({"annotations", "kcp.io/cluster"}), one.cluster) << one.target;
    if (one.code == 0) {
      EXPECT_EQ(code_of(event), 307) << "asked for anew, nothing was done";
      continue;
    }
    EXPECT_EQ(code_of(event), one.code) << one.target;
    EXPECT_EQ(event.text({"verb"}), one.verb) << one.target;
    EXPECT_EQ(event.text({"objectRef", "resource"}), "secrets") << one.target;
    if (std::string_view(one.target).find("namespaces") != std::string_view::npos) {
      EXPECT_EQ(event.text({"objectRef", "namespace"}), "t") << one.target;
    }
  }
}

}  // namespace
}  // namespace kintsugi::proxy
