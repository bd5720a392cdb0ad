#include "workers/eventing/control/internal/dispatcher_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

constexpr std::string_view kPodOfPool = "kafka-source-dispatcher-0";
constexpr auto kAsJson = ContractFormat::kJson;
constexpr auto kNothing = ContractPlan::What::kNothing, kWrite = ContractPlan::What::kWrite,
               kOvertaken = ContractPlan::What::kOvertaken;

Contract contract_of_topic(const std::string& topic) {
  Contract out;
  ContractResource resource;
  resource.uid = "u";
  resource.topics = {topic};
  out.resources.push_back(resource);
  return out;
}

Contract parsed_contract(const std::string& data) {
  auto contract = parse_contract(data);
  EXPECT_TRUE(contract);
  return contract ? std::move(*contract) : Contract();
}

TEST(ContractPlan, KP_3_KP_5_TheGenerationRisesWithTheContent_AndAlone) {
  const ContractPlan first = plan_contract({}, std::nullopt, 0, 0, 7, kAsJson);
  ASSERT_EQ(first.what, kWrite);  // a pod does not begin without one
  EXPECT_EQ(first.generation, 1U);
  EXPECT_EQ(parsed_contract(first.data).epoch, 7U);
  const ContractPlan same = plan_contract({}, first.data, 7, 1, 8, kAsJson);
  EXPECT_EQ(same.what, kNothing);
  EXPECT_EQ(same.generation, 1U);
  const ContractPlan next = plan_contract(contract_of_topic("a"), first.data, 7, 1, 8, kAsJson);
  ASSERT_EQ(next.what, kWrite);
  EXPECT_EQ(parsed_contract(next.data).generation, 2U);
  EXPECT_EQ(parsed_contract(next.data).epoch, 8U);
  EXPECT_EQ(parsed_contract(next.data).resources.front().topics.front(), "a");
}

TEST(ContractPlan, KN_T031_ADeletedOneGoesOnUpwards) {
  const ContractPlan again = plan_contract(contract_of_topic("a"), std::nullopt, 0, 41, 8, kAsJson);
  ASSERT_EQ(again.what, kWrite);
  EXPECT_EQ(again.generation, 42U);
  // So does garbage, and one that was edited by hand.
  EXPECT_EQ(plan_contract(contract_of_topic("a"), "{", 0, 41, 8, kAsJson).generation, 42U);
  Contract edited = contract_of_topic("b");
  edited.generation = 90;
  EXPECT_EQ(
      plan_contract(contract_of_topic("a"), encode_contract(edited, kAsJson), 0, 41, 8, kAsJson)
          .generation,
      91U);
}

TEST(ContractPlan, KP_8_KN_T053_ALaterEpochIsLeftAlone) {
  Contract theirs = contract_of_topic("a");
  theirs.generation = 5;
  theirs.epoch = 9;
  const std::string data = encode_contract(theirs, kAsJson);
  EXPECT_EQ(plan_contract(contract_of_topic("b"), data, 0, 5, 8, kAsJson).what, kOvertaken);
  EXPECT_EQ(plan_contract(contract_of_topic("b"), data, 9, 5, 9, kAsJson).what, kWrite);
  EXPECT_EQ(plan_contract(contract_of_topic("b"), "garbage", 10, 5, 9, kAsJson).what, kOvertaken);
}

TEST(ContractPlan, KN_T059_AnotherFormatIsWrittenOnce) {
  Contract had = contract_of_topic("a");
  had.generation = 5;
  const ContractPlan plan = plan_contract(contract_of_topic("a"), encode_contract(had, kAsJson), 0,
                                          5, 1, ContractFormat::kProtobuf);
  ASSERT_EQ(plan.what, kWrite);
  EXPECT_EQ(plan.generation, 6U);
  EXPECT_EQ(
      plan_contract(contract_of_topic("a"), plan.data, 1, 6, 1, ContractFormat::kProtobuf).what,
      kNothing);
}

class PoolOfOne : public testing::Test {
 protected:
  PoolOfOne() : pool_(PoolSettings{.stateful_set = "kafka-source-dispatcher"}, {}) {
    const TimePoint now{};
    pool_.scheduler.set_replicas(1, now);
    DispatcherPod pod;
    pod.name = kPodOfPool;
    pod.bound = true;
    (void)pool_.scheduler.set_pod(pod, now).has_value();
    std::vector<PoolGroup> groups;
    for (const std::string name : {"b", "a"}) {
      PooledGroup& group = pool_.groups["c|ns/" + name];
      group.generation = 3;
      group.entry.resource.uid = name;
      group.entry.resource.egresses.resize(1);
      PoolGroup& of = groups.emplace_back();
      of.key = of.uid = "c|ns/" + name;
      of.wanted = 2;
      of.status = {{std::string(kPodOfPool), 2}};
    }
    (void)pool_.scheduler.load(groups, {}, now);
    (void)pool_.scheduler.decide(now);
  }
  DispatcherPool pool_;
};

TEST_F(PoolOfOne, KP_6_AContractIsMadeOfPlacementsAndEntriesAlone) {
  const Contract contract = pod_contract(pool_, kPodOfPool);
  ASSERT_EQ(contract.resources.size(), 2U);
  EXPECT_EQ(contract.resources.front().egresses.front().vreplicas, 2);
  const std::string bytes = encode_contract(contract, kAsJson);
  EXPECT_EQ(encode_contract(pod_contract(pool_, kPodOfPool), kAsJson), bytes);
  EXPECT_TRUE(pod_contract(pool_, "kafka-source-dispatcher-1").resources.empty());
}

TEST_F(PoolOfOne, KP_4_ThePodSaysNoMoreThanItsContractHolds) {
  const SeenDecisions seen = seen_of_contract(pool_, kPodOfPool);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen.at("c|ns/a").generation, 3);
  EXPECT_EQ(seen.at("c|ns/a").digest,
            placements_digest(std::vector<Placed>{{std::string(kPodOfPool), 2}}));
  pool_.groups["c|ns/a"].entry.trouble = GroupTrouble::kPropagateSubscriberUri;
  EXPECT_EQ(pod_contract(pool_, kPodOfPool).resources.size(), 1U);
  EXPECT_EQ(seen_of_contract(pool_, kPodOfPool).size(), 1U);
}

}  // namespace
}  // namespace kintsugi::workers
