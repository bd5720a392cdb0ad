#include "krm/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "krm/go_text.h"

namespace kintsugi::krm {
namespace {

Json parse(std::string_view text) {
  Expected<Json> value = Json::parse(text);
  EXPECT_TRUE(value.has_value()) << text << ": " << (value ? "" : value.error().to_string());
  return value ? std::move(*value) : Json("parse error");
}

std::string round_trip(std::string_view text) { return parse(text).dump(); }

std::string error_of(std::string_view text) {
  const Expected<Json> value = Json::parse(text);
  return value ? "no error: " + value->dump() : std::string(value.error().message());
}

TEST(Json, WhenSizeIsTaken_IsSixteenBytes) { EXPECT_EQ(sizeof(Json), 16U); }

TEST(Json, WhenObjectIsParsed_KeysAreSortedInOutput) {
  EXPECT_EQ(round_trip(R"( { "b" : [1, 2.5, true, null] , "a" : {"z":"y","":{}} } )"),
            R"({"a":{"":{},"z":"y"},"b":[1,2.5,true,null]})");
  EXPECT_EQ(round_trip("[]"), "[]");
  EXPECT_EQ(round_trip("\"\""), "\"\"");
  EXPECT_EQ(round_trip("null"), "null");
}

TEST(Json, WhenNumbersAreParsed_KeepTheirValueAM405) {
  EXPECT_EQ(round_trip("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(round_trip("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(parse("9223372036854775808").type(), Json::Type::kBigNumber);
  EXPECT_EQ(round_trip("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(parse("1.0").type(), Json::Type::kDouble);
  EXPECT_EQ(round_trip("-0"), "0");
  EXPECT_EQ(round_trip("-0.0e5"), "0");
  EXPECT_EQ(parse("1e3").type(), Json::Type::kDouble);
  EXPECT_EQ(round_trip("3.14159265358979323846264338327950288"),
            "3.14159265358979323846264338327950288");
  EXPECT_EQ(parse("3.14159265358979323846264338327950288").as_double(), 3.14159265358979323846);
  EXPECT_EQ(parse("0.30000000000000004").type(), Json::Type::kDouble);
  EXPECT_EQ(parse("1.50000000000000000000000").type(), Json::Type::kDouble);
}

TEST(Json, WhenDoublesAreWritten_LookLikeGo) {
  const std::pair<double, const char*> cases[] = {
      {1.0, "1"},
      {0.5, "0.5"},
      {1e21, "1e+21"},
      {1e20, "100000000000000000000"},
      {123456789012345680000.0, "123456789012345680000"},
      {1e-6, "0.000001"},
      {1e-7, "1e-7"},
      {1.5e-9, "1.5e-9"},
      {-2.25e30, "-2.25e+30"},
      {1000, "1000"},
      {-0.0, "-0"},
      {0.0, "0"},
      {18446744073709551616.0, "18446744073709552000"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {5e-324, "5e-324"},
      {12345.678, "12345.678"}};
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(Json(value).dump(), text);
  }
}

TEST(Json, WhenASurrogateIsAlone_BecomesTheReplacementCharacter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("\ud800")", "\xEF\xBF\xBD"},
      {R"("\ude00x")", "\xEF\xBF\xBDx"},
      {R"("\ud800\ud83d\ude00")", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
      {R"("\ude00\ud83d")", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {R"("\\ud800 \uD800")", "\\ud800 \xEF\xBF\xBD"},
      {R"("\ud800\u0041")",
       "\xEF\xBF\xBD"
       "A"}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = Json::parse(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->as_string(), expected) << text;
  }
  EXPECT_EQ(Json::parse(R"({"\ude00":1})")->dump(), "{\"\xEF\xBF\xBD\":1}");
  EXPECT_FALSE(Json::parse(R"(["\ud800", x])"));
}

TEST(Json, WhenTextIsBroken_ErrorReadsLikeGo) {
  const std::pair<std::string_view, const char*> cases[] = {
      {"", "unexpected end of JSON input"},
      {"  ", "unexpected end of JSON input"},
      {"{", "unexpected end of JSON input"},
      {"[1,", "unexpected end of JSON input"},
      {"\"a", "unexpected end of JSON input"},
      {"{\"a\":1", "unexpected end of JSON input"},
      {"tru", "unexpected end of JSON input"},
      {"-", "unexpected end of JSON input"},
      {"{bad", "invalid character 'b' looking for beginning of object key string"},
      {"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"},
      {"[1,]", "invalid character ']' looking for beginning of value"},
      {"x", "invalid character 'x' looking for beginning of value"},
      {"{\"a\" 1}", "invalid character '1' after object key"},
      {"{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"},
      {"[1 2]", "invalid character '2' after array element"},
      {"1 2", "invalid character '2' after top-level value"},
      {"{}}", "invalid character '}' after top-level value"},
      {"\"a\nb\"", "invalid character '\\n' in string literal"},
      {"\"\\q\"", "invalid character 'q' in string escape code"},
      {"\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"},
      {"-a", "invalid character 'a' in numeric literal"},
      {"01", "invalid character '1' after top-level value"},
      {"1.a", "invalid character 'a' after decimal point in numeric literal"},
      {"1ex", "invalid character 'x' in exponent of numeric literal"},
      {"trie", "invalid character 'i' in literal true (expecting 'u')"},
      {"nulx", "invalid character 'x' in literal null (expecting 'l')"},
      {"'a'", "invalid character '\\'' looking for beginning of value"},
      {"\xC3\xA4", "invalid character '\xC3\x83' looking for beginning of value"},
      {std::string_view("1\0", 2), "invalid character '\\x00' after top-level value"},
      {std::string_view("\0", 1), "invalid character '\\x00' looking for beginning of value"},
      {std::string_view("[\"a\0b\"]", 7), "invalid character '\\x00' in string literal"},
      {"\"\xFF\"", "invalid UTF-8 in string"},
      {"1e400", "json: number out of range of type float64"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(error_of(text), message) << text;
    const Expected<Json> value = Json::parse(text);
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code(), Errc::kBadRequest);
  }
}

TEST(Json, WhenAControlCharacterStandsInAText_IsRefusedWhereverItStands) {
  for (char control = 1; control < 0x20; ++control) {
    for (std::size_t at = 0; at < 40; ++at) {
      std::string inside(40, 'a');
      inside[at] = control;
      const bool blank = control == '\t' || control == '\n' || control == '\r';
      EXPECT_FALSE(Json::parse("[\"" + inside + "\"]")) << int(control) << " at " << at;
      EXPECT_FALSE(Json::parse("{\"" + inside + "\": 1}")) << int(control) << " at " << at;
      EXPECT_EQ(Json::parse(std::string(at, ' ') + control + "[]").has_value(), blank)
          << int(control);
    }
  }
  const auto refused = Json::parse("[\"0123456789abcdef\x1d\"]");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "invalid character '\\x1d' in string literal");
}

TEST(Json, WhenStringsAreParsed_EscapesAreDecoded) {
  EXPECT_EQ(parse(R"("\u00e9\ud83d\ude00\n\/\u0000")").as_string(),
            std::string_view("\xC3\xA9\xF0\x9F\x98\x80\n/\0", 9));
  EXPECT_EQ(Json(std::string_view("\0\x1f\"\\\b\f\n\r\t<>&\x7f\xE2\x80\xA8", 16)).dump(),
            "\"\\u0000\\u001f\\\"\\\\\\b\\f\\n\\r\\t<>&\x7f\xE2\x80\xA8\"");
  const std::string longer(1000, 'x');
  EXPECT_EQ(parse("\"" + longer + "\\n" + longer + "\"").as_string(), longer + "\n" + longer);
}

TEST(Json, WhenKeysRepeat_LastWinsAndPathsAreReportedInOrder) {
  Json::ParseReport report;
  const Expected<Json> value = Json::parse(
      R"({"z":1,"metadata":{"name":"a","name":"b"},"spec":{"a":[{"x":0},{"b":1,"c":2,"b":3,"b":4}]},"z":2})",
      {.max_depth = 10, .collect_duplicates = true}, &report);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->dump(),
            R"({"metadata":{"name":"b"},"spec":{"a":[{"x":0},{"b":4,"c":2}]},"z":2})");
  EXPECT_EQ(report.duplicate_fields,
            (std::vector<std::string>{"metadata.name", "spec.a[1].b", "z"}));
}

TEST(Json, WhenObjectHasManyKeys_AllAreFound) {
  std::string text = "{";
  for (int i = 999; i >= 0; --i) {
    text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + (i > 0 ? "," : "}");
  }
  const Json value = parse(text);
  ASSERT_EQ(value.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(value.find("k" + std::to_string(i))->as_integer(), i);
  }
  EXPECT_EQ(value.find("k1000"), nullptr);
}

TEST(Json, WhenDepthIsTenThousand_NothingOverflowsAM063) {
  constexpr std::size_t kDepth = 10'000;
  const std::string arrays = std::string(kDepth, '[') + std::string(kDepth, ']');
  std::string objects;
  for (std::size_t i = 0; i < kDepth; ++i) {
    objects += "{\"a\":";
  }
  objects += "1" + std::string(kDepth, '}');
  for (const std::string& text : {arrays, objects}) {
    const Json value = parse(text);
    const Json copy = value;  // NOLINT(performance-unnecessary-copy-initialization)
    EXPECT_EQ(copy.dump(), text);
    EXPECT_TRUE(copy == value);
    EXPECT_FALSE(copy.dump_pretty().empty());
  }
  EXPECT_EQ(error_of("[" + arrays + "]"), "exceeded max depth");
  EXPECT_EQ(error_of(std::string(1'000'000, '[')), "exceeded max depth");
  EXPECT_FALSE(Json::parse("[[[]]]", {.max_depth = 2, .collect_duplicates = false}, nullptr));
  EXPECT_TRUE(Json::parse("[[]]", {.max_depth = 2, .collect_duplicates = false}, nullptr));
}

TEST(Json, WhenCompared_NumbersCompareByValue) {
  EXPECT_TRUE(parse("1") == parse("1.0"));
  EXPECT_TRUE(parse("1.0") == parse("1"));
  EXPECT_FALSE(parse("9007199254740993") == parse("9007199254740992.0"));
  EXPECT_FALSE(parse("1") == parse("1.5"));
  EXPECT_TRUE(Json(1e20) == parse("100000000000000000000"));
  EXPECT_TRUE(parse("100000000000000000000") == Json(1e20));
  EXPECT_FALSE(parse("100000000000000000001") == Json(1e20));
  EXPECT_FALSE(parse("1") == parse("\"1\""));
  EXPECT_FALSE(parse("9223372036854775807") == Json(9223372036854775808.0));
  EXPECT_TRUE(parse(R"({"a":[1,{"b":null}]})") == parse(R"({ "a" : [1.0, {"b":null}] })"));
  EXPECT_FALSE(parse(R"({"a":null})") == parse("{}"));
}

TEST(Json, WhenEdited_MembersStaySorted) {
  Json value;
  value["b"] = 1;
  value["a"] = "x";
  value.make({"c", "d"}).push_back(true);
  EXPECT_EQ(value.dump(), R"({"a":"x","b":1,"c":{"d":[true]}})");
  EXPECT_TRUE(value.erase("b"));
  EXPECT_FALSE(value.erase("b"));
  EXPECT_EQ(value.text({"a"}), "x");
  EXPECT_EQ(value.text({"c", "d"}), "");
  EXPECT_EQ(value.at({"c", "x"}), nullptr);
  EXPECT_EQ(Json::object({{"k", 1}, {"k", 2}}).dump(), R"({"k":2})");
  value = std::move(*value.find("c"));
  EXPECT_EQ(value.dump(), R"({"d":[true]})");
  EXPECT_EQ(Json(std::uint64_t{1} << 63U).dump(), "9223372036854775808");
}

TEST(Json, WhenValueMoves_ItsTextStaysInPlace) {
  Json object = Json::object({{"b", "short"}});
  const std::string_view view = object.text({"b"});
  for (char c = 'c'; c <= 'z'; ++c) {
    object[std::string(1, c)] = 1;
  }
  object["a"] = 1;
  EXPECT_EQ(view.data(), object.text({"b"}).data());
}

TEST(Json, WhenPretty_IsIndentedByTwo) {
  EXPECT_EQ(parse(R"({"a":[1,{}],"b":{"c":[]}})").dump_pretty(),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}\n");
}

nlohmann::json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 8U : 6U)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) * (random() % 2 == 0 ? 1 : -1'000'000'000LL);
    case 3:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    case 4:
      return std::string(random() % 20, static_cast<char>(random() % 0x80));
    case 5:
      return "\xE2\x98\x83 \"\\\n";
    case 6: {
      nlohmann::json out = nlohmann::json::array();
      for (std::size_t i = random() % 5; i > 0; --i) {
        out.push_back(random_value(random, depth - 1));
      }
      return out;
    }
    default: {
      nlohmann::json out = nlohmann::json::object();
      for (std::size_t i = random() % 6; i > 0; --i) {
        out["k" + std::to_string(random() % 30)] = random_value(random, depth - 1);
      }
      return out;
    }
  }
}

TEST(JsonProperty, WhenDocumentIsRandom_AgreesWithOracleAndIsAFixedPoint) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const nlohmann::json oracle = random_value(random, 5);
    const std::string text = oracle.dump();
    const std::string out = round_trip(text);
    ASSERT_EQ(nlohmann::json::parse(out), oracle) << "seed " << seed;
    ASSERT_EQ(round_trip(out), out) << "seed " << seed;
    ASSERT_TRUE(parse(out) == parse(text)) << "seed " << seed;
  }
}

TEST(JsonProperty, WhenTextIsDamaged_VerdictAgreesWithOracle) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    std::string text = random_value(random, 4).dump();
    for (std::size_t i = 1 + random() % 2; i > 0; --i) {
      text[random() % text.size()] = "{}[]\",:0e.-+tn\\u \x01"[random() % 18];
    }
    const bool expected = nlohmann::json::accept(text);
    const Expected<Json> value = Json::parse(text);
    // The one difference: numbers out of a double's range.
    if (!value && value.error().message().find("out of range") != std::string_view::npos) {
      continue;
    }
    ASSERT_EQ(value.has_value(), expected) << text;
    ASSERT_TRUE(value || value.error().message() != "invalid JSON") << text;
  }
}

TEST(GoText, WhenQuoted_LooksLikePercentQ) {
  EXPECT_EQ(go_quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(go_quote("a\x01\t\n\x7f\xff\xE2\x98\x83\xC2\xA0"),
            "\"a\\x01\\t\\n\\x7f\\xff\xE2\x98\x83\\u00a0\"");
  EXPECT_EQ(go_quote_byte('\''), "'\\''");
  EXPECT_EQ(go_string_slice({"a", "b"}), "[]string{\"a\", \"b\"}");
}

}  // namespace
}  // namespace kintsugi::krm
