#include "krm/quantity.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "krm/json.h"
#include "krm/protobuf.h"
#include "krm/strict.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

std::string canonical(std::string_view text) {
  const auto parsed = Quantity::parse(text);
  return parsed ? parsed->to_string() : "error: " + std::string(parsed.error().message());
}

TEST(Quantity, WhenWritten_IsCanonical) {
  const std::pair<const char*, const char*> rows[] = {
      {"0", "0"},           {"-0", "0"},
      {"1", "1"},           {"1000m", "1"},
      {"1500m", "1500m"},   {"0.5", "500m"},
      {"1000", "1k"},       {"1001", "1001"},
      {"+12", "12"},        {"-1", "-1"},
      {"1024Mi", "1Gi"},    {"1Ki", "1Ki"},
      {"0.5Ki", "512"},     {"1.5Gi", "1536Mi"},
      {"1023Ki", "1023Ki"}, {"1e3", "1e3"},
      {"12e6", "12e6"},     {"1E-3", "1e-3"},
      {"100n", "100n"},     {"0.0000000001", "1n"},
      {"-0.1n", "-1n"},     {"1.", "1"},
      {".5", "500m"},       {"0.3Ki", "307200m"},
      {"2.0Ki", "2Ki"},     {"00012", "12"},
      {"1e0", "1"},         {"5E", "5E"},
      {"5e", "error"},      {"9223372036854775807", "9223372036854775807"},
  };
  for (const auto& [text, expected] : rows) {
    if (std::string_view(expected) == "error") {
      EXPECT_EQ(canonical(text), "error: unable to parse quantity's suffix") << text;
    } else {
      EXPECT_EQ(canonical(text), expected) << text;
    }
  }
}

TEST(Quantity, WhenTooLarge_IsTheLargest) {
  const std::string largest = "9223372036854775807";
  for (const char* text :
       {"9223372036854775808", "10E", "1e99999", "8Ei", "99999999999999999999"}) {
    const auto parsed = Quantity::parse(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(*parsed, Quantity(std::numeric_limits<std::int64_t>::max())) << text;
    EXPECT_EQ(parsed->ceiling(), std::numeric_limits<std::int64_t>::max()) << text;
  }
  EXPECT_EQ(canonical("-9e99"), "-9223372036854775807");
  EXPECT_EQ(canonical("1e-99999"), "1e-9");
}

TEST(Quantity, WhenMalformed_SaysWhatTheReferenceSays) {
  const std::string form =
      "error: quantities must match the regular expression "
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  for (const char* text : {"", "x", "-", ".", "1.2.3", "1 ", "1b", "--1"}) {
    EXPECT_EQ(canonical(text), form) << text;
  }
  EXPECT_EQ(canonical(std::string(2'000, '1')), form);
  EXPECT_EQ(canonical("1mm"), "error: unable to parse quantity's suffix");
}

TEST(Quantity, WhenAsked_TellsSignAndWholeness) {
  EXPECT_TRUE(Quantity::parse("-1m")->is_negative());
  EXPECT_FALSE(Quantity::parse("1m")->is_whole());
  EXPECT_TRUE(Quantity::parse("1000m")->is_whole());
  EXPECT_EQ(Quantity::parse("1500m")->ceiling(), 2);
  EXPECT_EQ(Quantity::parse("-1500m")->ceiling(), -1);
  EXPECT_EQ(*Quantity::parse("1Ki"), *Quantity::parse("1024"));
}

TEST(Quantity, WhenInABuiltinKind_IsReadFromJsonAndProtobuf) {
  const SchemaPtr schema = builtin_schema("v1", "ResourceQuota");
  ASSERT_NE(schema, nullptr);
  Json quota =
      *Json::parse(R"({"spec":{"hard":{"cpu":"0.5","memory":"1024Mi","pods":4,"secrets":null}}})");
  ASSERT_TRUE(decode_typed(*schema, quota, nullptr));
  EXPECT_EQ(quota.at({"spec", "hard"})->dump(),
            R"({"cpu":"500m","memory":"1Gi","pods":"4","secrets":"0"})");
  Json bad = *Json::parse(R"({"spec":{"hard":{"pods":"x"}}})");
  EXPECT_FALSE(decode_typed(*schema, bad, nullptr));
  Json worse = *Json::parse(R"({"spec":{"hard":{"pods":[]}}})");
  EXPECT_FALSE(decode_typed(*schema, worse, nullptr));
}

}  // namespace
}  // namespace kintsugi::krm
