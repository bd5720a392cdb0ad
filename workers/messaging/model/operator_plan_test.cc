#include "workers/messaging/model/operator_plan.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;
using Indexes = std::vector<std::int64_t>;

MessagingInfra infra_of(std::string_view spec) {
  Json object =
      *Json::parse(R"({"metadata":{"name":"i","namespace":"n","uid":"u","generation":1}})");
  object["spec"] = *Json::parse(spec);
  Parsed<MessagingInfra> parsed = parse_infra(object);
  EXPECT_TRUE(parsed.valid);
  return std::move(parsed.object);
}

MessagingInfra usual() {
  return infra_of(R"({"router":{"replicas":{"min":2,"max":4},"connectionsPerRouter":10},
                      "brokers":{"min":1,"max":3}})");
}

std::string names(const std::vector<Json>& list) {
  std::string out;
  for (const Json& one : list) {
    out += std::string(one.text({"metadata", "name"})) + " ";
  }
  return out;
}

std::string names(const std::vector<OperatorPlan::Removal>& list) {
  std::string out;
  for (const OperatorPlan::Removal& one : list) {
    out += (one.broker ? "broker " : "router ") + one.name + " ";
  }
  return out;
}

/// As if all of a plan had been done.
void store(const OperatorPlan& plan, OperatorView& view) {
  for (const Json& one : plan.apply) {
    std::vector<Json>& list = one.text({"kind"}) == "Interconnect" ? view.routers : view.brokers;
    std::erase_if(list, [&one](const Json& has) {
      return has.text({"metadata", "name"}) == one.text({"metadata", "name"});
    });
    list.push_back(one);
  }
  for (const OperatorPlan::Removal& one : plan.remove) {
    std::erase_if(one.broker ? view.brokers : view.routers, [&one](const Json& has) {
      return has.text({"metadata", "name"}) == one.name;
    });
  }
}

Json pod(const char* name, const char* label, const char* value, const char* ip,
         const char* zone = "") {
  Json out = Json::object();
  out.make({"metadata"})["name"] = name;
  out.make({"metadata"})["namespace"] = "n";
  out.make({"metadata", "labels"})[label] = value;
  if (*zone != 0) {
    out.make({"metadata", "labels"})["topology.kubernetes.io/zone"] = zone;
  }
  out.make({"status"})["podIP"] = ip;
  return out;
}

TEST(OperatorPlan, MS_001_WhatIsStoredWithTheSameContentIsNotWritten) {
  const MessagingInfra infra = usual();
  OperatorView view;
  const Indexes one{0}, none{};
  const OperatorPlan first = operator_plan(infra, 2, one, view);
  EXPECT_EQ(names(first.apply), "i-default i-b0 ");
  EXPECT_TRUE(first.remove.empty());
  store(first, view);
  EXPECT_EQ(stored_router_size(infra, view), 2);
  EXPECT_EQ(stored_brokers(infra, view), one);
  EXPECT_TRUE(operator_plan(infra, 2, one, view).apply.empty());
  EXPECT_EQ(names(operator_plan(infra, 3, one, view).apply), "i-default ") << "another size";
  EXPECT_EQ(names(operator_plan(infra, 2, none, view).remove), "broker i-b0 ");
  view.brokers[0].make({"spec", "deploymentPlan"})["size"] = 2;  // by hand
  EXPECT_EQ(names(operator_plan(infra, 2, one, view).apply), "i-b0 ");
}

TEST(OperatorPlan, MS_001_WhatIsSomebodyElsesIsLeftAlone) {
  const MessagingInfra infra = usual();
  OperatorView view;
  const Indexes two{0, 1};
  store(operator_plan(infra, 2, two, view), view);
  for (std::vector<Json>* const list : {&view.routers, &view.brokers}) {
    list->front().make({"metadata", "labels"})["kintsugi.dev/infra"] = "j";
  }
  const OperatorPlan plan = operator_plan(infra, 3, two, view);
  EXPECT_EQ(plan.taken, (std::vector<std::string>{"i-default", "i-b0"}));
  EXPECT_TRUE(plan.apply.empty());
  EXPECT_TRUE(plan.remove.empty());
  EXPECT_EQ(stored_brokers(infra, view), Indexes{1});
  EXPECT_EQ(stored_router_size(infra, view), 0);
  EXPECT_EQ(names(operator_removal(infra, view).remove), "broker i-b1 ");
}

TEST(OperatorPlan, MS_009_RoutersGoBeforeBrokers) {
  const MessagingInfra infra = usual();
  OperatorView view;
  const Indexes two{0, 1};
  store(operator_plan(infra, 2, two, view), view);
  OperatorPlan plan = operator_removal(infra, view);
  EXPECT_EQ(names(plan.remove), "router i-default ");
  EXPECT_FALSE(plan.gone);
  view.routers[0].make({"metadata"})["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  plan = operator_removal(infra, view);
  EXPECT_TRUE(plan.remove.empty()) << "once";
  EXPECT_FALSE(plan.gone);
  view.routers.clear();
  plan = operator_removal(infra, view);
  EXPECT_EQ(names(plan.remove), "broker i-b0 broker i-b1 ");
  store(plan, view);
  EXPECT_TRUE(operator_removal(infra, view).gone);
}

TEST(OperatorPlan, MS_001_OneThatIsBeingDeletedIsMadeAgainWhenItIsGone) {
  const MessagingInfra infra = usual();
  OperatorView view;
  const Indexes one{0};
  store(operator_plan(infra, 2, one, view), view);
  view.brokers[0].make({"metadata"})["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_TRUE(stored_brokers(infra, view).empty());
  EXPECT_TRUE(operator_plan(infra, 2, one, view).apply.empty());
  view.brokers.clear();
  EXPECT_EQ(names(operator_plan(infra, 2, one, view).apply), "i-b0 ");
}

TEST(OperatorPlan, MS_040_ABrokerWithoutItsPodIsTheSameBroker) {
  const MessagingInfra infra = usual();
  OperatorView view;
  const Indexes two{0, 2};
  store(operator_plan(infra, 2, two, view), view);
  view.pods = {pod("i-default-x", "interconnect_cr", "i-default", "10.0.0.1"),
               pod("i-b2-ss-0", "ActiveMQArtemis", "i-b2", "10.0.0.3"),
               pod("i-b1-ss-0", "ActiveMQArtemis", "i-b1", "10.0.0.9")};
  const auto text = [](const std::vector<Component>& list) {
    std::string out;
    for (const Component& one : list) {
      out += one.endpoint.host + "=" + one.endpoint.address + " ";
      EXPECT_EQ(one.endpoint.plain, one.broker) << one.endpoint.host;
    }
    return out;
  };
  std::vector<Component> now = operator_components(infra, view, {});
  EXPECT_EQ(text(now), "i-default-x=10.0.0.1 i-b0-ss-0= i-b2-ss-0=10.0.0.3 ")
      << "no broker without a resource";
  view.pods.clear();
  now = operator_components(infra, view, now);
  EXPECT_EQ(text(now), "i-b0-ss-0= i-b2-ss-0=10.0.0.3 ") << "where it was";
  view.pods = {pod("i-b2-ss-0", "ActiveMQArtemis", "i-b2", "10.0.0.4")};
  EXPECT_EQ(text(operator_components(infra, view, now)), "i-b0-ss-0= i-b2-ss-0=10.0.0.4 ");
}

TEST(OperatorPlan, MR_13_MS_078_RoutersFollowRequestsFromMinToMax) {
  const MessagingInfra infra = usual();
  EXPECT_EQ(router_size(infra, 0, 0, true), 2);
  EXPECT_EQ(router_size(infra, 21, 2, true), 3);
  EXPECT_EQ(router_size(infra, 1000, 2, true), 4);
  EXPECT_EQ(router_size(infra, 5, 4, true), 2);
  EXPECT_EQ(router_size(infra, 5, 3, false), 3) << "not all spaces are known";
  EXPECT_EQ(router_size(infra, 5, 9, false), 4) << "max was lowered";
  EXPECT_EQ(router_size(infra, 35, 3, false), 4);
}

TEST(OperatorPlan, MS_038_BrokersComeAtTheNextFreeIndexAndTheLastGoFirst) {
  EXPECT_EQ(broker_indexes(Indexes{}, 2, true), (Indexes{0, 1}));
  EXPECT_EQ(broker_indexes(Indexes{0, 2}, 3, true), (Indexes{0, 1, 2}));
  EXPECT_EQ(broker_indexes(Indexes{0, 1, 2}, 1, true), Indexes{0});
  EXPECT_EQ(broker_indexes(Indexes{0, 1, 2}, 1, false), (Indexes{0, 1, 2}));
  EXPECT_EQ(broker_indexes(Indexes{0}, 0, true), Indexes{});
}

TEST(OperatorPlan, MR_7_ZonesAreThoseOfPods) {
  const MessagingInfra infra = infra_of(R"({"router":{"groups":[{"name":"a"},{"name":"b"}]}})");
  OperatorView view;
  view.pods = {pod("a0", "interconnect_cr", "i-a", "10.0.0.1", "z1"),
               pod("b0", "interconnect_cr", "i-b", "10.0.0.2", "z2"),
               pod("b1", "interconnect_cr", "i-b", "10.0.0.3"),
               pod("c0", "interconnect_cr", "other", "10.0.0.4", "z1")};
  using Zones = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(router_zones(infra, view), (Zones{{"a", "z1"}, {"b", "z2"}}));
}

TEST(OperatorPlan, MS_001_WhoNamesAllComponentsNeedsNoOperator) {
  const MessagingInfra infra = infra_of(
      R"({"router":{"endpoints":[{"host":"r0"}]},"brokers":{"endpoints":[{"host":"b0"}]}})");
  EXPECT_FALSE(operator_makes_routers(infra));
  EXPECT_FALSE(operator_makes_brokers(infra));
  const Indexes one{0};
  EXPECT_TRUE(operator_plan(infra, 1, one, {}).apply.empty());
  EXPECT_EQ(operator_components(infra, {}, {}).size(), 2U);
}

}  // namespace
}  // namespace kintsugi::workers
