#include "workers/messaging/model/component_resources.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

MessagingInfra infra_of(std::string_view spec) {
  Json object =
      *Json::parse(R"({"metadata":{"name":"i","namespace":"n","uid":"u","generation":1}})");
  object["spec"] = *Json::parse(spec);
  Parsed<MessagingInfra> parsed = parse_infra(object);
  EXPECT_TRUE(parsed.valid);
  return std::move(parsed.object);
}

TEST(ComponentResources, MR19_MS_001_OneInterconnectAndOneBroker) {
  const MessagingInfra infra = infra_of(R"({"router":{"image":"r:1","replicas":{"min":2,"max":3}},
                   "brokers":{"min":1,"image":{"name":"b:1","pullPolicy":"Always"},
                              "globalMaxSize":1000,"addressFullPolicy":"PAGE"}})");
  const std::vector<Json> routers = router_resources(infra, 2);
  ASSERT_EQ(routers.size(), 1U);
  EXPECT_EQ(routers[0].text({"metadata", "name"}), "i-default");
  EXPECT_EQ(routers[0].text({"kind"}), "Interconnect");
  EXPECT_EQ(routers[0].text({"apiVersion"}), "interconnectedcloud.github.io/v1alpha1");
  const Json& plan = *routers[0].at({"spec", "deploymentPlan"});
  EXPECT_EQ(plan.find("size")->as_integer(), 2);
  EXPECT_EQ(plan.text({"role"}), "interior");
  EXPECT_EQ(plan.text({"placement"}), "AntiAffinity");
  EXPECT_EQ(plan.text({"image"}), "r:1");
  EXPECT_EQ(plan.find("affinity"), nullptr);
  EXPECT_EQ(routers[0].at({"spec", "router"})->dump(),
            R"({"allowResumableLinkRoute":false,"defaultDistribution":"unavailable",)"
            R"("workerThreads":4})");
  EXPECT_TRUE(routers[0].at({"spec", "policy", "enableVhostPolicy"})->as_bool());
  std::vector<std::int64_t> ports;
  for (const Json& one : routers[0].at({"spec", "listeners"})->items()) {
    ports.push_back(one.find("port")->as_integer());
  }
  EXPECT_EQ(ports, (std::vector<std::int64_t>{55671, 55667, 7778}));
  EXPECT_EQ(routers[0].at({"spec", "listeners"})->items()[0].text({"saslMechanisms"}), "EXTERNAL");
  EXPECT_EQ(routers[0].at({"spec", "interRouterListeners"})->items()[0].find("port")->as_integer(),
            55672);
  EXPECT_EQ(routers[0].at({"spec", "interRouterConnectors"}), nullptr);

  const std::vector<Json> brokers = broker_resources(infra, 1);
  ASSERT_EQ(brokers.size(), 1U);
  EXPECT_EQ(brokers[0].text({"metadata", "name"}), "i-b0");
  EXPECT_EQ(brokers[0].text({"apiVersion"}), "broker.amq.io/v1beta1");
  EXPECT_EQ(brokers[0].at({"spec", "deploymentPlan", "size"})->as_integer(), 1);
  EXPECT_EQ(brokers[0].text({"spec", "deploymentPlan", "image"}), "b:1");
  const std::string properties = brokers[0].at({"spec", "brokerProperties"})->dump();
  EXPECT_NE(properties.find("addressSettings.#.addressFullMessagePolicy=PAGE"), std::string::npos);
  EXPECT_NE(properties.find("globalMaxSize=1000"), std::string::npos);
}

TEST(ComponentResources, MR7_MS_076_GroupsCostByWeightAndStayInOtherZones) {
  const MessagingInfra infra = infra_of(
      R"({"router":{"replicas":2,"linkWeight":100,
                    "groups":[{"name":"a","linkWeight":30},{"name":"b","linkWeight":60}],
                    "podTemplate":{"spec":{"affinity":{"nodeAffinity":{}}}}}})");
  const std::vector<Json> all = router_resources(infra, 2);
  ASSERT_EQ(all.size(), 2U);
  const std::vector<std::int64_t> costs{2, 4};  // of a to b, of b to a
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all[i].text({"metadata", "name"}), i == 0 ? "i-a" : "i-b");
    EXPECT_EQ(all[i].at({"spec", "deploymentPlan", "size"})->as_integer(), 2);
    const Json& others = *all[i].at({"spec", "interRouterConnectors"});
    ASSERT_EQ(others.size(), 1U);
    EXPECT_EQ(others.items()[0].find("cost")->as_integer(), costs[i]);
    EXPECT_EQ(others.items()[0].text({"host"}), i == 0 ? "i-b.n.svc" : "i-a.n.svc");
    EXPECT_EQ(all[i].at({"spec", "interRouterListeners"})->items()[0].find("cost")->as_integer(),
              1);
    const Json& affinity = *all[i].at({"spec", "deploymentPlan", "affinity"});
    EXPECT_NE(affinity.find("nodeAffinity"), nullptr) << "of the template";
    const Json& term =
        affinity.at({"podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"})
            ->items()[0];
    EXPECT_EQ(term.text({"topologyKey"}), "topology.kubernetes.io/zone");
    EXPECT_NE(term.dump().find(i == 0 ? R"(["i-b"])" : R"(["i-a"])"), std::string::npos);
  }
  using Zones = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(groups_spread(infra, Zones{{"a", "z1"}, {"a", "z1"}, {"b", "z2"}}).status,
            ConditionStatus::kTrue);
  EXPECT_EQ(groups_spread(infra, Zones{{"a", "z1"}, {"b", "z1"}}).message,
            "zone z1 has routers of groups a, b");
}

TEST(ComponentResources, MR6_AllThatIsSaidOfRoutersIsInTheirResource) {
  const MessagingInfra infra = infra_of(
      R"({"router":{"image":{"name":"r:2","pullPolicy":"Always"},"workerThreads":7,
                    "idleTimeout":30,"linkCapacity":55,"handshakeTimeout":9,
                    "authenticationService":"auth","podTemplate":{
          "metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},
          "spec":{"tolerations":[{"key":"t"}],"resources":{"limits":{"memory":"1Gi"}},
                  "affinity":{"nodeAffinity":{"x":1}},"priorityClassName":"high"}}}})");
  const Json all = router_resources(infra, 1)[0];
  const Json& plan = *all.at({"spec", "deploymentPlan"});
  EXPECT_EQ(plan.text({"image"}), "r:2");
  EXPECT_EQ(plan.text({"pullPolicy"}), "Always");
  EXPECT_EQ(plan.text({"labels", "team"}), "a");
  EXPECT_EQ(plan.text({"annotations", "note"}), "b");
  EXPECT_EQ(plan.text({"priorityClassName"}), "high");
  EXPECT_EQ(plan.find("tolerations")->dump(), R"([{"key":"t"}])");
  EXPECT_EQ(plan.text({"resources", "limits", "memory"}), "1Gi");
  EXPECT_NE(plan.at({"affinity", "nodeAffinity"}), nullptr);
  EXPECT_EQ(all.at({"spec", "router", "workerThreads"})->as_integer(), 7);
  const Json& clients = all.at({"spec", "listeners"})->items()[1];
  EXPECT_EQ(clients.find("idleTimeoutSeconds")->as_integer(), 30);
  EXPECT_EQ(clients.find("linkCapacity")->as_integer(), 55);
  EXPECT_EQ(clients.find("initialHandshakeTimeoutSeconds")->as_integer(), 9);
  EXPECT_EQ(clients.text({"saslPlugin"}), "auth");
}

TEST(ComponentResources, MR8_MR39_AllThatIsSaidOfBrokersIsInTheirResource) {
  const MessagingInfra infra =
      infra_of(R"({"brokers":{"min":2,"max":3,"image":"b:2","addressFullPolicy":"BLOCK",
                   "initImage":{"name":"init:1","pullPolicy":"Never"},"storageClassName":"fast",
                   "storage":"5Gi","javaOpts":"-Xmx1G","globalMaxSize":"64Mi",
                   "podTemplate":{"metadata":{"labels":{"team":"a"}},
                                  "spec":{"resources":{"limits":{"memory":"2Gi"}}}}}})");
  const std::vector<Json> brokers = broker_resources(infra, infra.brokers.min);
  ASSERT_EQ(brokers.size(), 2U);
  for (const Json& one : brokers) {
    const Json& plan = *one.at({"spec", "deploymentPlan"});
    EXPECT_EQ(plan.text({"image"}), "b:2");
    EXPECT_EQ(plan.text({"initImage"}), "init:1");
    EXPECT_EQ(plan.find("size")->as_integer(), 1);
    const std::string text = one.dump();
    for (const char* said : {"BLOCK", "fast", "5Gi", "-Xmx1G", "globalMaxSize=67108864", "2Gi"}) {
      EXPECT_NE(text.find(said), std::string::npos) << said << " in " << text;
    }
  }
}

TEST(ComponentResources, MR9_MD1_TheLeastInfraIsOneRouterAndItsSizeCountsForEachGroup) {
  const MessagingInfra least = infra_of("{}");
  EXPECT_EQ(least.declared_routers(least.routers.min), 1);
  EXPECT_EQ(router_resources(least, least.routers.min).size(), 1U);
  EXPECT_TRUE(broker_resources(least, least.brokers.min).empty());
  // The example of two groups of two is four routers, whatever else it says of three.
  const MessagingInfra two =
      infra_of(R"({"router":{"replicas":{"min":2},"groups":[{"name":"a"},{"name":"b"}]},
                   "brokers":{"min":1}})");
  std::int64_t routers = 0;
  for (const Json& one : router_resources(two, two.routers.min)) {
    routers += one.at({"spec", "deploymentPlan", "size"})->as_integer();
  }
  EXPECT_EQ(routers, 4);
  EXPECT_EQ(two.declared_routers(two.routers.min), 4);
  EXPECT_EQ(broker_resources(two, two.brokers.min).size(), 1U);
}

TEST(ComponentResources, MD4_ConnectorsToBrokersAreInNoResource) {
  const MessagingInfra infra = infra_of(
      R"({"router":{"replicas":2,"groups":[{"name":"a"},{"name":"b"}]},"brokers":{"min":3}})");
  const std::vector<Json> all = router_resources(infra, 2);
  for (const Json& one : all) {
    EXPECT_EQ(one.at({"spec", "connectors"}), nullptr);
    EXPECT_EQ(one.at({"spec", "interRouterConnectors"})->size(), 1U);
    EXPECT_EQ(one.dump().find("route-container"), std::string::npos);
  }
  // Another number of brokers restarts no router.
  const MessagingInfra more = infra_of(
      R"({"router":{"replicas":2,"groups":[{"name":"a"},{"name":"b"}]},"brokers":{"min":4}})");
  EXPECT_EQ(router_resources(more, 2), all);
}

TEST(ComponentResources, MS_079_ABrokerHasOneReplica) {
  Json object = *Json::parse(R"({"metadata":{"name":"i"},"spec":{"brokers":{"replicas":2}}})");
  const Parsed<MessagingInfra> parsed = parse_infra(object);
  EXPECT_EQ(
      broker_resources(parsed.object, 1)[0].at({"spec", "deploymentPlan", "size"})->as_integer(),
      1);
}

TEST(ComponentResources, MS_001_WhatIsStoredIsUpdatedOnlyWhenItDiffers) {
  const MessagingInfra infra = infra_of(R"({"router":{"replicas":2}})");
  const Json wanted = router_resources(infra, 2)[0];
  EXPECT_EQ(wanted, router_resources(infra, 2)[0]);
  Json stored = wanted;
  stored["status"] = Json::object({{"phase", "Running"}});
  stored.make({"metadata"})["resourceVersion"] = "7";
  stored.make({"metadata", "labels"})["theirs"] = "x";
  stored.make({"spec", "deploymentPlan"})["livenessPort"] = 8888;  // an operator's default
  EXPECT_TRUE(same_spec(stored, wanted));
  const Json larger = router_resources(infra, 3)[0];
  EXPECT_FALSE(same_spec(stored, larger));
  const Json updated = updated_resource(stored, larger);
  EXPECT_TRUE(same_spec(updated, larger));
  EXPECT_EQ(updated.text({"metadata", "resourceVersion"}), "7");
  EXPECT_EQ(updated.text({"metadata", "labels", "theirs"}), "x");
  EXPECT_NE(updated.find("status"), nullptr);
  stored.make({"spec", "router"})["defaultDistribution"] = "balanced";  // by hand
  EXPECT_FALSE(same_spec(stored, wanted));
  Json with = router_resources(infra_of(R"({"router":{"image":"r:1","replicas":2}})"), 2)[0];
  EXPECT_FALSE(same_spec(with, wanted)) << "a field that is no longer wanted";
}

TEST(ComponentResources, MS_001_ComponentsArePodsOrEndpoints) {
  const MessagingInfra infra = infra_of(R"({"router":{"replicas":2}})");
  const auto pod = [](const char* name, const char* label, const char* value, const char* ip) {
    Json out = Json::object();
    out.make({"metadata"})["name"] = name;
    out.make({"metadata"})["namespace"] = "n";
    out.make({"metadata", "labels"})[label] = value;
    out.make({"status"})["podIP"] = ip;
    return out;
  };
  std::vector<Json> pods{pod("i-b1-ss-0", "ActiveMQArtemis", "i-b1", "10.0.0.4"),
                         pod("i-default-1", "interconnect_cr", "i-default", "10.0.0.2"),
                         pod("i-default-0", "interconnect_cr", "i-default", "10.0.0.1"),
                         pod("i-b0-ss-0", "ActiveMQArtemis", "i-b0", "10.0.0.3"),
                         pod("other", "interconnect_cr", "j-default", "10.0.0.9"),
                         pod("none", "interconnect_cr", "i-default", ""),
                         pod("late", "interconnect_cr", "i-default", "10.0.0.8")};
  pods[6].make({"metadata"})["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  std::vector<std::string> seen;
  for (const Component& one : components_of(infra, pods)) {
    seen.push_back((one.broker ? "b " : "r ") + one.endpoint.host + " " + one.endpoint.address +
                   ":" + std::to_string(one.endpoint.port) + " " + std::to_string(one.index) + " " +
                   one.endpoint.group);
  }
  EXPECT_EQ(seen,
            (std::vector<std::string>{
                "r i-default-0 10.0.0.1:55671 0 default", "r i-default-1 10.0.0.2:55671 1 default",
                "b i-b0-ss-0 10.0.0.3:5672 0 default", "b i-b1-ss-0 10.0.0.4:5672 1 default"}));
  const MessagingInfra existing =
      infra_of(R"({"router":{"endpoints":[{"host":"r1","port":1},{"host":"r0","port":2}]},
                   "brokers":{"endpoints":[{"host":"b0","address":"127.0.0.1","port":3}]}})");
  EXPECT_TRUE(router_resources(existing, 2).empty());
  EXPECT_TRUE(broker_resources(existing, 2).empty());
  const std::vector<Component> list = components_of(existing, pods);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].endpoint.host, "r1");
  EXPECT_EQ(list[1].index, 1);
  EXPECT_EQ(list[2].endpoint.address, "127.0.0.1");
}

TEST(ComponentResources, MS_001_RoutersHaveCertificatesForTheirHosts) {
  MessagingInfra infra;
  infra.id.name = "i";
  infra.id.ns = "ns";
  infra.routers.domain = "i.ns.svc";
  infra.routers.groups = {{"a", 1}, {"b", 1}};
  EXPECT_EQ(router_hosts(infra),
            (std::vector<std::string>{"i-a.ns.svc", "i-b.ns.svc", "i.ns.svc", "*.i.ns.svc"}));
  const Json spec = *router_resources(infra, 1).front().find("spec");
  const Json& profile = spec.find("sslProfiles")->items().front();
  EXPECT_EQ(profile.text({"credentials"}), router_certificate_name(infra));
  EXPECT_EQ(profile.text({"caCert"}), router_ca_name(infra));
}

}  // namespace
}  // namespace kintsugi::workers
