#include "krm/selector.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

constexpr char kKeyText[] =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

bool matches(std::string_view selector, std::string_view labels) {
  const Expected<Selector> parsed = Selector::parse(selector);
  EXPECT_TRUE(parsed.has_value()) << selector;
  return parsed && parsed->matches(*Json::parse(labels));
}

std::string error_of(std::string_view selector) {
  const Expected<Selector> parsed = Selector::parse(selector);
  return parsed ? "no error: " + parsed->to_string() : std::string(parsed.error().message());
}

std::string json_error(std::string_view selector) {
  const Expected<Selector> parsed = Selector::from_json(*Json::parse(selector));
  return parsed ? "no error: " + parsed->to_string() : std::string(parsed.error().message());
}

TEST(Selector, WhenRequirementsAreJoined_AllMustHoldAM251) {
  EXPECT_TRUE(matches("k=v,!z", R"({"k":"v"})"));
  EXPECT_FALSE(matches("k=v,!z", R"({"k":"v","z":""})"));
  EXPECT_TRUE(matches("k in (v,w),k", R"({"k":"v"})"));
  EXPECT_TRUE(matches("k!=v", R"({})"));
  EXPECT_TRUE(matches("k!=v", R"({"k":"w"})"));
  EXPECT_FALSE(matches("k!=v", R"({"k":"v"})"));
  EXPECT_TRUE(matches("", R"({})"));
  EXPECT_TRUE(matches(" k == v ,\tz notin ( a , b )", R"({"k":"v","z":"c"})"));
  EXPECT_TRUE(matches("in in (notin)", R"({"in":"notin"})"));
  EXPECT_TRUE(matches("k>1,k<10", R"({"k":"5"})"));
  EXPECT_FALSE(matches("k>1", R"({"k":"1"})"));
  EXPECT_FALSE(matches("k>1", R"({"k":"x"})"));
  EXPECT_FALSE(matches("k<1", R"({})"));
}

TEST(Selector, WhenValueIsEmpty_IsTheEmptyTextAM252) {
  EXPECT_TRUE(matches("k=", R"({"k":""})"));
  EXPECT_FALSE(matches("k=", R"({"k":"a"})"));
  EXPECT_FALSE(matches("k=", R"({})"));
  EXPECT_TRUE(matches("k notin ()", R"({})"));
  EXPECT_TRUE(matches("k notin ()", R"({"k":"a"})"));
  EXPECT_FALSE(matches("k notin ()", R"({"k":""})"));
  EXPECT_TRUE(matches("k in (,x)", R"({"k":""})"));
  EXPECT_TRUE(matches("k in (x,)", R"({"k":""})"));
  EXPECT_TRUE(matches("k in (x,,y)", R"({"k":"y"})"));
}

TEST(Selector, WhenGrammarIsBroken_TextIsThatOfKubernetesAM253) {
  EXPECT_EQ(error_of("a===b"), "unable to parse requirement: found '=', expected: identifier");
  EXPECT_EQ(error_of("a in ("),
            "unable to parse requirement: found '', expected: ',', ')' or identifier");
  EXPECT_EQ(error_of(","), "found ',', expected: !, identifier, or 'end of string'");
  EXPECT_EQ(error_of("k=v v"), "found 'v', expected: ',' or 'end of string'");
  EXPECT_EQ(error_of("k=v,"), "found '', expected: identifier after ','");
  EXPECT_EQ(error_of("!"), "unable to parse requirement: found '', expected: identifier");
  EXPECT_EQ(error_of("!a=b"), "found '=', expected: ',' or 'end of string'");
  EXPECT_EQ(error_of("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
  EXPECT_EQ(error_of("a in b"), "unable to parse requirement: found 'b' expected: '('");
  EXPECT_EQ(error_of("a in (b"), "unable to parse requirement: found '', expected: ',' or ')'");
  EXPECT_EQ(error_of("a in (b,"),
            "unable to parse requirement: found '', expected: ',', or identifier");
  EXPECT_EQ(Selector::parse("a===b").error().code(), Errc::kBadRequest);
}

TEST(Selector, WhenKeyOrValueIsInvalid_TextNamesItAM254) {
  EXPECT_EQ(error_of("-a"),
            std::string("unable to parse requirement: <nil>: Invalid value: \"-a\": ") + kKeyText);
  EXPECT_EQ(error_of("x/y/z=1").substr(0, 63),
            "unable to parse requirement: <nil>: Invalid value: \"x/y/z\": a v");
  EXPECT_EQ(error_of("b<x"),
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
            "operators, the value must be an integer");
  EXPECT_EQ(error_of("b=-x").substr(0, 68),
            "unable to parse requirement: values[0][b]: Invalid value: \"-x\": a va");
}

TEST(Selector, WhenAskedForByAClient_SE087_ItIsBounded) {
  const auto terms = [](std::size_t number, std::size_t value) {
    std::string text;
    for (std::size_t i = 0; i < number; ++i) {
      text += (i == 0 ? "" : ",") + ("k" + std::to_string(i % 7)) + "=" + std::string(value, 'v');
    }
    return text;
  };
  EXPECT_TRUE(Selector::parse_asked(terms(1'000, 1)));
  EXPECT_TRUE(Selector::parse_asked(std::string(1 << 16, ' '))) << "no term, and just so long";
  for (const std::string& text : {terms(1'001, 1), std::string((1 << 16) + 1, ' '),
                                  terms(1'000, 62) + std::string(999, ' ')}) {
    const Expected<Selector> asked = Selector::parse_asked(text);
    ASSERT_FALSE(asked) << text.size();
    EXPECT_EQ(asked.error().code(), Errc::kBadRequest);
    EXPECT_TRUE(Selector::parse(text)) << "what we make ourselves has no bound";
  }
}

TEST(Selector, WhenJsonForm_StringIsCanonical) {
  const auto text = [](std::string_view json) {
    const Expected<Selector> parsed = Selector::from_json(*Json::parse(json));
    EXPECT_TRUE(parsed.has_value()) << json;
    return parsed ? parsed->to_string() : "";
  };
  EXPECT_EQ(
      text(
          R"({"matchLabels":{"region":"eu"},"matchExpressions":[{"key":"cloud","operator":"In","values":["gcp","aws"]},{"key":"tier","operator":"DoesNotExist"}]})"),
      "cloud in (aws,gcp),region=eu,!tier");
  EXPECT_EQ(text("{}"), "");
  EXPECT_EQ(text("null"), "");
  EXPECT_EQ(
      text(
          R"({"matchExpressions":[{"key":"a","operator":"NotIn","values":["x","x"]},{"key":"a","operator":"Exists"},{"key":"a","operator":"DoesNotExist"}],"matchLabels":{"a":"1"}})"),
      "a=1,a notin (x),a,!a");
}

TEST(Selector, WhenJsonFormIsInvalid_TextIsThatOfTheLibrary) {
  EXPECT_EQ(json_error(R"({"matchExpressions":[{"key":"a","operator":"Foo"}]})"),
            "\"Foo\" is not a valid label selector operator");
  EXPECT_EQ(json_error(R"({"matchExpressions":[{"key":"a","operator":"In"}]})"),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
  EXPECT_EQ(
      json_error(R"({"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]})"),
      "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist");
  EXPECT_EQ(json_error(R"({"matchLabels":{"-a":"b"}})"),
            std::string("key: Invalid value: \"-a\": ") + kKeyText);
  EXPECT_NE(json_error(R"({"matchLabels":{"a":"b c"}})").find("values[0][a]: Invalid value"),
            std::string::npos);
}

TEST(Selector, WhenPrinted_ParsesBackToItself) {
  for (const char* text : {"a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (,c)", "a>1",
                           "a<2", "a=", "a,b,c=d"}) {
    const Expected<Selector> parsed = Selector::parse(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->to_string(), text);
    EXPECT_EQ(*Selector::parse(parsed->to_string()), *parsed);
  }
}

TEST(FieldSelector, WhenTermsAreGiven_AllMustHoldAM255) {
  const Expected<FieldSelector> parsed =
      FieldSelector::parse("metadata.namespace!=t2,metadata.name==a,,");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->terms().size(), 2U);
  EXPECT_EQ(parsed->terms()[0], (FieldSelector::Term{"metadata.name", false, "a"}));
  EXPECT_EQ(parsed->terms()[1], (FieldSelector::Term{"metadata.namespace", true, "t2"}));
  EXPECT_EQ(parsed->exact("metadata.name"), "a");
  EXPECT_EQ(parsed->exact("metadata.namespace"), std::nullopt);
  const auto lookup = [](std::string_view name, std::string_view ns) {
    return [=](std::string_view field) { return field == "metadata.name" ? name : ns; };
  };
  EXPECT_TRUE(parsed->matches(lookup("a", "t1")));
  EXPECT_FALSE(parsed->matches(lookup("a", "t2")));
  EXPECT_FALSE(parsed->matches(lookup("b", "t1")));
  EXPECT_TRUE(FieldSelector::parse("")->empty());
}

TEST(FieldSelector, WhenBroken_TextIsThatOfKubernetesAM256) {
  const auto error = [](std::string_view text) {
    const Expected<FieldSelector> parsed = FieldSelector::parse(text);
    return parsed ? std::string("no error") : std::string(parsed.error().message());
  };
  EXPECT_EQ(error("metadata.name"),
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'");
  EXPECT_EQ(error("a\\x"), "invalid selector: 'a\\x'; can't understand 'a\\x'");
  EXPECT_EQ(error("metadata.name=a\\x"), "invalid field selector: invalid escape sequence: \\x");
  EXPECT_EQ(error("a=b\\"), "invalid field selector: invalid escape sequence: \\");
  EXPECT_EQ(error("a=b=c"), "invalid field selector: unescaped character in value: 61");
  EXPECT_EQ(FieldSelector::parse("a=x\\,y\\=z\\\\")->exact("a"), "x,y=z\\");
  EXPECT_EQ(FieldSelector::parse("=x")->terms()[0].field, "");
}

}  // namespace
}  // namespace kintsugi::krm
