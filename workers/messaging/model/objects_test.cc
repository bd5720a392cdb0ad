#include "workers/messaging/model/objects.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

krm::Json of_text(std::string_view text) {
  Expected<krm::Json> parsed = krm::Json::parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed ? *parsed : krm::Json();
}
krm::Json with_spec(std::string_view kind, std::string_view spec,
                    std::string_view name = "infra1") {
  return of_text(R"({"kind":")" + std::string(kind) + R"(","metadata":{"name":")" +
                 std::string(name) +
                 R"(","namespace":"ns1","uid":"u1","generation":7,
                 "creationTimestamp":"2026-01-02T03:04:05Z",
                 "annotations":{"kcp.io/cluster":"c1"}},"spec":)" +
                 std::string(spec) + "}");
}
template <class Object>
std::string said(const Parsed<Object>& parsed) {
  std::string out;
  for (const Condition& c : parsed.conditions) {
    out += std::string(c.type) + "/" + std::string(c.reason) + " " + c.message + "\n";
  }
  return out;
}

TEST(MessagingObjects, MR4_AnEmptyInfraHasTheDefaults) {
  const auto parsed = parse_infra(with_spec("MessagingInfra", "{}"));
  EXPECT_TRUE(parsed.valid);
  EXPECT_EQ(said(parsed), "");
  const MessagingInfra& infra = parsed.object;
  EXPECT_EQ(infra.id.cluster, "c1");
  EXPECT_EQ(infra.id.created, 1767323045);
  EXPECT_EQ(infra.id.generation, 7);
  EXPECT_FALSE(infra.on_demand);
  EXPECT_EQ(infra.routers.min, 1);
  EXPECT_EQ(infra.routers.max, 1);
  EXPECT_EQ(infra.routers.min_ready, 0);
  ASSERT_EQ(infra.routers.groups.size(), 1U);
  EXPECT_EQ(infra.routers.groups[0].name, "default");
  EXPECT_EQ(infra.routers.domain, "infra1.ns1.svc");
  EXPECT_EQ(infra.routers.first_port, 40000);
  EXPECT_EQ(infra.routers.last_port, 40999);
  EXPECT_EQ(infra.brokers.min, 0);
  EXPECT_EQ(infra.brokers.max, 1);
  EXPECT_EQ(infra.brokers.policy, FullPolicy::kFail);
  EXPECT_TRUE(infra.selector.any);
}

TEST(MessagingObjects, MS092_TheSeedsInfraIsReadAsItIs) {
  const auto parsed = parse_infra(with_spec("MessagingInfra", R"({
    "router":{"replicas":{"min":2,"max":3,"minReady":1},"topology":"mesh",
      "groups":[{"name":"grp1","linkWeight":30},{"name":"grp2","linkWeight":60}],"linkWeight":100,
      "podTemplate":{"spec":{"affinity":null,"tolerations":null,"priorityClassName":"p"}}},
    "brokers":{"min":1,"max":5,"replicas":1,"addressFullPolicy":"BLOCK"}})"));
  EXPECT_TRUE(parsed.valid) << said(parsed);
  EXPECT_EQ(parsed.object.declared_routers(parsed.object.routers.min), 4);  // MD-1
  EXPECT_EQ(parsed.object.brokers.max, 5);
  EXPECT_EQ(parsed.object.brokers.policy, FullPolicy::kBlock);
  EXPECT_EQ(link_cost(parsed.object, 30), 4);  // MD-7, MS-076
  EXPECT_EQ(link_cost(parsed.object, 60), 2);
  EXPECT_EQ(link_cost(parsed.object, 100), 1);
}

TEST(MessagingObjects, MS092_TheOtherExamplesOfTheSeedAreReadAsTheyAre) {
  const auto plan = parse_plan(with_spec("AddressSpacePlan", R"({"messagingInfraRef":"shared1",
    "capabilities":["transactions"],"resources":{
    "requests":{"queueMemory":"10Mi","addresses":10,"connections":1},
    "limits":{"queueMemory":"100Mi","addresses":100,"connections":10,"linksPerConnection":2}}})"));
  EXPECT_TRUE(plan.valid) << said(plan);
  EXPECT_EQ(plan.object.infra, (ObjectRef{"ns1", "shared1"}));
  EXPECT_TRUE(plan.object.transactions);
  EXPECT_EQ(plan.object.requests.queue_memory, 10 << 20);
  EXPECT_EQ(plan.object.limits.links_per_connection, 2);
  const auto address_plan = parse_address_plan(with_spec("AddressPlan", R"({"addressType":"queue",
    "resources":{"requests":{"queueDepth":3},"limits":{"queueDepth":10}},"allowOverrides":true,
    "queue":{"partitions":{"min":1,"max":2},"ttl":"60s","expiryQueue":"exp1",
    "deadLetterQueue":"dlq1"}})"));
  EXPECT_TRUE(address_plan.valid) << said(address_plan);
  EXPECT_EQ(address_plan.object.settings.ttl_ms, 60'000);
  EXPECT_EQ(address_plan.object.settings.partitions_max, 2);
  const auto address =
      parse_address(with_spec("Address", R"({"address":"addr1","type":"queue","plan":"small-queue",
      "queue":{"ttl":"1200s"}})",
                              "myspace.addr1"));
  EXPECT_TRUE(address.valid) << said(address);
  EXPECT_EQ(address.object.space, "myspace");
  const EffectiveSettings both = effective_settings(address.object, &address_plan.object);
  EXPECT_EQ(both.settings.ttl_ms, 1'200'000);  // MS-037
  EXPECT_EQ(both.settings.limits_depth, 10);
  EXPECT_TRUE(both.overridden);
  const auto endpoint = parse_endpoint(with_spec("MessagingEndpoint", R"({
    "cert":{"secret":{"name":"endpointcert"}},"ports":["amqpwss"],"route":{"host":"example.com"}})"));
  EXPECT_TRUE(endpoint.valid) << said(endpoint);
  EXPECT_EQ(endpoint.object.host, "example.com");
  EXPECT_EQ(endpoint.object.tls, MessagingEndpoint::Tls::kExternal);
  EXPECT_TRUE(endpoint.object.dedicated);
}

TEST(MessagingObjects, MS006_MS079_RingAndReplicasAreToldAndNotUsed) {
  const auto parsed = parse_infra(
      with_spec("MessagingInfra", R"({"router":{"topology":"ring"},"brokers":{"replicas":2}})"));
  EXPECT_TRUE(parsed.valid);
  ASSERT_EQ(parsed.conditions.size(), 2U);
  EXPECT_EQ(parsed.conditions[0].type, "TopologySupported");
  EXPECT_EQ(parsed.conditions[0].reason, "RingNotSupported");
  EXPECT_EQ(parsed.conditions[0].status, ConditionStatus::kFalse);
  EXPECT_EQ(parsed.conditions[0].observed_generation, 7);
  EXPECT_EQ(parsed.conditions[1].type, "BrokerHA");
}

struct BadCase {
  std::string_view kind, spec, field;
};

TEST(MessagingObjects, MS007_S16_BadInputNamesItsField) {
  const BadCase cases[] = {
      {"MessagingInfra", R"({"router":{"replicas":{"min":3,"max":2}}})",
       "spec.router.replicas.max"},
      {"MessagingInfra", R"({"router":{"replicas":{"min":0}}})", "spec.router.replicas.min"},
      {"MessagingInfra", R"({"router":{"replicas":65}})", "spec.router.replicas"},
      {"MessagingInfra", R"({"router":{"replicas":{"min":1,"minReady":2}}})",
       "spec.router.replicas.minReady"},
      {"MessagingInfra", R"({"brokers":{"addressFullPolicy":"SPILL"}})",
       "spec.brokers.addressFullPolicy"},
      {"MessagingInfra", R"({"brokers":{"min":3,"max":2}})", "spec.brokers.max"},
      {"MessagingInfra", R"({"router":{"groups":[{"name":"a"},{"name":"a"}]}})",
       "spec.router.groups[1].name"},
      {"MessagingInfra", R"({"router":{"groups":[{"name":"a","linkWeight":1001}]}})",
       "spec.router.groups[0].linkWeight"},
      {"MessagingInfra", R"({"router":{"podTemplate":{"spec":{"volumes":[]}}}})",
       "spec.router.podTemplate.spec.volumes"},
      {"MessagingInfra", R"({"router":{"listenerPorts":{"first":5000,"last":4000}}})",
       "spec.router.listenerPorts.first"},
      {"MessagingInfra", R"({"router":{"endpoints":[{"host":"a"},{"host":"a"}]}})",
       "spec.router.endpoints[1].host"},
      {"MessagingInfra", R"({"router":[]})", "spec.router"},
      {"MessagingInfra", R"({"brokers":{"queueMemory":"10Mib"}})", "spec.brokers.queueMemory"},
      {"MessagingInfra", R"({"brokers":{"queueMemory":-1}})", "spec.brokers.queueMemory"},
      {"MessagingInfra", R"({"brokers":{"queueMemory":"9223372036854775808"}})",
       "spec.brokers.queueMemory"},
      {"MessagingInfra",
       R"({"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}})",
       "spec.namespaceSelector"},
      {"AddressSpacePlan", R"({"resources":{}})", "spec.messagingInfraRef"},
      {"AddressSpacePlan", R"({"messagingInfraRef":"i","capabilities":["magic"]})",
       "spec.capabilities"},
      {"AddressSpacePlan", R"({"messagingInfraRef":"i","resources":{"requests":{"addresses":2},
       "limits":{"addresses":1}}})",
       "spec.resources.requests.addresses"},
      {"AddressPlan", R"({"addressType":"queue","queue":{"ttl":"60"}})", "spec.queue.ttl"},
      {"AddressPlan", R"({"addressType":"queue","queue":{"ttl":"-1s"}})", "spec.queue.ttl"},
      {"AddressPlan", R"({"addressType":"queue","queue":{"ttl":"9999999999h"}})", "spec.queue.ttl"},
      {"AddressPlan", R"({"addressType":"queue","queue":{"partitions":{"min":3,"max":2}}})",
       "spec.queue.partitions.max"},
      {"AddressPlan", R"({"addressType":"topic","queue":{"partitions":{"max":2}}})",
       "spec.queue.partitions.max"},
      {"AddressPlan", R"({"addressType":"pipe"})", "spec.addressType"},
      {"AddressSpace", R"({"type":"other","plan":"p"})", "spec.type"},
      {"AddressSpace", R"({})", "spec.plan"},
      {"MessagingTenant", R"({})", "metadata.name"},
      {"Address", R"({"address":"a b","type":"queue"})", "spec.address"},
      {"Address", R"({"address":"/a","type":"queue"})", "spec.address"},
      {"Address", R"({"address":"$management","type":"queue"})", "spec.address"},
      {"Address", R"({"address":"a.*.b","type":"queue"})", "spec.address"},
      {"Address", R"({"address":"a/#","type":"topic"})", "spec.address"},
      {"Address", R"({"address":"a\u0000b","type":"topic"})", "spec.address"},
      {"Address", R"({"address":"s","type":"subscription"})", "spec.topic"},
      {"Address", R"({"address":"a","type":"anycast","forwarders":[{"name":"f",
       "remoteAddress":"c/x","direction":"in"}]})",
       "spec.forwarders[0].direction"},
      {"Address", R"({"address":"a","type":"queue","forwarders":[{"name":"f","remoteAddress":"x",
       "direction":"in"}]})",
       "spec.forwarders[0].remoteAddress"},
      {"MessagingAddress", R"({"queue":{},"topic":{}})", "spec.queue"},
      {"MessagingEndpoint", R"({"protocols":["AMQPS"],"cluster":{}})", "spec.tls"},
      {"MessagingEndpoint", R"({"protocols":["AMQP-WS"],"ingress":{}})", "spec.host"},
      {"MessagingEndpoint", R"({"protocols":["AMQP-WS","AMQP"],"ingress":{},"host":"h"})",
       "spec.protocols"},
      {"MessagingEndpoint", R"({"protocols":["AMQP"],"route":{}})", "spec.protocols"},
      {"MessagingEndpoint", R"({"protocols":["AMQPS"],"tls":{"selfsigned":{}},
       "route":{"tlsTermination":"edge"}})",
       "spec.route.tlsTermination"},
      {"MessagingEndpoint", R"({"protocols":["AMQPS"],"tls":{"letsencrypt":{}},"cluster":{}})",
       "spec.tls.letsencrypt"},
      {"MessagingEndpoint", R"({"cluster":{}})", "spec.ports"},
      {"MessagingConnector", R"({"endpointHosts":[]})", "spec.endpointHosts"},
      {"MessagingConnector", R"({"endpointHosts":[{"host":"localhost"}]})",
       "spec.endpointHosts[0].host"},
      {"MessagingConnector", R"({"endpointHosts":[{"host":"169.254.1.1"}]})",
       "spec.endpointHosts[0].host"},
      {"MessagingConnector", R"({"endpointHosts":[{"host":"h"}],"addresses":[{"name":"n",
       "pattern":"a//b"}]})",
       "spec.addresses[0].pattern"},
      {"MessagingConnector", R"({"endpointHosts":[{"host":"h"}],"credentials":{"username":
       {"value":"u"}}})",
       "spec.credentials"},
  };
  for (const BadCase& one : cases) {
    const krm::Json json = with_spec(one.kind, one.spec);
    bool valid = true;
    std::string text;
    const auto take = [&](const auto& parsed) {
      valid = parsed.valid;
      text = said(parsed);
    };
    if (one.kind == "MessagingInfra") {
      take(parse_infra(json));
    } else if (one.kind == "AddressSpacePlan") {
      take(parse_plan(json));
    } else if (one.kind == "AddressPlan") {
      take(parse_address_plan(json));
    } else if (one.kind == "AddressSpace" || one.kind == "MessagingTenant") {
      take(parse_space(json));
    } else if (one.kind == "MessagingEndpoint") {
      take(parse_endpoint(json));
    } else if (one.kind == "MessagingConnector") {
      take(parse_connector(json));
    } else {
      take(parse_address(json));
    }
    EXPECT_FALSE(valid) << one.spec;
    EXPECT_NE(text.find(" " + std::string(one.field) + ": "), std::string::npos) << one.spec << "\n"
                                                                                 << text;
  }
}

TEST(MessagingObjects, S16_AnythingAtAllIsReadWithoutHarm) {
  const std::string_view texts[] = {"null",
                                    "[]",
                                    "{}",
                                    "1",
                                    R"({"metadata":5,"spec":"x"})",
                                    R"({"spec":{"router":5,"brokers":[],"addresses":{}}})"};
  for (const std::string_view text : texts) {
    const krm::Json json = of_text(text);
    (void)parse_infra(json);
    (void)parse_plan(json);
    EXPECT_FALSE(parse_address_plan(json).valid);
    EXPECT_FALSE(parse_space(json).valid);
    EXPECT_FALSE(parse_endpoint(json).valid);
    EXPECT_FALSE(parse_connector(json).valid);
    EXPECT_FALSE(parse_address(json).valid);
    EXPECT_FALSE(tenant_of_namespace(json).has_value());
  }
}

TEST(MessagingObjects, MR1_MR2_AbsentTypeIsSharedAndOthersAreNotOurs) {
  EXPECT_TRUE(parse_space(with_spec("AddressSpace", R"({"plan":"p"})")).object.shared);
  EXPECT_TRUE(
      parse_space(with_spec("AddressSpace", R"({"type":"shared","plan":"p"})")).object.shared);
  for (const char* type : {"standard", "brokered"}) {  // MS-002
    const auto parsed = parse_space(
        with_spec("AddressSpace", R"({"type":")" + std::string(type) + R"(","plan":"p"})"));
    EXPECT_FALSE(parsed.object.shared);
    EXPECT_EQ(said(parsed), "");
  }
  EXPECT_FALSE(parse_plan(with_spec("AddressSpacePlan", R"({"addressSpaceType":"standard"})"))
                   .object.shared);
}

TEST(MessagingObjects, MR34_MS027_AnnotationsOfANamespaceMakeATenant) {
  bool unknown = false;
  const auto annotated = [](std::string_view value) {
    return of_text(R"({"metadata":{"name":"app","annotations":{"enmasse.io/messaging":")" +
                   std::string(value) + R"(","enmasse.io/messaging-plan":"small",
                   "enmasse.io/authentication-service":"std"}}})");
  };
  const auto tenant = tenant_of_namespace(annotated("true"), &unknown);
  ASSERT_TRUE(tenant.has_value());
  EXPECT_EQ(tenant->id.ns, "app");
  EXPECT_EQ(tenant->id.name, "default");
  EXPECT_EQ(tenant->plan.name, "small");
  EXPECT_EQ(tenant->authentication_service, "std");
  EXPECT_TRUE(tenant->owned);
  EXPECT_FALSE(unknown);
  EXPECT_FALSE(tenant_of_namespace(annotated("yes"), &unknown).has_value());
  EXPECT_TRUE(unknown);
}

TEST(MessagingObjects, MR18_S16_ConnectorsAndEndpointsOfASpaceAreJudgedByThemselves) {
  const auto parsed = parse_space(with_spec("AddressSpace", R"({"plan":"p","networkPolicy":{},
    "endpoints":[{"name":"m","service":"messaging","cert":{"provider":"selfsigned"}},
      {"name":"q","service":"mqtt"}],
    "connectors":[{"name":"r1","endpointHosts":[{"host":"h","port":1}]},
      {"name":"r-2","endpointHosts":[{"host":"h"}]},{"name":"r1","endpointHosts":[{"host":"h"}]}]})"));
  EXPECT_TRUE(parsed.valid) << said(parsed);
  ASSERT_EQ(parsed.conditions.size(), 1U);
  EXPECT_EQ(parsed.conditions[0].type, "NetworkPolicySupported");
  ASSERT_EQ(parsed.object.endpoints.size(), 2U);
  EXPECT_TRUE(parsed.object.endpoints[0].valid) << said(parsed.object.endpoints[0]);
  EXPECT_EQ(parsed.object.endpoints[0].object.protocols,
            (std::vector{Protocol::kAmqp, Protocol::kAmqps}));
  EXPECT_EQ(parsed.object.endpoints[1].conditions[0].reason, "NotSupported");
  ASSERT_EQ(parsed.object.connectors.size(), 3U);
  EXPECT_TRUE(parsed.object.connectors[0].valid);
  EXPECT_EQ(said(parsed.object.connectors[1]),
            "Validated/InvalidField spec.connectors[1].name: must match [a-zA-Z0-9]+\n");
  EXPECT_FALSE(parsed.object.connectors[2].valid);
  std::string many = R"({"plan":"p","connectors":[)";
  for (int i = 0; i < 65; ++i) {
    many += (i == 0 ? "" : ",") + (R"({"name":"c)" + std::to_string(i)) + R"("})";
  }
  EXPECT_NE(said(parse_space(with_spec("AddressSpace", many + "]}"))).find("at most 64"),
            std::string::npos);
}

TEST(MessagingObjects, MD8_MR16_MS036_OverridesNeedThePlansLeave) {
  AddressPlan plan;
  plan.type = AddressType::kQueue;
  plan.id.name = "p";
  const auto address = parse_address(
      with_spec("Address",
                R"({"address":"a","type":"queue","queue":{"ttl":"5s","expiryQueue":"e"}})", "s.a"));
  const EffectiveSettings refused = effective_settings(address.object, &plan);
  ASSERT_TRUE(refused.refused.has_value());
  EXPECT_EQ(refused.refused->reason, "OverridesForbidden");
  EXPECT_EQ(refused.refused->message, "spec.queue.ttl: plan p forbids overrides");
  plan.allow_overrides = true;
  EXPECT_FALSE(effective_settings(address.object, &plan).refused.has_value());
  plan.type = AddressType::kTopic;
  EXPECT_EQ(effective_settings(address.object, &plan).refused->reason, "PlanTypeMismatch");
  EXPECT_FALSE(effective_settings(address.object, nullptr).refused.has_value());
}

TEST(MessagingObjects, MD10_MessageTtlTightens) {
  AddressPlan plan;
  plan.type = AddressType::kQueue;
  plan.settings.ttl_ms = 60'000;
  const auto address = parse_address(with_spec(
      "Address", R"({"address":"a","type":"queue","messageTtl":{"minimum":10,"maximum":500}})",
      "s.a"));
  const EffectiveSettings both = effective_settings(address.object, &plan);
  EXPECT_FALSE(both.refused.has_value());
  EXPECT_EQ(both.settings.ttl_ms, 500);
  EXPECT_EQ(both.ttl_minimum_ms, 10);
  plan.settings.ttl_ms = 100;
  EXPECT_EQ(effective_settings(address.object, &plan).settings.ttl_ms, 100);
}

TEST(MessagingObjects, BH8_S34_TheNameTellsTheSpace) {
  const std::string_view spec = R"({"address":"a","type":"queue"})";
  EXPECT_EQ(parse_address(with_spec("Address", spec, "space.a.b")).object.space, "space");
  EXPECT_EQ(parse_address(with_spec("Address", spec, "a")).object.space, "");
  const auto other = parse_address(with_spec("MessagingAddress", R"({"topic":{}})", "x.y"));
  EXPECT_EQ(other.object.space, "");
  EXPECT_EQ(other.object.address, "x.y");
  EXPECT_EQ(other.object.type, AddressType::kTopic);
  EXPECT_EQ(address_fault("a/b.c", AddressType::kQueue, 54), "");
  for (const std::string_view wild : {"#", "*", "a/#", "a.*", "a/*/b", "a//b", "$management"}) {
    EXPECT_NE(address_fault(wild, AddressType::kQueue, 54), "") << wild;
  }
  EXPECT_EQ(address_fault(std::string(198, 'a'), AddressType::kQueue, 54), "");
  EXPECT_NE(address_fault(std::string(199, 'a'), AddressType::kQueue, 54), "");  // MS-042
}

}  // namespace
}  // namespace kintsugi::workers
