#include "workers/eventing/model/group_id.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kintsugi::workers {
namespace {

const auto kFree = [](std::string_view) { return false; };

GroupIdDemand trigger(std::string_view ns, std::string_view name, std::string_view stored = {}) {
  return {.kind = GroupKind::kTrigger,
          .ns = ns,
          .name = name,
          .uid = "u-1",
          .channel = {},
          .asked = {},
          .stored = stored};
}

TEST(GroupId, EachKindHasItsOwn) {
  EXPECT_EQ(choose_group_id(trigger("shop", "orders"), kFree).id, "knative-trigger-shop-orders");
  EXPECT_TRUE(choose_group_id(trigger("shop", "orders"), kFree).store);
  GroupIdDemand source = trigger("shop", "orders");
  source.kind = GroupKind::kKafkaSource;
  EXPECT_EQ(choose_group_id(source, kFree).id, "knative-kafka-source-u-1");
  source.asked = "mine";
  EXPECT_EQ(choose_group_id(source, kFree).id, "mine");
  GroupIdDemand subscription = trigger("shop", "orders");
  subscription.kind = GroupKind::kSubscription;
  subscription.channel = "events";
  EXPECT_EQ(choose_group_id(subscription, kFree).id, "kafka.shop.events.u-1");
}

TEST(GroupId, KN_T067_WhatIsStoredStays) {
  const GroupId kept = choose_group_id(trigger("shop", "orders", "0c1b-old-uid-form"), kFree);
  EXPECT_EQ(kept.id, "0c1b-old-uid-form");
  EXPECT_FALSE(kept.store);
  EXPECT_FALSE(kept.collided);
}

TEST(GroupId, KN_T063_TheSecondOfTwoGetsItsOwn) {
  std::set<std::string, std::less<>> ids{"knative-trigger-a-b-c", "same"};
  const auto taken = [&](std::string_view id) { return ids.contains(id); };
  const GroupId second = choose_group_id(trigger("a-b", "c"), taken);
  EXPECT_EQ(second.id, "knative-trigger-a-b-c-u-1");
  EXPECT_TRUE(second.collided);
  EXPECT_TRUE(second.store);
  const GroupId stored = choose_group_id(trigger("x", "y", "same"), taken);
  EXPECT_EQ(stored.id, "same-u-1");
  EXPECT_TRUE(stored.store);
  // Stored once, it is what stays.
  EXPECT_FALSE(choose_group_id(trigger("x", "y", "same-u-1"), taken).store);
}

TEST(GroupId, NoneIsLongerThanAGroupTakes) {
  const std::string ns(63, 'n'), name(253, 'a');
  const GroupId id = choose_group_id(trigger(ns, name), kFree);
  EXPECT_EQ(id.id.size(), kMostGroupId);
  EXPECT_TRUE(id.id.starts_with("knative-trigger-" + ns + "-a"));
  EXPECT_TRUE(id.id.ends_with("a-u-1"));
  EXPECT_FALSE(id.collided);
  EXPECT_FALSE(choose_group_id(trigger(ns, name, id.id), kFree).store);
  const auto taken = [](std::string_view) { return true; };
  const GroupId second = choose_group_id(trigger(ns, std::string(174, 'a')), taken);
  EXPECT_EQ(second.id.size(), kMostGroupId);
  EXPECT_TRUE(second.id.ends_with("a-u-1"));
  EXPECT_TRUE(choose_group_id(trigger("a", "b", std::string(256, 'x')), kFree).store);
}

TEST(GroupId, WhoAsksForAGroupSharesIt) {
  GroupIdDemand source = trigger("shop", "orders");
  source.kind = GroupKind::kKafkaSource;
  source.asked = "mine";
  const GroupId id = choose_group_id(source, [](std::string_view) { return true; });
  EXPECT_EQ(id.id, "mine");
  EXPECT_FALSE(id.collided);
}

}  // namespace
}  // namespace kintsugi::workers
