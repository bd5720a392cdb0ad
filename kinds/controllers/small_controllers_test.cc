#include "apiserver/testing/controller_server.h"
#include "kinds/controllers/controllers.h"
#include "kinds/controllers/internal/event_expiry.h"
#include "kinds/controllers/internal/policy_status.h"
#include "kinds/controllers/internal/role_aggregation.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

class Expiry : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    controller_ = std::make_unique<EventExpiry>(context(), 3600, [this] { return now_; });
    controller_->start();
  }
  static apiserver::ObjectKey event(const char* name) { return {"c", "", "events", "t1", name}; }
  void run() {
    controller_->tick();
    server_.run(*controller_);
  }
  std::int64_t now_ = 1'800'000'000;
  std::unique_ptr<EventExpiry> controller_;
};

TEST_F(Expiry, WhenAnHourHasPassed_TheEventGoes_AM327) {
  server_.put(event("a"));
  run();
  now_ += 3599;
  server_.put(event("b"));
  run();
  EXPECT_NE(server_.find(event("a")), nullptr);
  now_ += 1;
  run();
  EXPECT_EQ(server_.find(event("a")), nullptr);
  EXPECT_NE(server_.find(event("b")), nullptr);
  EXPECT_EQ(controller_->tracked(), 1U);
}

TEST_F(Expiry, WhenAnEventIsSeenAgain_ItLivesOn_AM327) {
  server_.put(event("a"));
  run();
  now_ += 3000;
  server_.put(event("a"), R"({"count":2})");
  run();
  now_ += 3000;
  run();
  EXPECT_NE(server_.find(event("a")), nullptr);
  server_.erase(event("a"));
  run();
  EXPECT_EQ(controller_->tracked(), 0U);
}

TEST_F(Expiry, WhenFoundAtStart_TheTimesInItCount_AM327) {
  const std::string old = rfc3339(now_ - 4000);
  server_.put(event("old"), R"({"metadata":{"creationTimestamp":")" + old + "\"}}");
  server_.put(event("seen"), R"({"metadata":{"creationTimestamp":")" + old +
                                 R"("},"lastTimestamp":")" + rfc3339(now_ - 100) + "\"}");
  controller_ = std::make_unique<EventExpiry>(context(), 3600, [this] { return now_; });
  controller_->add_cluster("c");
  run();
  EXPECT_EQ(server_.find(event("old")), nullptr);
  EXPECT_NE(server_.find(event("seen")), nullptr);
}

TEST(Rfc3339, WhenParsed_GivesSeconds) {
  EXPECT_EQ(parse_rfc3339_utc("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_rfc3339_utc("2026-11-21T16:31:11.123456Z"), 1'795'278'671);
  EXPECT_EQ(parse_rfc3339_utc("2026-02-30T00:00:00Z"), std::nullopt);
  EXPECT_EQ(parse_rfc3339_utc(""), std::nullopt);
}

class Aggregation : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    controller_ = std::make_unique<RoleAggregation>(context());
    controller_->start();
  }
  static apiserver::ObjectKey role(const char* name, const char* cluster = "c") {
    return {cluster, "rbac.authorization.k8s.io", "clusterroles", "", name};
  }
  std::string rules(const char* name) {
    const Json* list = server_.find(role(name))->find("rules");
    return list == nullptr ? "absent" : list->dump();
  }
  void run() { server_.run(*controller_); }
  std::unique_ptr<RoleAggregation> controller_;
};

TEST_F(Aggregation, WhenRolesAreLabelled_TheirRulesAreGathered_AM448) {
  server_.put(role("agg"),
              R"({"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"to":"x"}}]},
                  "rules":[{"verbs":["forged"]}]})");
  server_.put(role("two"), R"({"metadata":{"labels":{"to":"x"}},"rules":[{"verbs":["list"]}]})");
  server_.put(role("one"), R"({"metadata":{"labels":{"to":"x"}},
                               "rules":[{"verbs":["get"]},{"verbs":["list"]}]})");
  server_.put(role("other"), R"({"metadata":{"labels":{"to":"y"}},"rules":[{"verbs":["*"]}]})");
  server_.put(role("one", "d"), R"({"metadata":{"labels":{"to":"x"}},"rules":[{"verbs":["z"]}]})");
  run();
  EXPECT_EQ(rules("agg"), R"([{"verbs":["get"]},{"verbs":["list"]}])");
  server_.erase(role("one"));
  run();
  EXPECT_EQ(rules("agg"), R"([{"verbs":["list"]}])");
  server_.put(role("two"), R"({"metadata":{"labels":{"to":"x"}},"rules":[{"verbs":["watch"]}]})");
  run();
  EXPECT_EQ(rules("agg"), R"([{"verbs":["watch"]}])");
  const int writes = server_.writes;
  server_.put(role("other"), R"({"rules":[]})");
  run();
  EXPECT_EQ(server_.writes, writes);
}

TEST(LabelSelector, WhenExpressionsAreGiven_AllMustHold) {
  const Json labels = Json::object({{"a", "1"}, {"b", "2"}});
  const auto matches = [&](const char* selector) {
    return label_selector_matches(*Json::parse(selector), &labels);
  };
  EXPECT_TRUE(matches("{}"));
  EXPECT_TRUE(matches(R"({"matchExpressions":[{"key":"a","operator":"In","values":["1"]}]})"));
  EXPECT_FALSE(matches(R"({"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]})"));
  EXPECT_TRUE(matches(R"({"matchExpressions":[{"key":"c","operator":"DoesNotExist"}]})"));
  EXPECT_FALSE(matches(R"({"matchExpressions":[{"key":"c","operator":"Exists"}]})"));
  EXPECT_FALSE(matches(R"({"matchExpressions":[{"key":"a","operator":"Like"}]})"));
  EXPECT_FALSE(matches(R"({"matchLabels":{"a":"1","b":"1"}})"));
}

class AllControllers : public apiserver::ControllerTest {};

TEST_F(AllControllers, WhenRunTogether_ANewNamespaceIsFilledAndEmptied) {
  ControllerParams params;
  params.namespace_defaults.root_ca_pem = "PEM";
  ControllerSet set(context(), params);
  set.start();
  set.add_cluster("c");
  server_.put(ns_key("t1"), R"({"spec":{"finalizers":["kubernetes"]}})");
  server_.run_until([&] { return server_.find(config_map("kube-root-ca.crt")) != nullptr; });
  server_.erase(ns_key("t1"));
  server_.run_until([&] { return server_.find(ns_key("t1")) == nullptr && set.busy() == 0; });
  EXPECT_EQ(server_.find(config_map("kube-root-ca.crt")), nullptr);
  EXPECT_NE(server_.find(ns_key("default")), nullptr);
  set.remove_cluster("c");
}

class PolicyTypes : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    server_.serve("admissionregistration.k8s.io", "validatingadmissionpolicies",
                  "ValidatingAdmissionPolicy", false);
    for (apiserver::ResourcePtr& each : server_.definitions) {
      if (each->plural == "configmaps" || each->plural == "secrets") {
        auto typed = std::make_shared<apiserver::ResourceDef>(*each);
        typed->versions[0].schema = krm::builtin_schema("v1", each->kind);
        each = std::move(typed);
      }
    }
    controller_ = std::make_unique<PolicyStatus>(context());
    controller_->start();
  }
  static apiserver::ObjectKey policy() {
    return {"c", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "p"};
  }
  /// Its status after the controller has seen it.
  std::string status_of(const std::string& validations, int generation) {
    server_.put(policy(), R"({"metadata":{"generation":)" + std::to_string(generation) +
                              R"(},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],)"
                              R"("apiVersions":["v1"],"resources":["configmaps","secrets"]}]},)" +
                              R"("validations":)" + validations + "}}");
    server_.run(*controller_);
    return server_.find(policy())->find("status")->dump();
  }
  std::unique_ptr<PolicyStatus> controller_;
};

TEST_F(PolicyTypes, WhenExpressionsFit_TheGenerationIsObserved_AM334) {
  EXPECT_EQ(status_of(R"([{"expression":"object.metadata.labels['a'] == 'b'"}])", 1),
            R"({"observedGeneration":1,"typeChecking":{}})");
  const int writes = server_.writes;
  EXPECT_EQ(writes, 1);
}

TEST_F(PolicyTypes, WhenExpressionsDoNotFit_EachKindIsNamed_AM334) {
  const Json status =
      *Json::parse(status_of(R"([{"expression":"object.stringData.a == '' && object.nope == 1",)"
                             R"("messageExpression":"object.binaryData.a"}])",
                             3));
  EXPECT_EQ(status.at({"observedGeneration"})->as_integer(), 3);
  const Json::Array& warnings = status.at({"typeChecking", "expressionWarnings"})->items();
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0].text({"fieldRef"}), "spec.validations[0].expression");
  EXPECT_EQ(warnings[0].text({"warning"}),
            "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'stringData'\n"
            " | object.stringData.a == '' && object.nope == 1\n"
            " | ......^\n"
            "ERROR: <input>:1:36: undefined field 'nope'\n"
            " | object.stringData.a == '' && object.nope == 1\n"
            " | ...................................^\n"
            "\n"
            "/v1, Kind=Secret: ERROR: <input>:1:36: undefined field 'nope'\n"
            " | object.stringData.a == '' && object.nope == 1\n"
            " | ...................................^\n");
  EXPECT_EQ(warnings[1].text({"fieldRef"}), "spec.validations[0].messageExpression");
  EXPECT_EQ(warnings[1].text({"warning"}),
            "/v1, Kind=Secret: ERROR: <input>:1:7: undefined field 'binaryData'\n"
            " | object.binaryData.a\n"
            " | ......^\n");
}

}  // namespace
}  // namespace kintsugi::kinds
