#include "workers/messaging/model/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "workers/messaging/model/admission.h"
#include "workers/messaging/model/claims.h"
#include "workers/messaging/model/names.h"
#include "workers/messaging/model/port_pool.h"
#include "workers/messaging/model/targets.h"

namespace kintsugi::workers {
namespace {

using krm::Json;
using Ids = std::vector<ObjectId>;

MessagingInfra infra(std::string name, std::int64_t created, const char* selector = nullptr) {
  Json object = Json::object();
  if (selector != nullptr) {
    object.make({"spec"})["namespaceSelector"] = *Json::parse(selector);
  }
  MessagingInfra out = parse_infra(object).object;
  out.id = {"c", "infra", std::move(name), "uid", created, 1};
  return out;
}

Age age(ObjectId object, std::int64_t created) {
  return age_of({"c", "ns", "n", "uid-" + std::to_string(object), created, 1}, object);
}

TEST(Binding, MS_008_TheSameInfraInAnyOrder) {
  const MessagingInfra any = infra("any", 1), any_younger = infra("any2", 2);
  const MessagingInfra labels = infra("labels", 3, R"({"matchLabels":{"team":"a"}})");
  const MessagingInfra names = infra("names", 4, R"({"matchNames":["ns1"]})");
  const MessagingInfra younger = infra("names2", 5, R"({"matchNames":["ns1","ns2"]})");
  std::vector<InfraCandidate> all{
      {&any, true}, {&any_younger, true}, {&labels, true}, {&names, true}, {&younger, true}};
  const Json team = *Json::parse(R"({"team":"a"})");
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  do {
    std::vector<InfraCandidate> list;
    for (const std::size_t i : order) {
      list.push_back(all[i]);
    }
    EXPECT_EQ(choose_infra(list, {"ns1", &team}, {}).object, &names) << "a name, the oldest";
    EXPECT_EQ(choose_infra(list, {"ns2", &team}, {}).object, &younger);
    EXPECT_EQ(choose_infra(list, {"ns3", &team}, {}).object, &labels);
    EXPECT_EQ(choose_infra(list, {"ns3", nullptr}, {}).object, &any);
    EXPECT_EQ(choose_infra(list, {"ns3", nullptr}, {}, "infra/any2").object, &any_younger)
        << "what is bound stays";
  } while (std::next_permutation(order.begin(), order.end()));
  all[3].active = false;
  EXPECT_EQ(choose_infra(all, {"ns1", &team}, {}).object, &younger) << "only active ones";
  EXPECT_EQ(choose_infra(all, {"ns1", &team}, {"infra", "names"}).object, &names)
      << "a ref is honoured";
  EXPECT_EQ(choose_infra(all, {"ns9", &team}, {"infra", "names"}).reason, "NamespaceNotSelected");
  EXPECT_EQ(choose_infra(all, {"ns9", &team}, {"", "names"}).reason, "InfraNotFound");
  EXPECT_EQ(choose_infra({}, {"ns9", &team}, {}).reason, "InfraNotFound");
}

TEST(Binding, MS_017_PlansAreLookedUpInOrder) {
  const std::vector<std::string> clusters{"shared", "c"};
  const ObjectIdentity id{"c", "ns", "space", "u", 1, 1};
  EXPECT_EQ(
      lookup_places(id, {}, clusters),
      (std::vector<LookupPlace>{{"c", "ns"}, {"c", "enmasse-infra"}, {"shared", "enmasse-infra"}}));
  MessagingSpace space;
  space.id = id;
  space.plan.name = "p";
  MessagingPlan own, near, far;
  own.id = {"c", "ns", "p", "1", 3, 1};
  near.id = {"c", "enmasse-infra", "p", "2", 2, 1};
  far.id = {"shared", "enmasse-infra", "p", "3", 1, 1};
  const NamespaceView ns{"ns", nullptr};
  std::vector<const MessagingPlan*> plans{&far, &near, &own};
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).object, &own);
  plans.pop_back();
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).object, &near);
  plans.pop_back();
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).object, &far);
  EXPECT_EQ(choose_plan(space, plans, ns, {}).reason, "PlanNotFound");
  far.shared = false;
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).reason, "WrongPlanType");
  far.shared = far.tenant_plan = true;
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).reason, "PlanNotFound") << "of the other front";
  space.plan = {};
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).reason, "PlanNotFound");
  space.front = MessagingSpace::Front::kTenant;
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).reason, "");
  far.is_default = true;
  EXPECT_EQ(choose_plan(space, plans, ns, clusters).object, &far);
}

TEST(Binding, MS_018_APlanThatMovesIsRefusedWhileThereAreAddresses) {
  const ObjectIdentity a{"c", "i", "a", "1", 1, 1}, b{"c", "i", "b", "2", 1, 1};
  EXPECT_FALSE(infra_moved(a, b, 0));
  EXPECT_FALSE(infra_moved(a, a, 5));
  const auto refused = infra_moved(a, b, 5);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, "InfraImmutable");
  EXPECT_EQ(refused->message,
            "its 5 addresses are at infra i/a; the plan now names i/b, nothing is moved");
}

TEST(Binding, MS_090_WhatPlanAndInfraDoNotLetASpaceHave) {
  MessagingSpace space;
  MessagingPlan plan;
  MessagingInfra one = infra("a", 1);
  EXPECT_FALSE(space_refused(space, plan, one));
  space.transactions = true;
  EXPECT_EQ(space_refused(space, plan, one)->reason, "CapabilityNotInPlan");
  plan.transactions = true;
  space.authentication_service = "x";
  EXPECT_EQ(space_refused(space, plan, one)->reason, "AuthenticationServiceMismatch");
  one.routers.authentication_service = "x";
  EXPECT_FALSE(space_refused(space, plan, one));
}

TEST(Admission, MR25_MS_077_SpacesFitWithinTheLargestScale) {
  MessagingInfra one = infra("a", 1);
  one.brokers.max = 2;
  one.brokers.queue_memory = 100;
  one.routers.max = 3;
  one.routers.connections_per_router = 10;
  const InfraCapacity capacity = infra_capacity(one, broker_memory(one, 7));
  EXPECT_EQ(capacity, (InfraCapacity{200, 100'000, 30}));
  EXPECT_EQ(plan_feasible({201, 0, 0}, capacity).reason, "ExceedsInfraMaximum");
  EXPECT_EQ(plan_feasible({201, 0, 31}, capacity).message,
            "one space does not fit at the largest scale: queueMemory 201 with 200 of 200 left, "
            "connections 31 with 30 of 30 left");
  EXPECT_EQ(plan_feasible({200, 0, 30}, capacity).status, ConditionStatus::kTrue);

  SpaceAdmission admission;
  admission.set_capacity(capacity);
  admission.set_space(age(1, 10), {150, 0, 0}, false);
  admission.set_space(age(2, 20), {60, 0, 0}, false);
  admission.set_space(age(3, 30), {50, 0, 0}, false);
  EXPECT_EQ(admission.take_changed(), (Ids{1, 2, 3}));
  EXPECT_TRUE(admission.is_in(1) && admission.is_in(3) && !admission.is_in(2));
  EXPECT_EQ(admission.refused(2)->reason, "InsufficientCapacity");
  EXPECT_EQ(admission.refused(2)->message,
            "the infra has no room for the plan's requests: queueMemory 60 with 0 of 200 left");
  EXPECT_EQ(admission.requested().queue_memory, 200);
  admission.remove(3);
  EXPECT_TRUE(admission.take_changed().empty());
  admission.remove(1);
  EXPECT_EQ(admission.take_changed(), Ids{2});
  EXPECT_TRUE(admission.is_in(2));
  admission.set_space(age(4, 5), {199, 0, 0}, true);  // its status says that it is in
  EXPECT_TRUE(admission.is_in(4) && admission.is_in(2));
  EXPECT_EQ(admission.requested().queue_memory, 259);
}

TEST(Admission, WhoWaitsHasAnotherAnswerWhenOthersAskForMoreOrLess) {
  InfraCapacity capacity;
  capacity.queue_memory = 100;
  SpaceAdmission admission;
  admission.set_capacity(capacity);
  admission.set_space(age(1, 10), {40, 0, 0}, false);
  admission.set_space(age(2, 20), {80, 0, 0}, false);
  admission.set_capacity(capacity);
  (void)admission.take_changed();
  admission.set_space(age(3, 30), {30, 0, 0}, false);
  EXPECT_EQ(admission.take_changed(), Ids{3}) << "one by one they tell nobody";
  admission.set_capacity(capacity);
  EXPECT_EQ(admission.take_changed(), Ids{2});
  EXPECT_EQ(admission.refused(2)->message,
            "the infra has no room for the plan's requests: queueMemory 80 with 30 of 100 left");
  admission.set_capacity(capacity);
  EXPECT_TRUE(admission.take_changed().empty());
}

TEST(Admission, QueueMemoryComesFromTheSpecThePodOrTheBroker) {
  MessagingInfra one = infra("a", 1);
  EXPECT_EQ(broker_memory(one, 0), std::nullopt);
  EXPECT_EQ(broker_memory(one, 9), 9);
  one.brokers.pod_template = *Json::parse(R"({"spec":{"resources":{"limits":{"memory":"2Gi"}}}})");
  EXPECT_EQ(broker_memory(one, 9), std::int64_t{1} << 30);
  one.brokers.queue_memory = 5;
  EXPECT_EQ(broker_memory(one, 9), 5);
}

TEST(Admission, MS_078_RoutersFollowTheRequestedConnections) {
  MessagingInfra one = infra("a", 1);
  one.routers.min = 2;
  one.routers.max = 4;
  EXPECT_EQ(routers_wanted(one, 1'000), 2) << "without connectionsPerRouter";
  one.routers.connections_per_router = 100;
  EXPECT_EQ(routers_wanted(one, 0), 2);
  EXPECT_EQ(routers_wanted(one, 200), 2);
  EXPECT_EQ(routers_wanted(one, 201), 3);
  EXPECT_EQ(routers_wanted(one, 1'000), 4);
}

TEST(Admission, MS_019_TheOldestAddressesAreWithinTheLimit) {
  AddressLimit limit;
  limit.set_limit(3);
  for (const ObjectId i : {4U, 2U, 1U, 3U}) {
    limit.add(age(i, i));
  }
  EXPECT_EQ(limit.take_changed(), (Ids{1, 2, 3, 4}));
  EXPECT_TRUE(limit.is_in(age(1, 1)) && limit.is_in(age(2, 2)) && limit.is_in(age(3, 3)));
  EXPECT_FALSE(limit.is_in(age(4, 4)));
  EXPECT_EQ(limit.refused().reason, "AddressLimitExceeded");
  limit.remove(age(2, 2));
  EXPECT_EQ(limit.take_changed(), Ids{4});
  EXPECT_TRUE(limit.is_in(age(4, 4)));
  limit.set_limit(1);
  EXPECT_EQ(limit.take_changed(), (Ids{3, 4}));
  limit.set_limit(std::nullopt);
  EXPECT_EQ(limit.take_changed(), (Ids{3, 4}));
  EXPECT_TRUE(limit.is_in(age(9, 9)));
}

TEST(Claims, MS_042_MS_094_TheOldestHasTheName) {
  OldestWins names;
  const std::string a = conflict_key("s/a.b"), b = conflict_key("s/a/b");
  EXPECT_EQ(a, b);
  EXPECT_TRUE(names.claim(a, age(1, 10)).empty());
  EXPECT_TRUE(names.claim(a, age(1, 10)).empty());
  EXPECT_EQ(names.claim(b, age(2, 20)), Ids{2});
  EXPECT_EQ(names.claim(b, age(3, 5)), Ids{1}) << "one that is older takes it";
  EXPECT_TRUE(names.has(a, 3));
  EXPECT_TRUE(names.release(a, age(2, 20)).empty());
  EXPECT_EQ(names.release(a, age(3, 5)), Ids{1});
  EXPECT_EQ(names.owner(b), ObjectId{1});
  EXPECT_TRUE(names.release(a, age(1, 10)).empty());
  EXPECT_EQ(names.keys(), 0U);
  EXPECT_EQ(duplicate_tenant("MessagingTenant default").message,
            "the namespace belongs to MessagingTenant default, which is older");
}

TEST(OldestWins, MS_042_OfOneSecondTheOneThatIsMadeKeepsTheName) {
  OldestWins names;
  const OldestWins::Key key = OldestWins::key_of("q");
  std::set<ObjectId> made;
  const auto claim = [&](ObjectId object, std::int64_t created) {
    return names.claim(key, age(object, created), [&made, object](ObjectId owner) {
      return made.contains(object) && !made.contains(owner);
    });
  };
  EXPECT_TRUE(claim(2, 10).empty());
  EXPECT_EQ(claim(1, 10), Ids{1}) << "the smaller uid takes nothing";
  EXPECT_EQ(names.owner(key), ObjectId{2});
  made = {2};
  EXPECT_EQ(claim(1, 10), Ids{1});
  made = {1};  // as after a restart, where another one came first
  EXPECT_EQ(claim(1, 10), Ids{2});
  EXPECT_EQ(claim(2, 10), Ids{2});
  EXPECT_EQ(names.owner(key), ObjectId{1});
  EXPECT_EQ(claim(3, 9), Ids{1}) << "one that is older takes it";
  EXPECT_EQ(claim(1, 10), Ids{1}) << "made or not";
}

TEST(PortPool, MS_070_PortsRunOut) {
  PortPool ports;
  ports.set_range(40000, 40002);
  EXPECT_EQ(ports.allocate("a"), 40000);
  EXPECT_EQ(ports.allocate("b"), 40001);
  EXPECT_EQ(ports.allocate("a"), 40000);
  EXPECT_TRUE(ports.assume("c", 40002));
  EXPECT_FALSE(ports.assume("d", 40001));
  EXPECT_EQ(ports.allocate("d"), std::nullopt);
  EXPECT_EQ(ports.free(), 0);
  EXPECT_EQ(ports.exhausted().reason, "PortsExhausted");
}

TEST(PortPool, MS_071_ATombstoneIsForItsOwnerAlone) {
  PortPool ports;
  ports.set_range(40000, 40001);
  EXPECT_EQ(ports.allocate("ws"), 40000);
  EXPECT_EQ(ports.allocate("x"), 40001);
  ports.release("ws");
  EXPECT_TRUE(ports.is_tombstone("ws"));
  EXPECT_EQ(ports.port("ws"), std::nullopt);
  EXPECT_EQ(ports.allocate("y"), std::nullopt) << "its listener may hold the port still";
  EXPECT_EQ(ports.allocate("ws"), 40000) << "the same port again";
  EXPECT_FALSE(ports.is_tombstone("ws"));
  ports.cleared("ws");
  EXPECT_EQ(ports.port("ws"), 40000) << "one in use is not cleared";
  ports.release("ws");
  ports.cleared("ws");
  EXPECT_EQ(ports.allocate("y"), 40000);
}

TEST(Targets, MS_034_MissingTargetsAreFoundLater) {
  TargetIndex index;
  (void)index.set(1, "q", AddressType::kQueue, {"exp", "dlq", ""});
  EXPECT_EQ(index.check(1)->reason, "TargetNotFound");
  EXPECT_EQ(index.check(1)->message, "expiryQueue: there is no queue or deadLetter exp");
  EXPECT_EQ(index.set(2, "exp", AddressType::kQueue, {}), Ids{1});
  EXPECT_EQ(index.set(3, "dlq", AddressType::kAnycast, {}), Ids{1});
  EXPECT_EQ(index.check(1)->message, "deadLetterQueue: address dlq is no queue or deadLetter");
  EXPECT_EQ(index.set(3, "dlq", AddressType::kDeadLetter, {}), Ids{1});
  EXPECT_TRUE(index.set(3, "dlq", AddressType::kDeadLetter, {}).empty()) << "nothing new";
  EXPECT_FALSE(index.check(1));
  EXPECT_EQ(index.find("dlq")->object, 3U);
}

TEST(Targets, MS_032_ATopicThatComesLater) {
  TargetIndex index;
  (void)index.set(1, "s", AddressType::kSubscription, {"", "", "t"});
  EXPECT_EQ(index.check(1)->message, "topic: there is no topic t");
  EXPECT_EQ(index.set(2, "t", AddressType::kTopic, {}), Ids{1});
  EXPECT_FALSE(index.check(1));
  (void)index.set(3, "s2", AddressType::kSubscription, {"", "", "s"});
  EXPECT_EQ(index.check(3)->reason, "TargetNotFound") << "a subscription to a subscription";
}

TEST(Targets, MS_035_WhoIsReferredToWaits) {
  TargetIndex index;
  (void)index.set(1, "dlq", AddressType::kQueue, {});
  (void)index.set(2, "t", AddressType::kTopic, {});
  EXPECT_EQ(index.blocker(1), std::nullopt);
  (void)index.set(3, "q", AddressType::kQueue, {"", "dlq", ""});
  (void)index.set(4, "s", AddressType::kSubscription, {"", "", "t"});
  (void)index.set(5, "s2", AddressType::kSubscription, {"", "", "t"});
  EXPECT_EQ(index.blocker(1), "referred to by q (deadLetterQueue)");
  EXPECT_EQ(index.blocker(2), "referred to by s (topic) and 1 more");
  EXPECT_TRUE(index.remove(3).empty());
  EXPECT_EQ(index.blocker(1), std::nullopt);
  EXPECT_EQ(index.remove(2), (Ids{4, 5}));
  EXPECT_EQ(index.check(4)->reason, "TargetNotFound");
  EXPECT_EQ(waits_for("address", "q1", 4), "waits for address q1 and 3 more");
}

TEST(Targets, CyclesAreRefused) {
  TargetIndex index;
  (void)index.set(1, "a", AddressType::kQueue, {"a", "", ""});
  EXPECT_EQ(index.check(1)->reason, "TargetCycle") << "itself";
  (void)index.set(1, "a", AddressType::kQueue, {"", "b", ""});
  (void)index.set(2, "b", AddressType::kQueue, {"", "c", ""});
  EXPECT_FALSE(index.check(1));
  EXPECT_EQ(index.set(3, "c", AddressType::kQueue, {"a", "", ""}), (Ids{1, 2}));
  for (const ObjectId i : {1U, 2U, 3U}) {
    EXPECT_EQ(index.check(i)->reason, "TargetCycle");
  }
  EXPECT_EQ(index.set(3, "c", AddressType::kQueue, {}), (Ids{1, 2}));
  EXPECT_FALSE(index.check(1));
}

}  // namespace
}  // namespace kintsugi::workers
