#include "workers/eventing/delivering/record_delivery.h"

#include <gtest/gtest.h>

#include <vector>

#include "workers/eventing/delivering/partition_order.h"

namespace kintsugi::workers {
namespace {

using Kind = DeliveryAction::Kind;

RetryPlan plan_of(std::uint32_t retry, bool dead_letter,
                  BackoffPolicy policy = BackoffPolicy::kExponential) {
  EgressConfig config;
  config.retry = retry;
  config.backoff_policy = policy;
  config.backoff_delay = 100;
  config.dead_letter = dead_letter ? "http://dead" : "";
  return RetryPlan::of(config, seconds(30));
}

DeliveryAction done(DeliveryOutcome outcome) { return {.kind = Kind::kDone, .outcome = outcome}; }
DeliveryAction wait(int ms) { return {.kind = Kind::kWait, .wait = milliseconds(ms)}; }
DeliveryAction send(DeliveryTarget target) { return {.kind = Kind::kSend, .target = target}; }

TEST(RecordDelivery, DP_4_DelaysGoByThePolicy) {
  const RetryPlan exponential = plan_of(9, false);
  EXPECT_EQ(exponential.delay_after(0), milliseconds(100));
  EXPECT_EQ(exponential.delay_after(3), milliseconds(800));
  EXPECT_EQ(exponential.delay_after(40), RetryPlan::kMaxDelay);
  EXPECT_EQ(exponential.delay_after(4'000'000'000), RetryPlan::kMaxDelay);
  const RetryPlan linear = plan_of(9, false, BackoffPolicy::kLinear);
  EXPECT_EQ(linear.delay_after(0), milliseconds(100));
  EXPECT_EQ(linear.delay_after(3), milliseconds(400));
  EXPECT_EQ(linear.delay_after(4'000'000'000), RetryPlan::kMaxDelay);
  EXPECT_EQ(RetryPlan().delay_after(5), Duration::zero());
  EgressConfig config;
  config.timeout = ~std::uint64_t{0};
  config.backoff_delay = ~std::uint64_t{0};
  EXPECT_EQ(RetryPlan::of(config, seconds(30)).timeout, seconds(86'400));
  EXPECT_EQ(RetryPlan::of(config, seconds(30)).delay_after(0), RetryPlan::kMaxDelay);
  config.timeout = 0;
  EXPECT_EQ(RetryPlan::of(config, seconds(30)).timeout, seconds(30));
}

TEST(RecordDelivery, KN_T055_TwoFailuresAndThenSuccess) {
  RecordDelivery one(plan_of(3, true));
  EXPECT_EQ(one.begin(true), send(DeliveryTarget::kDestination));
  EXPECT_EQ(one.on_sent(false, false), wait(100));
  EXPECT_EQ(one.on_waited(), send(DeliveryTarget::kDestination));
  EXPECT_EQ(one.on_sent(false, false), wait(200));
  EXPECT_EQ(one.on_waited(), send(DeliveryTarget::kDestination));
  EXPECT_EQ(one.on_sent(true, false), done(DeliveryOutcome::kDelivered));
}

TEST(RecordDelivery, KN_T056_TheDeadLetterSinkHasItsOwnTries) {
  RecordDelivery one(plan_of(1, true));
  (void)one.begin(true);
  EXPECT_EQ(one.on_sent(false, false), wait(100));
  (void)one.on_waited();
  EXPECT_EQ(one.on_sent(false, false), send(DeliveryTarget::kDeadLetter));
  EXPECT_EQ(one.on_sent(false, false), wait(100));
  EXPECT_EQ(one.on_waited(), send(DeliveryTarget::kDeadLetter));
  EXPECT_EQ(one.on_sent(true, true), done(DeliveryOutcome::kDeadLettered));
  RecordDelivery lost(plan_of(0, true));
  (void)lost.begin(true);
  (void)lost.on_sent(false, false);
  EXPECT_EQ(lost.on_sent(false, false), done(DeliveryOutcome::kSkipped));
}

TEST(RecordDelivery, DP_4_WithoutADeadLetterSinkTheRecordIsSkipped) {
  RecordDelivery one(plan_of(0, false));
  (void)one.begin(true);
  EXPECT_EQ(one.on_sent(false, false), done(DeliveryOutcome::kSkipped));
}

TEST(RecordDelivery, DP_6_FilteredRecordsAreDone) {
  EXPECT_EQ(RecordDelivery(plan_of(0, false)).begin(false), done(DeliveryOutcome::kFiltered));
}

TEST(RecordDelivery, DP_7_RepliesGoOnAndTheirFailureIsTheRecords) {
  RecordDelivery one(plan_of(0, true));
  (void)one.begin(true);
  EXPECT_EQ(one.on_sent(true, true), send(DeliveryTarget::kReply));
  EXPECT_EQ(one.on_sent(true, true), done(DeliveryOutcome::kDelivered));
  RecordDelivery failing(plan_of(1, true));
  (void)failing.begin(true);
  EXPECT_EQ(failing.on_sent(true, true), send(DeliveryTarget::kReply));
  EXPECT_EQ(failing.on_sent(false, false), wait(100));
  EXPECT_EQ(failing.on_waited(), send(DeliveryTarget::kReply));
  EXPECT_EQ(failing.on_sent(false, false), send(DeliveryTarget::kDeadLetter));
}

std::vector<std::int64_t> begun(PartitionOrder& order) {
  std::vector<std::int64_t> out;
  while (const auto next = order.begin()) {
    out.push_back(*next);
  }
  return out;
}

TEST(PartitionOrder, DP_5_OrderedOnesGoOneAtATime) {
  PartitionOrder order(1);
  EXPECT_TRUE(order.take(5));
  EXPECT_TRUE(order.take(6));
  EXPECT_EQ(begun(order), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(order.waiting(), 1U);
  order.finish(5);
  EXPECT_EQ(order.take_commit(), 6);
  EXPECT_EQ(order.take_commit(), std::nullopt);
  EXPECT_EQ(begun(order), (std::vector<std::int64_t>{6}));
}

TEST(PartitionOrder, DP_5_OffsetsAreCommittedContiguously) {
  PartitionOrder order(3);
  for (const std::int64_t offset : {10, 12, 13, 20}) {  // 11 was compacted away
    EXPECT_TRUE(order.take(offset));
  }
  EXPECT_EQ(begun(order), (std::vector<std::int64_t>{10, 12, 13}));
  order.finish(13);
  EXPECT_EQ(order.take_commit(), std::nullopt);
  EXPECT_EQ(begun(order), (std::vector<std::int64_t>{20}));
  order.finish(10);
  EXPECT_EQ(order.take_commit(), 11);
  order.finish(20);
  EXPECT_EQ(order.take_commit(), std::nullopt);
  order.finish(12);
  EXPECT_EQ(order.take_commit(), 21);
  order.commit_again();
  EXPECT_EQ(order.take_commit(), 21);
  EXPECT_EQ(order.take_commit(), std::nullopt);
  order.committed(11);
  EXPECT_FALSE(order.all_committed());
  order.commit_again();
  EXPECT_EQ(order.take_commit(), 21);
  order.committed(21);
  EXPECT_TRUE(order.all_committed());
  order.commit_again();
  EXPECT_EQ(order.take_commit(), std::nullopt);
  EXPECT_EQ(order.under_way(), 0U);
}

TEST(PartitionOrder, DP_5_WhatIsFetchedAgainIsNotTakenAgain) {
  PartitionOrder order(3);
  EXPECT_TRUE(order.take(1));
  EXPECT_FALSE(order.take(1));
  EXPECT_FALSE(order.take(0));
  (void)order.begin();
  order.finish(1);
  order.finish(1);
  order.finish(9);
  EXPECT_EQ(order.under_way(), 0U);
  EXPECT_EQ(order.take_commit(), 2);
  EXPECT_FALSE(order.take(1));
}

}  // namespace
}  // namespace kintsugi::workers
