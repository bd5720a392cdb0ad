#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::kinds {
namespace {

using apiserver::testing::Exchange;
using apiserver::testing::FakeServer;
using krm::Json;

constexpr const char* kQuotas = "/api/v1/namespaces/t1/resourcequotas";

class ResourceQuotas : public ::testing::Test {
 protected:
  ResourceQuotas() : server(builtin_kinds(), "lc") {
    EXPECT_EQ(server
                  .send("POST", "/api/v1/namespaces",
                        Json::object({{"metadata", Json::object({{"name", "t1"}})}}))
                  .status(),
              201);
  }
  Exchange create(std::string_view name, std::string_view spec) {
    const std::string body = R"({"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":")" +
                             std::string(name) + R"("},"spec":)" + std::string(spec) + "}";
    return server.send("POST", kQuotas, std::string_view(body),
                       {{"content-type", "application/json"}});
  }
  std::string fault(std::string_view spec) {
    Exchange made = create("bad", spec);
    EXPECT_EQ(made.status(), 422) << spec;
    const std::string message(made.json().text({"message"}));
    const std::string start = "ResourceQuota \"bad\" is invalid: ";
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(std::min(start.size(), message.size()));
  }
  Exchange patch(const std::string& target, std::string_view body) {
    return server.send("PATCH", target, body, {{"content-type", "application/merge-patch+json"}});
  }

  FakeServer server;
};

TEST_F(ResourceQuotas, WhenCreated_AmountsAreCanonicalAndStatusIsEmpty) {
  Exchange made = create("q", R"({"hard":{"count/leases.coordination.k8s.io":"1000m","secrets":2,
                                         "limits.memory":"1024Mi"}})");
  ASSERT_EQ(made.status(), 201) << made.body();
  EXPECT_EQ(made.json().at({"spec", "hard"})->dump(),
            R"({"count/leases.coordination.k8s.io":"1","limits.memory":"1Gi","secrets":"2"})");
  EXPECT_EQ(made.json().at({"status"})->dump(), "{}");
}

TEST_F(ResourceQuotas, WhenAnAmountIsNone_IsABadRequest) {
  Exchange made = create("q", R"({"hard":{"secrets":"x"}})");
  EXPECT_EQ(made.status(), 400);
  EXPECT_EQ(made.json().text({"message"}),
            "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: quantities must "
            "match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
}

TEST_F(ResourceQuotas, WhenLimitsAreWrong_SaysWhy) {
  EXPECT_EQ(fault(R"({"hard":{"count/configmaps":"-1"}})"),
            "spec.hard[count/configmaps]: Invalid value: \"-1\": must be greater than or equal to "
            "0");
  EXPECT_EQ(fault(R"({"hard":{"secrets":"1500m"}})"),
            "spec.hard[secrets]: Invalid value: \"1500m\": must be an integer");
  EXPECT_EQ(fault(R"({"hard":{"count/widgets.ex.io":"1500m"}})"),
            "spec.hard[count/widgets.ex.io]: Invalid value: \"1500m\": must be an integer");
  EXPECT_EQ(fault(R"({"hard":{"gold":"1"}})"),
            "[spec.hard[gold]: Invalid value: \"gold\": must be a standard resource type or fully "
            "qualified, spec.hard[gold]: Invalid value: \"gold\": must be a standard resource for "
            "quota]");
  EXPECT_EQ(
      fault(R"({"hard":{"storage":"1"}})"),
      "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota");
  EXPECT_EQ(create("fine", R"({"hard":{"cpu":"1500m","pods":"3","hugepages-2Mi":"1Gi",
                              "requests.ex.io/gpu":"2","services.nodeports":"0"}})")
                .status(),
            201);
}

TEST_F(ResourceQuotas, WhenScopesAreWrong_SaysWhy) {
  EXPECT_EQ(fault(R"({"scopes":["Gold"]})"),
            "spec.scopes: Invalid value: [\"Gold\"]: unsupported scope");
  EXPECT_EQ(fault(R"({"hard":{"secrets":"1"},"scopes":["BestEffort"]})"),
            "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource");
  EXPECT_EQ(fault(R"({"scopes":["Terminating","NotTerminating"]})"),
            "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes");
  const std::string field = "spec.scopeSelector.matchExpressions";
  EXPECT_EQ(fault(R"({"scopeSelector":{"matchExpressions":[
                     {"scopeName":"PriorityClass","operator":"In"}]}})"),
            field +
                ".values: Required value: must be at least one value when `operator` is 'In' or "
                "'NotIn' for scope selector");
  EXPECT_EQ(fault(R"({"scopeSelector":{"matchExpressions":[
                     {"scopeName":"PriorityClass","operator":"Is"}]}})"),
            field + ".operator: Invalid value: \"Is\": not a valid selector operator");
}

TEST_F(ResourceQuotas, WhenScopesChange_AreImmutable) {
  ASSERT_EQ(create("q", R"({"hard":{"pods":"1"},"scopes":["BestEffort"]})").status(), 201);
  const std::string item = std::string(kQuotas) + "/q";
  Exchange changed = patch(item, R"({"spec":{"scopes":["NotBestEffort"]}})");
  EXPECT_EQ(changed.status(), 422);
  EXPECT_EQ(
      changed.json().text({"message"}),
      "ResourceQuota \"q\" is invalid: spec.scopes: Invalid value: [\"NotBestEffort\"]: field "
      "is immutable");
  EXPECT_EQ(patch(item, R"({"spec":{"hard":{"pods":"2"}}})").status(), 200);
}

TEST_F(ResourceQuotas, WhenStatusIsWritten_OnlyItsEndpointTakesIt) {
  ASSERT_EQ(create("q", R"({"hard":{"pods":"4","limits.cpu":"2"}})").status(), 201);
  const std::string item = std::string(kQuotas) + "/q";
  const char* status =
      R"({"status":{"hard":{"pods":"4","limits.cpu":"2"},"used":{"pods":"1","limits.cpu":"0"}}})";
  EXPECT_EQ(patch(item, status).json().at({"status"})->dump(), "{}");
  EXPECT_EQ(patch(item + "/status", R"({"status":{"used":{"pods":"-1"}}})").status(), 422);
  ASSERT_EQ(patch(item + "/status", status).status(), 200);
  Exchange table = server.send("GET", item, std::string_view(),
                               {{"accept", "application/json;as=Table;g=meta.k8s.io;v=v1"}});
  const Json cells = *table.json().at({"rows"})->items()[0].find("cells");
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells.items()[1].as_string(), "pods: 1/4");
  EXPECT_EQ(cells.items()[2].as_string(), "limits.cpu: 0/2");
  // What is not limited any more is forgotten.
  EXPECT_EQ(patch(item, R"({"spec":{"hard":{"pods":null}}})").json().at({"status"})->dump(),
            R"({"hard":{"limits.cpu":"2"},"used":{"limits.cpu":"0"}})");
}

}  // namespace
}  // namespace kintsugi::kinds
