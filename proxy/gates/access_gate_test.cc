#include "proxy/gates/access_gate.h"

#include <string>
#include <vector>

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
struct AccessRig : Rig {
  explicit AccessRig(double sample = 1)
      : gate(
            loop, [this](std::string line) { lines.push_back(std::move(line)); },
            {.file = "f", .as_text = false, .sample = sample, .slow = seconds(1)}, 7, *handler) {
    log_in();
    shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  }
  [[nodiscard]] Json line(std::size_t at) const {
    return at < lines.size() ? *Json::parse(lines[at]) : Json();
  }
  std::vector<std::string> lines;
  AccessGate gate;
  testing::GateFront front_of_it{*this, gate};
};

TEST(AccessGate, OP306_AForwardedRequestHasClusterShardUserAndTheShardsAuditId) {
  AccessRig rig;
  http::RequestHead head = Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a?x=1");
  head.headers.add("authorization", "Bearer t0ken");
  Answer answer;
  rig.ask(answer, head);
  EXPECT_EQ(answer.status, 200);
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.lines[0].find("t0ken"), std::string::npos);
  const Json line = rig.line(0);
  EXPECT_EQ(line.text({"path"}), "/clusters/root:one/api/v1/namespaces/t1/secrets/a");
  EXPECT_EQ(line.text({"gvr"}), "v1/secrets");
  EXPECT_EQ(line.text({"user"}), "alice");
  EXPECT_FALSE(line.text({"shard"}).empty());
  EXPECT_FALSE(line.text({"cluster"}).empty());
  EXPECT_EQ(line.at({"code"})->as_integer(), 200);
  EXPECT_EQ(line.at({"bytes_out"})->as_integer(), 2);
  EXPECT_EQ(line.text({"audit_id"}), rig.shard.exchanges.back().head.headers.get("audit-id"));
}

TEST(AccessGate, OP306_WhatHasNoRouteSaysSo) {
  AccessRig rig;
  Answer answer;
  rig.ask(answer, Rig::get("/clusters/root:nobody/api"));
  EXPECT_EQ(answer.status, 403);
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.line(0).text({"flags"}), "NR");
  EXPECT_EQ(rig.line(0).text({"user"}), "alice");
}

TEST(AccessGate, OP306_OrdinaryRequestsAreAShareAndFailuresAll) {
  AccessRig rig(0);
  for (int i = 0; i < 50; ++i) {
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a"));
  }
  EXPECT_TRUE(rig.lines.empty());
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 500, "{}"); };
  Answer answer;
  rig.ask(answer, Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a"));
  ASSERT_EQ(rig.lines.size(), 1U);
  EXPECT_EQ(rig.line(0).at({"code"})->as_integer(), 500);
  AccessRig some(0.5);
  for (int i = 0; i < 200; ++i) {
    Answer one;
    some.ask(one, Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a"));
  }
  EXPECT_GT(some.lines.size(), 60U);
  EXPECT_LT(some.lines.size(), 140U);
}

TEST(AccessGate, OP306_WithoutALogNothingIsChanged) {
  Rig rig;
  rig.log_in();
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  AccessGate gate(rig.loop, {}, {}, 1, *rig.handler);
  testing::GateFront front(rig, gate);
  Answer answer;
  rig.ask(answer, Rig::get("/clusters/root:one/api/v1/namespaces/t1/secrets/a"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.headers.get("audit-id"), "");
}

}  // namespace
}  // namespace kintsugi::proxy
