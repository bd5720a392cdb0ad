#include "serving/payer_bounds.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace kintsugi::serving {
namespace {

using Pass = RequestLimiter::Pass;

const TimePoint kStart = TimePoint() + seconds(1'000);

TEST(PayerBounds, SE085_APayersWatchesAreBoundedInAllAndPerResource) {
  const PayerBounds bounds{.watches = 5, .watches_per_resource = 2};
  const auto limiter = RequestLimiter::make(bounds.rules());
  std::deque<Pass> passes;
  const auto watch = [&](const std::string& payer, const std::string& what) {
    return admit_watch(*limiter, passes.emplace_back(), payer, what, kStart);
  };
  EXPECT_TRUE(watch("a", "/clusters/x/api/v1/pods"));
  EXPECT_TRUE(watch("a", "/clusters/x/api/v1/pods"));
  const auto third = watch("a", "/clusters/x/api/v1/pods");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Errc::kTooManyRequests);
  EXPECT_EQ(third.error().message(),
            "Too many requests: limits.watches_per_resource is reached, please try again later.");
  EXPECT_TRUE(passes.back().is_empty()) << "what is refused holds nothing";
  EXPECT_TRUE(watch("b", "/clusters/x/api/v1/pods")) << "others notice nothing";
  EXPECT_TRUE(watch("a", "/clusters/y/api/v1/pods"));
  EXPECT_TRUE(watch("a", "/clusters/z/api/v1/pods"));
  EXPECT_TRUE(watch("a", "/clusters/z/api/v1/nodes"));
  const auto sixth = watch("a", "/clusters/z/api/v1/secrets");
  ASSERT_FALSE(sixth);
  EXPECT_NE(sixth.error().message().find("limits.watches_per_user"), std::string::npos);
  passes.clear();
  EXPECT_TRUE(watch("a", "/clusters/x/api/v1/pods")) << "ended watches count no longer";
  EXPECT_EQ(limiter->refused(LimitOf::kResource, LimitKind::kWatches), 1U);
  EXPECT_EQ(limiter->refused(LimitOf::kPayer, LimitKind::kWatches), 1U);
}

TEST(PayerBounds, SE086_MergedReadsCountWithTheirStreams) {
  const PayerBounds bounds{.merged_reads = 3, .merged_streams = 10};
  const auto limiter = RequestLimiter::make(bounds.rules());
  Pass one, two, three, four;
  EXPECT_TRUE(admit_merged(*limiter, one, "a", 6, kStart));
  EXPECT_FALSE(admit_merged(*limiter, two, "a", 6, kStart)) << "12 streams";
  EXPECT_TRUE(admit_merged(*limiter, two, "a", 4, kStart));
  EXPECT_FALSE(admit_merged(*limiter, three, "a", 1, kStart));
  one.give_back();
  EXPECT_TRUE(admit_merged(*limiter, three, "a", 6, kStart));
  EXPECT_TRUE(admit_merged(*limiter, four, "b", 64, kStart)) << "alone it may be wider";
  two.give_back();
  three.give_back();
  Pass again[4];
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(admit_merged(*limiter, again[i], "a", 1, kStart)) << i;
  }
  EXPECT_FALSE(admit_merged(*limiter, again[3], "a", 1, kStart)) << "4 reads";
}

TEST(PayerBounds, SE088_TunnelsOfAPayerAreBounded) {
  const auto limiter = RequestLimiter::make(PayerBounds{.tunnels = 2}.rules());
  Pass one, two, three;
  EXPECT_TRUE(admit_tunnel(*limiter, one, "a", kStart));
  EXPECT_TRUE(admit_tunnel(*limiter, two, "a", kStart));
  EXPECT_FALSE(admit_tunnel(*limiter, three, "a", kStart));
  EXPECT_TRUE(admit_tunnel(*limiter, three, "b", kStart));
}

TEST(PayerBounds, WhatIsSaidGoesBeforeWhatIsUsual) {
  const PayerBounds usual = PayerBounds::usual();
  EXPECT_GE(usual.watches, 5'000U);
  EXPECT_EQ(usual.watches_per_resource, 200U);
  EXPECT_GE(usual.merged_reads, 32U);
  EXPECT_GE(usual.merged_streams, 1'024U);
  EXPECT_EQ(usual.tunnels, 256U);
  PayerBounds expected = usual;
  expected.tunnels = 7;
  EXPECT_EQ(PayerBounds{.tunnels = 7}.or_else(usual), expected);
  OpenLimits limits;
  std::uint32_t number = 0;
  for (const std::string_view key : OpenLimits::kKeys) {
    ASSERT_NE(limits.member(key), nullptr) << key;
    *limits.member(key) = ++number;
  }
  EXPECT_EQ(limits.connections, 1U);
  EXPECT_EQ(limits.payers.tunnels, 8U);
  EXPECT_EQ(limits.member("seats"), nullptr);
}

}  // namespace
}  // namespace kintsugi::serving
