#include "workers/eventing/scheduling/autoscaler.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

const TimePoint kScalerStart = TimePoint() + seconds(1'000);

AutoscalerView calm(std::int64_t replicas, std::int64_t wanted) {
  AutoscalerView view;
  view.replicas = replicas;
  view.wanted = wanted;
  view.used = replicas;
  return view;
}

TEST(Autoscaler, KA_2_UpAtOnce_AndOnceOnly) {
  Autoscaler scaler({});
  AutoscalerView view = calm(1, 2);
  view.pending_room = true;
  EXPECT_EQ(scaler.look(view, kScalerStart).scale_to, 2);
  EXPECT_FALSE(scaler.look(view, kScalerStart).scale_to);  // it is being written
  view.replicas = 2;
  view.coming = true;
  scaler.answered();
  EXPECT_FALSE(scaler.look(view, kScalerStart + seconds(1)).scale_to);  // its pod is coming
}

TEST(Autoscaler, KA_6_ALostRaceIsReckonedAnew) {
  Autoscaler scaler({});
  EXPECT_EQ(scaler.look(calm(1, 3), kScalerStart).scale_to, 3);
  scaler.answered();  // 409: a user has made it 5
  EXPECT_FALSE(scaler.look(calm(5, 3), kScalerStart).scale_to);
  scaler.answered();  // 409: a user has made it 2
  EXPECT_EQ(scaler.look(calm(2, 3), kScalerStart).scale_to, 3);
}

TEST(Autoscaler, WhereThePodsAreEnoughBySumsButNotByPieces_OneMoreIsWanted) {
  Autoscaler scaler({});
  AutoscalerView view = calm(2, 2);
  view.pending_room = true;
  EXPECT_EQ(scaler.look(view, kScalerStart).scale_to, 3);
}

TEST(Autoscaler, KA_1_BoundsHold) {
  AutoscalerSettings settings;
  settings.min_replicas = 2;
  settings.max_replicas = 4;
  Autoscaler scaler(settings);
  EXPECT_EQ(scaler.look(calm(0, 0), kScalerStart).scale_to, 2);
  scaler.answered();
  EXPECT_EQ(scaler.look(calm(2, 9), kScalerStart).scale_to, 4);
  scaler.answered();
  AutoscalerView view = calm(4, 9);
  view.pending_room = true;
  EXPECT_FALSE(scaler.look(view, kScalerStart).scale_to);
  EXPECT_EQ(Autoscaler({}).bounded(-3), 0);
}

TEST(Autoscaler, KN_T043_KA_3_DownAfterAWholePeriodOfLess) {
  Autoscaler scaler({});
  AutoscalerView view = calm(3, 1);
  view.used = 1;
  EXPECT_FALSE(scaler.look(view, kScalerStart).scale_to);
  EXPECT_EQ(scaler.next_timer(), kScalerStart + seconds(100));
  EXPECT_FALSE(scaler.look(view, kScalerStart + seconds(99)).scale_to);
  EXPECT_FALSE(scaler.look(calm(3, 3), kScalerStart + seconds(99)).scale_to);  // for a moment
  EXPECT_FALSE(scaler.look(view, kScalerStart + seconds(100)).scale_to);
  EXPECT_FALSE(scaler.look(view, kScalerStart + seconds(199)).scale_to);
  EXPECT_EQ(scaler.look(view, kScalerStart + seconds(200)).scale_to, 1);
}

TEST(Autoscaler, KA_4_WhatIsAboveIsEmptiedFirst_LotByLot) {
  Autoscaler scaler({});
  AutoscalerView view = calm(3, 1);
  std::ignore = scaler.look(view, kScalerStart);
  TimePoint now = kScalerStart + seconds(100);
  EXPECT_TRUE(scaler.look(view, now).compact);
  scaler.moved(2, now);
  view.moving = true;
  EXPECT_FALSE(scaler.look(view, now + seconds(5)).compact);  // that lot is on its way
  view.moving = false;
  view.used = 2;
  EXPECT_FALSE(scaler.look(view, now + seconds(1)).compact);
  EXPECT_EQ(scaler.next_timer(), now + seconds(2));
  EXPECT_TRUE(scaler.look(view, now + seconds(2)).compact);
  scaler.moved(1, now + seconds(2));
  view.used = 1;
  const AutoscalerStep last = scaler.look(view, now + seconds(3));
  EXPECT_EQ(last.scale_to, 1);
  EXPECT_FALSE(last.compact);
}

TEST(Autoscaler, KA_5_ItEvensOncePerPeriod_UntilThereIsNothingToGain) {
  Autoscaler scaler({});
  const AutoscalerView view = calm(2, 2);
  EXPECT_FALSE(scaler.look(view, kScalerStart).rebalance);
  EXPECT_EQ(scaler.next_timer(), kScalerStart + seconds(100));
  TimePoint now = kScalerStart + seconds(100);
  EXPECT_TRUE(scaler.look(view, now).rebalance);
  scaler.moved(1, now);
  EXPECT_FALSE(scaler.look(view, now).rebalance);
  now += seconds(2);
  EXPECT_TRUE(scaler.look(view, now).rebalance);
  scaler.moved(0, now);
  EXPECT_FALSE(scaler.look(view, now + seconds(2)).rebalance);
  EXPECT_EQ(scaler.next_timer(), now + seconds(100));
}

TEST(Autoscaler, WhilePendingNothingShrinks) {
  AutoscalerSettings settings;
  settings.max_replicas = 3;
  Autoscaler scaler(settings);
  AutoscalerView view = calm(3, 2);
  view.pending_room = true;
  for (int i = 0; i < 5; ++i) {
    const AutoscalerStep step = scaler.look(view, kScalerStart + seconds(100 * i));
    EXPECT_FALSE(step.scale_to);
    EXPECT_FALSE(step.compact);
  }
}

}  // namespace
}  // namespace kintsugi::workers
