#include "workers/messaging/control/plan_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kintsugi::workers {
namespace {

TEST(MessagingPlans, MS_077_CountsFollowSpaces) {
  UseCounts counts;
  EXPECT_FALSE(counts.set("s1", ""));
  EXPECT_TRUE(counts.set("s1", "gold"));
  EXPECT_FALSE(counts.set("s1", "gold"));
  EXPECT_TRUE(counts.set("s2", "gold"));
  EXPECT_EQ(counts.count("gold"), 2);
  EXPECT_EQ(counts.used_by("s2"), "gold");
  EXPECT_TRUE(counts.set("s1", "silver"));
  EXPECT_TRUE(counts.set("s2", ""));
  EXPECT_EQ(counts.count("gold"), 0);
  EXPECT_EQ(counts.count("silver"), 1);
  EXPECT_EQ(counts.used_by("s2"), "");
}

TEST(MessagingPlans, MS_077_CountsAreThoseOfAFullCount) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  UseCounts counts;
  std::map<std::string, std::string> model;
  for (int i = 0; i < 2000; ++i) {
    const std::string thing = "s" + std::to_string(random() % 20);
    const std::string used = random() % 4 == 0 ? "" : "p" + std::to_string(random() % 3);
    EXPECT_EQ(counts.set(thing, used), model[thing] != used);
    model[thing] = used;
  }
  for (const char* const plan : {"p0", "p1", "p2"}) {
    EXPECT_EQ(counts.count(plan), std::count_if(model.begin(), model.end(), [&](const auto& one) {
                return one.second == plan;
              }));
  }
}

TEST(MessagingPlans, MS_077_CapacityIsTheSpecsThenWhatTheOwnerWrote) {
  MessagingInfra infra;
  infra.brokers.max = 2;
  const krm::Json status =
      *krm::Json::parse(R"({"capacity":{"queueMemory":1000,"addresses":7,"connections":50}})");
  InfraCapacity capacity = capacity_of(infra, status);
  EXPECT_EQ(capacity.queue_memory, 1000);
  infra.brokers.queue_memory = 300;
  capacity = capacity_of(infra, status);
  EXPECT_EQ(capacity.queue_memory, 600);
  EXPECT_FALSE(
      capacity_of(infra, *krm::Json::parse(R"({"capacity":{"connections":"x"}})")).connections);
}

}  // namespace
}  // namespace kintsugi::workers
