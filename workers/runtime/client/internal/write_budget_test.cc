#include "workers/runtime/client/internal/write_budget.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(WriteBudget, RT16_ABurstGoesAtOnceAndTheRestAtTheRate) {
  const TimePoint begin{seconds(100)};
  WriteBudget budget(200, 400);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(budget.take(begin), Duration{}) << i;
  }
  Duration longest{};
  for (int i = 1; i <= 200; ++i) {
    const Duration wait = budget.take(begin);
    EXPECT_GT(wait, longest) << "in their order";
    longest = wait;
  }
  EXPECT_NEAR(std::chrono::duration<double>(longest).count(), 1.0, 0.01);
  EXPECT_EQ(budget.take(begin + seconds(3)), Duration{}) << "it fills again";
}

TEST(WriteBudget, RT16_RestDoesNotFillItBeyondTheBurst) {
  const TimePoint begin{seconds(100)};
  WriteBudget budget(10, 3);
  EXPECT_EQ(budget.take(begin), Duration{});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(budget.take(begin + std::chrono::hours(1)), Duration{});
  }
  EXPECT_GT(budget.take(begin + std::chrono::hours(1)), Duration{});
}

}  // namespace
}  // namespace kintsugi::workers
