#include "krm/yaml.h"

#include <gtest/gtest.h>

#include <random>

#include "krm/yaml_documents.h"

namespace kintsugi::krm {
namespace {

std::string json_of(std::string_view text) {
  const Expected<Json> value = parse_yaml(text);
  return value ? value->dump() : std::string(value.error().message());
}

TEST(YamlParse, WhenDocumentIsBlockStyle_BecomesJson) {
  EXPECT_EQ(
      json_of("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {k: v}\n"
              "data:\n  x: \"1\"\n  text: |\n    one\n    two\nlist:\n- 1\n- [a, b]\n- c: d\n"),
      R"({"apiVersion":"v1","data":{"text":"one\ntwo\n","x":"1"},"kind":"ConfigMap",)"
      R"("list":[1,["a","b"],{"c":"d"}],"metadata":{"labels":{"k":"v"},"name":"a"}})");
  EXPECT_EQ(json_of(""), "null");
  EXPECT_EQ(json_of("# nothing\n"), "null");
  EXPECT_EQ(json_of("--- 5"), "5");
  EXPECT_EQ(json_of(R"({"a": [1, true, null]})"), R"({"a":[1,true,null]})");
}

TEST(YamlParse, WhenScalarsArePlain_YamlOneOneApplies) {
  const std::pair<const char*, const char*> cases[] = {
      {"yes", "true"},
      {"On", "true"},
      {"y", "true"},
      {"TRUE", "true"},
      {"no", "false"},
      {"off", "false"},
      {"N", "false"},
      {"tRUE", "\"tRUE\""},
      {"~", "null"},
      {"Null", "null"},
      {"nULL", "\"nULL\""},
      {"0755", "493"},
      {"0x1F", "31"},
      {"0o17", "15"},
      {"0b101", "5"},
      {"1_000", "1000"},
      {"-7", "-7"},
      {"+7", "7"},
      {"1.5", "1.5"},
      {"1e3", "1000"},
      {".5", "0.5"},
      {"5.", "5"},
      {"089", "89"},
      {"1.2.3", "\"1.2.3\""},
      {"2001-12-14", "\"2001-12-14\""},
      {"2024-01-01T00:00:00Z", "\"2024-01-01T00:00:00Z\""},
      {"9223372036854775807", "9223372036854775807"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"'yes'", "\"yes\""},
      {"\"5\"", "\"5\""},
      {"!!str 5", "\"5\""},
      {"! 5", "\"5\""},
      {"!!int 5", "5"},
      {"!!float 5", "5"},
      {"!!binary aGk=", "\"hi\""},
      {"-", "[null]"},
      {"a-b", "\"a-b\""},
      {"1m", "\"1m\""},
      {"-x", "\"-x\""}};
  for (const auto& [text, json] : cases) {
    EXPECT_EQ(json_of(text), json) << text;
  }
}

TEST(YamlParse, WhenKeysAreNotText_TheyBecomeText) {
  EXPECT_EQ(json_of("1: a\ntrue: b\n1.5: c\nyes: d\n"), R"({"1":"a","1.5":"c","true":"d"})");
  EXPECT_EQ(json_of("? [a]\n: b\n").substr(0, 45), "error converting YAML to JSON: yaml: line 1: ");
}

TEST(YamlParse, WhenAliasesAreUsed_TheyAreExpanded) {
  EXPECT_EQ(json_of("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  l: 2\nd:\n  <<: [*x, {k: 3, m: 4}]\n"),
            R"({"a":{"k":1},"b":{"k":1},"c":{"k":1,"l":2},"d":{"k":1,"m":4}})");
  EXPECT_EQ(json_of("c:\n  k: 9\n  <<: {k: 1}\n"), R"({"c":{"k":9}})");
  EXPECT_EQ(json_of("a: *x"),
            "error converting YAML to JSON: yaml: line 1: unknown anchor 'x' referenced");
  EXPECT_EQ(json_of("a: &x [*x]"),
            "error converting YAML to JSON: yaml: line 1: anchor 'x' value contains itself");
}

TEST(YamlParse, WhenAliasesExplode_IsTooLargeAM063) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) {
      text += "," + before;
    }
    text += "]\n";
  }
  const Expected<Json> value = parse_yaml(text);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code(), Errc::kRequestEntityTooLarge);
}

TEST(YamlParse, WhenKeysRepeat_LastWinsAndIsReportedAM150) {
  YamlReport report;
  const Expected<Json> value = parse_yaml("bar: 1\nfoo:\n  a: 1\n  a: 2\nbar: 2\n", &report);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->dump(), R"({"bar":2,"foo":{"a":2}})");
  EXPECT_EQ(report.duplicate_keys,
            (std::vector<std::string>{"line 4: key \"a\" already set in map",
                                      "line 5: key \"bar\" already set in map"}));
}

TEST(YamlParse, WhenDocumentsFollow_TheFirstCounts) {
  EXPECT_EQ(json_of("a: 1\n---\nb: 2\n"), R"({"a":1})");
  EXPECT_EQ(json_of("---\na: 1\n...\n: [ {"), R"({"a":1})");
  EXPECT_EQ(json_of("---\n---\na: 1\n"), "null");
}

TEST(YamlParse, WhenBroken_TextNamesTheLine) {
  const std::string lead = "error converting YAML to JSON: yaml: ";
  EXPECT_EQ(json_of("a: b\nc: d: e\n"),
            lead + "line 2: mapping values are not allowed in this context");
  EXPECT_EQ(json_of("a: [1, 2\nb: 3\n").substr(0, lead.size()), lead);
  EXPECT_EQ(json_of("a: \x01").substr(0, lead.size()), lead);
  EXPECT_EQ(json_of("a: \xFF").substr(0, lead.size()), lead);
  EXPECT_EQ(json_of("a: .inf").substr(0, lead.size()), lead);
  YamlReport whole;
  whole.collect_lines = true;
  EXPECT_EQ(parse_yaml("a: 1\n---\nb: 2\n", &whole).error().message(),
            lead + "line 2: expected a single document in the stream");
  EXPECT_EQ(json_of(std::string(1001, '[') + std::string(1001, ']')).substr(0, lead.size()), lead);
  EXPECT_EQ(parse_yaml("a: [").error().code(), Errc::kBadRequest);
}

TEST(YamlWrite, WhenObjectIsWritten_LooksLikeKubernetes) {
  const Json value = *Json::parse(
      R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"set":"s"},"finalizers":["x/y","z"]},
          "data":{"bool":"true","colon":"a: b","dash":"- x","empty":"","multi":"one\ntwo\n","number":"1","null":"null"},
          "list":[{"a":1,"b":[2,3]},[],{}],"none":null,"creationTimestamp":"2024-01-01T00:00:00Z"})");
  EXPECT_EQ(to_yaml(value),
            "apiVersion: v1\ncreationTimestamp: \"2024-01-01T00:00:00Z\"\ndata:\n"
            "  bool: \"true\"\n  colon: \"a: b\"\n  dash: \"- x\"\n  empty: \"\"\n"
            "  multi: |\n    one\n    two\n  \"null\": \"null\"\n  number: \"1\"\nkind: ConfigMap\n"
            "list:\n- a: 1\n  b:\n  - 2\n  - 3\n- []\n- {}\nmetadata:\n  finalizers:\n  - x/y\n"
            "  - z\n  labels:\n    set: s\n  name: a\nnone: null\n");
  EXPECT_EQ(to_yaml(Json("x")), "x\n");
  EXPECT_EQ(to_yaml(Json::object()), "{}\n");
  EXPECT_EQ(to_yaml(Json::array({1, "a"})), "- 1\n- a\n");
}

std::string random_text(std::mt19937& random) {
  static constexpr std::string_view kPieces[] = {"a",
                                                 " ",
                                                 "\n",
                                                 "\t",
                                                 ":",
                                                 "#",
                                                 "- ",
                                                 "'",
                                                 "\"",
                                                 "\\",
                                                 "yes",
                                                 "1",
                                                 "0x",
                                                 ".",
                                                 "{",
                                                 "[",
                                                 "&",
                                                 "*",
                                                 "!",
                                                 "|",
                                                 "%",
                                                 "@",
                                                 "~",
                                                 "\r",
                                                 "e",
                                                 ",",
                                                 "\x7f",
                                                 "\x01",
                                                 "\xC2\x85",
                                                 "\xE2\x80\xA8",
                                                 "\xEF\xBB\xBF",
                                                 "\xC3\xA9",
                                                 "\xF0\x9F\x98\x80",
                                                 "<<",
                                                 "="};
  std::string out;
  for (std::size_t i = random() % 6; i > 0; --i) {
    out += kPieces[random() % std::size(kPieces)];
  }
  if (random() % 50 == 0) {
    out += std::string(1500, 'k') + ": ";
  }
  return out;
}

Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 7U : 5U)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - 1'000'000'000;
    case 3:
    case 4:
      return random_text(random);
    case 5: {
      Json out = Json::array();
      for (std::size_t i = random() % 4; i > 0; --i) {
        out.push_back(random_value(random, depth - 1));
      }
      return out;
    }
    default: {
      Json out = Json::object();
      for (std::size_t i = random() % 4; i > 0; --i) {
        out[random_text(random)] = random_value(random, depth - 1);
      }
      return out;
    }
  }
}

TEST(YamlDocuments, LinesOfThreeDashesAreBetween) {
  const auto shown = [](std::string_view text) {
    std::string out;
    for (const std::string_view one : yaml_documents(text)) {
      out.append(json_of(one)).append(" ");
    }
    return out;
  };
  EXPECT_EQ(shown(""), "null ");
  EXPECT_EQ(shown("a: 1\n"), R"({"a":1} )");
  EXPECT_EQ(shown("---\na: 1\n---\n"), R"({"a":1} null )");
  EXPECT_EQ(shown("a: 1\n--- # next\nb: 2\n---\r\n5"), R"({"a":1} {"b":2} 5 )");
  EXPECT_EQ(shown("--- 5\n---\t6\n---"), "5 6 null ");
  EXPECT_EQ(shown("a: |\n  one\n  ---\n  two\n"), R"({"a":"one\n---\ntwo\n"} )") << "indented";
  EXPECT_EQ(yaml_documents("---a: 1\n----\n").size(), 1U);
}

TEST(YamlProperty, WhenWrittenValueIsRead_IsTheSame) {
  for (unsigned seed = 0; seed < 8000; ++seed) {
    std::mt19937 random(seed);
    const Json value = random_value(random, 4);
    const std::string text = to_yaml(value);
    YamlReport report;  // keeps the JSON short cut out
    const Expected<Json> back = parse_yaml(text, &report);
    ASSERT_TRUE(back) << "seed " << seed << ": " << back.error().message() << "\n" << text;
    ASSERT_EQ(back->dump(), value.dump()) << "seed " << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace kintsugi::krm
