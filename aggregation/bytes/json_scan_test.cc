#include "aggregation/bytes/json_scan.h"

#include <gtest/gtest.h>

#include <random>

#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

Json random_json(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 4 : 6)) {
    case 0:
      return Json(static_cast<std::int64_t>(random()));
    case 1:
      return Json(random() % 2 == 0);
    case 2:
    case 3: {
      std::string text;
      for (std::size_t i = random() % 90; i > 0; --i) {
        text += "\\\"{}[],:a\n\x01"[random() % 11];
      }
      return Json(text);
    }
    case 4: {
      Json list = Json::array();
      for (std::size_t i = random() % 6; i > 0; --i) {
        list.push_back(random_json(random, depth + 1));
      }
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t i = random() % 6; i > 0; --i) {
        object["k\\\"" + std::to_string(random() % 100)] = random_json(random, depth + 1);
      }
      return object;
    }
  }
}

std::string object_text(std::mt19937& random) {
  Json object = Json::object();
  for (int i = 0; i < 3; ++i) {
    object["m" + std::to_string(i)] = random_json(random, 0);
  }
  return object.dump();
}

TEST(ValueScan, WhenFedInPieces_FindsTheSameEnd) {
  std::mt19937 random(1);
  for (int round = 0; round < 3'000; ++round) {
    const std::string value = object_text(random);
    const std::string text = value + ",{\"more\":\"}\"}";
    ValueScan scan;
    std::size_t used = 0;
    while (!scan.done()) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 100, text.size() - used);
      ASSERT_GT(piece, 0U);
      used += scan.feed(std::string_view(text).substr(used, piece));
    }
    ASSERT_EQ(used, value.size()) << text;
  }
}

TEST(ValueScan, WhenValueDoesNotEnd_IsRunning) {
  ValueScan scan;
  EXPECT_EQ(scan.feed(R"({"a":"}]\"}")"), 12U);
  EXPECT_TRUE(scan.running());
  EXPECT_EQ(scan.feed("}x"), 1U);
  EXPECT_TRUE(scan.done());
}

TEST(MemberWalk, WhenObjectIsRandom_T68_PERF233_MembersAreThoseOfAParser) {
  std::mt19937 random(2);
  for (int round = 0; round < 3'000; ++round) {
    const std::string text = object_text(random);
    const Json parsed = *Json::parse(text);
    MemberWalk walk(text);
    std::size_t count = 0;
    while (const auto member = walk.next()) {
      ++count;
      const auto key = string_value('"' + std::string(member->key) + '"');
      ASSERT_TRUE(key);
      const Json* expected = parsed.find(*key);
      ASSERT_NE(expected, nullptr) << text;
      ASSERT_EQ(*Json::parse(member->value), *expected) << text;
    }
    EXPECT_FALSE(walk.broken());
    ASSERT_EQ(count, parsed.size());
  }
}

TEST(MemberWalk, WhenSpaced_SpacesAreLeftOut) {
  MemberWalk walk("{ \"a\" : [1, 2] ,\n\t\"b\" :null }");
  EXPECT_EQ(walk.next()->value, "[1, 2]");
  EXPECT_EQ(walk.next()->value, "null");
  EXPECT_FALSE(walk.next());
  EXPECT_FALSE(walk.broken());
}

TEST(MemberWalk, WhenTextIsNoObject_IsBroken) {
  for (const char* text : {"", "{", "}", "[]", "{a}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}",
                           "{\"a\":1 \"b\":2}", "{\"a\":\"x}", "{\"a\":[}", "{\"a:1}"}) {
    MemberWalk walk(text);
    while (walk.next()) {
    }
    EXPECT_TRUE(walk.broken()) << text;
  }
}

TEST(KeyIs, WhenEscaped_T68_IsUnderstood) {
  EXPECT_TRUE(key_is("resource\\u0056ersion", "resourceVersion"));
  EXPECT_TRUE(key_is("kind", "kind"));
  EXPECT_FALSE(key_is("\\u00", "kind"));
}

}  // namespace
}  // namespace kintsugi::aggregation
