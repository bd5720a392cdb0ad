#include "serving/request_limits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "krm/status.h"

namespace kintsugi::serving {
namespace {

using Pass = RequestLimiter::Pass;

const TimePoint kStart = TimePoint() + seconds(1'000);

int retry_of(const Expected<void>& result) {
  return result ? 0 : krm::retry_after_seconds(result.error());
}

TEST(RequestLimits, WithoutLimits_NothingIsCounted) {
  const auto limiter = RequestLimiter::make();
  EXPECT_FALSE(limiter->limits(LimitOf::kUser));
  for (int i = 0; i < 100'000; ++i) {
    Pass pass;
    ASSERT_TRUE(limiter->charge(pass, LimitOf::kUser, "a", false, kStart));
  }
}

// E11.
TEST(RequestLimits, FP139_WhoIsOverHisRateIsToldWhenToComeAgain) {
  const auto limiter = RequestLimiter::make({.user = {.rps = 2, .burst = 6}});
  const auto ask = [&](std::string_view user, TimePoint now) {
    Pass pass;
    return limiter->charge(pass, LimitOf::kUser, user, false, now);
  };
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(ask("a", kStart)) << i;
  }
  const auto refused = ask("a", kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kTooManyRequests);
  EXPECT_EQ(refused.error().message(),
            "Too many requests: limits.user.rps is reached, please try again later.");
  EXPECT_EQ(retry_of(refused), 1);
  EXPECT_TRUE(ask("b", kStart)) << "others notice nothing";
  EXPECT_FALSE(ask("a", kStart + milliseconds(499)));
  EXPECT_TRUE(ask("a", kStart + milliseconds(500))) << "one that is refused costs nothing";
  EXPECT_EQ(limiter->refused(LimitOf::kUser, LimitKind::kRate), 2U);
  const auto slow = RequestLimiter::make({.unauthenticated_rps = 1});
  Pass one, two;
  EXPECT_TRUE(slow->charge(one, LimitOf::kUnauthenticated, "192.0.2.1", false, kStart));
  const auto other = slow->charge(two, LimitOf::kUnauthenticated, "192.0.2.1", false, kStart);
  EXPECT_EQ(retry_of(other), 1);
  EXPECT_NE(other.error().message().find("limits.unauthenticated.rps"), std::string_view::npos);
}

TEST(RequestLimits, FP139_TheHundredAndFirstWatchOfAHundredIsRefused) {
  const auto limiter = RequestLimiter::make({.user = {.concurrent = 2, .watches = 100}});
  std::vector<Pass> watches(101);
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(limiter->charge(watches[i], LimitOf::kUser, "a", true, kStart));
  }
  const auto refused = limiter->charge(watches[100], LimitOf::kUser, "a", true, kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "Too many requests: limits.user.watches is reached, please try again later.");
  Pass one, two, three;
  EXPECT_TRUE(limiter->charge(one, LimitOf::kUser, "a", false, kStart)) << "no watch";
  EXPECT_TRUE(limiter->charge(two, LimitOf::kUser, "a", false, kStart));
  EXPECT_FALSE(limiter->charge(three, LimitOf::kUser, "a", false, kStart));
  two.give_back();
  EXPECT_TRUE(limiter->charge(three, LimitOf::kUser, "a", false, kStart));
  watches[50].give_back();
  EXPECT_TRUE(limiter->charge(watches[100], LimitOf::kUser, "a", true, kStart));
  EXPECT_EQ(limiter->refused(LimitOf::kUser, LimitKind::kWatches), 1U);
  EXPECT_EQ(limiter->refused(LimitOf::kUser, LimitKind::kConcurrent), 1U);
}

TEST(RequestLimits, AUserAClusterAndAShardOfOneNameAreThree) {
  const auto limiter =
      RequestLimiter::make({.user = {.rps = 1}, .cluster = {.rps = 1}, .shard = {.rps = 1}});
  Pass pass;
  EXPECT_TRUE(limiter->charge(pass, LimitOf::kUser, "root", false, kStart));
  EXPECT_TRUE(limiter->charge(pass, LimitOf::kCluster, "root", false, kStart));
  EXPECT_TRUE(limiter->charge(pass, LimitOf::kShard, "root", false, kStart));
  Pass next;
  EXPECT_FALSE(limiter->charge(next, LimitOf::kShard, "root", false, kStart));
}

TEST(RequestLimits, SE089_OnlyFullBucketsAreForgotten) {
  const auto limiter = RequestLimiter::make({.user = {.rps = 1, .concurrent = 1}});
  Pass held;
  ASSERT_TRUE(limiter->charge(held, LimitOf::kUser, "held", false, kStart));
  Pass empty;
  ASSERT_TRUE(limiter->charge(empty, LimitOf::kUser, "empty", false, kStart));
  empty.give_back();
  std::size_t let_in = 0;
  for (int i = 0; i < 200'000; ++i) {
    Pass pass;
    let_in +=
        limiter->charge(pass, LimitOf::kUser, "u" + std::to_string(i), false, kStart) ? 1U : 0U;
  }
  EXPECT_LE(let_in, RequestLimiter::kBuckets) << "the table does not grow";
  EXPECT_GE(let_in, RequestLimiter::kBuckets / 2);
  Pass next;
  EXPECT_FALSE(limiter->charge(next, LimitOf::kUser, "empty", false, kStart + milliseconds(999)));
  const TimePoint later = kStart + seconds(2);
  for (int i = 0; i < 200'000; ++i) {
    Pass pass;
    static_cast<void>(limiter->charge(pass, LimitOf::kUser, "v" + std::to_string(i), false, later));
  }
  EXPECT_FALSE(limiter->charge(next, LimitOf::kUser, "held", false, later + seconds(9)))
      << "what a request holds is never forgotten";
}

/// Writers of one workspace.
struct Writers {
  explicit Writers(const RequestLimits& limits) : limiter(RequestLimiter::make(limits)) {}
  bool write(const std::string& user, TimePoint now) {
    Pass pass;
    const auto room = limiter->charge_shared(pass, LimitOf::kWorkspaceWrites, "lc", false, now,
                                             [&] { return user; });
    error = room ? "" : std::string(room.error().message());
    EXPECT_EQ(pass.is_empty(), !room) << "what is refused holds nothing";
    return room.has_value();
  }
  std::shared_ptr<RequestLimiter> limiter;
  std::string error;
};

TEST(RequestLimits, SE093_SE005_OneUserOfAWorkspaceDoesNotUseUpTheRateOfItsOthers) {
  Writers writers({.workspace_writes = {.rps = 800, .burst = 800}});
  int alone = 0;
  while (writers.write("heavy", kStart)) {
    ++alone;
  }
  EXPECT_EQ(alone, 800) << "who is alone has all of it";
  EXPECT_EQ(writers.error,
            "Too many requests: limits.workspace.writes is reached, please try again later.");
  int heavy = 0, others = 0, refused = 0;
  TimePoint now = kStart + milliseconds(300);  // something has come back meanwhile
  for (int tick = 0; tick < 10'000; ++tick, now += milliseconds(1)) {
    for (int i = 0; i < 8; ++i) {
      heavy += writers.write("heavy", now) ? 1 : 0;
    }
    if (tick % 20 == 0) {  // 6 others with 50 a second each
      for (int user = 0; user < 6; ++user) {
        const bool got = writers.write("other-" + std::to_string(user), now);
        others += got ? 1 : 0;
        refused += got ? 0 : 1;
      }
    }
  }
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(others, 3'000);
  EXPECT_NEAR(heavy + others, 8'200, 200) << "all together have the rate, and it is used";
  EXPECT_GT(writers.limiter->refused(LimitOf::kWorkspaceWrites, LimitKind::kRate), 0U);
}

TEST(RequestLimits, SE093_ManyUsersTogetherHaveNoMoreThanTheRate) {
  Writers writers({.workspace_writes = {.rps = 100, .burst = 100}});
  int all = 0;
  for (int tick = 0; tick < 5'000; ++tick) {
    for (int user = 0; user < 30; ++user) {
      const TimePoint now = kStart + milliseconds(tick);
      all += writers.write("user-" + std::to_string(user), now) ? 1 : 0;
    }
  }
  EXPECT_NEAR(all, 600, 10);
}

/// What is held: of somebody who gives nothing back.
struct Holders {
  Holders(LimitOf limit_of, bool watches, const RequestLimits& limits)
      : of(limit_of), is_watch(watches), limiter(RequestLimiter::make(limits)) {}
  bool hold(const std::string& user) {
    std::vector<Pass>& his = passes[user];
    const auto room = limiter->charge_shared(his.emplace_back(), of, "lc", is_watch, kStart,
                                             [&] { return user; });
    if (!room) {
      EXPECT_TRUE(his.back().is_empty()) << "what is refused holds nothing";
      error = room.error().message();
      his.pop_back();
    }
    return room.has_value();
  }
  int most(const std::string& user) {
    int held = 0;
    while (hold(user)) {
      ++held;
    }
    return held;
  }
  const LimitOf of;
  const bool is_watch;
  std::shared_ptr<RequestLimiter> limiter;
  std::map<std::string, std::vector<Pass>> passes;
  std::string error;
};

TEST(RequestLimits, SE089_SE093_SE005_WhatOneUserHoldsLeavesAnEighthToOthers) {
  struct Case {
    LimitOf of;
    bool is_watch;
    RequestLimits limits;
    std::string_view name;
  };
  const LimitRule watches{.watches = 80}, running{.concurrent = 80};
  const Case cases[] = {
      {LimitOf::kWorkspaceWatches, true, {.workspace_watches = watches}, "workspace.watches"},
      {LimitOf::kCluster, true, {.cluster = watches}, "cluster.watches"},
      {LimitOf::kCluster, false, {.cluster = running}, "cluster.concurrent"},
      {LimitOf::kShard, true, {.shard = watches}, "shard.watches"},
      {LimitOf::kShard, false, {.shard = running}, "shard.concurrent"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Holders holders(one.of, one.is_watch, one.limits);
    EXPECT_EQ(holders.most("heavy"), 70)
        << "he may hold them for ever: the others' part is not his";
    EXPECT_EQ(holders.error, "Too many requests: limits." + std::string(one.name) +
                                 " is reached, please try again later.");
    EXPECT_EQ(holders.most("other"), 10) << "his own part, though nobody gave anything back";
    EXPECT_EQ(holders.most("third"), 0) << "no more than there are";
    EXPECT_EQ(holders.limiter->refused(one.of,
                                       one.is_watch ? LimitKind::kWatches : LimitKind::kConcurrent),
              3U);
    holders.passes["heavy"].clear();
    EXPECT_EQ(holders.most("other"), 60) << "all but the last eighth";
    EXPECT_EQ(holders.most("third"), 10);
    holders.passes.clear();
    EXPECT_EQ(holders.most("heavy"), 70) << "nothing was lost";
    holders.passes.clear();
  }
}

TEST(RequestLimits, SE089_SmallLimitsHaveNoEighth) {
  Holders holders(LimitOf::kCluster, false, {.cluster = {.concurrent = 7}});
  EXPECT_EQ(holders.most("heavy"), 7);
  EXPECT_EQ(holders.most("other"), 0);
  holders.passes.clear();
}

TEST(RequestLimits, SE089_SE005_OneUserOfAClusterOrShardDoesNotUseUpTheRateOfItsOthers) {
  for (const LimitOf of : {LimitOf::kCluster, LimitOf::kShard}) {
    const LimitRule rule{.rps = 80, .burst = 80};
    Holders holders(
        of, false,
        of == LimitOf::kCluster ? RequestLimits{.cluster = rule} : RequestLimits{.shard = rule});
    const auto ask = [&](const std::string& user, TimePoint now) {
      Pass pass;
      return holders.limiter->charge_shared(pass, of, "lc", false, now, [&] { return user; })
          .has_value();
    };
    TimePoint now = kStart;
    while (ask("heavy", now)) {
    }
    now += milliseconds(500);
    int heavy = 0, refused = 0;
    for (int tick = 0; tick < 10'000; ++tick, now += milliseconds(1)) {
      for (int i = 0; i < 4; ++i) {
        heavy += ask("heavy", now) ? 1 : 0;
      }
      if (tick % 500 == 0) {
        refused += ask("other", now) ? 0 : 1;
      }
    }
    EXPECT_EQ(refused, 0);
    EXPECT_NEAR(heavy, 800, 60) << "the rest is used";
  }
}

TEST(RequestLimits, SE089_WithARateAndWhatIsHeld_BothHaveTheirEighth) {
  Holders holders(LimitOf::kCluster, false,
                  {.cluster = {.rps = 16, .burst = 16, .concurrent = 1'000}});
  EXPECT_EQ(holders.most("heavy"), 16) << "alone he has all of the rate";
  const LimitRule rule{.rps = 1, .burst = 800, .concurrent = 80};
  Holders running(LimitOf::kCluster, false, {.cluster = rule});
  EXPECT_EQ(running.most("heavy"), 70);
  EXPECT_EQ(running.most("other"), 10);
  for (auto& [user, passes] : running.passes) {
    for (Pass& pass : passes) {
      pass.take_back();
    }
  }
  running.passes.clear();
  int all = 0;
  while (const int more = running.most("heavy")) {
    all += more;
    running.passes.clear();
    ASSERT_LE(all, 800);
  }
  EXPECT_EQ(all, 800) << "the tokens were taken back, each once; alone he has all of them";
  holders.passes.clear();
  running.passes.clear();
}

TEST(RequestLimits, SE077_WhatIsTakenBackIsNoLongerMissing) {
  Writers writers({.workspace_writes = {.rps = 1, .burst = 16}});
  for (int round = 0; round < 3; ++round) {
    std::vector<Pass> passes(16);
    for (Pass& pass : passes) {
      ASSERT_TRUE(writers.limiter->charge_shared(pass, LimitOf::kWorkspaceWrites, "lc", false,
                                                 kStart, [] { return "a"; }));
    }
    Pass more;
    ASSERT_FALSE(writers.limiter->charge_shared(more, LimitOf::kWorkspaceWrites, "lc", false,
                                                kStart, [] { return "a"; }));
    for (Pass& pass : passes) {
      pass.take_back();
    }
  }
}

TEST(RequestLimits, R30_AreReloadable) {
  const auto limiter = RequestLimiter::make();
  limiter->set({.cluster = {.rps = 1}});
  Pass one, two;
  EXPECT_TRUE(limiter->charge(one, LimitOf::kCluster, "a", false, kStart));
  EXPECT_FALSE(limiter->charge(two, LimitOf::kCluster, "a", false, kStart));
  limiter->set({.cluster = {.rps = 0, .watches = 1}});
  EXPECT_TRUE(limiter->charge(two, LimitOf::kCluster, "a", false, kStart));
  limiter->set({});
  one.give_back();
  two.give_back();
  EXPECT_FALSE(limiter->limits(LimitOf::kCluster));
}

TEST(RequestLimits, FromManyThreads_NoTokenIsSpentTwiceAndNothingIsLeftBehind) {
  constexpr std::uint32_t kBurst = 20'000;
  const auto limiter = RequestLimiter::make({.user = {.rps = 1, .burst = kBurst, .concurrent = 3}});
  {
    Pass first;  // the bucket is there
    ASSERT_TRUE(limiter->charge(first, LimitOf::kUser, "a", false, kStart));
  }
  std::atomic<std::uint32_t> let_in = 1, running = 0;
  std::atomic<bool> crowded = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20'000; ++round) {
        Pass pass;
        if (limiter->charge(pass, LimitOf::kUser, "a", false, kStart)) {
          ++let_in;
          crowded = crowded || ++running > 3;
          --running;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(crowded);
  EXPECT_LE(let_in, kBurst);
  std::array<Pass, 3> all;
  const TimePoint later = kStart + seconds(kBurst);
  for (Pass& pass : all) {
    EXPECT_TRUE(limiter->charge(pass, LimitOf::kUser, "a", false, later)) << "every place is free";
  }
}

}  // namespace
}  // namespace kintsugi::serving
