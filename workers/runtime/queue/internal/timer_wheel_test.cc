#include "workers/runtime/queue/internal/timer_wheel.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "workers/runtime/queue/internal/seeded_random.h"

namespace kintsugi::workers {
namespace {

TEST(TimerWheel, RT44_TicksAreOf10msAndRoundedUp) {
  const TimerWheel wheel(TimePoint(seconds(1)));
  EXPECT_EQ(wheel.tick(), 100U);
  EXPECT_EQ(wheel.due_tick(TimePoint(milliseconds(1'010))), 101U);
  EXPECT_EQ(wheel.due_tick(TimePoint(milliseconds(1'011))), 102U);
  EXPECT_EQ(wheel.due_tick(TimePoint(milliseconds(5))), 101U);  // never in the past
  EXPECT_EQ(TimerWheel::tick_of(TimePoint(seconds(-1))), 0U);
}

TEST(TimerWheel, RT44_RandomTimersFireAtTheirTickAndAtNoOther) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    TimerWheel wheel(TimePoint(seconds(static_cast<std::int64_t>(random.next() % 100'000))));
    std::array<std::vector<std::uint64_t>, TimerWheel::kSlots> slots;
    std::multimap<std::uint64_t, int> expected;
    const auto put = [&](std::uint64_t due) { slots[wheel.place(due)].push_back(due); };
    for (int round = 0; round < 2'000; ++round) {
      const std::uint64_t due =
          wheel.tick() + 1 +
          (random.next() >> (20 + random.next() % 44)) % (std::uint64_t{1} << 34U);
      put(due);
      expected.emplace(due, round);
      const std::uint64_t to =
          wheel.tick() + (random.next() >> (40 + random.next() % 24)) % (1U << 20U);
      while (const std::optional<std::uint32_t> slot = wheel.step(to)) {
        std::vector<std::uint64_t> waiting;
        waiting.swap(slots[*slot]);
        for (const std::uint64_t at : waiting) {
          ASSERT_GE(at, wheel.tick());
          if (at > wheel.tick()) {
            put(at);
            continue;
          }
          ASSERT_FALSE(expected.empty());
          ASSERT_EQ(expected.begin()->first, at);  // none is passed over
          expected.erase(expected.begin());
        }
      }
      ASSERT_EQ(wheel.tick(), to);
      if (!expected.empty()) {
        ASSERT_GT(expected.begin()->first, to);
        ASSERT_TRUE(wheel.next());
        ASSERT_LE(TimerWheel::tick_of(*wheel.next()), expected.begin()->first);
        ASSERT_GT(TimerWheel::tick_of(*wheel.next()), to);
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
