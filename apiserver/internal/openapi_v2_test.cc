#include "apiserver/internal/openapi_v2.h"

#include <gtest/gtest.h>

#include "krm/protobuf_wire.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

std::string converted(std::string_view v3, bool builtin = false) {
  const auto parsed = Json::parse(v3);
  EXPECT_TRUE(parsed);
  return openapi_v2_schema(*parsed, builtin).dump();
}

/// Bytes of all fields with this number, in order.
std::vector<std::string_view> fields(std::string_view message, std::uint32_t number) {
  std::vector<std::string_view> out;
  krm::WireReader reader(message);
  krm::WireField field;
  while (reader.next(field)) {
    if (field.field == number) {
      out.push_back(field.bytes);
    }
  }
  EXPECT_FALSE(reader.malformed());
  return out;
}

std::string_view inside(std::string_view message, std::initializer_list<std::uint32_t> path) {
  for (const std::uint32_t number : path) {
    const auto found = fields(message, number);
    if (found.empty()) {
      ADD_FAILURE() << "no field " << number;
      return {};
    }
    message = found.front();
  }
  return message;
}

TEST(OpenApiV2Schema, WhenAReferenceIsWrapped_BecomesPlain) {
  EXPECT_EQ(converted(R"({"allOf":[{"$ref":"#/components/schemas/a.B"}],"default":{},)"
                      R"("description":"d"})"),
            R"({"$ref":"#/definitions/a.B","description":"d"})");
  EXPECT_EQ(converted(R"({"$ref":"#/components/schemas/a.B"})"), R"({"$ref":"#/definitions/a.B"})");
}

TEST(OpenApiV2Schema, WhenAValueHasNoTypeInV2_IsAnything) {
  EXPECT_EQ(converted(R"({"anyOf":[{"type":"integer"},{"type":"string"}],)"
                      R"("x-kubernetes-int-or-string":true})"),
            R"({"x-kubernetes-int-or-string":true})");
  EXPECT_EQ(converted(R"({"type":"object","nullable":true,"properties":{"a":{"type":"string"}}})"),
            "{}");
  EXPECT_EQ(converted(R"({"type":"array"})"), "{}");
}

TEST(OpenApiV2Schema, WhenUnknownFieldsAreKept_NamesNone) {
  EXPECT_EQ(converted(R"({"type":"object","x-kubernetes-preserve-unknown-fields":true,)"
                      R"("required":["a"],"properties":{"a":{"type":"string"}}})"),
            R"({"type":"object","x-kubernetes-preserve-unknown-fields":true})");
}

TEST(OpenApiV2Schema, WhenAnObjectIsEmbedded_HasTheFieldsOfObjects) {
  EXPECT_EQ(converted(R"({"type":"object","x-kubernetes-embedded-resource":true,)"
                      R"("properties":{"spec":{"type":"object"}}})"),
            R"({"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},)"
            R"("metadata":{"type":"object"},"spec":{"type":"object"}},"type":"object",)"
            R"("x-kubernetes-embedded-resource":true})");
}

TEST(OpenApiV2Schema, WhenThereAreAlternatives_LeavesThemOut) {
  EXPECT_EQ(converted(R"({"type":"string","oneOf":[{"pattern":"a"}],"not":{"enum":["x"]},)"
                      R"("maxLength":5,"default":"q"})"),
            R"({"default":"q","maxLength":5,"type":"string"})");
  EXPECT_EQ(converted(R"({"type":"string","default":""})", true), R"({"type":"string"})");
}

TEST(OpenApiV2Schema, WhenNestedWithoutEnd_Stops) {
  Json schema = Json::object({{"type", "string"}});
  for (int i = 0; i < 5'000; ++i) {
    Json outer = Json::object({{"type", "array"}});
    outer["items"] = std::move(schema);
    schema = std::move(outer);
  }
  EXPECT_LT(openapi_v2_schema(schema, false).dump().size(), 10'000U);
}

TEST(OpenApiV2PathItem, WhenAnOperationHasABody_ItIsAParameter) {
  const auto v3 = Json::parse(R"({
    "parameters":[{"name":"name","in":"path","required":true,
      "schema":{"type":"string","uniqueItems":true}}],
    "patch":{"operationId":"p","x-kubernetes-action":"patch",
      "parameters":[{"name":"dryRun","in":"query","schema":{"type":"string"}}],
      "requestBody":{"required":true,"content":{"application/json":
        {"schema":{"$ref":"#/components/schemas/a.B"}}}},
      "responses":{"200":{"description":"OK","content":{"application/yaml":
        {"schema":{"$ref":"#/components/schemas/a.B"}}}}}}})");
  ASSERT_TRUE(v3);
  const Json item = openapi_v2_path_item(*v3);
  EXPECT_EQ(item.find("parameters")->dump(),
            R"([{"in":"path","name":"name","required":true,"type":"string","uniqueItems":true}])");
  const Json& patch = *item.find("patch");
  EXPECT_EQ(patch.find("consumes")->dump(), R"(["application/json"])");
  EXPECT_EQ(patch.find("produces")->dump(), R"(["application/yaml"])");
  EXPECT_EQ(
      patch.find("parameters")->dump(),
      R"([{"in":"query","name":"dryRun","type":"string"},)"
      R"({"in":"body","name":"body","required":true,"schema":{"$ref":"#/definitions/a.B"}}])");
  EXPECT_EQ(patch.find("responses")->dump(),
            R"({"200":{"description":"OK","schema":{"$ref":"#/definitions/a.B"}}})");
}

TEST(OpenApiV2Writer, WhenAM135PartsShareADefinition_WritesItOnce) {
  const auto v3 = Json::parse(R"({"paths":{"/a/":{"get":{"operationId":"g",
    "x-kubernetes-action":"get","parameters":[{"name":"dryRun","in":"query",
    "schema":{"type":"string"}}]}}},"components":{"schemas":{"a.B":{"type":"object",
    "required":["p"],"x-kubernetes-group-version-kind":[{"kind":"B"}],
    "properties":{"p":{"type":"array","items":{"type":"string"},"maxItems":7}},
    "additionalProperties":true}}}})");
  ASSERT_TRUE(v3);
  const OpenApiV2Part part = openapi_v2_part(*v3, true, true);
  OpenApiV2Writer writer(true);
  writer.add(part);
  writer.add(part);
  const std::string document = writer.take("T", "v1");
  EXPECT_EQ(inside(document, {1}), "2.0");
  EXPECT_EQ(inside(document, {2, 2}), "v1");
  EXPECT_EQ(inside(document, {8, 2, 1}), "/a/");
  const std::string_view get = inside(document, {8, 2, 2, 2});
  EXPECT_EQ(inside(get, {5}), "g");
  EXPECT_EQ(inside(get, {8, 1, 2, 3, 4}), "dryRun");
  EXPECT_EQ(inside(get, {13, 1}), "x-kubernetes-action");
  EXPECT_EQ(inside(get, {13, 2, 2}), "\"get\"");
  ASSERT_EQ(fields(inside(document, {9}), 1).size(), 1U);
  const std::string_view schema = inside(document, {9, 1, 2});
  EXPECT_EQ(inside(schema, {22, 1}), "object");
  EXPECT_EQ(inside(schema, {19}), "p");
  EXPECT_EQ(inside(schema, {31, 2, 2}), R"([{"kind":"B"}])");
  EXPECT_EQ(inside(schema, {25, 1, 1}), "p");
  EXPECT_EQ(inside(schema, {25, 1, 2, 23, 1, 22, 1}), "string");
}

TEST(OpenApiV2Writer, WhenAM136WrittenAsJson_IsOneObject) {
  const auto v3 = Json::parse(R"({"paths":{"/a/":{},"/b/":{}},
                                  "components":{"schemas":{"x":{"type":"object"}}}})");
  const auto other = Json::parse(R"({"paths":{"/c/":{}}})");
  ASSERT_TRUE(v3 && other);
  const OpenApiV2Part parts[] = {openapi_v2_part(*v3, true, false), OpenApiV2Part(),
                                 openapi_v2_part(*other, true, false)};
  OpenApiV2Writer writer(false);
  for (const OpenApiV2Part& part : parts) {
    writer.add(part);
  }
  const auto document = Json::parse(writer.take("T", "v1"));
  ASSERT_TRUE(document);
  EXPECT_EQ(document->dump(), R"({"definitions":{"x":{"type":"object"}},)"
                              R"("info":{"title":"T","version":"v1"},)"
                              R"("paths":{"/a/":{},"/b/":{},"/c/":{}},"swagger":"2.0"})");
}

}  // namespace
}  // namespace kintsugi::apiserver::internal
