#include "workers/runtime/unit/event_writer.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(EventPace, RT83_GoodNewsLeaveRoomForBadOnes) {
  EventPace pace;
  const TimePoint begin = TimePoint() + seconds(1'000);
  int good = 0, bad = 0;
  while (pace.may(false, begin)) {
    pace.take();
    ++good;
  }
  while (pace.may(true, begin)) {
    pace.take();
    ++bad;
  }
  EXPECT_EQ(good, 100);
  EXPECT_EQ(bad, 100);
  EXPECT_FALSE(pace.may(true, begin + milliseconds(99)));
  EXPECT_TRUE(pace.may(true, begin + milliseconds(100)));
  EXPECT_FALSE(pace.may(false, begin + seconds(10)));
  EXPECT_TRUE(pace.may(false, begin + seconds(11)));
}

}  // namespace
}  // namespace kintsugi::workers
