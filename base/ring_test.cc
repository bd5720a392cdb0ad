#include "base/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

namespace kintsugi {
namespace {

TEST(Ring, WhenItGrowsAndShrinks_OrderHolds) {
  std::mt19937 random(7);
  Ring<int> ring;
  std::deque<int> expected;
  for (int i = 0; i < 2'000; ++i) {
    if (random() % 5 < 3 || expected.empty()) {
      ring.push_back(i);
      expected.push_back(i);
    } else {
      ASSERT_EQ(ring.front(), expected.front());
      ring.pop_front();
      expected.pop_front();
    }
    ASSERT_EQ(ring.size(), expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(ring[i], expected[i]);
  }
}

TEST(Ring, WhenAnEntryIsPopped_WhatItHoldsGoes) {
  const auto held = std::make_shared<int>(1);
  Ring<std::shared_ptr<int>> ring;
  for (int i = 0; i < 6; ++i) {
    ring.push_back(held);
  }
  ring.pop_front();
  EXPECT_EQ(held.use_count(), 6);
  ring.clear();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace kintsugi
