#include "aggregation/position/resume_ring.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace kintsugi::aggregation {
namespace {

const std::vector<bool> kBoth = {true, true};
constexpr TimePoint kStart{};

TEST(ResumeRing, WhenAnEventWasShared_AGG519_ItsReadersPositionIsFound) {
  ResumeRing ring;
  ring.move(0, 100, kStart);
  ring.move(1, 200, kStart);
  ring.deliver(0, 101, 101, kStart);
  ring.deliver(1, 205, 205, kStart);
  ring.move(0, 110, kStart);
  ring.deliver(1, 206, 206, kStart);
  EXPECT_FALSE(ring.find(99, kBoth).known);
  EXPECT_EQ(ring.find(101, kBoth).components, (Components{101, 200}));
  EXPECT_EQ(ring.find(205, kBoth).components, (Components{101, 205}));
  EXPECT_EQ(ring.find(206, kBoth).components, (Components{110, 206}));
}

TEST(ResumeRing, WhenTwoShardsHaveOneNumber_T52_TheLeastOfBothIsFound) {
  ResumeRing ring;
  ring.move(0, 10, kStart);
  ring.move(1, 10, kStart);
  ring.deliver(0, 50, 50, kStart);
  ring.deliver(0, 60, 60, kStart);
  ring.deliver(1, 50, 50, kStart);
  EXPECT_EQ(ring.find(50, kBoth).components, (Components{50, 10}));
}

TEST(ResumeRing, WhenOneReaderHadNothingOfAShard_AGG704_NobodyResumesThere) {
  ResumeRing ring;
  ring.deliver_to(101, {101, 0}, kStart);
  EXPECT_EQ(ring.find(101, kBoth).components, (Components{101, 0}));
  ring.deliver_to(101, {101, 55}, kStart);
  EXPECT_EQ(ring.find(101, kBoth).components, (Components{101, kBegun}));
}

TEST(ResumeRing, WhenAShardHasLeftSince_WhoHadItsObjectsCannotResume) {
  const std::vector<bool> first = {true, false};
  ResumeRing ring;
  ring.move(0, 100, kStart);
  ring.move(1, 200, kStart);
  ring.deliver(0, 101, 101, kStart);
  ring.deliver_to(102, {102, 200}, kStart);
  ring.move(1, std::nullopt, kStart);
  ring.deliver(0, 103, 103, kStart);
  EXPECT_EQ(ring.find(101, first).components, (Components{101, kBegun}));
  EXPECT_EQ(ring.find(102, first).components, (Components{102, kBegun}));
  EXPECT_EQ(ring.find(103, first).components, (Components{103, 0}));
  ResumeRing::Found elsewhere = ring.find(103, first);
  elsewhere.meet(ring.find(101, first));
  EXPECT_EQ(elsewhere.components, (Components{101, kBegun}));
}

TEST(ResumeRing, WhenAShardIsBack_WhoHadLostItsObjectsBeginsWithAll) {
  ResumeRing ring;
  ring.move(0, 100, kStart);
  ring.move(1, 200, kStart);
  ring.deliver(1, 300, 300, kStart);
  ring.move(1, std::nullopt, kStart);
  ring.move(1, 0, kStart);  // it has left, and its objects have ended
  ring.deliver(0, 150, 150, kStart);
  ring.deliver(0, 300, 300, kStart);
  ring.move(1, 310, kStart);
  EXPECT_EQ(ring.find(150, kBoth).components, (Components{150, 0}));
  EXPECT_EQ(ring.find(300, kBoth).components, (Components{100, kBegun}));
}

TEST(ResumeRing, WhenSeveralLoopsDelivered_TheLeastOfAllIsFound) {
  ResumeRing::Found here, there{true, {7, 20}};
  here.meet(there);
  EXPECT_EQ(here.components, there.components);
  here.meet({true, {9, 10}});
  EXPECT_EQ(here.components, (Components{7, 10}));
  here.meet({});
  EXPECT_EQ(here.components, (Components{7, 10}));
  here.meet({true, {9}});  // of an older table: nobody may resume
  EXPECT_EQ(here.components, (Components{7, kBegun}));
}

TEST(ResumeRing, WhenOneReaderIsBehind_ItsOwnPositionCounts) {
  ResumeRing ring;
  ring.move(0, 100, kStart);
  ring.move(1, 200, kStart);
  ring.deliver(0, 101, 101, kStart);
  ring.deliver_to(101, {101, 150}, kStart);
  EXPECT_EQ(ring.find(101, kBoth).components, (Components{101, 150}));
  ring.deliver_to(77, {kBegun, 0}, kStart);
  EXPECT_EQ(ring.find(77, kBoth).components, (Components{kBegun, 0}));
}

TEST(ResumeRing, WhenTheGroupLacksAMember_NothingIsFound) {
  ResumeRing ring;
  ring.move(0, 100, kStart);
  ring.deliver(0, 101, 101, kStart);
  EXPECT_FALSE(ring.find(101, kBoth).known);
  EXPECT_TRUE(ring.find(101, {true, false}).known);
  ring.move(1, 5, kStart);
  ring.deliver(0, 102, 102, kStart);
  EXPECT_TRUE(ring.find(102, kBoth).known);
  ring.move(1, std::nullopt, kStart);
  ring.deliver(0, 103, 103, kStart);
  EXPECT_FALSE(ring.find(103, kBoth).known);
}

TEST(ResumeRing, WhenItIsFull_PERF236_AnEntryHas32Bytes) {
  constexpr std::size_t kMany = 16'384;
  ResumeRing ring;
  ring.move(1, 1, kStart);
  const std::size_t before = ::mallinfo2().uordblks;
  for (std::uint64_t i = 1; i < kMany; ++i) {
    ring.deliver(0, i, i, kStart);
  }
  EXPECT_EQ(ring.size(), kMany);
  EXPECT_LE(::mallinfo2().uordblks - before, 32 * kMany + 4'096);
  EXPECT_EQ(ring.find(kMany / 2, kBoth).components, (Components{kMany / 2, 1}));
}

TEST(ResumeRing, WhenItIsOldOrFull_TheOldestAreForgotten) {
  ResumeRing ring({.least = 3, .age = seconds(10), .most = 6});
  ring.move(0, 1, kStart);
  ring.move(1, 1, kStart);
  for (std::uint64_t i = 2; i < 6; ++i) {
    ring.deliver(0, i, i, kStart + seconds(1));
  }
  EXPECT_EQ(ring.size(), 6U);
  EXPECT_EQ(ring.find(2, kBoth).components, (Components{2, 1}));
  ring.deliver_to(7, {7, 1}, kStart + seconds(2));  // one too many
  EXPECT_EQ(ring.size(), 6U);
  EXPECT_EQ(ring.find(2, kBoth).components, (Components{2, 1}));  // positions outlive their entries
  ring.deliver(1, 9, 9, kStart + seconds(60));
  EXPECT_EQ(ring.size(), 3U);
  EXPECT_FALSE(ring.find(2, kBoth).known);
  EXPECT_EQ(ring.find(9, kBoth).components, (Components{5, 9}));
  EXPECT_EQ(ring.find(7, kBoth).components, (Components{7, 1}));
}

}  // namespace
}  // namespace kintsugi::aggregation
