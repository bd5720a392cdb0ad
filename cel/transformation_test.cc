#include "cel/transformation.h"

#include <gtest/gtest.h>

#include "krm/structural.h"

namespace kintsugi::cel {
namespace {

using krm::Json;

krm::SchemaPtr schema(std::string_view text) {
  return krm::structural_schema(*Json::parse(text), false);
}

std::string made(std::string_view source, std::string_view self_schema, std::string_view self) {
  std::string fault;
  const TransformationPtr compiled = compile_transformation(source, schema(self_schema), fault);
  if (compiled == nullptr) {
    return fault;
  }
  std::uint64_t spent = 0;
  const Expected<Json> out = evaluate_transformation(*compiled, *Json::parse(self), spent);
  return out ? out->dump() : std::string(out.error().message());
}

constexpr std::string_view kText = R"({"type":"string"})";
constexpr std::string_view kNumber = R"({"type":"integer"})";
constexpr std::string_view kPair =
    R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}})";

TEST(Transformation, KK192_ResultsAreJson) {
  EXPECT_EQ(made("self.upperAscii()", kText, R"("abc")"), R"("ABC")");
  EXPECT_EQ(made("{'first': self, 'second': 'y'}", kText, R"("x")"),
            R"({"first":"x","second":"y"})");
  EXPECT_EQ(made("[self, 2, 3].map(x, {'n': x})", kNumber, "1"), R"([{"n":1},{"n":2},{"n":3}])");
  EXPECT_EQ(made("self == 1 ? 2.5 : 0.5", kNumber, "1"), "2.5");
  EXPECT_EQ(made("self + 1", kNumber, "41"), "42");
  EXPECT_EQ(made("self.a + string(self.b)", kPair, R"({"a":"x","b":7})"), R"("x7")");
  EXPECT_EQ(made("self", kPair, R"({"a":"x","b":7})"), R"({"a":"x","b":7})");
  EXPECT_EQ(made("self.split('-')", kText, R"("a-b")"), R"(["a","b"])");
}

TEST(Transformation, KK192_WhatDoesNotCompile_IsToldInKcpsWords) {
  EXPECT_TRUE(made("self.foo was here", kText, "\"\"")
                  .starts_with("error compiling CEL program: ERROR: <input>:1:"));
  EXPECT_TRUE(made("self.nope", kPair, "{}").starts_with("error compiling CEL program: "));
  EXPECT_TRUE(made("other", kText, "\"\"").starts_with("error compiling CEL program: "));
  EXPECT_EQ(made("self", R"({"x-kubernetes-preserve-unknown-fields":true})", "{}"),
            "error creating CEL environment: the field has no type");
}

TEST(Transformation, KK192_WhatFailsOrIsNoJson_IsAnError) {
  EXPECT_TRUE(made("self / 0", kNumber, "1").starts_with("error executing transformation: "));
  EXPECT_TRUE(
      made("self + 1", kNumber, "\"text\"").starts_with("error executing transformation: "));
  EXPECT_TRUE(made("duration('1s')", kText, "\"\"")
                  .starts_with("error executing transformation: the result has a type"));
  EXPECT_TRUE(made("{1: self}", kText, "\"\"").starts_with("error executing transformation: "));
  const std::string much = Json(std::string(60'000, 'x')).dump();
  EXPECT_TRUE(
      made("[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, self))", kText, much)
          .starts_with("error executing transformation: "));
}

TEST(Transformation, KK192_WhatItCostsIsCounted) {
  std::string fault;
  const TransformationPtr compiled =
      compile_transformation("self.upperAscii()", schema(kText), fault);
  ASSERT_NE(compiled, nullptr);
  std::uint64_t spent = 5;
  ASSERT_TRUE(evaluate_transformation(*compiled, Json(std::string(1'000, 'x')), spent));
  EXPECT_GT(spent, 5U);
}

}  // namespace
}  // namespace kintsugi::cel
