#include "cel/definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kintsugi::cel {
namespace {

using krm::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kTooDear =
    " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)";

Json parse(const std::string& text) {
  auto parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

std::vector<std::string> check(const std::string& spec, const Json* old = nullptr) {
  const Json schema = parse(R"({"type": "object", "properties": {"spec": )" + spec + "}}");
  std::vector<Cause> causes;
  check_definition_rules(schema, "S", true, old, causes);
  std::vector<std::string> out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

/// A spec with the members of a rule.
std::string ruled(const std::string& rule, const std::string& more = R"("type": "object")") {
  return "{" + more + R"(, "x-kubernetes-validations": [{)" + rule + "}]}";
}

TEST(DefinitionRules, WhenAnExpressionIsWrong_AM412_ShowsWhere) {
  EXPECT_THAT(
      check(ruled(R"("rule": "self.x == 1")")),
      ElementsAre("S.properties[spec].x-kubernetes-validations[0].rule: Invalid value: "
                  "{\"Rule\":\"self.x == 1\",\"Message\":\"\",\"MessageExpression\":\"\","
                  "\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation "
                  "failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x == 1\n | ....^"));
}

TEST(DefinitionRules, WhenTextsAreWrong_AM413_SaysWhich) {
  const std::string at = "S.properties[spec].x-kubernetes-validations[0]";
  EXPECT_THAT(check(ruled(R"("rule": " ")")),
              ElementsAre(at + ".rule: Required value: rule is not specified"));
  EXPECT_THAT(check(ruled(R"("rule": "true", "message": "x\ny")")),
              ElementsAre(at + ".message: Invalid value: \"x\\ny\": must not contain line breaks"));
  EXPECT_THAT(check(ruled(R"("rule": "true", "reason": "Foo")")),
              ElementsAre(at + ".reason: Unsupported value: \"Foo\": supported values: "
                               "\"FieldValueDuplicate\", \"FieldValueForbidden\", "
                               "\"FieldValueInvalid\", \"FieldValueRequired\""));
  EXPECT_THAT(check(ruled(R"("rule": "true", "fieldPath": ".nope")")),
              ElementsAre(at + ".fieldPath: Invalid value: \".nope\": must be a valid path"));
  EXPECT_THAT(check(ruled(R"("rule": "true", "fieldPath": ".m['a.b']")",
                          R"("type": "object", "properties": {"m": {"type": "object",
                              "additionalProperties": {"type": "string"}}})")),
              IsEmpty());
}

TEST(DefinitionRules, WhenTheResultHasTheWrongType_AM414_IsRefused) {
  EXPECT_THAT(check(ruled(R"("rule": "1")")),
              ElementsAre(HasSubstr("cel expression must evaluate to a bool")));
  EXPECT_THAT(check(ruled(R"("rule": "true", "messageExpression": "1")")),
              ElementsAre(HasSubstr("messageExpression must evaluate to a string")));
}

TEST(DefinitionRules, WhenOldItemsCannotBeFound_AM415_RefusesOldSelf) {
  EXPECT_THAT(
      check(R"({"type": "array", "maxItems": 2, "items": )" +
            ruled(R"("rule": "self == oldSelf")", R"("type": "integer")") + "}"),
      ElementsAre(
          "S.properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: "
          "\"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the "
          "schema within S.properties[spec]"));
}

TEST(DefinitionRules, WhenOptionalOldSelfIsOfNoUse_AM416_IsRefused) {
  EXPECT_THAT(check(ruled(R"("rule": "true", "optionalOldSelf": true)")),
              ElementsAre("S.properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid "
                          "value: true: may not be set if oldSelf is not used in rule"));
}

TEST(DefinitionRules, WhenARuleMayCostTooMuch_AM418_IsRefused) {
  const std::string rule = R"j("rule": "self.all(x, self.all(y, x == y))")j";
  const auto with = [&](const std::string& limits) {
    return check(ruled(rule, R"("type": "array", )" + limits + R"("items": {"type": "string"})"));
  };
  const auto refused = with("");
  ASSERT_EQ(refused.size(), 3U);
  EXPECT_EQ(refused[0],
            "S.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost "
            "exceeds budget by factor of more than 100x" +
                std::string(kTooDear));
  EXPECT_EQ(refused[1],
            "S.properties[spec].x-kubernetes-validations[0].rule: Forbidden: contributed to "
            "estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema");
  EXPECT_EQ(refused[2],
            "S: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 "
            "schema exceeds budget by factor of more than 100x" +
                std::string(kTooDear));
  EXPECT_THAT(check(ruled(rule, R"("type": "array", "maxItems": 10, "items": {"type": "string",
                                    "maxLength": 5})")),
              IsEmpty());
}

TEST(DefinitionRules, WhenNothingChanged_AM420_AreNotJudgedAgain) {
  const std::string spec = ruled(R"j("rule": "self.all(x, self.all(y, x == y))")j",
                                 R"("type": "array", "items": {"type": "string"})");
  const Json old = parse(R"({"type": "object", "properties": {"spec": )" + spec + "}}");
  EXPECT_THAT(check(spec, &old), IsEmpty());
}

TEST(DefinitionRules, WhenARuleRepeats_CountsEveryItem) {
  const auto cost = [](const std::string& limits) {
    return check(R"({"type": "array", )" + limits + R"("items": )" +
                 ruled(R"j("rule": "self.contains('abcdefghij')")j", R"("type": "string")") + "}");
  };
  EXPECT_THAT(cost(""), testing::Not(IsEmpty()));
  EXPECT_THAT(cost(R"("maxItems": 2, )"), IsEmpty());
}

std::vector<std::string> default_faults(const std::string& spec) {
  const Json schema = parse(R"({"type": "object", "properties": {"spec": )" + spec + "}}");
  std::vector<Cause> causes;
  krm::validate_structural_schema(schema, "S", causes, default_rules(schema));
  std::vector<std::string> out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

TEST(DefaultRules, WhenADefaultBreaksARule_AM369_IsRefused) {
  EXPECT_THAT(default_faults(ruled(R"("rule": "self > 2")", R"("type": "integer", "default": 1)")),
              ElementsAre("S.properties[spec].default: Invalid value: 1: failed rule: self > 2"));
  EXPECT_THAT(default_faults(ruled(R"("rule": "self > 2")", R"("type": "integer", "default": 3)")),
              IsEmpty());
  EXPECT_THAT(
      default_faults(R"({"type": "object", "default": {"a": [{"b": "x"}]}, "properties": {
                  "a": {"type": "array", "items": {"type": "object", "properties": {"b": )" +
                     ruled(R"("rule": "self == 'y'")", R"("type": "string", "default": "y")") +
                     "}}}}}"),
      ElementsAre("S.properties[spec].default.a[0].b: Invalid value: \"x\": failed rule: "
                  "self == 'y'"));
}

TEST(DefaultRules, WhenADefaultDoesNotFit_AM369_AreNotRun) {
  EXPECT_THAT(
      default_faults(
          ruled(R"("rule": "self > 2")", R"("type": "integer", "minimum": 2, "default": 1)")),
      ElementsAre("S.properties[spec].default: Invalid value: 1:  in body should be greater "
                  "than or equal to 2"));
}

TEST(DefaultRules, WhenTransitionsAreJudged_TheDefaultIsOldAndNew) {
  const auto faults = [](const std::string& rule) {
    return default_faults(ruled(rule, R"("type": "integer", "default": 1)"));
  };
  EXPECT_THAT(faults(R"("rule": "self == oldSelf")"), IsEmpty());
  EXPECT_THAT(faults(R"("rule": "self > oldSelf")"),
              ElementsAre("S.properties[spec].default: Invalid value: 1: failed rule: "
                          "self > oldSelf"));
  EXPECT_THAT(faults(R"j("rule": "oldSelf.hasValue()", "optionalOldSelf": true)j"),
              ElementsAre("S.properties[spec].default: Invalid value: 1: failed rule: "
                          "oldSelf.hasValue()"));
}

TEST(DefaultRules, WhenTheyCostTooMuch_NoMoreDefaultsAreLookedAt) {
  std::string items;
  for (int i = 0; i < 60; ++i) {
    items += (i == 0 ? "1" : ",1");
  }
  const std::string list =
      R"("type": "array", "items": {"type": "integer"}, "default": [)" + items + "]";
  const std::string dear = ruled(
      R"j("rule": "self.all(a, self.all(b, self.all(c, self.all(d, a == b && c == d))))")j", list);
  const std::vector<std::string> faults = default_faults(
      R"({"type": "object", "properties": {"a": )" + dear + R"(, "b": )" + dear + "}}");
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_THAT(faults[0], HasSubstr("no further validation rules will be run due to call cost "
                                   "exceeds limit for rule"));
}

}  // namespace
}  // namespace kintsugi::cel
