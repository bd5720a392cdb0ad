// Whose turn it is at a shard that has more to do than it may be asked at once.
#include <algorithm>
#include <list>
#include <memory>
#include <string>

#include "proxy/forwarding/forward.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using serving::FairLimits;
using serving::Level;
using serving::LimitKind;
using serving::LimitOf;
using serving::ProcessLimits;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kApi = "/clusters/root/api";

/// A proxy with such limits.
struct Bounded {
  explicit Bounded(const FairLimits& seats, const serving::RequestLimits& requests = {})
      : limits(std::make_shared<ProcessLimits>(seats, requests)),
        rig(nullptr, [this](ProxyHandlerParams& params) { params.process_limits = limits; }) {}
  [[nodiscard]] serving::FairQueues::LevelTotals of(Level level) const {
    return limits->totals()[static_cast<std::size_t>(level)];
  }
  /// What alice asks goes over connections of her own.
  void become_alice() {
    rig.log_in();
    net::UpstreamParams params;
    params.url = net::Url{"http", "127.0.0.1", rig.front->port(), ""};
    params.prior_knowledge = true;
    others = std::move(rig.client);
    rig.client = net::Upstream::make(rig.loop, params);
  }
  std::shared_ptr<ProcessLimits> limits;
  Rig rig;
  decltype(Rig::client) others;
};

TEST(FairForward, SE072_AFloodIsRefusedBeyondItsQueuesAndOthersComeNext) {
  Bounded bounded({.seats = 2, .queues = 8, .hand = 1, .queue_length = 3});
  Rig& rig = bounded.rig;
  std::list<Answer> flood;
  for (int i = 0; i < 20; ++i) {
    rig.send(flood.emplace_back(), Rig::get(kApi));
  }
  ASSERT_TRUE(rig.until([&] {
    return rig.shard.exchanges.size() == 2 &&
           std::count_if(flood.begin(), flood.end(),
                         [](const Answer& one) { return one.closed; }) == 15;
  }));
  for (const Answer& one : flood) {
    EXPECT_TRUE(!one.closed || one.status == 429);
    EXPECT_TRUE(!one.closed || !one.header("retry-after").empty());
  }
  EXPECT_EQ(bounded.of(Level::kUnknown).waiting, 3U);
  EXPECT_EQ(bounded.of(Level::kUnknown).full, 15U);
  bounded.become_alice();
  Answer alice;
  rig.send(alice, Rig::get(kApi));
  ASSERT_TRUE(rig.until([&] { return bounded.of(Level::kTenant).waiting == 1; }));
  FakeShard::reply(rig.shard.exchanges.front(), 200, "{}");
  ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 3; }));
  EXPECT_EQ(rig.shard.exchanges.back().head.headers.get("x-remote-user"), "alice");
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  FakeShard::reply(rig.shard.exchanges.back(), 200, "{}");
  FakeShard::reply(*std::next(rig.shard.exchanges.begin()), 200, "{}");
  ASSERT_TRUE(rig.until([&] {
    return alice.closed &&
           std::all_of(flood.begin(), flood.end(), [](const Answer& one) { return one.closed; });
  }));
  EXPECT_EQ(alice.status, 200);
  EXPECT_EQ(std::count_if(flood.begin(), flood.end(),
                          [](const Answer& one) { return one.status == 200; }),
            5);
  EXPECT_EQ(bounded.of(Level::kUnknown).seats + bounded.of(Level::kTenant).seats, 0U);
}

TEST(FairForward, SE075_ABodyThatComesWhileItWaitsIsSentWhole) {
  Bounded bounded({.seats = 1});
  Rig& rig = bounded.rig;
  rig.shard.complete = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  for (const std::size_t size : {std::size_t{10}, std::size_t{50'000}, std::size_t{200'000}}) {
    rig.shard.complete = nullptr;
    const std::size_t before = rig.shard.exchanges.size();
    Answer first, post;
    rig.send(first, Rig::get(kApi));
    ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == before + 1; }));
    std::string body(size, 'x');
    body += "end";
    rig.send(post, Rig::request("POST", kApi, false), body);
    ASSERT_TRUE(rig.until([&] { return bounded.of(Level::kUnknown).waiting == 1; })) << size;
    rig.shard.complete = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
    FakeShard::reply(rig.shard.exchanges.back(), 200, "{}");
    ASSERT_TRUE(rig.until([&] { return post.closed; })) << size;
    EXPECT_EQ(post.status, 200);
    EXPECT_EQ(rig.shard.exchanges.back().body, body) << size;
  }
}

TEST(FairForward, SE074_WhoGoesOrWaitsTooLongLeavesTheQueue) {
  Bounded bounded({.seats = 1, .wait = milliseconds(200)});
  Rig& rig = bounded.rig;
  Answer first;
  rig.send(first, Rig::get(kApi));
  ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 1; }));
  {
    Answer gone;
    rig.send(gone, Rig::get(kApi));
    ASSERT_TRUE(rig.until([&] { return bounded.of(Level::kUnknown).waiting == 1; }));
    gone.stream->reset(Errc::kCancelled);
    ASSERT_TRUE(rig.until([&] { return gone.closed; }));
  }
  ASSERT_TRUE(rig.until([&] { return bounded.of(Level::kUnknown).waiting == 0; }));
  Answer late;
  rig.ask(late, Rig::get(kApi));
  EXPECT_EQ(late.status, 429);
  EXPECT_EQ(bounded.of(Level::kUnknown).late, 1U);
  EXPECT_EQ(rig.shard.exchanges.size(), 1U);
}

TEST(FairForward, SE076_AWatchThatHasBegunHasNoSeat) {
  Bounded bounded({.seats = 1});
  Rig& rig = bounded.rig;
  rig.shard.answer = [](Exchange& exchange) {
    exchange.stream->send_head(200, http::HeaderList(), false);
  };
  std::list<Answer> watches;
  for (int i = 0; i < 5; ++i) {
    rig.send(watches.emplace_back(), Rig::get("/clusters/root/api/v1/configmaps?watch=1"));
  }
  ASSERT_TRUE(rig.until([&] {
    return std::all_of(watches.begin(), watches.end(),
                       [](const Answer& one) { return one.status == 200; });
  }));
  EXPECT_EQ(bounded.of(Level::kUnknown).seats, 0U);
}

TEST(FairForward, R30_LimitsOfAClusterAndAShardCountWhatGoesThere) {
  Bounded bounded({}, {.cluster = {.concurrent = 1}, .shard = {.concurrent = 2}});
  Rig& rig = bounded.rig;
  Answer one, same, other, third;
  rig.send(one, Rig::get(kApi));
  ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 1; }));
  rig.ask(same, Rig::get(kApi));
  EXPECT_EQ(same.status, 429);
  EXPECT_NE(same.body.find("limits.cluster.concurrent"), std::string::npos);
  EXPECT_EQ(same.header("retry-after"), "1");
  rig.send(other, Rig::get("/clusters/root:one/api"));
  ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 2; }));
  FakeShard::reply(rig.shard.exchanges.front(), 200, "{}");
  ASSERT_TRUE(rig.until([&] { return one.closed; }));
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  rig.ask(third, Rig::get(kApi));
  EXPECT_EQ(third.status, 200) << "the first is over";
  EXPECT_EQ(bounded.limits->requests().refused(LimitOf::kCluster, LimitKind::kConcurrent), 1U);
}

TEST(FairForward, SE089_OnePayerLeavesAnEighthOfAClusterAndOfAShardToOthers) {
  for (const bool of_shard : {false, true}) {
    const serving::LimitRule rule{.concurrent = 16};
    Bounded bounded({}, of_shard ? serving::RequestLimits{.shard = rule}
                                 : serving::RequestLimits{.cluster = rule});
    Rig& rig = bounded.rig;
    std::list<Answer> heavy;
    for (int i = 0; i < 14; ++i) {
      rig.send(heavy.emplace_back(), Rig::get(kApi));
    }
    ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 14; }));
    Answer refused;
    rig.ask(refused, Rig::get(kApi));
    EXPECT_EQ(refused.status, 429);
    EXPECT_NE(refused.body.find(of_shard ? "limits.shard.concurrent" : "limits.cluster.concurrent"),
              std::string::npos);
    bounded.become_alice();
    Answer one, two, three;
    rig.send(one, Rig::get(kApi));
    rig.send(two, Rig::get(kApi));
    ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 16; }));
    rig.ask(three, Rig::get(kApi));
    EXPECT_EQ(three.status, 429) << "no more than there are";
  }
}

}  // namespace
}  // namespace kintsugi::proxy
