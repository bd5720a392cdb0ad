#include "krm/protobuf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "krm/protobuf_wire.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

std::string read_fixture(const std::string& name) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "testdata" / name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Json fixture_json(const std::string& name) {
  auto json = Json::parse(read_fixture(name + ".json"));
  EXPECT_TRUE(json.has_value());
  return json ? *json : Json();
}

/// Bytes and JSON that Kubernetes' own encoder made of the same object.
class ProtobufFixture : public testing::TestWithParam<const char*> {};

TEST_P(ProtobufFixture, AM082_WhenDecoded_IsTheSameAsTheJson) {
  const auto object = decode_protobuf(read_fixture(std::string(GetParam()) + ".pb"));
  ASSERT_TRUE(object.has_value()) << object.error().message();
  EXPECT_EQ(object->dump(), fixture_json(GetParam()).dump());
}

TEST_P(ProtobufFixture, WhenEncoded_DecodesToTheSame) {
  const Json object = fixture_json(GetParam());
  const auto bytes = encode_protobuf(object);
  ASSERT_TRUE(bytes.has_value());
  const auto again = decode_protobuf(*bytes);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->dump(), object.dump());
}

TEST_P(ProtobufFixture, WhenBytesAreCut_NeverCrashes) {
  const std::string bytes = read_fixture(std::string(GetParam()) + ".pb");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    static_cast<void>(decode_protobuf(bytes.substr(0, size)).has_value());
  }
  for (std::size_t i = 4; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      static_cast<void>(decode_protobuf(damaged).has_value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProtobufFixture,
                         testing::Values("configmap", "minimal", "secret", "namespace", "event",
                                         "lease", "role", "binding", "review", "token", "options",
                                         "status", "list", "crd"));

TEST(Protobuf, WhenEnvelopeNamesNoKind_TakesTheExpectedOne) {
  std::string bytes("k8s\0", 4);
  std::string raw;
  put_bytes(raw, 1, std::string("\x0a\x01", 2) + "a");
  put_bytes(bytes, 2, raw);
  const auto object = decode_protobuf(bytes, "v1", "ConfigMap");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->dump(), R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}})");
  EXPECT_FALSE(decode_protobuf(bytes).has_value());
}

TEST(Protobuf, WhenFieldsAreUnknown_SkipsThem) {
  const Schema& schema = *builtin_schema("v1", "ConfigMap");
  std::string raw;
  put_number(raw, 99, 7);
  put_bytes(raw, 98, "x");
  put_double(raw, 97, 1.5);
  raw += std::string("\x85\x06\x01\x02\x03\x04", 6);  // field 96, 32 bits
  const auto object = decode_protobuf_message(schema, raw);
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->dump(), R"({"metadata":{}})");
}

TEST(Protobuf, WhenMessageIsSentInPieces_MergesThem) {
  const Schema& schema = *builtin_schema("v1", "ConfigMap");
  std::string raw;
  put_bytes(raw, 1, std::string("\x0a\x01", 2) + "a");
  put_bytes(raw, 1, std::string("\x1a\x01", 2) + "n");
  const auto object = decode_protobuf_message(schema, raw);
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->dump(), R"({"metadata":{"name":"a","namespace":"n"}})");
}

TEST(Protobuf, WhenTextIsNotUtf8OrTypesDiffer_Fails) {
  const Schema& schema = *builtin_schema("v1", "Secret");
  std::string bad_text;
  put_bytes(bad_text, 3, "\xff");
  EXPECT_FALSE(decode_protobuf_message(schema, bad_text).has_value());
  std::string bad_type;
  put_number(bad_type, 3, 5);
  EXPECT_FALSE(decode_protobuf_message(schema, bad_type).has_value());
}

TEST(Protobuf, WhenAMessageComesInPieces_TheyAreMerged) {
  const Schema& schema = *builtin_schema("v1", "ConfigMap");
  const auto meta = [](std::string_view text) {
    return encode_protobuf_message(*builtin_schema("v1", "ConfigMap"), *Json::parse(text));
  };
  const auto object = decode_protobuf_message(
      schema,
      meta(R"({"metadata":{"name":"a","annotations":{"k":"1","x":"y"},"finalizers":["f"]}})") +
          meta(R"({"metadata":{"annotations":{"k":"2"},"finalizers":["g"]}})"));
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->text({"metadata", "name"}), "a");
  EXPECT_EQ(object->at({"metadata", "annotations"})->dump(), R"({"k":"2","x":"y"})");
  EXPECT_EQ(object->at({"metadata", "finalizers"})->dump(), R"(["f","g"])");
}

TEST(Protobuf, WhenASchemaStandsForAList_OnlyASchemaOrAListIsRead) {
  const Schema& schema = *builtin_type("JSONSchemaProps");
  constexpr std::uint32_t kItems = 24, kAdditional = 30;
  std::string number, text;
  put_number(number, 1, 42);  // what "or bool" has
  put_bytes(text, 2, encode_protobuf_message(schema, *Json::parse(R"({"type":"string"})")));
  const auto read = [&](std::uint32_t field, const std::string& message) {
    std::string raw;
    put_bytes(raw, field, message);
    const auto object = decode_protobuf_message(schema, raw);
    return object ? object->dump() : std::string("none");
  };
  EXPECT_EQ(read(kItems, number), R"({"items":[]})");
  EXPECT_EQ(read(kItems, text), R"({"items":[{"type":"string"}]})");
  EXPECT_EQ(read(kAdditional, number), R"({"additionalProperties":true})");
  EXPECT_EQ(read(kAdditional, text), R"({"additionalProperties":{"type":"string"}})");
}

TEST(Protobuf, WhenANumberIsNoneOfJson_Fails) {
  const Schema& schema = *builtin_type("JSONSchemaProps");
  constexpr std::uint32_t kMaximum = 9;
  for (const double value : {1.5, -0.0, 1e308, std::numeric_limits<double>::quiet_NaN(),
                             -std::numeric_limits<double>::infinity()}) {
    std::string raw;
    put_double(raw, kMaximum, value);
    EXPECT_EQ(decode_protobuf_message(schema, raw).has_value(), std::isfinite(value)) << value;
  }
}

TEST(Protobuf, WhenNestedTooDeeply_Fails) {
  std::string raw;
  for (int i = 0; i < 1000; ++i) {
    std::string outer;
    put_bytes(outer, 28, raw);  // JSONSchemaProps.not
    raw = std::move(outer);
  }
  EXPECT_FALSE(decode_protobuf_message(*builtin_type("JSONSchemaProps"), raw).has_value());
}

TEST(Protobuf, AM083_WhenKindHasNoTable_IsNotEncoded) {
  EXPECT_FALSE(
      encode_protobuf(Json::object({{"apiVersion", Json("ex.io/v1")}, {"kind", Json("Widget")}}))
          .has_value());
}

TEST(Protobuf, AM101_WhenFramed_HasLengthTypeAndObject) {
  const std::string frame = protobuf_watch_frame("ADDED", "xyz");
  EXPECT_EQ(frame, std::string("\0\0\0\x0e\x0a\x05"
                               "ADDED\x12\x05\x0a\x03xyz",
                               18));
}

TEST(Protobuf, AM083_WhenJsonShowsMessagesInline_AreNestedOnTheWire) {
  const Schema& rule = *builtin_type("NamedRuleWithOperations");
  const Json json = *Json::parse(
      R"({"apiGroups":[""],"operations":["CREATE"],"resourceNames":["n"],"scope":"*"})");
  const std::string wire(
      "\x0a\x01n\x12\x0f\x0a\x06"
      "CREATE\x12\x05\x0a\x00\x22\x01*",
      20);
  EXPECT_EQ(encode_protobuf_message(rule, json), wire);
  const Expected<Json> decoded = decode_protobuf_message(rule, wire);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, json);
  EXPECT_FALSE(decode_protobuf_message(rule, std::string_view(wire).substr(0, 12)));
}

TEST(ProtobufWire, WhenVarintIsTooLong_IsMalformed) {
  WireReader reader(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
  std::uint64_t value = 0;
  EXPECT_FALSE(reader.next_varint(value));
  EXPECT_TRUE(reader.malformed());
}

}  // namespace
}  // namespace kintsugi::krm
