#include "proxy/forwarding/request_tally.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(RequestTally, WhenRequestsEnd_FP140_FP083_TimesAndBytesAreCounted) {
  RequestTimes times;
  ServerTraffic traffic;
  using Kind = RequestTally::Kind;
  const TimePoint begin = TimePoint() + seconds(5);
  const auto ask = [&](const char* method, int code, Duration took,
                       RequestTally::Kind kind = Kind::kPlain) {
    RequestTally tally(times, traffic, method, kind, begin);
    EXPECT_EQ(traffic.streams, 1U);
    EXPECT_EQ(traffic.watches, kind == Kind::kWatch ? 1U : 0U);
    tally.up(5);
    tally.down(11);
    if (code != 0) {
      tally.answered(code);
    }
    tally.end(begin + took);
  };
  ask("GET", 200, milliseconds(50));
  ask("GET", 200, milliseconds(51));
  ask("GET", 200, seconds(61));
  ask("POST", 409, milliseconds(1));
  ask("BREW", 200, milliseconds(1));
  ask("MAKE", 200, milliseconds(1));
  ask("GET", 200, seconds(600), Kind::kWatch);
  ask("GET", 101, seconds(600), Kind::kUpgrade);
  ask("GET", 0, seconds(1));  // never answered
  ASSERT_EQ(times.rows().size(), 3U);
  const RequestTimes::Times& gets = times.rows().at({"get", 200});
  EXPECT_EQ(gets.counts[0], 1U);
  EXPECT_EQ(gets.counts[1], 1U);
  EXPECT_EQ(gets.counts.back(), 1U);
  EXPECT_DOUBLE_EQ(gets.sum, 0.05 + 0.051 + 61);
  EXPECT_EQ(times.rows().at({"post", 409}).counts[0], 1U);
  EXPECT_EQ(times.rows().at({"other", 200}).counts[0], 2U);
  EXPECT_EQ(traffic.up, 45U);
  EXPECT_EQ(traffic.down, 99U);
  EXPECT_EQ(traffic.streams, 0U);
  EXPECT_EQ(traffic.watches, 0U);
  using Rows = std::map<std::pair<std::string_view, int>, std::uint64_t>;
  EXPECT_EQ(traffic.requests, (Rows{{{"get", 200}, 3},
                                    {{"create", 409}, 1},
                                    {{"other", 200}, 2},
                                    {{"watch", 200}, 1},
                                    {{"connect", 101}, 1}}));
  ServerTraffic two;
  two.add(traffic);
  two.add(traffic);
  EXPECT_EQ(two.down, 198U);
  EXPECT_EQ(two.requests.at({"get", 200}), 6U);
  RequestTimes sum;
  sum.add(times);
  sum.add(times);
  EXPECT_EQ(sum.rows().at({"get", 200}).counts[0], 2U);
}

TEST(RequestTally, WhenRequestsAreSent_R31_TheirTimeAtTheProxyIsCounted) {
  OverheadTimes times, sum;
  times.add(std::chrono::microseconds(100));
  times.add(milliseconds(2));
  times.add(seconds(11));
  sum.add(times);
  sum.add(times);
  EXPECT_EQ(sum.counts.front(), 2U);
  EXPECT_EQ(sum.counts[4], 2U);
  EXPECT_EQ(sum.counts.back(), 2U);
  EXPECT_NEAR(sum.sum, 2 * 11.0021, 1e-6);
}

}  // namespace
}  // namespace kintsugi::proxy
