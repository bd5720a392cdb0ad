#include "endpointslice/internal/grace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::endpointslice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Grace, WhenSomethingLasts_ItPassesUntilTheLimit) {
  Grace grace(seconds(30));
  TimePoint now{};
  const Grace::Verdict first = grace.judge("s", {"a"}, now);
  EXPECT_THAT(first.passing, ElementsAre("a"));
  EXPECT_TRUE(first.began);
  EXPECT_TRUE(grace.passes("s", "a", now));
  EXPECT_FALSE(grace.passes("s", "b", now));
  EXPECT_FALSE(grace.passes("t", "a", now));
  EXPECT_FALSE(grace.passes("s", "a", now + seconds(30)));
  now += seconds(20);
  const Grace::Verdict second = grace.judge("s", {"a", "b"}, now);
  EXPECT_THAT(second.passing, ElementsAre("a", "b"));
  EXPECT_TRUE(second.began);
  now += seconds(10);
  const Grace::Verdict third = grace.judge("s", {"a", "b"}, now);
  EXPECT_THAT(third.passing, ElementsAre("b"));
  EXPECT_FALSE(third.began);
  now += seconds(3600);
  EXPECT_THAT(grace.judge("s", {"a", "b"}, now).passing, IsEmpty()) << "it does not begin again";
}

TEST(Grace, WhenSomethingEnds_ItBeginsAnew) {
  Grace grace(seconds(30));
  TimePoint now{};
  EXPECT_TRUE(grace.judge("s", {"a"}, now).began);
  now += seconds(29);
  EXPECT_THAT(grace.judge("s", {}, now).passing, IsEmpty());
  EXPECT_EQ(grace.slices(), 0U);
  now += seconds(29);
  const Grace::Verdict again = grace.judge("s", {"a"}, now);
  EXPECT_THAT(again.passing, ElementsAre("a"));
  EXPECT_TRUE(again.began);
  grace.forget("s");
  EXPECT_EQ(grace.slices(), 0U);
}

TEST(Grace, SlicesAreApartAndNoLimitLetsNothingPass) {
  Grace grace(seconds(30));
  const TimePoint now{};
  EXPECT_TRUE(grace.judge("s", {"a"}, now).began);
  EXPECT_TRUE(grace.judge("t", {"a"}, now + seconds(40)).began);
  EXPECT_THAT(grace.judge("s", {"a"}, now + seconds(40)).passing, IsEmpty());
  Grace none{Duration::zero()};
  const Grace::Verdict verdict = none.judge("s", {"a"}, now);
  EXPECT_THAT(verdict.passing, IsEmpty());
  EXPECT_FALSE(verdict.began);
  EXPECT_EQ(none.slices(), 0U);
}

}  // namespace
}  // namespace kintsugi::endpointslice
