#include "shards/internal/health_fsm.h"

#include <gtest/gtest.h>

namespace kintsugi::shards {
namespace {

using Change = HealthFsm::Change;

TEST(HealthFsm, WhenThreeProbesFail_IsDownUntilOneIsAnswered) {
  HealthFsm health;
  TimePoint now{};
  EXPECT_EQ(health.on_probe(false, now), Change::kNone);
  EXPECT_EQ(health.on_probe(false, now += seconds(5)), Change::kNone);
  EXPECT_EQ(health.on_probe(false, now += seconds(5)), Change::kDown);
  EXPECT_FALSE(health.up());
  EXPECT_EQ(health.on_probe(false, now += seconds(1)), Change::kNone);
  EXPECT_EQ(health.on_probe(true, now += seconds(1)), Change::kUp);
  EXPECT_TRUE(health.up());
}

TEST(HealthFsm, WhenAProbeIsAnsweredBetween_CountsAnew) {
  HealthFsm health;
  const TimePoint now{};
  EXPECT_EQ(health.on_probe(false, now), Change::kNone);
  EXPECT_EQ(health.on_probe(false, now), Change::kNone);
  EXPECT_EQ(health.on_probe(true, now), Change::kNone);
  EXPECT_EQ(health.on_probe(false, now), Change::kNone);
  EXPECT_EQ(health.on_probe(false, now), Change::kNone);
  EXPECT_TRUE(health.up());
}

TEST(HealthFsm, WhenFiveRequestsFailWithinTenSeconds_IsDown) {
  HealthFsm health;
  TimePoint now{};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(health.on_failure(now += seconds(2)), Change::kNone);
  }
  EXPECT_EQ(health.on_failure(now += seconds(2)), Change::kDown);
}

TEST(HealthFsm, WhenFailuresAreSpread_StaysUpUntilFiveFallIntoTenSeconds) {
  HealthFsm health;
  TimePoint now{};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(health.on_failure(now += seconds(3)), Change::kNone);
  }
  EXPECT_EQ(health.on_failure(now += milliseconds(100)), Change::kDown);
}

TEST(HealthFsm, WhenARequestSucceedsBetween_TheRowIsBroken) {
  HealthFsm health;
  const TimePoint now{};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(health.on_failure(now), Change::kNone);
  }
  EXPECT_EQ(health.on_success(now), Change::kNone);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(health.on_failure(now), Change::kNone);
  }
  EXPECT_TRUE(health.up());
}

TEST(HealthFsm, WhenItJustFailed_AdmitsAllForTheRestart) {
  HealthFsm health;
  const TimePoint start{};
  for (int i = 0; i < 5; ++i) {
    (void)health.on_failure(start + milliseconds(100 * i));
  }
  ASSERT_FALSE(health.up());
  EXPECT_TRUE(health.admit(start + milliseconds(500)));
  EXPECT_TRUE(health.admit(start + milliseconds(9'999)));
  EXPECT_TRUE(health.admit(start + milliseconds(10'000)));  // the first trial
  EXPECT_FALSE(health.admit(start + milliseconds(10'001)));
}

TEST(HealthFsm, WhenAnotherLoopKnowsBetter_FollowsAtOnce) {
  HealthFsm health;
  const TimePoint now{};
  EXPECT_EQ(health.on_verdict(true, now), Change::kNone);
  EXPECT_EQ(health.on_verdict(false, now), Change::kDown);
  EXPECT_EQ(health.on_verdict(false, now), Change::kNone);
  EXPECT_EQ(health.on_verdict(true, now), Change::kUp);
}

TEST(HealthFsm, WhenDownForLong_AdmitsOneTrialASecond) {
  HealthFsm health;
  TimePoint now{};
  EXPECT_TRUE(health.admit(now));
  (void)health.on_probe(false, now);
  now += HealthFsm::kRestart;
  for (int i = 0; i < 2; ++i) {
    (void)health.on_probe(false, now);
  }
  EXPECT_FALSE(health.admit(now + milliseconds(999)));
  EXPECT_TRUE(health.admit(now + milliseconds(1'000)));
  EXPECT_FALSE(health.admit(now + milliseconds(1'500)));
  EXPECT_TRUE(health.admit(now + milliseconds(2'000)));
  EXPECT_EQ(health.on_success(now + milliseconds(2'001)), Change::kUp);
  EXPECT_TRUE(health.admit(now + milliseconds(2'002)));
  EXPECT_TRUE(health.admit(now + milliseconds(2'003)));
}

}  // namespace
}  // namespace kintsugi::shards
