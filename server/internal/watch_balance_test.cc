#include "server/internal/watch_balance.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kintsugi::server {
namespace {

/// What goes from the first in `seconds`, while all of it comes to the last.
struct World {
  std::size_t own;
  std::vector<std::size_t> others;
  WatchBalance balance{};
  std::size_t most_at_once = 0;
  void run(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      const std::size_t going = balance.step(own, others);
      most_at_once = std::max(most_at_once, going);
      own -= going;
      others.back() += going;
    }
  }
};

TEST(WatchBalance, GR213_OneOfThreeWasRestarted) {
  World world{1'500, {1'500, 0}};
  world.run(60);
  EXPECT_LE(world.own, 1'200U);
  EXPECT_GE(world.own, 1'170U) << "and no more than that";
  EXPECT_LE(world.most_at_once, 15U) << "a hundredth in a second";
  EXPECT_FALSE(world.balance.is_ending());
}

TEST(WatchBalance, GR213_OneOfTwoHasAll) {
  World world{300, {0}};
  world.run(120);
  EXPECT_LE(world.own, 180U);
  EXPECT_GE(world.own, 176U);
}

TEST(WatchBalance, GR213_WithinBoundsNothingGoes) {
  World world{1'400, {1'000, 1'000}};
  world.run(600);
  EXPECT_EQ(world.own, 1'400U);
}

TEST(WatchBalance, GR213_FewStayWhereTheyAre) {
  World world{99, {0, 0}};
  world.run(600);
  EXPECT_EQ(world.own, 99U);
}

TEST(WatchBalance, GR213_AloneItKeepsAll) {
  World world{5'000, {0}};
  world.run(1);
  EXPECT_TRUE(world.balance.is_ending());
  EXPECT_EQ(world.balance.step(world.own, {}), 0U);
  EXPECT_FALSE(world.balance.is_ending());
}

TEST(WatchBalance, GR213_WhatOthersHadAMomentAgoIsNoEnd) {
  WatchBalance balance;
  ASSERT_GT(balance.step(400, {100}), 0U);
  EXPECT_EQ(balance.step(250, {200}), 0U) << "enough, if that is so";
  EXPECT_GT(balance.step(250, {160}), 0U) << "it was not";
  for (int i = 0; i < 11; ++i) {
    EXPECT_EQ(balance.step(240, {200}), 0U);
  }
  EXPECT_EQ(balance.step(260, {180, 180}), 0U) << "it has been enough for long";
}

TEST(WatchBalance, GR213_ALittleEachSecondAddsUp) {
  World world{150, {0}};
  world.run(20);
  EXPECT_GE(world.others.back(), 25U) << "1.5 a second, and less as there are fewer";
  EXPECT_LE(world.most_at_once, 2U);
}

}  // namespace
}  // namespace kintsugi::server
