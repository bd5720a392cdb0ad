#include <gtest/gtest.h>

#include "workers/messaging/model/address_status.h"
#include "workers/messaging/model/infra_status.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {
namespace {

using krm::Json;
constexpr std::string_view kNow = "2026-01-02T03:04:05Z";

std::string told(const Json& status, std::string_view type) {
  const Json* one = find_condition(status, type);
  return one == nullptr
             ? "none"
             : std::string(one->text({"status"})) + "/" + std::string(one->text({"reason"})) +
                   ": " + std::string(one->text({"message"}));
}

ComponentView component(std::string_view host, ComponentKind kind, std::uint32_t links = 0) {
  ComponentView one;
  one.host = host;
  one.kind = kind;
  one.connected = true;
  one.progress.wanted = one.progress.applied = 2;
  one.progress.links = one.progress.active = links;
  return one;
}

struct QueueStatus {
  MessagingAddress address;
  AddressPlacing placing;
  std::vector<ComponentView> components;
  AddressStatusInput input;
  Json last;

  QueueStatus() {
    address.type = AddressType::kQueue;
    address.id.generation = 3;
    placing.hosts = {"b1"};
    placing.reason = PlacingReason::kScheduled;
    components = {component("r0", ComponentKind::kRouter, 2),
                  component("r1", ComponentKind::kRouter, 2),
                  component("b1", ComponentKind::kBroker)};
    input.address = &address;
    input.space_id = "s-1";
    input.space_kind = "Tenant";
    input.space_ready = true;
    input.placing = &placing;
    input.broker_name = "s-1/q";
    input.min_ready = 1;
  }
  const Json& write() {
    input.components = components;
    last = address_status(input, last, kNow);
    return last;
  }
  std::string ready() { return told(write(), "Ready"); }
};

TEST(AddressStatus, AnAddressInOrder) {
  QueueStatus q;
  q.write();
  EXPECT_EQ(q.last.text({"phase"}), "Active");
  EXPECT_TRUE(q.last.find("isReady")->as_bool());
  EXPECT_EQ(q.last.find("messages")->size(), 0U);
  EXPECT_EQ(q.last.find("observedGeneration")->as_integer(), 3);
  EXPECT_EQ(q.last.find("brokers")->dump(), R"([{"host":"b1","state":"Active"}])");
  EXPECT_EQ(q.last.text({"brokerAddress"}), "s-1/q");
  std::string types;
  for (const Json& one : q.last.find("conditions")->items()) {
    types += std::string(one.text({"type"})) + "=" + std::string(one.text({"status"})) + " ";
  }
  EXPECT_EQ(types, "FoundTenant=True Validated=True Scheduled=True Created=True Ready=True ");
  const Json before = q.last;
  EXPECT_EQ(q.write(), before) << "the same input writes nothing";
}

TEST(AddressStatus, MS_055_ReadyNamesComponentAndDirection) {
  QueueStatus q;
  q.input.min_ready = 2;
  q.components[0].progress.active = 1;
  q.components[0].inactive = InactiveLink{false, true, "b1"};
  EXPECT_EQ(q.ready(), "False/LinkInactive: no active autolink out to broker b1 on router r0");
  EXPECT_EQ(q.last.find("messages")->dump(),
            R"(["no active autolink out to broker b1 on router r0"])");
  EXPECT_EQ(q.last.text({"phase"}), "Configuring");
  q.components[0].inactive = InactiveLink{false, false, "b1"};
  q.components[0].progress.link_error = "no route";
  EXPECT_EQ(q.ready(),
            "False/LinkInactive: no active autolink in from broker b1 on router r0: no route");
  q.components[0].inactive = InactiveLink{true, false, "b1"};
  q.components[0].progress.link_error.clear();
  EXPECT_EQ(q.ready(), "False/LinkInactive: link route inactive in from broker b1 on router r0");
  q.components[0].progress.applied = 1;
  EXPECT_EQ(q.ready(), "False/AddressMissing: address missing on router r0");
  EXPECT_EQ(told(q.last, "Created"), "False/Configuring: 1 of 3 components are not configured yet");
  q.components[0].connected = false;
  EXPECT_EQ(q.ready(), "False/RouterNotConnected: no connection to router r0");
  q.components[2].progress.applied = 0;
  EXPECT_EQ(q.ready(), "False/QueueMissing: queue not on broker b1");
  q.components[2].connected = false;
  EXPECT_EQ(q.ready(), "False/BrokerNotConnected: no connection from broker b1");
}

TEST(AddressStatus, MS_005_OneRouterDownIsDegraded) {
  QueueStatus q;
  q.components[1].connected = false;
  EXPECT_EQ(q.ready(), "True/Degraded: degraded: no connection to router r1");
  EXPECT_EQ(q.last.text({"phase"}), "Active");
  EXPECT_EQ(q.last.find("messages")->size(), 1U);
  q.input.min_ready = 2;
  EXPECT_EQ(q.ready(), "False/RouterNotConnected: no connection to router r1");
}

TEST(AddressStatus, MS_056_ABrokerThatIsGone) {
  QueueStatus q;
  q.placing.reason = PlacingReason::kBrokerGone;
  q.placing.message = "broker b1 is gone";
  q.components.pop_back();
  EXPECT_EQ(q.ready(), "False/BrokerGone: broker b1 is gone");
  EXPECT_EQ(told(q.last, "Scheduled"), "True/BrokerGone: broker b1 is gone");
  EXPECT_EQ(q.last.find("brokers")->dump(), R"([{"host":"b1","state":"Scheduled"}])");
}

TEST(AddressStatus, MS_019_MS_034_WhatIsRefusedIsNotBegun) {
  QueueStatus q;
  q.input.refused =
      Condition{"Scheduled", ConditionStatus::kFalse, "AddressLimitExceeded", "limit of 3", 0};
  EXPECT_EQ(q.ready(), "False/NotReady: limit of 3");
  EXPECT_EQ(q.last.text({"phase"}), "Pending");
  EXPECT_EQ(told(q.last, "Scheduled"), "False/AddressLimitExceeded: limit of 3");
  EXPECT_EQ(told(q.last, "Created"), "Unknown/Waiting: limit of 3");
  q.input.refused =
      Condition{"Validated", ConditionStatus::kFalse, "TargetNotFound", "there is no queue dlq", 0};
  EXPECT_EQ(q.ready(), "False/NotReady: there is no queue dlq");
  EXPECT_EQ(q.last.text({"phase"}), "Pending");
  q.input.refused->reason = "AddressConflict";
  q.write();
  EXPECT_EQ(q.last.text({"phase"}), "Failed");
  EXPECT_EQ(told(q.last, "Validated"), "False/AddressConflict: there is no queue dlq");
}

TEST(AddressStatus, MS_038_WaitingForABroker) {
  QueueStatus q;
  q.placing = {};
  q.placing.reason = PlacingReason::kMaxBrokersReached;
  q.placing.message = "no room";
  q.write();
  EXPECT_EQ(told(q.last, "Scheduled"), "False/MaxBrokersReached: no room");
  EXPECT_EQ(q.last.text({"phase"}), "Pending");
}

TEST(AddressStatus, MS_035_ADeletionThatWaits) {
  QueueStatus q;
  q.address.deleting = true;
  q.input.waits = "referred to by q1 (deadLetterQueue)";
  EXPECT_EQ(q.ready(), "False/Terminating: referred to by q1 (deadLetterQueue)");
  EXPECT_EQ(q.last.text({"phase"}), "Terminating");
}

TEST(AddressStatus, WithoutASpace) {
  QueueStatus q;
  q.input.space_id = "";
  q.input.space_kind = "Space";
  EXPECT_EQ(q.ready(), "False/NotReady: there is no such space");
  EXPECT_EQ(told(q.last, "FoundSpace"), "False/NotFound: there is no such space");
  EXPECT_EQ(told(q.last, "FoundTenant"), "none");
}

TEST(AddressStatus, TextsOfComponentsArePrintableAndBounded) {
  QueueStatus q;
  q.components[2].progress.applied = 0;
  q.components[2].progress.error = "bad\x01\n" + std::string(5'000, 'x');
  q.write();
  const std::string text(find_condition(q.last, "Ready")->text({"message"}));
  EXPECT_LE(text.size(), kMaxMessage);
  for (const char c : text) {
    EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  }
  EXPECT_TRUE(text.starts_with("queue not on broker b1: bad"));
}

TEST(AddressStatus, LinksAreFoundByTheNameOfTheirEntity) {
  MessagingAddress address;
  address.type = AddressType::kQueue;
  address.address = "q";
  address.id.uid = "u";
  const std::vector<BrokerLink> brokers{{"b0", "con0"}, {"b1", "con1"}};
  PlacedAddress placed;
  placed.address = &address;
  placed.owner = "o";
  placed.space_id = "s";
  placed.brokers = brokers;
  placed.broker_name = "s/q";
  const DesiredEntities all = address_entities(placed);
  std::size_t links = 0;
  for (const DesiredEntity& entity : all.routers) {
    const auto link = find_link(all.routers, brokers, "autoLink " + entity.name + ": text");
    if (entity.kind == EntityKind::kAutoLink) {
      ASSERT_TRUE(link);
      EXPECT_FALSE(link->route);
      EXPECT_EQ(link->broker, links < 2 ? "b0" : "b1");
      ++links;
    } else {
      EXPECT_FALSE(link);
    }
  }
  EXPECT_EQ(links, 4U);
}

TEST(SpaceStatus, MS_017_PlanAndInfraAreMissing) {
  MessagingSpace space;
  SpaceStatusInput input;
  input.space = &space;
  input.space_id = "s-1";
  input.plan_refused =
      Condition{"PlanFound", ConditionStatus::kFalse, "PlanNotFound", "there is no plan p", 0};
  Json status = space_status(input, {}, kNow);
  EXPECT_EQ(told(status, "PlanFound"), "False/PlanNotFound: there is no plan p");
  EXPECT_EQ(told(status, "Ready"), "False/NotReady: there is no plan p");
  EXPECT_EQ(status.text({"phase"}), "Pending");
  EXPECT_EQ(status.text({"message"}), "there is no plan p");
  EXPECT_EQ(told(status, "Bound"), "none");
  input.plan_refused.reset();
  input.plan = "p";
  input.infra = "i/a";
  const std::vector<ComponentView> routers{component("r0", ComponentKind::kRouter)};
  input.routers = routers;
  input.min_ready = 1;
  input.connections_per_router = 5;
  status = space_status(input, status, kNow);  // heals
  EXPECT_EQ(told(status, "Ready"), "True/Ready: ");
  EXPECT_EQ(status.text({"phase"}), "Active");
  EXPECT_EQ(status.text({"appliedPlan"}), "p");
  EXPECT_EQ(status.find("effectiveConnectionsPerRouter")->as_integer(), 5);
  EXPECT_EQ(status.find("messages")->size(), 0U);
  EXPECT_EQ(status.find("infra"), nullptr);  // an object; who knows its cluster writes it
}

TEST(SpaceStatus, MS_017_WhichInfraIsRecordedIsNotTouched) {
  MessagingSpace space;
  SpaceStatusInput input;
  input.space = &space;
  input.infra = "i/a";
  input.plan_refused =
      Condition{"PlanFound", ConditionStatus::kFalse, "PlanNotFound", "there is no plan p", 0};
  EXPECT_EQ(space_status(input, {}, kNow).find("infra"), nullptr);
  const Json from = Json::object({{"infra", Json::object({{"name", "a"}, {"namespace", "i"}})}});
  EXPECT_EQ(space_status(input, from, kNow).text({"infra", "name"}), "a");
}

TEST(SpaceStatus, MS_014_NothingAskedForIsNotReady) {
  MessagingSpace space;
  SpaceStatusInput input;
  input.space = &space;
  input.space_id = "s-1";
  input.plan = "p";
  input.infra = "i/a";
  input.min_ready = 1;
  std::vector<ComponentView> routers{component("r0", ComponentKind::kRouter)};
  routers[0].progress = {};
  input.routers = routers;
  EXPECT_EQ(told(space_status(input, {}, kNow), "Ready"),
            "False/NotReady: vhost missing on router r0");
}

TEST(SpaceStatus, MS_024_TheBrokerOfASpaceDisappears) {
  MessagingSpace space;
  SpaceStatusInput input;
  input.space = &space;
  input.space_id = "s-1";
  input.plan = "p";
  input.infra = "i/a";
  input.transactions = true;
  AddressPlacing placing;
  placing.hosts = {"b1"};
  placing.reason = PlacingReason::kScheduled;
  input.placing = &placing;
  const std::vector<ComponentView> routers{component("r0", ComponentKind::kRouter)};
  input.routers = routers;
  Json status = space_status(input, {}, kNow);
  EXPECT_EQ(told(status, "Ready"), "False/BrokerNotConnected: no connection from broker b1");
  EXPECT_EQ(status.find("broker")->dump(), R"({"host":"b1","state":"Scheduled"})");
  input.broker_connected = true;
  status = space_status(input, status, kNow);
  EXPECT_EQ(told(status, "Ready"), "True/Ready: ");
  EXPECT_EQ(status.text({"broker", "host"}), "b1");
}

TEST(SpaceStatus, MS_072_MS_094_ConnectorsAndDuplicates) {
  MessagingSpace space;
  space.front = MessagingSpace::Front::kProject;
  SpaceStatusInput input;
  input.space = &space;
  input.plan_needed = false;
  input.infra = "i/a";
  const std::vector<ComponentView> routers{component("r0", ComponentKind::kRouter)};
  input.routers = routers;
  const std::vector<ConnectorView> connectors{
      {"c1", true, "", {{"r0", false, "Connection refused"}}}};
  input.connectors = connectors;
  Json status = space_status(input, {}, kNow);
  EXPECT_EQ(told(status, "ConnectorsReady"),
            "False/NotConnected: connector c1 is not connected on router r0: Connection refused");
  EXPECT_EQ(told(status, "Ready"), "True/Ready: ") << "the space is ready meanwhile";
  EXPECT_EQ(told(status, "PlanApplied"), "True/NoPlan: ");
  EXPECT_EQ(told(status, "Bound"), "True/Bound: ");
  input.duplicate =
      Condition{"Ready", ConditionStatus::kFalse, "DuplicateTenant", "another is older", 0};
  status = space_status(input, status, kNow);
  EXPECT_EQ(told(status, "Ready"), "False/DuplicateTenant: another is older");
}

TEST(PlanStatus, MS_077_NotFeasible) {
  MessagingPlan plan;
  plan.requests = {5, 6, 7};
  plan.transactions = true;
  PlanStatusInput input;
  input.plan = &plan;
  input.infra = "i/a";
  input.feasible = plan_feasible(plan.requests, {4, std::nullopt, std::nullopt});
  input.spaces = 2;
  const Json status = plan_status(input, {}, kNow);
  EXPECT_EQ(told(status, "InfraFound"), "True/InfraFound: ");
  EXPECT_TRUE(told(status, "Feasible").starts_with("False/ExceedsInfraMaximum: "));
  EXPECT_EQ(status.text({"phase"}), "Failed");
  EXPECT_EQ(status.find("cost")->dump(), R"({"addresses":6,"connections":7,"queueMemory":5})");
  EXPECT_EQ(status.find("capabilities")->dump(), R"(["transactions"])");
}

struct Infra {
  MessagingInfra infra;
  std::vector<RouterView> routers;
  std::vector<InfraBrokerView> brokers;
  std::vector<BrokenConnector> broken;
  InfraStatusInput input;
  Json last;

  Infra() {
    infra.routers.groups = {{"default", 1}};
    infra.routers.min = 2;
    infra.routers.max = 3;
    infra.routers.min_ready = 1;
    routers = {{"r0", "default", true, true, 5, 0, kNow, "", ""},
               {"r1", "default", true, true, 5, 0, kNow, "", ""}};
    brokers = {{"b0", true, true, 3, 100, 1, "", ""}};
    input.infra = &infra;
    input.routers_wanted = 2;
    input.brokers_wanted = 1;
    input.connectors_up = 2;
  }
  const Json& write() {
    input.routers = routers;
    input.brokers = brokers;
    input.broken = broken;
    last = infra_status(input, last, kNow);
    return last;
  }
};

TEST(InfraStatus, MS_045_NothingNewIsTheSameStatus) {
  Infra one;
  const Json before = one.write();
  EXPECT_EQ(infra_status(one.input, before, "2099-01-01T00:00:00Z"), before);
}

TEST(InfraStatus, MS_001_ConfiguringThenActive) {
  Infra one;
  const std::vector<RouterView> all = one.routers;
  one.routers.clear();
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Configuring");
  EXPECT_EQ(told(one.last, "RoutersCreated"), "False/Waiting: there are 0 of 2 routers");
  one.routers = all;
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Active");
  std::string order;
  for (const Json& condition : one.last.find("conditions")->items()) {
    EXPECT_EQ(condition.text({"status"}), "True") << condition.dump();
    order += std::string(condition.text({"type"})) + " ";
  }
  EXPECT_EQ(order,
            "CaCreated CertCreated RoutersCreated BrokersCreated BrokersConnected Synchronized "
            "TopologySupported BrokerHA Ready ");
  EXPECT_EQ(one.last.find("routers")->size(), 2U);
  EXPECT_EQ(one.last.find("brokers")->dump(),
            R"([{"connected":true,"host":"b0","queueMemoryRequested":100,"queues":3,)"
            R"("settingsClasses":1,"synchronized":true}])");
}

TEST(InfraStatus, MS_003_MS_004_AConnectorThatDoesNotCome) {
  Infra one;
  one.input.connectors_up = 1;
  one.write();
  EXPECT_EQ(told(one.last, "BrokersConnected"), "False/Connecting: 1 of 2 connectors are up");
  one.broken = {{"r1", "b0", "Connection refused"}};
  one.write();
  EXPECT_EQ(told(one.last, "BrokersConnected"),
            "False/NotConnected: no connection from broker b0 on router r1: Connection refused");
  EXPECT_EQ(one.last.text({"phase"}), "Configuring");
}

TEST(InfraStatus, MS_005_MS_006_ReadyDependsOnMinReady) {
  Infra one;
  one.routers[1].connected = one.routers[1].synchronized = false;
  one.input.connectors_up = 1;
  one.write();
  EXPECT_EQ(told(one.last, "Ready"),
            "True/Degraded: degraded: 1 of 2 routers are in order: router r1 is not connected");
  EXPECT_EQ(one.last.text({"phase"}), "Active");
  one.infra.routers.min_ready = 2;
  one.write();
  EXPECT_EQ(
      told(one.last, "Ready"),
      "False/NotReady: 1 of 2 routers are in order, 2 are needed: router r1 is not connected");
  const Parsed<MessagingInfra> ring = parse_infra(
      *Json::parse(R"({"spec":{"router":{"topology":"ring"},"brokers":{"replicas":2}}})"));
  one.input.conditions = &ring.conditions;
  one.write();
  EXPECT_TRUE(told(one.last, "TopologySupported").starts_with("False/RingNotSupported: "));
  EXPECT_TRUE(told(one.last, "BrokerHA").starts_with("False/NotSupported: ")) << "MS-079";
  EXPECT_EQ(routers_needed(one.infra, 2), 2);
  one.infra.routers.min_ready = 0;
  EXPECT_EQ(routers_needed(one.infra, 2), 1) << "one at least";
}

TEST(InfraStatus, NewWorkOfARouterThatWasConfiguredDoesNotMakeItNotReady) {
  Infra one;
  for (RouterView& router : one.routers) {
    router.synchronized = false;
    router.pending = 3;
  }
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Configuring") << "never was";
  for (RouterView& router : one.routers) {
    router.configured = true;
  }
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Active");
  EXPECT_TRUE(told(one.last, "Synchronized").starts_with("False/Configuring: "));
  one.routers[0].trouble = one.routers[1].trouble = "Forbidden";
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Configuring");
}

TEST(InfraStatus, UnsupportedComponentsAndOnDemand) {
  Infra one;
  one.routers[0].trouble = "UnsupportedRouter";
  one.routers[0].error = "other 1.0";
  one.write();
  EXPECT_EQ(told(one.last, "Synchronized"), "False/UnsupportedRouter: router r0: other 1.0");
  one.brokers[0].trouble = "UnsupportedVersion";
  one.brokers[0].error = "2.31.0";
  one.write();
  EXPECT_EQ(told(one.last, "BrokersConnected"), "False/UnsupportedVersion: broker b0: 2.31.0");
  one.input.wanted = false;
  one.write();
  EXPECT_EQ(told(one.last, "Ready"), "False/OnDemand: no space refers to it yet");
  EXPECT_EQ(one.last.text({"phase"}), "Pending");
  one.input.deleting = true;
  one.input.waits = "waits for space a";
  one.write();
  EXPECT_EQ(one.last.text({"phase"}), "Terminating");
  EXPECT_EQ(one.last.text({"message"}), "waits for space a");
}

TEST(InfraStatus, MR32_OfManyComponentsASummary) {
  Infra one;
  one.routers.assign(70, one.routers[0]);
  one.routers[3].synchronized = false;
  one.routers[3].host = "r3";
  one.input.connectors_up = 70;
  one.write();
  EXPECT_EQ(one.last.find("routersSummary")->dump(),
            R"({"connected":70,"synchronized":69,"total":70})");
  EXPECT_EQ(one.last.find("routers")->size(), 1U);
  EXPECT_EQ(one.last.find("routers")->items()[0].text({"host"}), "r3");
  // Also the last of them.
  one.routers[3].synchronized = true;
  one.routers[69].synchronized = one.routers[69].connected = false;
  one.routers[69].host = "r69";
  one.write();
  ASSERT_EQ(one.last.find("routers")->size(), 1U);
  EXPECT_EQ(one.last.find("routers")->items()[0].text({"host"}), "r69");
  for (RouterView& each : one.routers) {
    each.synchronized = false;
  }
  EXPECT_EQ(one.write().find("routers")->size(), 64U);
  EXPECT_EQ(one.last.find("routersSummary")->dump(),
            R"({"connected":69,"synchronized":0,"total":70})");
}

}  // namespace
}  // namespace kintsugi::workers
