// Bearer tokens and asserting proxies in front of the handler.
#include "proxy/gates/token_gate.h"

#include "base/strings.h"
#include "krm/status.h"
#include "proxy/testing/gate_rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

/// Knows "good" at once and "late" when it is told to; "away" cannot be judged.
class Tokens final : public auth::TokenAuthenticator {
 public:
  void authenticate_token(const auth::BearerPtr& token,
                          const std::vector<std::string>& /*audiences*/, std::string_view cluster,
                          Done done) override {
    asked = cluster;
    if (token->text() == "good" && !gone) {
      done(std::optional<Result>(Result{user(), {}}));
    } else if (token->text() == "late") {
      later = std::move(done);
    } else if (token->text() == "away") {
      done(fail(krm::unavailable("not now", 1)));
    } else {
      done(std::nullopt);
    }
  }
  static auth::UserInfo user() {
    auth::UserInfo user;
    user.name = "carol";
    user.groups = {"team", "system:masters"};
    return user;
  }
  std::string asked = "-";
  bool gone = false;
  Done later;
};

/// The rig's handler behind a gate.
struct GateRig : Rig {
  explicit GateRig(bool pass_failed = false) : gate(view, *handler) {
    shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
    using Authenticator = auth::RequestAuthenticator;
    Authenticator::Params params;
    params.tokens = tokens;
    params.no_credentials =
        pass_failed ? Authenticator::NoCredentials::kPass : Authenticator::NoCredentials::kReject;
    params.pass_failed_tokens = pass_failed;
    params.drop_groups = auth::default_drop_groups();
    params.filter = true;
    gate.set_methods({std::make_shared<Authenticator>(params), true, !pass_failed, true});
  }
  ~GateRig() { tokens->later = {}; }  // it holds what holds the tokens
  static http::RequestHead with(std::string target, const std::string& token) {
    http::RequestHead head = get(std::move(target));
    head.headers.add("authorization", "Bearer " + token);
    return head;
  }
  const http::HeaderList& seen() { return shard.exchanges.back().head.headers; }
  std::shared_ptr<Tokens> tokens = std::make_shared<Tokens>();
  TokenGate gate;
  testing::GateFront front_of_it{*this, gate};
};

TEST(TokenGate, WhenATokenIsKnown_FP126_ItIsStampedAndNotForwarded) {
  GateRig rig;
  http::RequestHead head = GateRig::with("/clusters/root:one/api", "good");
  head.headers.add("x-remote-user", "admin");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.tokens->asked, "c1");
  EXPECT_EQ(rig.seen().get("x-remote-user"), "carol");
  EXPECT_EQ(rig.seen().get("x-remote-group"), "system:authenticated") << "sorted, masters dropped";
  EXPECT_FALSE(rig.seen().contains("authorization"));
  EXPECT_NE(rig.seen().get("x-forwarded-for"), "");
}

TEST(TokenGate, WhenATokenDoesNotHold_FP125_E1GoesBeforeE5) {
  GateRig rig;
  struct Case {
    const char* target;
    const char* token;
    int status;
  };
  for (const Case& one :
       {Case{"/clusters/root:one/api", "bad", 401}, Case{"/clusters/root:nobody/api", "bad", 403},
        Case{"/clusters/root:closed/api", "bad", 503}, Case{"/clusters/root:one/api", "away", 503},
        Case{"/livez", "bad", 200}}) {
    Answer answer;
    rig.ask(answer, GateRig::with(one.target, one.token));
    EXPECT_EQ(answer.status, one.status) << one.target << " " << one.token;
    if (std::string_view(one.token) == "away") {
      EXPECT_EQ(answer.header("retry-after"), "1");
    }
  }
  Answer none;
  rig.ask(none, Rig::get("/clusters/root:one/api"));
  EXPECT_EQ(none.status, 401) << "somebody has to be named";
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

TEST(TokenGate, WhenFailuresPass_FP125_TheRequestGoesOnBare) {
  GateRig rig(true);
  http::RequestHead head = GateRig::with("/clusters/root:one/api", "bad");
  head.headers.add("x-remote-user", "admin");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(rig.seen().contains("x-remote-user"));
  EXPECT_EQ(rig.seen().get("authorization"), "Bearer bad") << "the shard may know it";
  Answer none;
  rig.ask(none, Rig::get("/clusters/root:one/api"));
  EXPECT_EQ(none.status, 200);
  rig.identity = std::shared_ptr<const auth::CertificateIdentity>(
      std::make_shared<serving::ConnectionIdentity>());  // a certificate that does not hold
  rig.front_of_it.connect();
  Answer certificate;
  rig.ask(certificate, Rig::get("/clusters/root:one/api"));
  EXPECT_EQ(certificate.status, 401);
}

TEST(TokenGate, WhenTheAnswerComesLate_TheBodyWaits) {
  GateRig rig;
  http::RequestHead head = Rig::request("POST", "/clusters/root:one/api", false);
  head.headers.add("authorization", "Bearer late");
  Answer answer;
  rig.send(answer, head, "body");
  ASSERT_TRUE(rig.until([&] { return static_cast<bool>(rig.tokens->later); }));
  EXPECT_TRUE(rig.shard.exchanges.empty());
  rig.tokens->later(std::optional<Tokens::Result>(Tokens::Result{Tokens::user(), {}}));
  ASSERT_TRUE(rig.until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.shard.exchanges.back().body, "body");
  // A client that is gone by then is not answered.
  {
    Answer gone;
    rig.send(gone, head);
    rig.tokens->later = {};
    ASSERT_TRUE(rig.until([&] { return static_cast<bool>(rig.tokens->later); }));
  }
  Answer other;
  rig.ask(other, GateRig::with("/clusters/root:one/api", "good"));
  rig.tokens->later(std::nullopt);
  EXPECT_EQ(rig.shard.exchanges.size(), 2U);
}

TEST(TokenGate, WhenAnotherProxyAsserts_TheHeadersCount) {
  GateRig rig;
  auto who = std::make_shared<serving::ConnectionIdentity>();
  who->valid = who->from_request_header_ca = true;
  who->common_name = "front";
  rig.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(who));
  http::RequestHead head = Rig::get("/clusters/root:one/api");
  head.headers.add("x-remote-user", "dave");
  head.headers.add("x-remote-group", "system:masters");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.seen().get("x-remote-user"), "dave");
  EXPECT_EQ(rig.seen().get("x-remote-group"), "system:authenticated");
  Answer nobody;
  rig.ask(nobody, Rig::get("/clusters/root:one/api"));
  EXPECT_EQ(nobody.status, 401) << "a proxy without a user";
}

TEST(TokenGate, WhenAPodsTokenComesToAPlainPath_FP129_ItsClusterIsFoundBeforeTheTokenGoes) {
  // Not verified here: only the claim is read.
  const std::string claims = R"({"kubernetes.io":{"clusterName":"c1"}})";
  const std::string token =
      base64url_encode(R"({"alg":"none"})") + "." + base64url_encode(claims) + ".c2ln";
  GateRig rig(true);
  Answer answer;
  rig.ask(answer, GateRig::with("/api/v1/pods", token));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.tokens->asked, "c1");
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/c1/api/v1/pods");
}

TEST(TokenGate, WhenATokenOfAWatchIsTakenBack_SE046_TheWatchEndsInOrderAndNoOther) {
  GateRig rig;
  const std::string event =
      R"({"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}})"
      "\n";
  rig.shard.answer = [&](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(std::string_view(event), false);
  };
  rig.gate.follow_proofs(rig.loop, [&] { rig.handler->end_unproven(); });
  const std::string target =
      "/clusters/root:one/api/v1/configmaps?watch=true&allowWatchBookmarks=true";
  Answer watch;
  rig.send(watch, GateRig::with(target, "good"));
  ASSERT_TRUE(rig.until([&] { return watch.body == event; }));
  rig.gate.judge_again();
  const TimePoint judged = Clock::now() + seconds(2);
  ASSERT_TRUE(rig.until([&] { return Clock::now() >= judged; }));
  EXPECT_FALSE(watch.closed) << "the same as before";
  rig.tokens->gone = true;
  rig.gate.judge_again();
  ASSERT_TRUE(rig.until([&] { return watch.closed; }));
  EXPECT_EQ(watch.result, Errc::kOk);
  EXPECT_NE(watch.body.find(R"({"type":"BOOKMARK")"), std::string::npos) << watch.body;
}

}  // namespace
}  // namespace kintsugi::proxy
