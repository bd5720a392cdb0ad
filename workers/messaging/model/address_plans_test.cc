#include "workers/messaging/model/address_plans.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

Parsed<AddressPlan> plan_of(std::string_view spec) {
  Json object =
      *Json::parse(R"({"metadata":{"name":"p","namespace":"n","uid":"u","generation":3}})");
  object["spec"] = *Json::parse(spec);
  return parse_address_plan(object);
}

TEST(AddressPlans, MR_11_APlanAllowsTheAddressPlansThatItLists) {
  const std::vector<std::string> none, two{"small", "large"};
  EXPECT_FALSE(plan_not_allowed(none, "any"));
  EXPECT_FALSE(plan_not_allowed(none, ""));
  EXPECT_FALSE(plan_not_allowed(two, "large"));
  const auto other = plan_not_allowed(two, "huge");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->type, "Validated");
  EXPECT_EQ(other->reason, "PlanNotAllowed");
  EXPECT_EQ(other->message,
            "spec.plan: huge is none of small, large, which the plan of the space allows");
  EXPECT_EQ(plan_not_allowed(two, "")->message,
            "spec.plan: is needed, of small, large, which the plan of the space allows");
  const std::vector<std::string> many(1000, std::string(200, 'x'));
  EXPECT_LT(plan_not_allowed(many, "")->message.size(), 2'000U);
}

TEST(AddressPlans, MS_031_StatusOfAnAddressPlan) {
  Json status = address_plan_status(plan_of(R"({"addressType":"queue"})"), Json::object(),
                                    "2026-01-01T00:00:00Z");
  EXPECT_EQ(status.text({"phase"}), "Active");
  EXPECT_EQ(status.text({"message"}), "");
  EXPECT_EQ(status.find("observedGeneration")->as_integer(), 3);
  EXPECT_EQ(find_condition(status, "Ready")->text({"status"}), "True");
  status = address_plan_status(
      plan_of(R"({"addressType":"topic","queue":{"partitions":{"min":1,"max":2}}})"), status,
      "2026-01-01T00:00:00Z");
  EXPECT_EQ(status.text({"phase"}), "Failed");
  EXPECT_EQ(find_condition(status, "Ready")->text({"reason"}), "ShardedTopicNotSupported");
  EXPECT_EQ(status.text({"message"}), "spec.queue.partitions.max: topics have one partition");
}

TEST(AddressPlans, MR_1_PlansOfOtherTypesAreAnotherControllers) {
  EXPECT_TRUE(plan_of(R"({"addressType":"deadletter"})").object.legacy);
  EXPECT_TRUE(plan_of(R"({"addressType":"queue","resources":{"broker":0.1}})").object.legacy);
  EXPECT_FALSE(plan_of(R"({"addressType":"deadLetter"})").object.legacy);
}

}  // namespace
}  // namespace kintsugi::workers
