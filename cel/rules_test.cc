#include "cel/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "krm/json.h"

namespace kintsugi::cel {
namespace {

using krm::Json;
using testing::ElementsAre;
using testing::IsEmpty;

Json parse(const std::string& text) {
  auto parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

/// A whole object's schema around that of spec.
RuleSetPtr rules_for_spec(const std::string& spec) {
  return compile_rules(parse(R"({"type": "object", "properties": {"spec": )" + spec + "}}"));
}

/// "field: message" of each cause.
std::vector<std::string> check(const RuleSetPtr& rules, const std::string& spec,
                               const std::string& old = {},
                               std::vector<std::string>* warnings = nullptr) {
  const Json object =
      parse(R"({"apiVersion": "ex.io/v1", "kind": "W", "metadata": {"name": "w"}, "spec": )" +
            spec + "}");
  const Json before =
      old.empty()
          ? Json()
          : parse(R"({"apiVersion": "ex.io/v1", "kind": "W", "metadata": {"name": "w"}, "spec": )" +
                  old + "}");
  std::vector<Cause> causes;
  validate_rules(*rules, object, old.empty() ? nullptr : &before, causes, warnings);
  std::vector<std::string> out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

constexpr const char* kSpec = R"({"type": "object", "properties": {
  "size": {"type": "integer"}, "replicas": {"type": "integer"},
  "imm": {"type": "string", "x-kubernetes-validations": [
    {"rule": "self == oldSelf", "message": "imm is immutable"}]}},
  "x-kubernetes-validations": [
    {"rule": "self.size < 9", "message": "size must be under 9"},
    {"rule": "!has(self.replicas) || self.replicas <= self.size", "message": "replicas gt size",
     "reason": "FieldValueForbidden", "fieldPath": ".replicas"}]})";

TEST(Rules, WhenAnObjectRuleFails_AM406_ShowsNoValue) {
  EXPECT_THAT(check(rules_for_spec(kSpec), R"({"size": 9})"),
              ElementsAre("spec: Invalid value: size must be under 9"));
}

TEST(Rules, WhenReasonAndPathAreGiven_AM407_UsesThem) {
  EXPECT_THAT(check(rules_for_spec(kSpec), R"({"size": 2, "replicas": 5})"),
              ElementsAre("spec.replicas: Forbidden: replicas gt size"));
}

TEST(Rules, WhenATransitionRuleFails_AM408_ShowsTheValue) {
  const RuleSetPtr rules = rules_for_spec(kSpec);
  EXPECT_THAT(check(rules, R"({"size": 1, "imm": "b"})"), IsEmpty());
  EXPECT_THAT(check(rules, R"({"size": 1, "imm": "b"})", R"({"size": 1, "imm": "a"})"),
              ElementsAre("spec.imm: Invalid value: \"b\": imm is immutable"));
}

TEST(Rules, WhenThereIsNoMessage_AM409_QuotesTheRule) {
  const RuleSetPtr rules = rules_for_spec(
      R"({"type": "integer", "x-kubernetes-validations": [{"rule": " self > 1 "}]})");
  EXPECT_THAT(check(rules, "1"), ElementsAre("spec: Invalid value: 1: failed rule: self > 1"));
}

TEST(Rules, WhenAMessageExpressionIsGiven_AM410_FallsBackToTheMessage) {
  const auto with = [](const std::string& expression) {
    return rules_for_spec(
        R"({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'", "message": "plain",
            "messageExpression": )" +
        Json(expression).dump() + "}]}");
  };
  EXPECT_THAT(check(with("'not ' + self"), "\"bad\""),
              ElementsAre("spec: Invalid value: \"bad\": not bad"));
  for (const char* useless : {"''", "'a\\nb'", "self.substring(9)", "'  '"}) {
    EXPECT_THAT(check(with(useless), "\"bad\""), ElementsAre("spec: Invalid value: \"bad\": plain"))
        << useless;
  }
}

TEST(Rules, WhenEvaluationFails_AM411_SaysWhy) {
  EXPECT_THAT(
      check(rules_for_spec(kSpec), "{}"),
      ElementsAre("spec: Invalid value: \"object\": no such key: size evaluating rule: size "
                  "must be under 9"));
}

TEST(Rules, WhenOldSelfIsOptional_AM417_RunsOnCreate) {
  const RuleSetPtr rules = rules_for_spec(
      R"({"type": "string", "x-kubernetes-validations": [{"rule": "oldSelf.hasValue() || self == 'init'",
          "optionalOldSelf": true, "message": "must begin as init"}]})");
  EXPECT_THAT(check(rules, "\"z\""), ElementsAre("spec: Invalid value: \"z\": must begin as init"));
  EXPECT_THAT(check(rules, "\"z\"", "\"init\""), IsEmpty());
}

TEST(Rules, WhenARuleCostsTooMuch_AM419_StopsEverything) {
  const RuleSetPtr one = rules_for_spec(
      R"j({"type": "object", "x-kubernetes-validations": [
          {"rule": "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))", "message": "m"},
          {"rule": "false"}]})j");
  EXPECT_THAT(
      check(one, "{}"),
      ElementsAre("spec: Invalid value: \"object\": 'operation cancelled: actual cost limit "
                  "exceeded': no further validation rules will be run due to call cost "
                  "exceeds limit for rule: m"));
  std::string many = R"({"type": "object", "x-kubernetes-validations": [)";
  for (int i = 0; i < 20; ++i) {
    many += std::string(i == 0 ? "" : ",") +
            R"j({"rule": "lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))"})j";
  }
  EXPECT_THAT(
      check(rules_for_spec(many + "]}"), "{}"),
      ElementsAre("spec: Invalid value: \"object\": validation failed due to running out of "
                  "cost budget, no further validation rules will be run"));
}

TEST(Rules, WhenManyPartsAreJudged_SE102_TheirWorkIsBoundedTogether) {
  const RuleSetPtr rules = rules_for_spec(
      R"({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]}})");
  const auto list = [](int items) {
    std::string out = "[0";
    for (int i = 1; i < items; ++i) {
      out += ",0";
    }
    return out + "]";
  };
  EXPECT_THAT(check(rules, list(100'000)), IsEmpty());
  // Each costs two units, and a loop is held for a hundred times as long as those take.
  EXPECT_THAT(
      check(rules, list(600'000)),
      ElementsAre(::testing::EndsWith("validation failed due to running out of cost budget, "
                                      "no further validation rules will be run")));
}

TEST(Rules, WhenRulesTakeLong_SE102_TheyAreLeftToOthersAndNothingIsReceived) {
  const RuleSetPtr parts = rules_for_spec(R"json({"type": "array", "items": {"type": "integer",
      "x-kubernetes-validations": [{"rule": "self >= 0", "message": "negative"}]}})json");
  const auto object = [](int items) {
    std::string list = "[-1";
    for (int i = 1; i < items; ++i) {
      list += ",0";
    }
    return parse(R"({"spec": )" + list + "]}");
  };
  std::vector<Cause> causes(1);
  std::vector<std::string> warnings{"before"};
  const Json small = object(100), large = object(20'000);
  EXPECT_TRUE(try_rules(*parts, small, nullptr, causes, warnings));
  EXPECT_EQ(causes.size(), 2U);
  EXPECT_FALSE(try_rules(*parts, large, nullptr, causes, warnings));
  EXPECT_EQ(causes.size(), 2U);
  // What was wrong and has not changed is a warning, of which none may stay either.
  EXPECT_FALSE(try_rules(*parts, large, &large, causes, warnings));
  EXPECT_THAT(warnings, ElementsAre("before"));
  const RuleSetPtr whole = rules_for_spec(R"json({"type": "array", "items": {"type": "integer"},
      "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, y == x))"}]})json");
  EXPECT_TRUE(try_rules(*whole, small, nullptr, causes, warnings));
  EXPECT_FALSE(try_rules(*whole, large, nullptr, causes, warnings)) << "one expression alone";
}

TEST(Rules, WhenRulesStandInPartsOfAValue_AM421_NamesTheirPlaces) {
  const RuleSetPtr rules = rules_for_spec(R"({"type": "object", "properties": {
    "items": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string",
      "x-kubernetes-validations": [{"rule": "self != 'x'"}]}}}},
    "m": {"type": "object", "additionalProperties": {"type": "integer",
      "x-kubernetes-validations": [{"rule": "self > 0"}]}},
    "b": {"type": "string", "allOf": [{"x-kubernetes-validations": [{"rule": "self != 'b'"}]}]}}})");
  EXPECT_THAT(check(rules, R"({"items": [{"k": "x"}], "m": {"key": 0}, "b": "b"})"),
              ElementsAre("spec.b: Invalid value: \"b\": failed rule: self != 'b'",
                          "spec.items[0].k: Invalid value: \"x\": failed rule: self != 'x'",
                          "spec.m[key]: Invalid value: 0: failed rule: self > 0"));
}

TEST(Rules, WhenListsAreMaps_FindOldItemsByKey) {
  const RuleSetPtr rules = rules_for_spec(R"({"type": "array", "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
      "k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "v is immutable"}]}}}})");
  const std::string old = R"([{"k": "a", "v": 1}, {"k": "b", "v": 2}])";
  EXPECT_THAT(check(rules, R"([{"k": "b", "v": 2}, {"k": "a", "v": 1}, {"k": "c", "v": 3}])", old),
              IsEmpty());
  EXPECT_THAT(check(rules, R"([{"k": "b", "v": 9}])", old),
              ElementsAre("spec[0].v: Invalid value: 9: v is immutable"));
}

TEST(Rules, WhenAnUnchangedValueWasWrong_AM395_OnlyWarns) {
  const RuleSetPtr rules = rules_for_spec(R"({"type": "object", "properties": {
    "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]},
    "n": {"type": "integer"}}})");
  std::vector<std::string> warnings;
  EXPECT_THAT(check(rules, R"({"a": "bad", "n": 2})", R"({"a": "bad", "n": 1})", &warnings),
              IsEmpty());
  EXPECT_THAT(warnings, ElementsAre("spec.a: Invalid value: \"bad\": failed rule: self != 'bad'"));
  EXPECT_THAT(check(rules, R"({"a": "bad"})", R"({"a": "good"})"),
              ElementsAre("spec.a: Invalid value: \"bad\": failed rule: self != 'bad'"));
}

TEST(Rules, WhenTheRootHasRules_SeesTheNameOnly) {
  const RuleSetPtr rules = compile_rules(parse(
      R"({"type": "object", "x-kubernetes-validations": [
          {"rule": "self.metadata.name != 'w' && self.kind == 'W'", "message": "named w"}]})"));
  EXPECT_THAT(check(rules, "{}"), ElementsAre("<nil>: Invalid value: named w"));
}

TEST(Rules, WhenAnEmbeddedResourceHasRules_SeesItsKind) {
  const RuleSetPtr rules =
      rules_for_spec(R"j({"type": "object", "x-kubernetes-embedded-resource": true,
    "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [
      {"rule": "self.kind == 'Pod' && self.metadata.name.size() > 1"}]})j");
  EXPECT_THAT(
      check(rules, R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ab"}, "x": 1})"),
      IsEmpty());
  EXPECT_EQ(
      check(rules, R"({"apiVersion": "v1", "kind": "Job", "metadata": {"name": "ab"}})").size(),
      1U);
}

TEST(Rules, WhenThereAreNone_IsNull) {
  EXPECT_EQ(compile_rules(parse(R"({"type": "object"})")), nullptr);
}

// What costs next to nothing and takes long is stopped by its work.
TEST(Rules, WhenWorkCostsNothing_AM411_IsStopped) {
  std::string numbers;
  std::string nested;
  for (int i = 0; i < 2000; ++i) {
    numbers += (i == 0 ? "" : ",") + std::to_string(i);
    nested += std::string(i == 0 ? "" : ",") + R"({"a": [1, 2, 3, 4]})";
  }
  const std::string spec = R"({"ints": [)" + numbers + R"(], "same": {"in": [)" + nested + R"(]}})";
  const auto with = [&](const std::string& rule) {
    return check(rules_for_spec(R"({"type": "object", "properties": {
          "ints": {"type": "array", "items": {"type": "integer"}},
          "same": {"type": "object", "properties": {"in": {"type": "array", "items": {
            "type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}
          }}}}}, "x-kubernetes-validations": [{"rule": ")" +
                                rule + R"("}]})"),
                 spec, spec);
  };
  EXPECT_THAT(with("self.ints.isSorted() && self.same == oldSelf.same"), IsEmpty());
  for (const char* rule : {"self.ints.all(x, self.ints.all(y, self.ints.isSorted()))",
                           "self.ints.all(x, self.same == oldSelf.same)"}) {
    EXPECT_THAT(with(rule), ElementsAre(testing::HasSubstr("call cost exceeds limit"))) << rule;
  }
}

}  // namespace
}  // namespace kintsugi::cel
