#include "proxy/merge/group_log.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::proxy {
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

}  // namespace
}  // namespace kintsugi::proxy
