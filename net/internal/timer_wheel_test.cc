#include "net/internal/timer_wheel.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kintsugi::net {
namespace {

TEST(TimerWheel, WhenAdvanced_FiresInOrderOfDeadlineThenOfArming) {
  TimerWheel wheel;
  std::string fired;
  wheel.arm(5, [&] { fired += 'c'; });
  wheel.arm(2, [&] { fired += 'a'; });
  wheel.arm(5, [&] { fired += 'd'; });
  wheel.arm(3, [&] { fired += 'b'; });
  wheel.advance(1);
  EXPECT_EQ(fired, "");
  wheel.advance(4);
  EXPECT_EQ(fired, "ab");
  wheel.advance(5);
  EXPECT_EQ(fired, "abcd");
  EXPECT_EQ(wheel.size(), 0U);
  EXPECT_EQ(wheel.next(), TimerWheel::kNever);
}

TEST(TimerWheel, WhenCancelled_DoesNotFireAndTheIdStaysDead) {
  TimerWheel wheel;
  int fired = 0;
  const auto first = wheel.arm(10, [&] { ++fired; });
  EXPECT_TRUE(wheel.cancel(first));
  EXPECT_FALSE(wheel.cancel(first));
  EXPECT_FALSE(wheel.cancel(0));
  const auto second = wheel.arm(10, [&] { ++fired; });  // same node, other generation
  EXPECT_NE(first, second);
  EXPECT_FALSE(wheel.cancel(first));
  wheel.advance(10);
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(wheel.cancel(second));
}

TEST(TimerWheel, WhenACallbackCancelsItsNeighbour_TheNeighbourDoesNotFire) {
  TimerWheel wheel;
  int fired = 0;
  Loop::TimerId neighbour = 0;
  wheel.arm(7, [&] { wheel.cancel(neighbour); });
  neighbour = wheel.arm(7, [&] { ++fired; });
  wheel.advance(100);
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(TimerWheel, WhenACallbackArmsForNow_ItFiresOneTickLater) {
  TimerWheel wheel;
  int fired = 0;
  wheel.arm(1, [&] { wheel.arm(0, [&] { ++fired; }); });
  wheel.advance(1);
  EXPECT_EQ(fired, 0);
  wheel.advance(2);
  EXPECT_EQ(fired, 1);
}

TEST(TimerWheel, PERF271_WhenTimersComeAndGo_NothingIsAllocatedForThem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  TimerWheel wheel;
  const auto arm_and_end = [&wheel] {
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      const Loop::TimerId first = wheel.arm(i + 2, [] {});
      wheel.arm(i + 1, [] {});
      wheel.cancel(first);
      wheel.advance(i + 1);
    }
    wheel.advance(200'000);
  };
  const std::size_t before = ::mallinfo2().uordblks;
  arm_and_end();
  EXPECT_LE(::mallinfo2().uordblks - before, 4'096U);
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(TimerWheel, WhenDeadlinesAreRandom_MatchesAnOrderedMap) {
  std::mt19937_64 random(4711);
  TimerWheel wheel;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Loop::TimerId> model;  // (deadline, serial)
  std::vector<std::uint64_t> fired;
  std::uint64_t now = 0, serial = 0;
  const std::uint64_t ranges[] = {3, 1'000, 1'024, 1'025, 100'000, 5'000'000, 20'000'000};
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t what = random() % 10;
    if (what < 6) {
      const std::uint64_t deadline = now + 1 + random() % ranges[random() % 7];
      const std::uint64_t id = serial++;
      model[{deadline, id}] = wheel.arm(deadline, [&fired, id] { fired.push_back(id); });
    } else if (what < 8 && !model.empty()) {
      auto victim = model.lower_bound({now + random() % 2'000, 0});
      if (victim != model.end()) {
        ASSERT_TRUE(wheel.cancel(victim->second));
        model.erase(victim);
      }
    } else {
      now += random() % ranges[random() % 6];
      ASSERT_TRUE(model.empty() || wheel.next() <= model.begin()->first.first);
      ASSERT_TRUE(model.empty() || wheel.not_before() <= model.begin()->first.first);
      fired.clear();
      wheel.advance(now);
      std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
      while (!model.empty() && model.begin()->first.first <= now) {
        expected.push_back(model.begin()->first);
        model.erase(model.begin());
      }
      ASSERT_EQ(fired.size(), expected.size());
      // Within one deadline the order of arming holds as long as all of them took the same way into
      // the slot.
      std::vector<std::uint64_t> ids;
      for (const auto& item : expected) {
        ids.push_back(item.second);
      }
      std::map<std::uint64_t, std::uint64_t> deadline_of;
      for (const auto& item : expected) {
        deadline_of[item.second] = item.first;
      }
      for (std::size_t i = 1; i < fired.size(); ++i) {
        ASSERT_LE(deadline_of.at(fired[i - 1]), deadline_of.at(fired[i]));
      }
      for (const std::uint64_t id : fired) {
        ASSERT_EQ(deadline_of.count(id), 1U);
      }
    }
    ASSERT_EQ(wheel.size(), model.size());
  }
}

}  // namespace
}  // namespace kintsugi::net
