#include "shards/internal/spread_fsm.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <vector>

namespace kintsugi::shards {
namespace {

using State = SpreadFsm::State;

/// @param ready  besides the first one
SpreadFsm with(std::size_t places, std::size_t ready) {
  SpreadFsm fsm;
  for (std::size_t i = 0; i < places; ++i) {
    fsm.add();
  }
  for (std::size_t i = 1; i <= ready; ++i) {
    fsm.on_said(i, true);
  }
  return fsm;
}

/// Whether the last one was lost.
bool look(SpreadFsm& fsm, std::initializer_list<std::uint32_t> failures) {
  std::size_t place = 0;
  for (const std::uint32_t count : failures) {
    fsm.note(place++, count);
  }
  return fsm.settle();
}

std::set<std::size_t> chosen(SpreadFsm& fsm) {
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < 2 * fsm.size(); ++i) {
    out.insert(fsm.choose(false));
  }
  return out;
}

TEST(SpreadFsmTest, GR301_ANewPlaceGetsNothingBeforeItIsReady) {
  SpreadFsm fsm = with(2, 0);
  EXPECT_FALSE(look(fsm, {0, 0}));
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{0}));
  fsm.on_said(1, false);
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{0}));
  fsm.on_said(1, true);
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{0, 1}));
  EXPECT_EQ(fsm.choose(true), 0U);
}

TEST(SpreadFsmTest, GR301_WhenTheLastOneIsLost_OneThatWasAwayMayBeBack) {
  SpreadFsm fsm = with(2, 1);
  EXPECT_FALSE(look(fsm, {0, 4}));
  EXPECT_EQ(fsm.state(1), State::kAway);
  EXPECT_TRUE(look(fsm, {1, 4}));
  EXPECT_FALSE(look(fsm, {2, 4})) << "that was said";
  EXPECT_EQ(fsm.state(1), State::kMaybe);
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{1})) << "not the one that has just failed";
  EXPECT_EQ(fsm.choose(true), 1U);
  fsm.on_said(1, true);
  EXPECT_FALSE(look(fsm, {3, 0}));
  EXPECT_EQ(fsm.state(1), State::kThere);
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{1}));
}

TEST(SpreadFsmTest, GR301_OneThatWasTriedInVainIsNotBack) {
  SpreadFsm fsm = with(2, 1);
  look(fsm, {0, 4});
  look(fsm, {1, 4});
  EXPECT_FALSE(look(fsm, {1, 5}));
  EXPECT_EQ(fsm.state(1), State::kAway);
  EXPECT_FALSE(fsm.has(State::kThere) || fsm.has(State::kMaybe));
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{0, 1})) << "all are tried in turn";
  fsm.on_said(0, true);
  EXPECT_FALSE(look(fsm, {0, 6}));
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{0}));
  EXPECT_TRUE(look(fsm, {1, 6})) << "it may have come back meanwhile";
  EXPECT_EQ(fsm.state(1), State::kMaybe);
}

TEST(SpreadFsmTest, GR301_BothLostAtOnce_NobodyIsExpected) {
  SpreadFsm fsm = with(2, 1);
  EXPECT_TRUE(look(fsm, {1, 1}));
  EXPECT_EQ(fsm.state(0), State::kAway);
  EXPECT_EQ(fsm.state(1), State::kAway);
}

TEST(SpreadFsmTest, GR301_OneThatSaysThatItIsNotReadyIsNotTried) {
  SpreadFsm fsm = with(3, 2);
  look(fsm, {0, 1, 0});
  fsm.on_said(1, false);
  look(fsm, {0, 0, 1});
  EXPECT_TRUE(look(fsm, {1, 0, 1}));
  EXPECT_EQ(fsm.state(1), State::kAway);
  EXPECT_EQ(fsm.state(2), State::kMaybe);
  fsm.on_said(2, false);
  EXPECT_EQ(fsm.state(2), State::kAway);
  fsm.on_said(1, std::nullopt);  // its process has ended, another one may be there
  fsm.on_said(0, true);
  look(fsm, {0, 1, 1});
  EXPECT_TRUE(look(fsm, {1, 1, 1}));
  EXPECT_EQ(fsm.state(1), State::kMaybe);
}

TEST(SpreadFsmTest, GR301_WhoIsThereAgainIsPreferred) {
  SpreadFsm fsm = with(3, 2);
  look(fsm, {0, 1, 1});
  look(fsm, {1, 1, 1});
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{1, 2}));
  fsm.on_said(2, true);
  look(fsm, {1, 1, 0});
  EXPECT_EQ(fsm.state(1), State::kAway);
  EXPECT_EQ(chosen(fsm), (std::set<std::size_t>{2}));
}

TEST(SpreadFsmTest, GR301_PlacesComeAndGo) {
  SpreadFsm fsm = with(3, 2);
  look(fsm, {0, 1, 0});
  fsm.put_first(2);
  EXPECT_EQ(fsm.choose(true), 0U);
  EXPECT_EQ(fsm.state(2), State::kAway) << "what was the second one is the last";
  fsm.erase(1);
  EXPECT_EQ(fsm.size(), 2U);
  EXPECT_EQ(fsm.state(1), State::kAway);
  fsm.put_first(1);
  fsm.erase(1);
  EXPECT_TRUE(look(fsm, {1})) << "the one that was there has been taken out";
  EXPECT_EQ(fsm.choose(false), 0U) << "there is no other";
}

}  // namespace
}  // namespace kintsugi::shards
