// Requests that come while their logical cluster goes to another shard (GR-606).
#include "proxy/testing/rig.h"
#include "serving/moving.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kPath = "/clusters/root:one/api/v1/namespaces/default/configmaps";

void refuse(Exchange& exchange, bool marked = true) {
  http::HeaderList headers;
  headers.add("retry-after", "1");
  if (marked) {
    headers.add(serving::kMovingHeader, "1");
  }
  exchange.stream->send_head(503, headers, false);
  exchange.stream->send_data(std::string_view("moving"), true);
}

const MoveHoldStats& held(const Rig& rig) { return rig.handler->forward_stats().held; }

std::function<void(ProxyHandlerParams&)> with(MoveHoldLimits limits) {
  return [limits](ProxyHandlerParams& params) { params.limits.held = limits; };
}

TEST(MoveHolds, GR_606_AWriteWaitsAndIsSentAgain) {
  Rig rig;
  rig.shard.complete = [&rig](Exchange& exchange) {
    if (rig.shard.exchanges.size() < 4) {
      refuse(exchange);
    } else {
      FakeShard::reply(exchange, 201, exchange.body);
    }
  };
  Answer post;
  rig.send(post, Rig::request("POST", kPath, false), "once");
  ASSERT_TRUE(rig.until([&] { return held(rig).waiting == 1; }));
  EXPECT_EQ(held(rig).bytes, 4U);
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 201);
  EXPECT_EQ(post.body, "once");
  EXPECT_EQ(rig.shard.exchanges.size(), 4U);
  EXPECT_EQ(held(rig).held, 1U);
  EXPECT_EQ(held(rig).waiting + held(rig).bytes + held(rig).given_up, 0U);
}

TEST(MoveHolds, GR_606_ItGoesToTheShardThatHasTheClusterThen) {
  Rig rig;
  FakeShard beta;
  beta.complete = [](Exchange& exchange) { FakeShard::reply(exchange, 201, exchange.body); };
  auto listener = net::Listener::open(rig.loop, net::ListenerParams{}, beta);
  ASSERT_TRUE(listener);
  topology::ShardSpec spec;
  spec.name = "beta";
  spec.base_url = "http://127.0.0.1:" + std::to_string((*listener)->port());
  const topology::ShardId id = rig.index.upsert_shard(spec).id;
  rig.index.set_synced(id, topology::Resource::kWorkspaces, true);
  rig.index.set_synced(id, topology::Resource::kLogicalClusters, true);
  rig.publisher.publish(rig.index.freeze());
  rig.shard.complete = [](Exchange& exchange) { refuse(exchange); };
  Answer post, watch;
  rig.send(post, Rig::request("POST", kPath, false), "there");
  rig.send(watch, Rig::get(std::string(kPath) + "?watch=1"));
  ASSERT_TRUE(rig.until([&] { return held(rig).waiting == 2; }));
  const topology::ShardId alpha = rig.index.now().shards().front()->id;
  rig.index.delete_cluster(alpha, "c1");
  rig.index.upsert_cluster(id, topology::owned("c1", "root", "one", "root:one"));
  rig.publisher.publish(rig.index.freeze());
  ASSERT_TRUE(rig.until([&] { return post.closed && watch.closed; }));
  EXPECT_EQ(post.status, 201);
  EXPECT_EQ(post.body, "there");
  ASSERT_EQ(beta.exchanges.size(), 2U);
  EXPECT_TRUE(beta.exchanges.front().head.target.starts_with("/clusters/c1/api/v1/"));
  (*listener)->close();
}

TEST(MoveHolds, GR_606_WhatIsNotMarkedReachesTheClient) {
  Rig rig;
  rig.shard.complete = [](Exchange& exchange) { refuse(exchange, false); };
  Answer get;
  rig.ask(get, Rig::get(kPath));
  EXPECT_EQ(get.status, 503);
  EXPECT_EQ(rig.shard.exchanges.size(), 1U);
  EXPECT_EQ(held(rig).held, 0U);
}

TEST(MoveHolds, GR_606_AfterItsTimeTheClientGetsTheShardsAnswer) {
  Rig rig(nullptr, with({.time = milliseconds(60)}));
  rig.shard.complete = [](Exchange& exchange) { refuse(exchange); };
  Answer get;
  rig.ask(get, Rig::get(kPath));
  EXPECT_EQ(get.status, 503);
  EXPECT_EQ(get.body, "moving");
  EXPECT_GT(rig.shard.exchanges.size(), 1U);
  EXPECT_EQ(held(rig).given_up, 1U);
  EXPECT_EQ(held(rig).waiting, 0U);
}

TEST(MoveHolds, GR_606_WhereThereIsNoRoomTheClientIsAnswered) {
  for (const MoveHoldLimits& limits : {MoveHoldLimits{.count = 1}, MoveHoldLimits{.bytes = 12}}) {
    Rig rig(nullptr, with(limits));
    rig.shard.complete = [](Exchange& exchange) { refuse(exchange); };
    Answer first, second;
    rig.send(first, Rig::request("POST", kPath, false), "ten bytes.");
    ASSERT_TRUE(rig.until([&] { return held(rig).waiting == 1; }));
    rig.send(second, Rig::request("POST", kPath, false), "ten bytes.");
    ASSERT_TRUE(rig.until([&] { return second.closed; }));
    EXPECT_EQ(second.status, 503);
    EXPECT_EQ(held(rig).refused, 1U);
    first.stream->detach();
    first.stream = nullptr;
    EXPECT_TRUE(rig.until([&] { return held(rig).waiting == 0; })) << "the client has gone";
  }
}

TEST(MoveHolds, GR_606_WhatIsNotKeptIsNotSentAgain) {
  Rig rig;
  rig.shard.complete = [](Exchange& exchange) { refuse(exchange); };
  Answer post;
  rig.send(post, Rig::request("POST", kPath, false), std::string(100'000, 'x'));
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 503);
  EXPECT_EQ(rig.shard.exchanges.size(), 1U);
}

}  // namespace
}  // namespace kintsugi::proxy
