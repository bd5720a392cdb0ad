#include "aggregation/watch/internal/group_log.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::aggregation {
namespace {

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
  log.begin_slot(0, 100);
  log.begin_slot(1, 7);
  EXPECT_EQ(log.first_after(0, 100), log.end());
  log.append(event(0, 101));
  log.append(event(1, 8));
  log.append(event(0, 105));
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
  log.begin_slot(0, 1);
  log.begin_slot(1, 1);
  log.append(event(0, 5));
  log.append(event(1, 6));
  log.append(event(0, 7));
  EXPECT_EQ(log.begin(), 1U);
  EXPECT_EQ(log.end(), 3U);
  EXPECT_EQ(log.at(1).position, 6U);
  EXPECT_EQ(log.bytes(), 20U);
  EXPECT_EQ(log.floor(0), 5U);
  EXPECT_EQ(log.floor(1), 1U);
  log.append(event(1, 9, 100));  // the newest is kept whatever its size
  EXPECT_EQ(log.begin(), 3U);
  EXPECT_EQ(log.floor(0), 7U);
  EXPECT_EQ(log.floor(1), 6U);
}

TEST(GroupLog, WhenASlotBeginsAnew_OlderPositionsAreNoLongerServed) {
  GroupLog log(1'000);
  log.begin_slot(2, 10);
  log.append(event(2, 11));
  log.end_slot(2);
  EXPECT_FALSE(log.floor(2));
  log.begin_slot(2, 30);
  EXPECT_EQ(log.floor(2), 30U);
  EXPECT_FALSE(log.is_current(0));
  EXPECT_FALSE(log.has_events_of(2));
  log.begin_slot(2, 10);  // again from before: what is there will come once more
  EXPECT_EQ(log.first_after(2, 10), log.end());
  log.append(event(2, 11));
  EXPECT_EQ(log.first_after(2, 10), 1U);
  log.raise_slot(2, 11);
  EXPECT_EQ(log.floor(2), 11U);
  EXPECT_TRUE(log.is_current(1));
  log.begin_slot(2, 30);
  EXPECT_EQ(log.first_after(2, 30), log.end());
}

TEST(GroupLog, WhenEventsRepeatAPosition_TheirEndIsKnownAlsoWhenTheyAreGone) {
  GroupLog log(45);
  log.begin_slot(0, 1);
  log.append(event(0, 5));
  EXPECT_EQ(log.repeats_until(), 0U);
  GroupLog::Entry again = event(0, 5);
  again.repeats = true;
  log.append(std::move(again));
  EXPECT_EQ(log.repeats_until(), 2U);
  for (std::uint64_t position = 6; position < 12; ++position) {
    log.append(event(0, position));
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
  log.begin_slot(0, 10);
  log.append(event(0, 11));
  log.append(again(0, 11));
  log.append(event(0, 11));  // out of order
  log.append(again(0, 11));
  log.append(event(0, 15));
  EXPECT_EQ(log.first_after(0, 10), 0U);
  EXPECT_EQ(log.first_after(0, 11), 1U);
  EXPECT_EQ(log.first_after(0, 12), 4U);
}

TEST(GroupLog, WhenARangeIsClosed_T110_NobodyBeginsInIt) {
  GroupLog log(1'000);
  log.begin_slot(0, 10);
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
  log.begin_slot(0, 10);
  EXPECT_TRUE(log.serves(0, 25));
}

TEST(GroupLog, WhenWhatRepeatsIsForgotten_T110_WhoIsThereIsNotServed) {
  GroupLog log(20);
  log.begin_slot(0, 10);
  log.append(event(0, 11));
  log.append(again(0, 11));
  EXPECT_TRUE(log.serves(0, 11));
  log.append(event(1, 7));
  EXPECT_TRUE(log.serves(0, 11));
  log.append(event(1, 8));
  EXPECT_FALSE(log.serves(0, 11));
  EXPECT_TRUE(log.serves(0, 12));
}

TEST(GroupLog, WhenASlotIsCut_T110_OnlyWhatComesLaterIsServed) {
  GroupLog log(1'000);
  log.begin_slot(0, 10);
  log.begin_slot(1, 10);
  log.append(event(0, 12));
  log.append(event(1, 12));
  log.append(again(1, 12));
  log.cut_slot(0, 12);
  log.cut_slot(1, 12);
  log.cut_slot(2, 12);
  EXPECT_FALSE(log.serves(0, 11));
  EXPECT_TRUE(log.serves(0, 12));
  EXPECT_FALSE(log.serves(1, 12));
  EXPECT_TRUE(log.serves(1, 13));
  EXPECT_FALSE(log.floor(2));
}

}  // namespace
}  // namespace kintsugi::aggregation
