#include "workers/runtime/status/status_pacer.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::workers {
namespace {

TEST(StatusPacer, RT81_OneWriteASecond_LatestWins) {
  StatusPacer pacer({});
  TimePoint now{seconds(10)};
  EXPECT_EQ(pacer.offer("a", "1", false, now), "1");
  EXPECT_EQ(pacer.offer("a", "2", false, now + milliseconds(1)), std::nullopt);
  EXPECT_EQ(pacer.offer("a", "3", false, now + milliseconds(2)), std::nullopt);
  EXPECT_EQ(pacer.offer("b", "x", false, now + milliseconds(3)), "x");  // another object
  EXPECT_FALSE(pacer.take_due(now + milliseconds(999)));
  EXPECT_EQ(pacer.next_timer(), now + seconds(1));
  const auto due = pacer.take_due(now + seconds(1));
  ASSERT_TRUE(due);
  EXPECT_EQ(due->key, "a");
  EXPECT_EQ(due->body, "3");
  EXPECT_EQ(pacer.offer("a", "4", false, now + milliseconds(1'999)), std::nullopt);
  EXPECT_EQ(pacer.take_due(now + seconds(2)).value_or(StatusPacer::Due{}).body, "4");
  EXPECT_FALSE(pacer.take_due(now + seconds(5)));
  EXPECT_EQ(pacer.objects(), 0U);  // nothing is remembered of quiet objects
  EXPECT_FALSE(pacer.next_timer());
}

TEST(StatusPacer, RT81_ReadyTransitionsGoAtOnce) {
  StatusPacer pacer({});
  const TimePoint now{seconds(10)};
  EXPECT_EQ(pacer.offer("a", "noise", false, now), "noise");
  EXPECT_EQ(pacer.offer("a", "more noise", false, now + milliseconds(100)), std::nullopt);
  EXPECT_EQ(pacer.offer("a", "ready", true, now + milliseconds(200)), "ready");
  EXPECT_EQ(pacer.held(), 0U);  // what was held is older
  EXPECT_EQ(pacer.offer("a", "noise", false, now + milliseconds(300)), std::nullopt);
  EXPECT_FALSE(pacer.take_due(now + milliseconds(1'199)));  // a second after the last write
  EXPECT_EQ(pacer.take_due(now + milliseconds(1'200)).value_or(StatusPacer::Due{}).body, "noise");
  EXPECT_EQ(pacer.offer("a", "not ready", true, now + milliseconds(1'201)), "not ready");
}

TEST(StatusPacer, RT81_WhenWithdrawn_NothingIsWritten) {
  StatusPacer pacer({});
  const TimePoint now{seconds(10)};
  EXPECT_TRUE(pacer.offer("a", "1", false, now));
  EXPECT_FALSE(pacer.offer("a", "2", false, now));
  pacer.withdraw("a");
  pacer.withdraw("unknown");
  EXPECT_FALSE(pacer.take_due(now + seconds(3)));
  EXPECT_EQ(pacer.held_bytes(), 0U);
}

TEST(StatusPacer, RT81_WhenALimitIsReached_WritesAtOnceAndCounts) {
  StatusPacer pacer({.max_objects = 1, .max_bytes = 4});
  const TimePoint now{seconds(10)};
  EXPECT_TRUE(pacer.offer("a", "1", false, now));
  EXPECT_EQ(pacer.offer("b", "1", false, now), "1");
  EXPECT_EQ(pacer.offer("b", "2", false, now), "2");
  EXPECT_EQ(pacer.unpaced(), 2U);
  EXPECT_FALSE(pacer.offer("a", "1234", false, now));
  EXPECT_EQ(pacer.offer("a", "12345", false, now), "12345");
  EXPECT_EQ(pacer.unpaced(), 3U);
  EXPECT_EQ(pacer.held(), 0U);
}

/// What is written when an object's status changes 1,000 times a second for 10 s.
std::vector<std::pair<TimePoint, int>> flapping(bool with_ready) {
  StatusPacer pacer({});
  const TimePoint start{seconds(10)};
  std::vector<std::pair<TimePoint, int>> writes;
  bool server_ready = false;
  const auto wrote = [&](TimePoint at, const std::string& body) {
    const int value = std::stoi(body);
    writes.emplace_back(at, value);
    server_ready = with_ready && value % 3 == 1;
  };
  const auto drain = [&](TimePoint now) {
    while (const auto due = pacer.take_due(now)) {
      wrote(now, due->body);
    }
  };
  for (int i = 0; i < 10'000; ++i) {
    const TimePoint now = start + milliseconds(i);
    drain(now);
    const bool ready = with_ready && i % 3 == 1;
    if (const auto body = pacer.offer("a", std::to_string(i), ready != server_ready, now)) {
      wrote(now, *body);
    }
  }
  drain(start + seconds(11));
  return writes;
}

TEST(StatusPacer, RT_T101_FlappingCostsAtMostOneWriteASecond_TheLastValueIsWritten) {
  for (const bool with_ready : {false, true}) {
    const auto writes = flapping(with_ready);
    EXPECT_LE(writes.size(), 12U) << with_ready;
    EXPECT_GE(writes.size(), 10U) << with_ready;
    EXPECT_EQ(writes.back().second, 9'999) << with_ready;
    // One transition may follow the first write at once.
    for (std::size_t i = with_ready ? 2 : 1; i < writes.size(); ++i) {
      EXPECT_GE(writes[i].first - writes[i - 1].first, seconds(1)) << with_ready << " " << i;
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
