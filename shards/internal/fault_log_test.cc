#include "shards/internal/fault_log.h"

#include <gtest/gtest.h>

namespace kintsugi::shards {
namespace {

using State = FaultLog::State;

TEST(FaultLog, FP136_HoweverManyLoopsNotice_OneLineIsDue) {
  FaultLog log;
  const TimePoint now = TimePoint() + seconds(9);
  EXPECT_FALSE(log.note("a", State::kUp, now));
  EXPECT_TRUE(log.note("a", State::kSilent, now));
  EXPECT_FALSE(log.note("a", State::kSilent, now + seconds(5)));
  EXPECT_TRUE(log.note("b", State::kSilent, now));
  EXPECT_TRUE(log.note("a", State::kDown, now));
  EXPECT_FALSE(log.note("a", State::kDown, now));
  EXPECT_FALSE(log.note("a", State::kSilent, now)) << "that is less";
  EXPECT_TRUE(log.note("a", State::kUp, now));
  EXPECT_FALSE(log.note("a", State::kUp, now));
}

TEST(FaultLog, FP136_WhenItComesAndGoes_SilenceIsToldOnceASecond) {
  FaultLog log;
  TimePoint now = TimePoint() + seconds(9);
  EXPECT_TRUE(log.note("a", State::kSilent, now));
  EXPECT_FALSE(log.note("a", State::kUp, now)) << "it was never told to be down";
  EXPECT_FALSE(log.note("a", State::kSilent, now + milliseconds(999)));
  EXPECT_TRUE(log.note("a", State::kSilent, now + seconds(1)));
  EXPECT_FALSE(log.note("a", State::kUp, now));
  EXPECT_TRUE(log.note("a", State::kDown, now));
}

}  // namespace
}  // namespace kintsugi::shards
