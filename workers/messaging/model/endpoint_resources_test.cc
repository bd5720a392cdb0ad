#include "workers/messaging/model/endpoint_resources.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

struct Case {
  MessagingEndpoint endpoint;
  MessagingInfra infra;

  explicit Case(std::string_view spec, const char* name = "front") {
    Json object = *Json::parse(
        R"({"metadata":{"namespace":"app","uid":"u","annotations":{"kcp.io/cluster":"c"}}})");
    object.make({"metadata"})["name"] = name;
    object["spec"] = *Json::parse(spec);
    Parsed<MessagingEndpoint> parsed = parse_endpoint(object);
    EXPECT_TRUE(parsed.valid) << spec;
    endpoint = std::move(parsed.object);
    infra = parse_infra(*Json::parse(R"({"metadata":{"name":"i","namespace":"infra"}})")).object;
  }
  [[nodiscard]] std::vector<Json> resources(
      std::vector<std::pair<Protocol, std::int64_t>> listeners = {}) const {
    return endpoint_resources({&endpoint, &infra, "app-x", "a.example.com", std::move(listeners)});
  }
};

std::string ports(const Json& service) {
  std::string out;
  for (const Json& one : service.at({"spec", "ports"})->items()) {
    out += std::string(one.text({"name"})) + " " + std::to_string(one.find("port")->as_integer()) +
           ">" + std::to_string(one.find("targetPort")->as_integer()) + " ";
  }
  return out;
}

TEST(EndpointResources, MS_068_AServiceLeadsToTheListenersOfRouters) {
  const Case shared(R"({"protocols":["AMQP"],"cluster":{}})");
  std::vector<Json> all = shared.resources();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].text({"kind"}), "Service");
  EXPECT_EQ(all[0].text({"metadata", "namespace"}), "infra");
  EXPECT_EQ(all[0].text({"spec", "type"}), "ClusterIP");
  EXPECT_EQ(ports(all[0]), "amqp 5672>55667 ");
  EXPECT_EQ(all[0].at({"spec", "selector"})->dump(),
            R"({"kintsugi.dev/component":"router","kintsugi.dev/infra":"i"})");
  EXPECT_EQ(all, shared.resources()) << "the same bytes";

  const Case own(R"({"protocols":["AMQP","AMQPS"],"tls":{"selfsigned":{}},"loadBalancer":{},
                     "annotations":{"lb":"internal"}})");
  all = own.resources({{Protocol::kAmqp, 40000}, {Protocol::kAmqps, 40001}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].text({"spec", "type"}), "LoadBalancer");
  EXPECT_EQ(ports(all[0]), "amqp 5672>40000 amqps 5671>40001 ");
  EXPECT_EQ(all[0].text({"metadata", "annotations", "lb"}), "internal");
  EXPECT_EQ(Case(R"({"protocols":["AMQP"],"nodePort":{}})").resources()[0].text({"spec", "type"}),
            "NodePort");
}

TEST(EndpointResources, MS_069_AnIngressOrRouteStandsInFrontOfIt) {
  const Case ingress(
      R"({"protocols":["AMQP-WSS"],"host":"a.example.com","tls":{"selfsigned":{}},"ingress":{}})");
  std::vector<Json> all = ingress.resources();
  EXPECT_EQ(resource_texts(all),
            (std::vector<std::string>{"Service/" + endpoint_resource_name(ingress.endpoint),
                                      "Ingress/" + endpoint_resource_name(ingress.endpoint)}));
  EXPECT_EQ(all[1].at({"spec", "rules"})->items()[0].text({"host"}), "a.example.com");
  EXPECT_EQ(all[1].text({"metadata", "annotations", "nginx.ingress.kubernetes.io/ssl-passthrough"}),
            "true");
  EXPECT_NE(all[1].at({"spec", "tls"}), nullptr);

  const Case route(R"({"protocols":["AMQPS"],"host":"a.example.com","tls":{"selfsigned":{}},
                       "route":{"tlsTermination":"passthrough"}})");
  all = route.resources({{Protocol::kAmqps, 40007}});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].text({"kind"}), "Route");
  EXPECT_EQ(all[1].at({"spec"})->dump(),
            R"({"host":"a.example.com","port":{"targetPort":"amqps"},)"
            R"("tls":{"termination":"passthrough"},"to":{"kind":"Service","name":")" +
                endpoint_resource_name(route.endpoint) + R"("}})");
}

TEST(EndpointResources, MS_043_NamesAreLabels) {
  const auto name = [](const std::string& of) {
    return endpoint_resource_name(
        Case(R"({"protocols":["AMQP"],"cluster":{}})", of.c_str()).endpoint);
  };
  for (const std::string& of :
       {std::string("front"), std::string(200, 'x'), std::string("1.2"), std::string("a.b")}) {
    const std::string made = name(of);
    EXPECT_LE(made.size(), 63U) << made;
    EXPECT_TRUE(made.front() >= 'a' && made.front() <= 'z') << made;
    EXPECT_EQ(made.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos)
        << made;
  }
  EXPECT_NE(name("a.b"), name("a-b"));
}

TEST(EndpointResources, MS_071_WhatIsNotWantedAnyMoreIsTold) {
  Json status = Json::object();
  record_resources(status, {"Service/a", "Ingress/a"});
  EXPECT_EQ(recorded_resources(status), (std::vector<std::string>{"Service/a", "Ingress/a"}));
  EXPECT_EQ(left_over(recorded_resources(status), {"Service/a", "Route/a"}),
            std::vector<std::string>{"Ingress/a"});
  record_resources(status, {});
  EXPECT_EQ(status.find("resources"), nullptr);
  EXPECT_EQ(resource_place("Route")->plural, "routes");
  EXPECT_EQ(resource_place("Pod"), nullptr);
}

}  // namespace
}  // namespace kintsugi::workers
