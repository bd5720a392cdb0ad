#include "cel/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "krm/types/builtin_types.h"

namespace kintsugi::cel {

namespace {

using Kind = AdmissionResult::Kind;

krm::Json json(std::string_view text) { return *krm::Json::parse(text); }

/// Answers what it was told to, and remembers what it was asked.
class FixedOracle final : public AccessOracle {
 public:
  std::optional<AccessAnswer> ask(const AccessQuestion& question) override {
    asked.push_back(question);
    return answer;
  }
  std::vector<AccessQuestion> asked;
  std::optional<AccessAnswer> answer = AccessAnswer{true, "because", ""};
};

struct Fixture {
  krm::Json object = json(R"({"metadata":{"name":"a","labels":{"x":"1"}},"spec":{"replicas":3,
                              "ratio":1.5,"none":null,"items":[1,2],"a-b":true}})");
  krm::Json request = json(R"({"operation":"CREATE","namespace":"ns","kind":{"kind":"W"},
                               "userInfo":{"username":"u"},"dryRun":false})");
  FixedOracle oracle;
  AdmissionEnvironment environment{true};

  std::string fault(std::string_view expression, ResultType wanted = ResultType::kBool,
                    ExpressionScope scope = {true, true}) {
    ExpressionFault out;
    const AdmissionExpressionPtr made = environment.compile(expression, wanted, scope, out);
    return made == nullptr ? out.detail : std::string();
  }

  AdmissionResult run(std::string_view expression, ResultType wanted = ResultType::kAny) {
    ExpressionFault out;
    const AdmissionExpressionPtr made = environment.compile(expression, wanted, {true, true}, out);
    EXPECT_NE(made, nullptr) << expression << ": " << out.detail;
    AdmissionInput input;
    input.object = &object;
    input.request = &request;
    input.authorizer = &oracle;
    input.request_resource.resource = "widgets";
    return made == nullptr ? AdmissionResult()
                           : AdmissionEvaluation(environment, input).evaluate(*made);
  }
};

}  // namespace

TEST(AdmissionExpression, WhenValuesAreDynamic_AM334_AreWhatTheirJsonIs) {
  Fixture test;
  for (const char* expression :
       {"object.spec.replicas == 3", "object.spec.ratio == 1.5", "object.spec.none == null",
        "object.metadata.labels['x'] == '1'", "object.spec.items + [3] == [1, 2, 3]",
        "has(object.spec.replicas) && !has(object.spec.nothing)", "object.spec['a-b']",
        "oldObject == null", "params == null", "namespaceObject == null",
        "request.namespace == 'ns'", "request.userInfo.username == 'u'",
        "object.spec.items.all(i, i > 0)", "!has(request.subResource)",
        "type(object.spec) == map && type(object.spec.items) == list"}) {
    EXPECT_EQ(test.run(expression).kind, Kind::kTrue) << expression << test.run(expression).text;
  }
  EXPECT_EQ(test.run("object.spec.nothing == 1").text, "no such key: nothing");
  EXPECT_EQ(test.run("object.spec.replicas").text, "int");
  EXPECT_EQ(test.run("object.metadata.name").text, "a");
}

TEST(AdmissionExpression, WhenItDoesNotCompile_AM412_SaysWhy) {
  Fixture test;
  EXPECT_EQ(test.fault("object.spec.replicas"), "must evaluate to bool but got dyn");
  EXPECT_EQ(test.fault("[1]"), "must evaluate to bool but got list(int)");
  EXPECT_EQ(test.fault("1", ResultType::kStringOrNull),
            "must evaluate to one of [string null_type] but got int");
  EXPECT_EQ(test.fault("request.nope == ''"),
            "compilation failed: ERROR: <input>:1:8: undefined field 'nope'\n"
            " | request.nope == ''\n"
            " | .......^");
  EXPECT_EQ(test.fault("params.a == 1", ResultType::kBool, {false, true}),
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in "
            "container '')\n"
            " | params.a == 1\n"
            " | ^");
  EXPECT_NE(test.fault("authorizer.path('/').check('get').allowed()", ResultType::kBool, {}), "");
  EXPECT_NE(test.fault("variables.nothing == 1"), "");
}

TEST(AdmissionExpression, WhenItReadsVariables_EvaluatesEachOnceAndCountsIt) {
  Fixture test;
  EXPECT_EQ(test.environment.add_variable("count", "object.spec.items.size()", {}), nullptr);
  EXPECT_EQ(test.environment.add_variable("twice", "variables.count * 2", {}), nullptr);
  EXPECT_EQ(test.environment.add_variable("bad", "object.nothing", {}), nullptr);
  EXPECT_EQ(test.run("variables.twice == 4 && variables.twice == 4").kind, Kind::kTrue);
  EXPECT_EQ(test.run("has(variables.count) && dyn(variables).count == 2").kind, Kind::kTrue);
  EXPECT_EQ(test.run("variables.bad == 1").text,
            "composited variable \"bad\" fails to evaluate: no such key: nothing");
  EXPECT_NE(test.fault("variables.count == ''"), "");  // it is an int
  EXPECT_GT(test.run("variables.twice == 4").cost, test.run("object == object").cost);
  const auto fault = test.environment.add_variable("broken", "object.", {});
  ASSERT_NE(fault, nullptr);
  EXPECT_TRUE(fault->detail.starts_with("compilation failed: ERROR"));
}

TEST(AdmissionExpression, WhenItAsksTheAuthorizer_PutsTheQuestionTogether) {
  Fixture test;
  EXPECT_EQ(test.run("authorizer.group('ex.io').resource('widgets').subresource('status')"
                     ".namespace('n').name('w').check('get').allowed()")
                .kind,
            Kind::kTrue);
  ASSERT_EQ(test.oracle.asked.size(), 1U);
  const AccessQuestion& question = test.oracle.asked[0];
  EXPECT_EQ(question.group + '/' + question.resource + '/' + question.subresource,
            "ex.io/widgets/status");
  EXPECT_EQ(question.ns + '/' + question.name + '/' + question.verb, "n/w/get");
  EXPECT_EQ(test.run("authorizer.requestResource.check('x').reason()").text, "because");
  EXPECT_EQ(test.oracle.asked[1].resource, "widgets");
  EXPECT_EQ(test.run("authorizer.path(' ').check('get').allowed()").text, "path must not be empty");
  EXPECT_EQ(
      test.run("authorizer.serviceAccount('ns', 'me').path('/a').check('get').errored()").kind,
      Kind::kFalse);
  EXPECT_EQ(test.oracle.asked[2].account, "me");
  // Two checks fit into an expression, three do not.
  const std::string once = "authorizer.path('/a').check('get').allowed()";
  EXPECT_EQ(test.run(once + " && " + once).kind, Kind::kTrue);
  EXPECT_EQ(test.run(once + " && " + once + " && " + once).text,
            "operation cancelled: actual cost limit exceeded");
  test.oracle.answer.reset();
  EXPECT_EQ(test.run(once).kind, Kind::kError);
}

TEST(AdmissionExpression, WhenTypesAreKnown_ChecksFields) {
  AdmissionEnvironment environment(false, krm::builtin_schema("v1", "ConfigMap"), nullptr);
  ExpressionFault fault;
  EXPECT_NE(environment.compile("object.data['a'] == 'b' && object.metadata.labels['x'] == ''",
                                ResultType::kAny, {}, fault),
            nullptr)
      << fault.detail;
  EXPECT_EQ(environment.compile("object.spec == 1", ResultType::kAny, {}, fault), nullptr);
  EXPECT_TRUE(fault.detail.find("undefined field 'spec'") != std::string::npos) << fault.detail;
  EXPECT_TRUE(
      is_recursive(*krm::builtin_schema("apiextensions.k8s.io/v1", "CustomResourceDefinition")));
}

}  // namespace kintsugi::cel
