#include <gtest/gtest.h>

#include <string>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::kinds {
namespace {

using apiserver::testing::config_map;
using apiserver::testing::Exchange;
using apiserver::testing::FakeServer;
using krm::Json;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kGroup = "/apis/admissionregistration.k8s.io/v1/";
const std::string kPolicyPath = std::string(kGroup) + "validatingadmissionpolicies";
const std::string kBindingPath = std::string(kGroup) + "validatingadmissionpolicybindings";

Json json(const std::string& text) {
  const Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

/// ValidatingAdmissionPolicies (AM-334) at work.
class Policies : public ::testing::Test {
 protected:
  Policies() : server(kinds(), "lc") {
    EXPECT_EQ(post("/api/v1/namespaces", R"({"metadata":{"name":"t1","labels":{"env":"prod"}}})")
                  .status(),
              201);
  }
  static std::vector<apiserver::ResourcePtr> kinds() {
    std::vector<apiserver::ResourcePtr> all = builtin_kinds();
    all.push_back(apiserver::testing::widget_kind());
    return all;
  }
  Exchange post(const std::string& path, const std::string& body) {
    return server.send("POST", path, json(body));
  }
  /// @param more  members of the spec besides matchConstraints, without braces.
  void policy(const std::string& name, const std::string& more,
              const std::string& actions = R"(["Deny"])", const std::string& binding = "") {
    const std::string spec =
        R"({"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],)"
        R"("operations":["*"],"resources":["configmaps"]}]},)" +
        more + "}";
    Exchange made =
        post(kPolicyPath, R"({"metadata":{"name":")" + name + R"("},"spec":)" + spec + "}");
    ASSERT_EQ(made.status(), 201) << made.body();
    bind(name, actions, binding);
  }
  void bind(const std::string& name, const std::string& actions, const std::string& more = "") {
    Exchange made =
        post(kBindingPath, R"({"metadata":{"name":"b-)" + name + R"("},"spec":{"policyName":")" +
                               name + R"(","validationActions":)" + actions + more + "}}");
    ASSERT_EQ(made.status(), 201) << made.body();
    server.settle();
  }
  Exchange create(std::string_view name, const apiserver::testing::Fields& fields = {}) {
    return server.send("POST", kMaps, config_map(name, {{"a", "b"}}), fields);
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }

  FakeServer server;
};

constexpr const char* kNotBad =
    R"("validations":[{"expression":"object == null || object.metadata.name != 'bad'","message":"no bad ones"}])";

TEST_F(Policies, WhenAPolicyRefuses_AM334_SaysSoAsTheReference) {
  policy("p", kNotBad);
  EXPECT_EQ(create("good").status(), 201);
  Exchange refused = create("bad");
  EXPECT_EQ(refused.status(), 422);
  EXPECT_EQ(message(refused),
            "configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b-p' "
            "denied request: no bad ones");
  EXPECT_EQ(refused.json().text({"reason"}), "Invalid");
  EXPECT_EQ(refused.json().find("details")->dump(),
            R"({"causes":[{"message":"ValidatingAdmissionPolicy 'p' with binding 'b-p' denied )"
            R"(request: no bad ones"}],"kind":"configmaps","name":"bad"})");
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/bad").status(), 404);
  EXPECT_EQ(server.send("DELETE", kBindingPath + "/b-p").status(), 200);
  server.settle();
  EXPECT_EQ(create("bad").status(), 201);
}

TEST_F(Policies, WhenAPolicyIsChanged_AM334_TheNewOneActs) {
  policy("p", kNotBad);
  Json now = server.send("GET", kPolicyPath + "/p").json();
  EXPECT_EQ(now.at({"metadata", "generation"})->as_integer(), 1);
  EXPECT_EQ(now.text({"spec", "failurePolicy"}), "Fail");
  EXPECT_EQ(now.text({"spec", "matchConstraints", "matchPolicy"}), "Equivalent");
  now["spec"]["validations"].edit_items()[0]["expression"] = "object.metadata.name != 'good'";
  Exchange changed = server.send("PUT", kPolicyPath + "/p", now);
  ASSERT_EQ(changed.status(), 200) << changed.body();
  EXPECT_EQ(changed.json().at({"metadata", "generation"})->as_integer(), 2);
  server.settle();
  EXPECT_EQ(create("bad").status(), 201);
  EXPECT_EQ(create("good").status(), 422);
}

TEST_F(Policies, WhenOtherClustersHavePolicies_AM334_TheyDoNotCount) {
  policy("p", kNotBad);
  const std::string other = "/clusters/other";
  EXPECT_EQ(post(other + "/api/v1/namespaces", R"({"metadata":{"name":"t1"}})").status(), 201);
  EXPECT_EQ(server.send("POST", other + kMaps, config_map("bad")).status(), 201);
  EXPECT_EQ(server.send("POST", kMaps, config_map("bad")).status(), 422);
}

TEST_F(Policies, WhenActionsWarnOrAudit_AM334_TheWriteGoesOn) {
  policy("p", kNotBad, R"(["Warn","Audit"])");
  policy(
      "q",
      R"x("auditAnnotations":[{"key":"name","valueExpression":"string(object.metadata.name)"}])x");
  Exchange made = create("bad");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.header("warning"),
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b-p': no "
            "bad ones\"");
  const Json event = *Json::parse(server.audit().back());
  EXPECT_EQ(event.text({"annotations", "q/name"}), "bad");
  EXPECT_EQ(event.text({"annotations", "validation.policy.admission.k8s.io/validation_failure"}),
            R"([{"message":"no bad ones","policy":"p","binding":"b-p","expressionIndex":0,)"
            R"("validationActions":["Warn","Audit"]}])");
  EXPECT_EQ(create("good").header("warning"), "");
}

TEST_F(Policies, WhenEvaluationFails_AM334_FailurePolicyDecides) {
  policy("p", R"("validations":[{"expression":"object.nope == 1"}])");
  EXPECT_EQ(message(create("a")),
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b-p' "
            "denied request: expression 'object.nope == 1' resulted in error: no such key: nope");
  Json now = server.send("GET", kPolicyPath + "/p").json();
  now["spec"]["failurePolicy"] = "Ignore";
  ASSERT_EQ(server.send("PUT", kPolicyPath + "/p", now).status(), 200);
  server.settle();
  EXPECT_EQ(create("a").status(), 201);
}

TEST_F(Policies, WhenNamespacesAreSelected_AM334_OthersAreFree) {
  policy("p", kNotBad, R"(["Deny"])",
         R"(,"matchResources":{"namespaceSelector":{"matchLabels":{"env":"prod"}}})");
  ASSERT_EQ(post("/api/v1/namespaces", R"({"metadata":{"name":"t2"}})").status(), 201);
  EXPECT_EQ(server.send("POST", "/api/v1/namespaces/t2/configmaps", config_map("bad")).status(),
            201);
  EXPECT_EQ(create("bad").status(), 422);
}

TEST_F(Policies, WhenParametersAreNamed_AM334_TheyAreReadAtTheRequest) {
  policy("p",
         R"("paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"matchConditions":[{"name":"x",)"
         R"("expression":"object.metadata.name != 'params'"}],)"
         R"("validations":[{"expression":"object.data.a == params.data.a"}])",
         R"(["Deny"])", R"(,"paramRef":{"name":"params","parameterNotFoundAction":"Deny"})");
  EXPECT_EQ(message(create("x")),
            "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b-p' "
            "denied request: failed to configure binding: no params found for policy binding with "
            "`Deny` parameterNotFoundAction");
  // The policy itself must not stand in the way of its parameters' creation.
  ASSERT_EQ(server.send("DELETE", kBindingPath + "/b-p").status(), 200);
  server.settle();
  ASSERT_EQ(server.send("POST", kMaps, config_map("params", {{"a", "b"}})).status(), 201);
  bind("p", R"(["Deny"])", R"(,"paramRef":{"name":"params","parameterNotFoundAction":"Deny"})");
  EXPECT_EQ(create("x").status(), 201);
  ASSERT_EQ(
      server
          .send("PATCH", std::string(kMaps) + "/params", std::string_view(R"({"data":{"a":"c"}})"),
                {{"content-type", "application/merge-patch+json"}})
          .status(),
      200);
  EXPECT_EQ(create("y").status(), 422);
}

TEST_F(Policies, WhenControllersWrite_AM334_TheyAreSubjectToo) {
  policy("p",
         R"x("validations":[{"expression":"!('system:masters' in request.userInfo.groups)"}])x");
  std::string refused;
  apiserver::ApiServer::WriteRequest write;
  write.cluster = "lc";
  write.resource = "configmaps";
  write.ns = "t1";
  write.name = "a";
  write.what = apiserver::ApiServer::CreateObject{config_map("a")};
  bool done = false;
  server.server().write(write, [&](Expected<Json> result) {
    done = true;
    refused = result ? "" : std::string(result.error().message());
  });
  ASSERT_TRUE(server.run_until([&] { return done; }));
  EXPECT_TRUE(refused.find("ValidatingAdmissionPolicy 'p'") != std::string::npos) << refused;
  done = false;
  write.skip_admission = true;
  server.server().write(write, [&](Expected<Json> result) {
    done = true;
    EXPECT_TRUE(result);
  });
  ASSERT_TRUE(server.run_until([&] { return done; }));
}

TEST_F(Policies, WhenAnExpressionAsksTheAuthorizer_AM334_ItsAnswerCounts) {
  policy("p", R"x("validations":[{"expression":"authorizer.path('/a').check('get').allowed() && )x"
              R"x(!authorizer.path('/b').check('delete').allowed()"}])x");
  EXPECT_EQ(message(create("a")),
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b-p' "
            "denied request: failed expression: authorizer.path('/a').check('get').allowed() && "
            "!authorizer.path('/b').check('delete').allowed()");
  server.deny("admin", "delete");
  EXPECT_EQ(create("a").status(), 201);
}

TEST_F(Policies, WhenAPolicyHasFaults_AM334_NamesThem) {
  const auto refused = [this](const std::string& more) {
    return message(post(
        kPolicyPath,
        R"({"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],)"
        R"("apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]},)" +
            more + "}}"));
  };
  const std::string lead =
      "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: ";
  EXPECT_EQ(refused(R"("validations":[{"expression":"object.x"}])"),
            lead +
                "spec.validations[0].expression: Invalid value: \"object.x\": must evaluate to "
                "bool but got dyn");
  EXPECT_EQ(refused(R"("failurePolicy":"Foo","validations":[{"expression":"true"}])"),
            lead +
                "spec.failurePolicy: Unsupported value: \"Foo\": supported values: \"Fail\", "
                "\"Ignore\"");
  EXPECT_EQ(refused(R"("matchConditions":[{"name":"c","expression":"1"}],"validations":[)"
                    R"({"expression":"true","reason":"Foo"}])"),
            lead +
                "[spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to "
                "bool but got int, spec.validations[0].reason: Unsupported value: \"Foo\": "
                "supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"]");
}

}  // namespace
}  // namespace kintsugi::kinds
