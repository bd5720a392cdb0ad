#include "krm/internal/member_span.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "krm/json.h"

namespace kintsugi::krm {
namespace {

constexpr std::array<std::string_view, 2> kPath = {"m", "f"};

std::string without(std::string_view text) {
  const auto gap = find_member(text, kPath);
  return gap ? std::string(text.substr(0, gap->begin)).append(text.substr(gap->end)) : "none";
}

TEST(MemberSpan, AMemberGoesWithOneComma) {
  EXPECT_EQ(without(R"({"m":{"f":1}})"), R"({"m":{}})");
  EXPECT_EQ(without(R"({"m":{"f":[1,{"f":"]"}],"g":2}})"), R"({"m":{"g":2}})");
  EXPECT_EQ(without(R"({"a":"}","m":{"e":0, "f" : "x\"y" ,"g":2},"f":3})"),
            R"({"a":"}","m":{"e":0 ,"g":2},"f":3})");
  EXPECT_EQ(without(R"({"m":{"e":0,"f":null}})"), R"({"m":{"e":0}})");
}

TEST(MemberSpan, WhatOnlyAParserCanTellIsNotFound) {
  for (const std::string_view text :
       {R"({"f":1})", R"({"m":1})", R"({"m":[{"f":1}]})", R"({"m":{"f":[}}})", R"({"m":{"f":1)",
        R"({"m":{"f"}})", R"({"m":{"f":}})", R"({"m":{"e":0 "f":1}})", "[1]", "", "{", R"({"m)",
        "{\"m\":{\"f\":\"a\nb\"}}", R"({"m":{"f":"\)", R"({"\u006d":{"f":1}})"}) {
    EXPECT_EQ(without(text), "none") << text;
  }
  std::string deep = R"({"m":{"f":)";
  deep.append(65, '[').append(65, ']').append("}}");
  EXPECT_EQ(without(deep), "none");
}

class Documents {
 public:
  explicit Documents(std::uint64_t seed) : random_(seed) {}
  std::string value(int depth) {
    switch (pick(depth > 0 ? 7 : 5)) {
      case 0:
        return std::to_string(pick(1'000));
      case 1:
        return "null";
      case 2:
        return "-1.5e3";
      case 3:
        return R"("text \" \\ }],")";
      case 4:
        return "\"" + std::string(pick(40), 'x') + "\"";
      case 5:
        return "[" + values(depth, false) + "]";
      default:
        return "{" + values(depth, true) + "}";
    }
  }
  std::string values(int depth, bool named) {
    static constexpr std::array<std::string_view, 4> kNames = {"m", "f", "longer than the others",
                                                               "g"};
    std::string out;
    const std::size_t count = pick(4);
    for (std::size_t i = 0; i < count; ++i) {
      out += i == 0 ? " " : ", ";
      out += named ? "\"" + std::string(kNames[(pick(2) + i) % 4]) + "\" : " : "";
      out += value(depth - 1);
    }
    return out;
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }
  std::mt19937_64 random_;
};

// What is parsed without a member is what is parsed with it, less that member.
TEST(MemberSpan, ParsingWithoutIsParsingLessTheMember) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    const std::string text = "{" + Documents(seed).values(5, true) + "}";
    SCOPED_TRACE(text);
    Json::ParseReport report;
    const Expected<Json> whole = Json::parse(text, {100, true, {}}, &report);
    ASSERT_TRUE(whole);
    if (!report.duplicate_fields.empty()) {
      continue;
    }
    Json wanted = *whole;
    if (Json* const m = wanted.find("m"); m != nullptr) {
      found += m->erase("f") ? 1 : 0;
    }
    const Expected<Json> got = Json::parse(text, {100, true, kPath}, nullptr);
    ASSERT_TRUE(got);
    ASSERT_EQ(got->dump(), wanted.dump());
  }
  EXPECT_GT(found, 200);
}

TEST(MemberSpan, WhatIsWrongIsToldOfTheWholeText) {
  const auto error = [](std::string_view text, std::span<const std::string_view> path) {
    const Expected<Json> value = Json::parse(text, {100, false, path}, nullptr);
    return value ? "" : std::string(value.error().message());
  };
  for (const std::string_view text :
       {R"({"m":{"f":1}}x)", R"({"m":{"f":1},"a":01})", R"({"m":{"f":"\ud800"},"a":tru})",
        "{\"m\":{\"f\":\"\xff\"}}"}) {
    EXPECT_FALSE(error(text, kPath).empty()) << text;
    EXPECT_EQ(error(text, kPath), error(text, {})) << text;
  }
}

}  // namespace
}  // namespace kintsugi::krm
