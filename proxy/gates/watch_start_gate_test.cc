#include "proxy/gates/watch_start_gate.h"

#include <algorithm>

#include "proxy/testing/gate_rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

TEST(WatchStartPace, GR213_ThoseOfTenSecondsAtOnceThenOneAfterTheOther) {
  WatchStartPace pace(200);
  const TimePoint now = TimePoint() + seconds(1'000'000);
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_EQ(pace.next(now), Duration::zero()) << i;
  }
  for (int i = 1; i <= 200; ++i) {
    ASSERT_EQ(pace.next(now), milliseconds(5) * i);
  }
  EXPECT_GT(pace.next(now), WatchStartPace::kLongestWait);
  EXPECT_GT(pace.next(now), WatchStartPace::kLongestWait);
  // Who was refused has taken no turn.
  EXPECT_EQ(pace.next(now + milliseconds(5)), WatchStartPace::kLongestWait);
  int at_once = 0;
  while (pace.next(now + seconds(3)) == Duration::zero()) {
    ++at_once;
  }
  EXPECT_NEAR(at_once, 400, 2) << "two seconds later than the last turn";
}

TEST(WatchStartPace, GR213_WithoutALimitNobodyWaits) {
  WatchStartPace pace(0);
  const TimePoint now = TimePoint() + seconds(1'000'000);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(pace.next(now), Duration::zero());
  }
}

struct StartRig : Rig {
  StartRig() : gate(loop, 10, *handler) {
    log_in();
    shard.answer = [](Exchange& exchange) {
      if (exchange.head.target.find("watch=1") == std::string::npos) {
        FakeShard::reply(exchange, 200, "{}");
        return;
      }
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
    };
  }
  WatchStartGate gate;
  testing::GateFront front_of_it{*this, gate};
};

TEST(WatchStartGate, GR213_SomeWaitAndOthersAreToldToComeAgain) {
  StartRig rig;
  constexpr std::size_t kAsked = 130;
  std::vector<std::unique_ptr<Answer>> watches;
  for (std::size_t i = 0; i < kAsked; ++i) {
    watches.push_back(std::make_unique<Answer>());
    rig.send(*watches.back(), Rig::get("/clusters/root/api/v1/pods?watch=1"));
  }
  Answer list;
  rig.ask(list, Rig::get("/clusters/root/api/v1/pods"));
  EXPECT_EQ(list.status, 200) << "what is no watch does not wait";
  ASSERT_TRUE(rig.until([&] {
    return std::all_of(watches.begin(), watches.end(),
                       [](const auto& watch) { return watch->status != 0; });
  }));
  std::size_t open = 0, refused = 0;
  for (const auto& watch : watches) {
    open += watch->status == 200 ? 1 : 0;
    if (watch->status == 429) {
      ++refused;
      EXPECT_EQ(watch->header("retry-after"), "1");
    }
  }
  EXPECT_EQ(open + refused, kAsked);
  EXPECT_GE(open, 105U) << "a hundred at once, and some of those that have waited";
  EXPECT_GE(refused, 5U);
}

TEST(WatchStartGate, GR213_WhoLeavesWhileItWaitsIsForgotten) {
  StartRig rig;
  std::vector<std::unique_ptr<Answer>> watches;
  for (std::size_t i = 0; i < 105; ++i) {
    watches.push_back(std::make_unique<Answer>());
    rig.send(*watches.back(), Rig::get("/clusters/root/api/v1/pods?watch=1"));
  }
  ASSERT_TRUE(rig.until([&] { return watches[99]->status == 200; }));
  for (std::size_t i = 100; i < 105; ++i) {
    if (watches[i]->status == 0) {
      watches[i]->stream->reset(Errc::kReset);
    }
  }
  Answer last;
  rig.send(last, Rig::get("/clusters/root/api/v1/pods?watch=1"));
  EXPECT_TRUE(rig.until([&] { return last.status == 200; })) << last.status;
}

}  // namespace
}  // namespace kintsugi::proxy
