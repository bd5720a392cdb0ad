#include "proxy/forwarding/request_tally.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(RequestTally, WhenRequestsEnd_FP140_FP083_TimesAndBytesAreCounted) {
  RequestTimes times;
  ServerBytes bytes;
  const TimePoint begin = TimePoint() + seconds(5);
  const auto ask = [&](const char* method, int code, Duration took, bool timed = true) {
    RequestTally tally(times, bytes, method, timed, begin);
    tally.up(5);
    tally.down(11);
    tally.answered(code);
    tally.end(begin + took);
  };
  ask("GET", 200, milliseconds(50));
  ask("GET", 200, milliseconds(51));
  ask("GET", 200, seconds(61));
  ask("POST", 409, milliseconds(1));
  ask("BREW", 200, milliseconds(1));
  ask("MAKE", 200, milliseconds(1));
  ask("GET", 200, seconds(600), false);  // a watch
  ask("GET", 0, seconds(1));             // never answered
  ASSERT_EQ(times.rows().size(), 3U);
  const RequestTimes::Times& gets = times.rows().at({"get", 200});
  EXPECT_EQ(gets.counts[0], 1U);
  EXPECT_EQ(gets.counts[1], 1U);
  EXPECT_EQ(gets.counts.back(), 1U);
  EXPECT_DOUBLE_EQ(gets.sum, 0.05 + 0.051 + 61);
  EXPECT_EQ(times.rows().at({"post", 409}).counts[0], 1U);
  EXPECT_EQ(times.rows().at({"other", 200}).counts[0], 2U);
  EXPECT_EQ(bytes.up, 40U);
  EXPECT_EQ(bytes.down, 88U);
  RequestTimes sum;
  sum.add(times);
  sum.add(times);
  EXPECT_EQ(sum.rows().at({"get", 200}).counts[0], 2U);
}

}  // namespace
}  // namespace kintsugi::proxy
