#include "aggregation/watch/group_log.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <string>

namespace kintsugi::aggregation {
namespace {

const std::vector<bool> kBoth = {true, true};
constexpr TimePoint kStart{};

GroupLog::Entry event(std::size_t slot, std::uint64_t position, std::size_t size = 10) {
  GroupLog::Entry entry;
  entry.bytes = SharedBytes(std::string(size, 'x'));
  entry.revision = entry.position = position;
  entry.slot = static_cast<std::uint16_t>(slot);
  return entry;
}

TEST(GroupLog, WhenAReaderComesBack_AGG520_FindsTheFirstEventItHasNotSeen) {
  GroupLog log(1'000);
  EXPECT_FALSE(log.floor(1));
  log.begin_slot(0, 100, kStart);
  log.begin_slot(1, 7, kStart);
  EXPECT_EQ(log.first_after(0, 100), log.end());
  log.append(event(0, 101), kStart);
  log.append(event(1, 8), kStart);
  log.append(event(0, 105), kStart);
  EXPECT_EQ(log.first_after(0, 100), 0U);
  EXPECT_EQ(log.first_after(0, 101), 2U);
  EXPECT_EQ(log.first_after(0, 104), 2U);
  EXPECT_EQ(log.first_after(0, 105), 3U);
  EXPECT_EQ(log.first_after(1, 7), 1U);
  EXPECT_TRUE(log.has_events_of(1));
  EXPECT_FALSE(log.has_events_of(2));
  EXPECT_EQ(log.floor(0), 100U);
  EXPECT_EQ(log.bytes_from(1), 20U);
}

TEST(GroupLog, WhenItIsFull_ForgetsTheOldestAndRaisesTheFloor) {
  GroupLog log(25);
  log.begin_slot(0, 1, kStart);
  log.begin_slot(1, 1, kStart);
  log.append(event(0, 5), kStart);
  log.append(event(1, 6), kStart);
  log.append(event(0, 7), kStart);
  EXPECT_EQ(log.begin(), 1U);
  EXPECT_EQ(log.end(), 3U);
  EXPECT_EQ(log.at(1).position, 6U);
  EXPECT_EQ(log.bytes(), 20U);
  EXPECT_EQ(log.floor(0), 5U);
  EXPECT_EQ(log.floor(1), 1U);
  log.append(event(1, 9, 100), kStart);  // the newest is kept whatever its size
  EXPECT_EQ(log.begin(), 3U);
  EXPECT_EQ(log.floor(0), 7U);
  EXPECT_EQ(log.floor(1), 6U);
}

TEST(GroupLog, WhenASlotBeginsAnew_OlderPositionsAreNoLongerServed) {
  GroupLog log(1'000);
  log.begin_slot(2, 10, kStart);
  log.append(event(2, 11), kStart);
  log.end_slot(2);
  EXPECT_FALSE(log.floor(2));
  log.begin_slot(2, 30, kStart);
  EXPECT_EQ(log.floor(2), 30U);
  EXPECT_FALSE(log.is_current(0));
  EXPECT_FALSE(log.has_events_of(2));
  log.begin_slot(2, 10, kStart);  // again from before: what is there will come once more
  EXPECT_EQ(log.first_after(2, 10), log.end());
  log.append(event(2, 11), kStart);
  EXPECT_EQ(log.first_after(2, 10), 1U);
  log.raise_slot(2, 11, kStart);
  EXPECT_EQ(log.floor(2), 11U);
  EXPECT_TRUE(log.is_current(1));
  log.begin_slot(2, 30, kStart);
  EXPECT_EQ(log.first_after(2, 30), log.end());
}

TEST(GroupLog, WhenEventsRepeatAPosition_TheirEndIsKnownAlsoWhenTheyAreGone) {
  GroupLog log(45);
  log.begin_slot(0, 1, kStart);
  log.append(event(0, 5), kStart);
  EXPECT_EQ(log.repeats_until(), 0U);
  GroupLog::Entry again = event(0, 5);
  again.repeats = true;
  log.append(std::move(again), kStart);
  EXPECT_EQ(log.repeats_until(), 2U);
  for (std::uint64_t position = 6; position < 12; ++position) {
    log.append(event(0, position), kStart);
  }
  EXPECT_GT(log.begin(), 2U);
  EXPECT_EQ(log.repeats_until(), 2U);
}

GroupLog::Entry again(std::size_t slot, std::uint64_t position) {
  GroupLog::Entry entry = event(slot, position);
  entry.repeats = true;
  return entry;
}

TEST(GroupLog, WhenEventsRepeatAPosition_T110_WhoIsThereGetsThem) {
  GroupLog log(1'000);
  log.begin_slot(0, 10, kStart);
  log.append(event(0, 11), kStart);
  log.append(again(0, 11), kStart);
  log.append(event(0, 11), kStart);  // out of order
  log.append(again(0, 11), kStart);
  log.append(event(0, 15), kStart);
  EXPECT_EQ(log.first_after(0, 10), 0U);
  EXPECT_EQ(log.first_after(0, 11), 1U);
  EXPECT_EQ(log.first_after(0, 12), 4U);
}

TEST(GroupLog, WhenARangeIsClosed_T110_NobodyBeginsInIt) {
  GroupLog log(1'000);
  log.begin_slot(0, 10, kStart);
  log.close_range(0, 20, 30);
  log.close_range(0, 20, 33);  // the same beginning
  log.close_range(0, 40, 41);  // nothing is between
  for (const std::uint64_t open : {10U, 20U, 33U, 39U, 40U, 41U, 50U}) {
    EXPECT_TRUE(log.serves(0, open)) << open;
  }
  for (const std::uint64_t shut : {9U, 21U, 30U, 32U}) {
    EXPECT_FALSE(log.serves(0, shut)) << shut;
  }
  EXPECT_FALSE(log.serves(1, 50));
  EXPECT_EQ(log.closed_until(0), 41U);
  EXPECT_EQ(log.closed_until(1), 0U);
  for (std::uint64_t at = 100; at < 1'000; at += 10) {
    log.close_range(0, at, at + 5);
  }
  EXPECT_FALSE(log.serves(0, 20));  // so many are not remembered: none before them is open
  EXPECT_FALSE(log.serves(0, 992));
  EXPECT_TRUE(log.serves(0, 996));
  log.begin_slot(0, 10, kStart);
  EXPECT_TRUE(log.serves(0, 25));
}

TEST(GroupLog, WhenWhatRepeatsIsForgotten_T110_WhoIsThereIsNotServed) {
  GroupLog log(20);
  log.begin_slot(0, 10, kStart);
  log.append(event(0, 11), kStart);
  log.append(again(0, 11), kStart);
  EXPECT_TRUE(log.serves(0, 11));
  log.append(event(1, 7), kStart);
  EXPECT_TRUE(log.serves(0, 11));
  log.append(event(1, 8), kStart);
  EXPECT_FALSE(log.serves(0, 11));
  EXPECT_TRUE(log.serves(0, 12));
}

TEST(GroupLog, WhenASlotIsCut_T110_OnlyWhatComesLaterIsServed) {
  GroupLog log(1'000);
  log.begin_slot(0, 10, kStart);
  log.begin_slot(1, 10, kStart);
  log.append(event(0, 12), kStart);
  log.append(event(1, 12), kStart);
  log.append(again(1, 12), kStart);
  log.cut_slot(0, 12);
  log.cut_slot(1, 12);
  log.cut_slot(2, 12);
  EXPECT_FALSE(log.serves(0, 11));
  EXPECT_TRUE(log.serves(0, 12));
  EXPECT_FALSE(log.serves(1, 12));
  EXPECT_TRUE(log.serves(1, 13));
  EXPECT_FALSE(log.floor(2));
}

TEST(GroupLog, WhenAnEventIsEntered_AGG519_ItsReadersPositionIsRemembered) {
  GroupLog log(25);
  log.begin_slot(0, 100, kStart);
  log.begin_slot(1, 200, kStart);
  log.append(event(0, 101), kStart);
  log.raise_slot(1, 230, kStart);
  log.append(event(1, 231), kStart);
  EXPECT_EQ(log.ring().find(101, kBoth).components, (Components{101, 200}));
  EXPECT_EQ(log.ring().find(231, kBoth).components, (Components{101, 231}));
  log.clear();
  EXPECT_TRUE(log.ring().find(101, kBoth).known);
  log.leave_slot(1, kStart);
  log.append(event(0, 102), kStart);
  EXPECT_FALSE(log.floor(1));
  EXPECT_FALSE(log.ring().find(102, kBoth).known);
}

TEST(GroupLog, WhenAnEventRepeatsAPosition_AGG519_NobodyResumesThere) {
  GroupLog log(1'000);
  log.begin_slot(0, 100, kStart);
  log.begin_slot(1, 200, kStart);
  GroupLog::Entry made = again(1, 200);
  made.revision = 777;
  log.append(std::move(made), kStart);
  EXPECT_EQ(log.ring().find(777, kBoth).components, (Components{kBegun, kBegun}));
}

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
