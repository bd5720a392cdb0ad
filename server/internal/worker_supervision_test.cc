#include "server/internal/worker_supervision.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::server {
namespace {

class Supervision : public ::testing::Test {
 protected:
  /// Starts, lives so long, ends. @returns the pause.
  Duration live(Duration life) {
    policy_.on_started(now_);
    now_ += life;
    const Duration pause = policy_.on_ended(now_);
    now_ += pause;
    return pause;
  }
  RestartPolicy policy_;
  TimePoint now_ = TimePoint() + seconds(1000);
};

TEST_F(Supervision, RT2_PausesDoubleUpToThirtySeconds) {
  // Lives of 13 s: never five deaths in a minute, never a life of a minute.
  std::vector<Duration> pauses;
  for (int i = 0; i < 8; ++i) {
    pauses.push_back(live(seconds(20)));
  }
  EXPECT_EQ(pauses, (std::vector<Duration>{seconds(1), seconds(2), seconds(4), seconds(8),
                                           seconds(16), seconds(30), seconds(30), seconds(30)}));
  EXPECT_FALSE(policy_.crash_loop(now_));
  EXPECT_EQ(policy_.restarts(), 7U);
}

TEST_F(Supervision, RT_T002_OneDeathIsARestartAfterASecond) {
  EXPECT_EQ(live(std::chrono::hours(5)), seconds(1));
  EXPECT_EQ(live(std::chrono::hours(5)), seconds(1)) << "a long life begins anew";
  EXPECT_FALSE(policy_.crash_loop(now_));
}

TEST_F(Supervision, RT_T003_FiveDeathsInAMinuteAreACrashLoopThatIsRetriedEveryThirtySeconds) {
  const Duration expected[] = {seconds(1), seconds(2), seconds(4), seconds(8)};
  for (const Duration pause : expected) {
    EXPECT_EQ(live(Duration{}), pause);
    EXPECT_FALSE(policy_.crash_loop(now_));
  }
  EXPECT_EQ(live(Duration{}), seconds(30));
  EXPECT_TRUE(policy_.crash_loop(now_));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(live(seconds(2)), seconds(30)) << "it is still one";
    EXPECT_TRUE(policy_.crash_loop(now_));
  }
}

TEST_F(Supervision, RT_T003_AMinuteOfLifeEndsTheCrashLoop) {
  for (int i = 0; i < 5; ++i) {
    (void)live(Duration{});
  }
  policy_.on_started(now_);
  now_ += seconds(60) - Duration(1);
  EXPECT_TRUE(policy_.crash_loop(now_)) << "it may end yet";
  now_ += Duration(1);
  EXPECT_FALSE(policy_.crash_loop(now_));
  EXPECT_EQ(policy_.on_ended(now_), seconds(1));
  EXPECT_FALSE(policy_.crash_loop(now_));
}

TEST_F(Supervision, RT2_FiveDeathsInMoreThanAMinuteAreNone) {
  for (int i = 0; i < 5; ++i) {
    policy_.on_started(now_);
    (void)policy_.on_ended(now_);
    EXPECT_FALSE(policy_.crash_loop(now_)) << i;
    now_ += seconds(15);  // the fifth is 60 s after the first
  }
}

TEST_F(Supervision, WhatIsNotStarted_EndsToo) {
  EXPECT_EQ(policy_.on_ended(now_), seconds(1));
  EXPECT_FALSE(policy_.runs());
  EXPECT_EQ(policy_.restarts(), 0U);
}

TEST(WorkerMemory, RT5_FourFifthsArePressureAllOfItIsTooMuch) {
  constexpr std::size_t kLimit = 1000;
  EXPECT_EQ(judge_memory(0, kLimit), WorkerMemory::kCalm);
  EXPECT_EQ(judge_memory(799, kLimit), WorkerMemory::kCalm);
  EXPECT_EQ(judge_memory(800, kLimit), WorkerMemory::kPressure);
  EXPECT_EQ(judge_memory(999, kLimit), WorkerMemory::kPressure);
  EXPECT_EQ(judge_memory(1000, kLimit), WorkerMemory::kExceeded);
  EXPECT_EQ(judge_memory(SIZE_MAX, SIZE_MAX - 1), WorkerMemory::kExceeded);
}

}  // namespace
}  // namespace kintsugi::server
