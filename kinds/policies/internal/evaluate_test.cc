#include "kinds/policies/internal/evaluate.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::kinds {
namespace {

using krm::Json;

constexpr const char* kOutOfBudget =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// 900,000 cost units: 300 times a scan of 30,000 letters.
const std::string kDear =
    "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(i, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,"
    "20].all(j, !string(object.t).contains('b')))";

PolicyOutcome run(const std::string& spec) {
  const Expected<Json> policy = Json::parse(R"({"metadata":{"name":"p"},"spec":)" + spec + "}");
  EXPECT_TRUE(policy) << spec;
  Json object = Json::object();
  object["t"] = std::string(30'000, 'a');
  const Json request = Json::object({{"operation", "CREATE"}});
  PolicyInput input;
  input.object = &object;
  input.request = &request;
  input.condition_request = &request;
  const CompiledPolicy compiled(*policy);
  PolicyRun at_once(compiled, input);
  EXPECT_TRUE(at_once.go_on([] { return false; }));
  PolicyOutcome outcome = at_once.take();
  PolicyRun by_step(compiled, input);  // the same, with a break after every expression
  while (!by_step.go_on([] { return true; })) {
  }
  EXPECT_EQ(by_step.take().refusals.size(), outcome.refusals.size());
  return outcome;
}

TEST(EvaluatePolicy, SE102_AfterEachExpressionOthersMayHaveATurn) {
  const Expected<Json> policy = Json::parse(R"json({"metadata":{"name":"p"},"spec":{
      "matchConditions":[{"name":"a","expression":"true"},{"name":"b","expression":"true"}],
      "validations":[{"expression":"false","messageExpression":"'no'"},{"expression":"true"}],
      "auditAnnotations":[{"key":"k","valueExpression":"'v'"}]}})json");
  ASSERT_TRUE(policy);
  const CompiledPolicy compiled(*policy);
  PolicyInput input;
  PolicyRun run(compiled, input);
  int breaks = 0;
  while (!run.go_on([] { return true; })) {
    ++breaks;
  }
  EXPECT_GE(breaks, 7) << "as many as there are expressions";
  const PolicyOutcome outcome = run.take();
  ASSERT_EQ(outcome.refusals.size(), 1U);
  EXPECT_EQ(outcome.refusals[0].message, "no");
  ASSERT_EQ(outcome.annotations.size(), 1U);
  EXPECT_EQ(outcome.annotations[0].value, "v");
}

TEST(ConditionRun, SE102_AfterEachConditionOthersMayHaveATurn) {
  const auto breaks = [](const std::string& conditions, MatchOutcome& outcome) {
    const Expected<Json> policy = Json::parse(R"({"metadata":{"name":"p"},"spec":{)" +
                                              ("\"matchConditions\":[" + conditions + "]}}"));
    EXPECT_TRUE(policy) << conditions;
    const CompiledPolicy compiled(*policy);
    Json object = Json::object();
    object["t"] = std::string(30'000, 'a');
    cel::AdmissionInput input;
    input.object = &object;
    ConditionRun run(compiled.environment, compiled.conditions, input);
    int out = 0;
    while (!run.go_on([] { return true; })) {
      ++out;
    }
    outcome = run.take();
    return out;
  };
  MatchOutcome outcome;
  const std::string yes = R"({"name":"a","expression":"true"})";
  EXPECT_EQ(breaks("", outcome), 0);
  EXPECT_TRUE(outcome.matches);
  EXPECT_EQ(breaks(yes + "," + yes + "," + yes, outcome), 2);
  EXPECT_TRUE(outcome.matches);
  EXPECT_EQ(breaks(yes + R"(,{"name":"b","expression":"false"},)" + yes, outcome), 2);
  EXPECT_FALSE(outcome.matches);
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(breaks(R"({"name":"b","expression":"object.none"})", outcome), 0);
  EXPECT_FALSE(outcome.matches);
  EXPECT_NE(outcome.fault, "");
  const std::string dear = R"({"name":"a","expression":")" + kDear + "\"}";
  EXPECT_EQ(breaks(dear + "," + dear + "," + dear + "," + yes, outcome), 2)
      << "the third is too much";
  EXPECT_EQ(outcome.fault, kOutOfBudget);
}

/// `count` members of a list, each with the dear expression.
std::string repeat(int count, const std::string& before, const std::string& after) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += (i == 0 ? "" : ",") + before + kDear + after;
  }
  return out;
}

TEST(PolicyEvaluation, WhenValidationsCostTooMuchTogether_AM419_OneRefusalSaysSo) {
  const std::string open = R"({"expression":")";
  EXPECT_TRUE(run(R"({"validations":[)" + repeat(10, open, "\"}") + "]}").refusals.empty());
  const PolicyOutcome dear = run(R"({"validations":[)" + repeat(12, open, "\"}") + "]}");
  ASSERT_EQ(dear.refusals.size(), 1U);
  EXPECT_EQ(dear.refusals[0].message, kOutOfBudget);
  EXPECT_TRUE(run(R"({"failurePolicy":"Ignore","validations":[)" + repeat(12, open, "\"}") + "]}")
                  .refusals.empty());
}

TEST(PolicyEvaluation, WhenConditionsCostTooMuchTogether_AM419_TheyFailEarlier) {
  const std::string open = R"({"name":"a","expression":")";
  const std::string validations = R"(],"validations":[{"expression":"true"}]})";
  EXPECT_TRUE(
      run(R"({"matchConditions":[)" + repeat(2, open, "\"}") + validations).refusals.empty());
  const PolicyOutcome dear = run(R"({"matchConditions":[)" + repeat(3, open, "\"}") + validations);
  ASSERT_EQ(dear.refusals.size(), 1U);
  EXPECT_EQ(dear.refusals[0].message, kOutOfBudget);
}

TEST(PolicyEvaluation, WhenMessagesCannotBeUsed_AM410_FallsBack) {
  const auto message = [](const std::string& more) {
    const PolicyOutcome out = run(R"({"validations":[{"expression":"false")" + more + "}]}");
    return out.refusals.size() == 1 ? out.refusals[0].message.substr(0, 60) : std::string("?");
  };
  EXPECT_EQ(message(""), "failed expression: false");
  EXPECT_EQ(message(R"(,"message":" m ")"), "m");
  EXPECT_EQ(message(R"(,"message":"m","messageExpression":"' e '")"), "e");
  EXPECT_EQ(message(R"x(,"message":"m","messageExpression":"string(object.t)")x"), "m");
  EXPECT_EQ(message(R"x(,"message":"m","messageExpression":"string(object.none)")x"), "m");
  EXPECT_EQ(message(R"(,"message":"m","messageExpression":"'a\\nb'")"), "m");
}

TEST(PolicyEvaluation, WhenAnnotationsAreMade_AM334_LongOnesAreCutAndEmptyOnesLeftOut) {
  const PolicyOutcome out =
      run(R"x({"auditAnnotations":[{"key":"long","valueExpression":"string(object.t)"},)x"
          R"({"key":"blank","valueExpression":"' '"},{"key":"none","valueExpression":"null"}]})");
  ASSERT_EQ(out.annotations.size(), 1U);
  EXPECT_EQ(out.annotations[0].key, "long");
  EXPECT_EQ(out.annotations[0].value.size(), 10'240U);
}

}  // namespace
}  // namespace kintsugi::kinds
