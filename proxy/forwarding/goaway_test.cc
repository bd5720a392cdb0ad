#include "proxy/forwarding/goaway.h"

#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

/// The rig's handler behind one that tells connections to go.
struct GoawayRig : Rig {
  explicit GoawayRig(double chance) : goaway(chance, *handler, 7) {
    shard.answer = [](Exchange& exchange) {
      if (exchange.head.target.find("watch=1") == std::string::npos) {
        FakeShard::reply(exchange, 200, "{}");
        return;
      }
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
    };
    listener = must(net::Listener::open(loop, {}, before_it));
    net::UpstreamParams to_front;
    to_front.url = net::Url{"http", "127.0.0.1", listener->port(), ""};
    to_front.prior_knowledge = true;
    client = net::Upstream::make(loop, to_front);
  }
  ~GoawayRig() { listener->close(); }
  [[nodiscard]] std::uint64_t opened(net::UpstreamClass kind) const {
    return client->stats(kind).opened;
  }
  GoawayHandler goaway;
  Entrance before_it{view, goaway};
  std::unique_ptr<net::Listener> listener;
};

TEST(Goaway, WhenAShareOfConnectionsIsToldToGo_FP106_NothingFails) {
  GoawayRig rig(0.02);
  constexpr int kRounds = 100, kAtOnce = 100, kWatches = 50;
  std::vector<std::unique_ptr<Answer>> watches;
  for (int i = 0; i < kWatches; ++i) {
    watches.push_back(std::make_unique<Answer>());
    Answer& watch = *watches.back();
    watch.stream = &rig.client->open(net::UpstreamClass::kWatch,
                                     Rig::get("/clusters/root/api/v1/pods?watch=1"), watch);
  }
  ASSERT_TRUE(rig.until([&] {
    return std::all_of(watches.begin(), watches.end(),
                       [](const auto& watch) { return watch->status == 200; });
  }));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<Answer>> answers;
    for (int i = 0; i < kAtOnce; ++i) {
      answers.push_back(std::make_unique<Answer>());
      rig.send(*answers.back(), Rig::get("/clusters/root/api/v1/pods"));
    }
    ASSERT_TRUE(rig.until([&] {
      return std::all_of(answers.begin(), answers.end(),
                         [](const auto& answer) { return answer->closed; });
    }));
    for (const auto& answer : answers) {
      ASSERT_EQ(answer->status, 200);
      ASSERT_EQ(answer->result, Errc::kOk);
    }
  }
  EXPECT_GT(rig.goaway.told(), 20U);
  EXPECT_GT(rig.opened(net::UpstreamClass::kRead), 20U);
  for (const auto& watch : watches) {
    EXPECT_FALSE(watch->closed) << "no watch is cut";
  }
  EXPECT_EQ(rig.opened(net::UpstreamClass::kWatch), 1U);
}

TEST(Goaway, WhenAConnectionHasAWatch_FP106_ItStays) {
  GoawayRig rig(1);
  Answer watch;
  rig.send(watch, Rig::get("/clusters/root/api/v1/pods?watch=1"));
  ASSERT_TRUE(rig.until([&] { return watch.status == 200; }));
  for (int i = 0; i < 5; ++i) {
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root/api"));
    EXPECT_EQ(answer.status, 200);
  }
  EXPECT_EQ(rig.goaway.told(), 0U);
  EXPECT_EQ(rig.opened(net::UpstreamClass::kRead), 1U);
  watch.stream->detach();
  watch.stream = nullptr;
  ASSERT_TRUE(rig.until([&] {
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root/api"));
    return rig.goaway.told() > 0;
  }));
}

TEST(Goaway, WhenItIsOff_ConnectionsStay) {
  GoawayRig rig(0);
  for (int i = 0; i < 50; ++i) {
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root/api"));
  }
  EXPECT_EQ(rig.opened(net::UpstreamClass::kRead), 1U);
}

}  // namespace
}  // namespace kintsugi::proxy
