// A request's target is read once, however many gates look at it (SE-020): counted, not looked at.
#include <gmock/gmock.h>

#include "base/reading_counts.h"
#include "base/strings.h"
#include "proxy/gates/audit_gate.h"
#include "proxy/gates/existence_gate.h"
#include "proxy/gates/token_gate.h"
#include "proxy/testing/gate_rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

/// Knows one token, wherever it is used.
class OneToken final : public auth::TokenAuthenticator {
 public:
  void authenticate_token(const auth::BearerPtr& token,
                          const std::vector<std::string>& /*audiences*/, std::string_view cluster,
                          Done done) override {
    asked_in = cluster;
    auth::UserInfo user;
    user.name = "carol";
    const bool good = token->text() == "good" || token->claim({"sub"}) == "carol";
    done(good ? std::optional<Result>(Result{std::move(user), {}}) : std::nullopt);
  }
  std::string asked_in = "-";
};

/// Every gate of a data loop that looks at targets, and each has something to do.
class ReadOnce : public ::testing::Test {
 protected:
  ReadOnce() {
    rig_.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
    rig_.permissions.allow = true;
    const std::string policy =
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
    audit_.set_policy(std::make_shared<const auth::AuditPolicy>(
        Rig::must(auth::AuditPolicy::parse(policy, "policy.yaml"))));
    auth::RequestAuthenticator::Params params;
    params.tokens = token_;
    token_gate_.set_methods(
        {std::make_shared<auth::RequestAuthenticator>(params), true, true, true});
  }
  /// "targets infos service-paths lookups tokens", as many as the request took.
  std::string counted(const std::string& method, const std::string& path, int& status) {
    http::RequestHead head = Rig::request(method, path);
    head.headers.add("authorization", "Bearer " + bearer_);
    const ReadingCounts before = reading_counts;
    Answer answer;
    rig_.ask(answer, head);
    status = answer.status;
    const ReadingCounts& now = reading_counts;
    return std::to_string(now.targets - before.targets) + " " +
           std::to_string(now.infos - before.infos) + " " +
           std::to_string(now.service_paths - before.service_paths) + " " +
           std::to_string(now.lookups - before.lookups) + " " +
           std::to_string(now.tokens - before.tokens);
  }

  std::string bearer_ = "good";
  std::shared_ptr<OneToken> token_ = std::make_shared<OneToken>();
  Rig rig_{nullptr, [](ProxyHandlerParams& params) { params.wildcard = true; }};
  /// The token gate has judged the token: no shard is asked.
  struct Unasked final : auth::Authenticator {
    void authenticate(const http::RequestHead&, const auth::BearerPtr&, const http::PeerInfo&,
                      std::string_view, Done done) override {
      ADD_FAILURE() << "a shard is asked";
      done(std::nullopt);
    }
  } unasked_;
  ExistenceGate existence_{rig_.view, rig_.permissions, unasked_, *rig_.handler};
  std::vector<std::string> lines_;
  AuditGate audit_{rig_.loop, [this](std::string line) { lines_.push_back(std::move(line)); },
                   existence_};
  TokenGate token_gate_{rig_.view, audit_};
  testing::GateFront front_{rig_, token_gate_};
};

TEST_F(ReadOnce, SE020_AllGatesAndTheRouter_ReadARequestOnce) {
  struct Case {
    const char* method;
    const char* path;
    int status;
    const char* counts;
  };
  // The owner of a virtual workspace is another logical cluster than the one that is named behind
  // it.
  for (const Case& one :
       {Case{"GET", "/clusters/root:one/api/v1/configmaps/a", 200, "1 1 0 1 0"},
        Case{"POST", "/clusters/c1/api/v1/namespaces/t/configmaps", 200, "1 1 0 1 0"},
        Case{"GET", "/clusters/root/apis/topology.kcp.io/v1alpha1/partitions", 200, "1 1 0 1 0"},
        Case{"GET", "/shards/alpha/clusters/c1/api/v1/configmaps", 200, "1 1 0 1 0"},
        Case{"GET", "/shards/alpha/clusters/*/api/v1/configmaps", 200, "1 1 0 0 0"},
        Case{"GET", "/clusters/*/apis/topology.kcp.io/v1alpha1/partitions", 200, "1 1 0 0 0"},
        Case{"DELETE", "/clusters/*/api/v1/configmaps", 405, "1 1 0 0 0"},
        Case{"GET", "/clusters/*/api/v1/namespaces/n/configmaps", 400, "1 1 0 0 0"},
        Case{"GET", "/services/apiexport/root/e/clusters/c1/api/v1/configmaps", 200, "1 1 1 2 0"},
        Case{"DELETE", "/services/apiexport/root/e/clusters/*/api/v1/configmaps", 405, "1 1 1 1 0"},
        Case{"GET", "/livez", 200, "1 1 0 0 0"}}) {
    int status = 0;
    EXPECT_EQ(counted(one.method, one.path, status), one.counts) << one.method << ' ' << one.path;
    EXPECT_EQ(status, one.status) << one.path;
  }
  EXPECT_EQ(token_->asked_in, "") << "the last one that was no probe names no logical cluster";
}

/// The cluster of an in-cluster client and who asks are read of one token.
TEST_F(ReadOnce, SE020_ATokenIsReadOnce) {
  const std::string claims = R"({"sub":"carol","kubernetes.io":{"clusterName":"c1"}})";
  bearer_ = base64url_encode("{}") + "." + base64url_encode(claims) + "." + base64url_encode("s");
  int status = 0;
  EXPECT_EQ(counted("GET", "/api/v1/configmaps", status), "2 1 0 1 1");
  EXPECT_EQ(status, 200);
  EXPECT_EQ(token_->asked_in, "c1");
  EXPECT_EQ(counted("GET", "/clusters/c1/api/v1/configmaps", status), "1 1 0 1 1");
  EXPECT_EQ(status, 200);
}

/// What is written in other words is read again in plain ones: that once, too.
TEST_F(ReadOnce, SE020_PlainWords_AreReadOnce) {
  int status = 0;
  EXPECT_EQ(counted("GET", "/%63lusters/c1/api/v1/configmaps", status), "2 1 0 2 0");
  EXPECT_EQ(status, 200);
  ASSERT_FALSE(lines_.empty());
}

}  // namespace
}  // namespace kintsugi::proxy
