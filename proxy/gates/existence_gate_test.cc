#include "proxy/gates/existence_gate.h"

#include <gtest/gtest.h>

#include <string>

#include "krm/not_permitted.h"
#include "krm/status.h"
#include "net/loop.h"
#include "serving/identity.h"
#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy {
namespace {

/// What a client gets.
class Client final : public http::ResponseStream {
 public:
  void send_head(int the_status, const http::HeaderList& the_headers, bool end) noexcept override {
    status = the_status;
    headers = the_headers;
    ended = end;
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    body += bytes;
    ended = ended || end;
  }
  void send_data(SharedBytes bytes, bool end) noexcept override { send_data(bytes.view(), end); }
  void send_trailers(const http::HeaderList&) noexcept override { ended = true; }
  void reset(Errc) noexcept override { was_reset = true; }
  void consume(std::size_t) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override { return 0; }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return info; }
  void close_connection_after() noexcept override { closes = true; }

  http::PeerInfo info;
  int status = 0;
  http::HeaderList headers;
  std::string body;
  bool ended = false, was_reset = false, closes = false;
};

/// Answers as it is told.
class Inner final : public RoutedHandler {
 public:
  std::unique_ptr<http::RequestHandler> on_request(Request&& request,
                                                   http::ResponseStream& stream) noexcept override {
    ++requests;
    target = request.head.target;
    stream.send_head(status, headers, false);
    stream.send_data(std::string_view("from "), false);
    stream.send_data(std::string_view("within"), true);
    struct Nothing final : http::RequestHandler {
      void on_data(std::string_view, bool) noexcept override {}
      void on_close(Errc) noexcept override {}
    };
    return std::make_unique<Nothing>();
  }
  int status = 200, requests = 0;
  http::HeaderList headers;
  std::string target;
};

/// Only "ann" has access, when it is told who has.
class Access final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& attributes, Done done) override {
    ++asked;
    last = attributes;
    if (holds) {
      held = std::move(done);
    } else {
      done(auth::Decision{attributes.user.name == "ann", ""});
    }
  }
  int asked = 0;
  bool holds = false;
  auth::Attributes last;
  Done held;
};

/// Knows the token "account", when it is told who is whose.
class Tokens final : public auth::Authenticator {
 public:
  void authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                    const http::PeerInfo&, std::string_view cluster, Done done) override {
    ++asked;
    last_cluster = cluster;
    EXPECT_EQ(head.headers.size(), 1U) << "nothing else of the request";
    if (token->text() == "account") {
      done(User{auth::UserInfo{}});
    } else {
      done(fail(krm::unauthorized()));
    }
  }
  using User = std::optional<auth::UserInfo>;
  int asked = 0;
  std::string last_cluster;
};

class ExistenceGateTest : public ::testing::Test {
 protected:
  ExistenceGateTest() {
    topology::ShardSpec spec;
    spec.name = "one";
    spec.base_url = "http://127.0.0.1:1";
    const topology::ShardId shard = index_.upsert_shard(spec).id;
    index_.set_shards_listed();
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      index_.set_synced(shard, static_cast<topology::Resource>(i), true);
    }
    index_.upsert_cluster(shard, {"root", "root", "", false});
    index_.upsert_cluster(shard, topology::owned("c-org", "root", "org", "root:org"));
    index_.upsert_workspace(shard, topology::edge("root", "org", "c-org"));
    publisher_.publish(index_.freeze());
    gate_ = std::make_unique<ExistenceGate>(publisher_.attach(loop_), access_, tokens_, inner_);
  }

  static Request head(const std::string& target, const std::string& token = "") {
    http::RequestHead out;
    out.method = "GET";
    out.target = target;
    if (!token.empty()) {
      out.headers.add("authorization", "Bearer " + token);
    }
    return understand(std::move(out), false);
  }
  static void identify(Client& client, const std::string& user) {
    auto identity = std::make_shared<serving::ConnectionIdentity>();
    if (!user.empty()) {
      identity->user = auth::UserInfo{};
      identity->user->name = user;
    }
    client.info.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(identity));
  }
  /// Status and body; `user` null: no certificate, "": one that does not hold.
  std::pair<int, std::string> ask(const std::string& target, const char* user,
                                  const std::string& token = "") {
    Client client;
    if (user != nullptr) {
      identify(client, user);
    }
    const auto handler = gate_->on_request(head(target, token), client);
    EXPECT_TRUE(client.ended) << target;
    return {client.status, client.body};
  }
  static std::string message(const std::string& target) {
    return "forbidden: User \\\"\\\" cannot get path \\\"" + target +
           "\\\": workspace access not permitted";
  }

  net::Loop loop_{"test"};
  topology::Index index_;
  topology::SnapshotPublisher publisher_;
  Inner inner_;
  Access access_;
  Tokens tokens_;
  std::unique_ptr<ExistenceGate> gate_;
};

constexpr const char* kForms[] = {"/clusters/{}/api",
                                  "/clusters/{}",
                                  "/clusters/{}/livez",
                                  "/clusters/{}/metrics",
                                  "/shards/one/clusters/{}/x",
                                  "/services/apiexport/{}/e/clusters/*/api",
                                  "/partitions/{}/p/services/apiexport/root:org/e/clusters/*/api"};

std::string fill(std::string form, const std::string& name) {
  return form.replace(form.find("{}"), 2, name);
}

TEST_F(ExistenceGateTest, SE160_SE162_WhoeverIsNobody_GetsTheSameAtOnce) {
  for (const char* form : kForms) {
    for (const char* name : {"root:org", "root:nope", "c-org", "c-nope", "root%3Aorg"}) {
      const std::string target = fill(form, name);
      EXPECT_EQ(ask(target, nullptr), ask("/clusters/root/api", nullptr)) << target;
      EXPECT_EQ(ask(target, nullptr).first, 401) << target;
      EXPECT_EQ(ask(target, "").first, 401) << target;
      EXPECT_EQ(ask(target, "").second, ask(target, nullptr).second) << target;
    }
  }
  EXPECT_EQ(inner_.requests, 0);
  for (const char* open : {"/livez", "/version", "/x", "/services/own/x", "/clusters//root/api"}) {
    EXPECT_EQ(ask(open, nullptr).first, 200) << open;
  }
}

TEST_F(ExistenceGateTest, SE160_ATokenThatNobodyHereKnows_IsJudgedByAShardOrByNobody) {
  inner_.status = 401;
  for (const char* form : kForms) {
    const auto there = ask(fill(form, "root:org"), nullptr, "opaque");
    const auto none = ask(fill(form, "root:nope"), nullptr, "opaque");
    EXPECT_EQ(there.first, 401) << form;
    EXPECT_EQ(there, none) << form;
  }
  inner_.status = 200;
  EXPECT_EQ(ask("/clusters/root:org/api", nullptr, "account").first, 200);
  EXPECT_EQ(ask("/shards/one/clusters/root:org/api", nullptr, "account").first, 401);
  inner_.status = 404;
  inner_.headers.add("content-type", "text/plain; charset=utf-8");
  EXPECT_EQ(ask("/partitions/root:org/p/services/x", nullptr, "opaque").first, 401);
  inner_.status = 403;  // as the proxy itself refuses a cluster that no shard has
  EXPECT_EQ(ask("/services/apiexport/root:org/e/clusters/root:nope/api", nullptr, "opaque").first,
            401);
}

TEST_F(ExistenceGateTest, SE160_WhatTheProxySaysItself_IsForTokensThatAShardKnows) {
  constexpr const char* kOurs[] = {"/clusters/*/api/v1/configmaps", "/clusters/*/livez",
                                   "/clusters/*/metrics", "/clusters/*/x",
                                   "/services/apiexport/root:org/e/clusters/*/api"};
  for (const int status : {400, 403, 404, 405, 406, 503}) {
    inner_.status = status;
    for (const char* target : kOurs) {
      EXPECT_EQ(ask(target, nullptr, "opaque").first, 401) << target << status;
      EXPECT_NE(ask(target, nullptr, "account").first, 401) << target << status;
    }
  }
  EXPECT_EQ(tokens_.last_cluster, "root");
  const int asked = tokens_.asked;
  inner_.status = 404;  // a shard's answer, which has judged the token
  EXPECT_EQ(ask("/clusters/root:org/api", nullptr, "opaque").first, 404);
  inner_.status = 200;
  EXPECT_EQ(ask("/clusters/*/api", nullptr, "opaque").first, 200);
  EXPECT_EQ(tokens_.asked, asked);
}

TEST_F(ExistenceGateTest, SE160_WhoIsKnown_HearsE1OfNoneToo) {
  inner_.status = 403;
  inner_.headers.add(krm::kAccessHeader, krm::kAccessDenied);
  const int status = ask("/clusters/root:org/api", nullptr, "account").first;
  inner_.headers = {};
  EXPECT_EQ(status, 403);
  const auto none = ask("/clusters/root:nope/api", nullptr, "account");
  EXPECT_EQ(none.first, 403);
  EXPECT_NE(none.second.find(message("/clusters/root:nope/api")), std::string::npos);
  EXPECT_EQ(ask("/clusters/root:nope/api", nullptr, "opaque").first, 401);
}

TEST_F(ExistenceGateTest, KK001_WhomNobodyMaySpeakFor_IsToldToWhoIsKnown) {
  const auto code = [this](const char* target, const char* token, const char* group) {
    Client client;
    Request request = head(target, token);
    request.head.headers.add("impersonate-user", "ann");
    request.head.headers.add("impersonate-group", group);
    const auto handler = gate_->on_request(std::move(request), client);
    return client.status;
  };
  for (const char* group : {"system:masters", "system:kcp:logical-cluster-admin", "system:nodes",
                            "system:cluster:x", "apis.kcp.io:binding:x"}) {
    for (const char* form : kForms) {
      EXPECT_EQ(code(fill(form, "root:org").c_str(), "opaque", group), 401) << form << group;
      EXPECT_EQ(code(fill(form, "root:org").c_str(), "account", group), 403) << form << group;
    }
  }
  EXPECT_EQ(inner_.requests, 0);
}

TEST_F(ExistenceGateTest, SE033_WhereNothingIs_NobodyIsAskedWhoHeIs) {
  inner_.status = 404;
  for (const char* target :
       {"/clusters/root:org/shards/one/api", "/clusters/root:nope/shards/one/api",
        "/clusters/root/partitions/a/b", "/shards/one/api", "/shards/nope/api", "/shards/one/livez",
        "/partitions/root:org/p/api", "/clusters/root:org/%73hards/root/api",
        "/services/apiexport/root:org/e/clusters/root/clusters/root/api"}) {
    EXPECT_EQ(ask(target, nullptr).first, 404) << target;
    EXPECT_EQ(ask(target, "").first, 404) << target;
    EXPECT_EQ(ask(target, nullptr, "opaque").first, 404) << target;
  }
  EXPECT_EQ(tokens_.asked, 0);
}

TEST_F(ExistenceGateTest, SE161_WhoHasNoAccess_HearsE1WithThePathAsItWasSent) {
  inner_.status = 403;
  for (const char* form : kForms) {
    for (const char* name : {"root:org", "root:nope"}) {
      const std::string target = fill(form, name);
      const auto [status, body] = ask(target, "bob");
      EXPECT_EQ(status, 403) << target;
      EXPECT_NE(body.find(message(target)), std::string::npos) << body;
    }
  }
  EXPECT_EQ(access_.last.verb, "access");
  EXPECT_EQ(access_.last.path, "/");
  EXPECT_EQ(access_.last.cluster, "c-org");
  EXPECT_EQ(ask("/clusters/root:org/api", "ann").second, "from within");
  // At views it is also what is not there.
  inner_.status = 404;
  EXPECT_EQ(ask("/clusters/root:org/api", "bob").first, 404);
  EXPECT_EQ(ask("/services/apiexport/root:org/e/clusters/*/api", "bob").first, 403);
  EXPECT_EQ(ask("/partitions/root:org/p/services/apiexport/root:org/e/clusters/*", "bob").first,
            403);
  EXPECT_EQ(ask("/partitions/root:org/p/services/x", "ann").first, 404);
}

TEST_F(ExistenceGateTest, SE161_AShardThatSaysSo_IsBelievedWithoutAReview) {
  inner_.status = 403;
  inner_.headers.add(krm::kAccessHeader, krm::kAccessDenied);
  Client client;
  identify(client, "ann");
  const auto handler = gate_->on_request(head("/clusters/root:org/api?x=1"), client);
  EXPECT_EQ(client.status, 403);
  EXPECT_NE(client.body.find(message("/clusters/root:org/api")), std::string::npos);
  EXPECT_FALSE(client.headers.contains(krm::kAccessHeader));
  EXPECT_EQ(access_.asked, 0);
  EXPECT_EQ(ask("/clusters/root:org/api", nullptr, "account").first, 403);
  inner_.headers.set(krm::kAccessHeader, krm::kAccessGranted);
  Client other;
  identify(other, "bob");
  const auto second = gate_->on_request(head("/clusters/root:org/api"), other);
  EXPECT_EQ(other.body, "from within");
  EXPECT_FALSE(other.headers.contains(krm::kAccessHeader));
  EXPECT_EQ(access_.asked, 0);
}

TEST_F(ExistenceGateTest, SE161_WhileItIsAsked_TheAnswerWaits) {
  inner_.status = 403;
  access_.holds = true;
  for (const bool may_know : {true, false}) {
    Client client;
    identify(client, "ann");
    const auto handler = gate_->on_request(head("/clusters/root:org/api"), client);
    EXPECT_EQ(client.status, 0);
    access_.held(auth::Decision{may_know, ""});
    EXPECT_EQ(client.status, 403);
    EXPECT_TRUE(client.ended);
    EXPECT_EQ(client.body == "from within", may_know);
  }
  Client gone;
  identify(gone, "ann");
  auto handler = gate_->on_request(head("/clusters/root:org/api"), gone);
  handler->on_close(Errc::kReset);
  handler.reset();
  access_.held(auth::Decision{true, ""});
  EXPECT_EQ(gone.status, 0);
}

}  // namespace
}  // namespace kintsugi::proxy
