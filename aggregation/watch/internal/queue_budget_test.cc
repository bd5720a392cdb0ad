#include "aggregation/watch/internal/queue_budget.h"

#include <gtest/gtest.h>

#include <memory>

namespace kintsugi::aggregation {
namespace {

TEST(QueueBudget, WhenLoopsHaveTooMuchTogether_AGG1203_EachGivesItsPart) {
  const auto budget = std::make_shared<QueueBudget>(100);
  QueueBudget::Share one(budget), two(budget);
  EXPECT_EQ(one.set(60), 0U);
  EXPECT_EQ(two.set(40), 0U);
  const std::size_t more = two.set(60);  // 20 too many, half of them here
  EXPECT_GE(more, 10U);
  EXPECT_LE(more, 11U);
  EXPECT_EQ(one.set(40), 0U);
  EXPECT_EQ(two.set(60), 0U);
}

TEST(QueueBudget, WhenALoopEnds_AGG1203_ItsBytesAreFree) {
  const auto budget = std::make_shared<QueueBudget>(100);
  QueueBudget::Share stays(budget);
  {
    QueueBudget::Share goes(budget);
    EXPECT_EQ(goes.set(100), 0U);
    EXPECT_GT(stays.set(50), 0U);
  }
  EXPECT_EQ(stays.set(100), 0U);
  EXPECT_EQ(stays.set(1'000), 901U);
  EXPECT_EQ(stays.set(0), 0U);
}

TEST(QueueBudget, WhenThereIsNoLimit_AGG1203_NothingIsTooMuch) {
  QueueBudget::Share share(std::make_shared<QueueBudget>(0));
  EXPECT_EQ(share.set(std::size_t{1} << 60), 0U);
}

}  // namespace
}  // namespace kintsugi::aggregation
