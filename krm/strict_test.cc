#include "krm/strict.h"

#include <gtest/gtest.h>

#include "krm/strict_time.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

std::string decoded(std::string_view api_version, std::string_view kind, std::string_view text,
                    std::vector<std::string>* unknown = nullptr) {
  Json value = parse(text);
  auto done = decode_typed(*builtin_schema(api_version, kind), value, unknown);
  return done ? value.dump() : "error: " + std::string(done.error().message());
}

TEST(BuiltinTypes, WhenAskedForKinds_KnowsThem) {
  for (std::string_view kind : {"ConfigMap", "Secret", "Namespace", "ServiceAccount", "Event"}) {
    EXPECT_NE(builtin_schema("v1", kind), nullptr) << kind;
  }
  EXPECT_NE(builtin_schema("events.k8s.io/v1", "Event"), nullptr);
  EXPECT_NE(builtin_schema("apps/v7", "DeleteOptions"), nullptr);
  EXPECT_EQ(builtin_schema("v1", "Pod"), nullptr);
  EXPECT_EQ(builtin_schema("v2", "ConfigMap"), nullptr);
  const SchemaPtr meta = builtin_type("ObjectMeta");
  EXPECT_EQ(meta->property("finalizers")->schema->list_type, ListType::kSet);
  EXPECT_TRUE(meta->property("finalizers")->schema->patch_merge_primitive);
  EXPECT_EQ(meta->property("ownerReferences")->schema->list_map_keys,
            std::vector<std::string>{"uid"});
  EXPECT_EQ(meta->property("ownerReferences")->schema->patch_merge_key, "uid");
}

TEST(BuiltinTypes, WhenTypesAreRecursive_SharesOneSchema) {
  const SchemaPtr props = builtin_type("JSONSchemaProps");
  EXPECT_EQ(props->property("properties")->schema->additional.get(), props.get());
  EXPECT_EQ(props->property("not")->schema.get(), props.get());
}

TEST(Strict, AM146_WhenMembersAreUnknown_DropsAndReportsThem) {
  std::vector<std::string> unknown;
  EXPECT_EQ(
      decoded("v1", "ConfigMap",
              R"({"bogus":1,"Data":{"k":"1"},"metadata":{"name":"a","nope":true}})", &unknown),
      R"({"metadata":{"name":"a"}})");
  EXPECT_EQ(unknown, (std::vector<std::string>{"Data", "bogus", "metadata.nope"}));
}

TEST(Strict, WhenSchemasHoldOtherThings_TheyAreNone) {
  std::vector<std::string> unknown;
  const auto definition = [&](std::string_view schema) {
    return decoded(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition",
        R"({"spec":{"versions":[{"schema":{"openAPIV3Schema":)" + std::string(schema) + "}}]}}",
        &unknown);
  };
  EXPECT_NE(definition(R"({"items":true,"type":"array"})").find(R"({"items":null,"type":"array"})"),
            std::string::npos);
  EXPECT_NE(definition(R"({"items":{"type":"string","odd":1}})").find(R"({"type":"string"})"),
            std::string::npos);
  EXPECT_EQ(unknown, std::vector<std::string>{});
  EXPECT_EQ(definition(R"({"additionalProperties":"x"})"),
            "error: boolean or JSON schema expected");
}

TEST(Strict, AM148_WhenReported_WordsAreKubernetes) {
  EXPECT_EQ(strict_error_text({"metadata.name", "data.x"}, {"bogus"}),
            "strict decoding error: duplicate field \"metadata.name\", duplicate field "
            "\"data.x\", unknown field \"bogus\"");
  EXPECT_EQ(strict_error_text({}, {}), "");
  EXPECT_EQ(strict_warnings({}, {"a.b"}), std::vector<std::string>{"unknown field \"a.b\""});
}

TEST(Strict, AM142_WhenTypesAreWrong_SaysSo) {
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"data":{"x":5}})"),
            "error: json: cannot unmarshal number into Go struct field ConfigMap.data of type "
            "string");
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"data":[]})"),
            "error: json: cannot unmarshal array into Go struct field ConfigMap.data of type "
            "map[string]string");
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"metadata":{"labels":{"a":1}}})"),
            "error: json: cannot unmarshal number into Go struct field "
            "ObjectMeta.metadata.labels of type string");
  EXPECT_TRUE(decoded("coordination.k8s.io/v1", "Lease", R"({"spec":{"leaseDurationSeconds":1.5}})")
                  .starts_with("error: json: cannot unmarshal number"));
  EXPECT_TRUE(
      decoded("coordination.k8s.io/v1", "Lease", R"({"spec":{"leaseDurationSeconds":3000000000}})")
          .starts_with("error: "));
  EXPECT_EQ(decoded("v1", "Secret", R"({"data":{"k":"not base64!"}})"),
            "error: illegal base64 data at input byte 3");
  EXPECT_TRUE(decoded("v1", "ConfigMap", "[]").starts_with("error: "));
}

TEST(Strict, WhenValuesAreEmpty_LooksAsGoWouldWriteIt) {
  EXPECT_EQ(decoded("v1", "ConfigMap",
                    R"({"data":{},"immutable":false,"metadata":{"labels":{},"name":"",
                       "creationTimestamp":null,"finalizers":[]}})"),
            R"({"immutable":false,"metadata":{}})");
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"data":{"k":null},"binaryData":{"e":""}})"),
            R"({"binaryData":{"e":""},"data":{"k":""},"metadata":{}})");
  EXPECT_EQ(decoded("rbac.authorization.k8s.io/v1", "Role", R"({"rules":[]})"),
            R"({"metadata":{},"rules":null})");
  EXPECT_EQ(decoded("v1", "Namespace", "{}"), R"({"metadata":{},"spec":{},"status":{}})");
  EXPECT_EQ(decoded("v1", "Event", R"({"source":{}})"),
            R"({"eventTime":null,"firstTimestamp":null,"involvedObject":{},"lastTimestamp":null,)"
            R"("metadata":{},"reportingComponent":"","reportingInstance":"","source":{}})");
  EXPECT_EQ(decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition",
                    R"({"spec":{"versions":[{"name":"v1","subresources":{"status":{}}}]}})"),
            R"({"metadata":{},"spec":{"group":"","names":{"kind":"","plural":""},"scope":"",)"
            R"("versions":[{"name":"v1","served":false,"storage":false,)"
            R"("subresources":{"status":{}}}]},"status":{"acceptedNames":{"kind":"","plural":""},)"
            R"("conditions":null,"storedVersions":null}})");
}

TEST(Strict, AM245_WhenManagedFieldsAreEmptied_TheListStaysForTheReset) {
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"metadata":{"managedFields":[]}})"),
            R"({"metadata":{"managedFields":[]}})");
  EXPECT_EQ(decoded("v1", "ConfigMap", R"({"metadata":{"managedFields":null}})"),
            R"({"metadata":{}})");
}

TEST(Strict, WhenDecodedTwice_StaysTheSame) {
  Json value =
      parse(R"({"rules":null,"metadata":{"creationTimestamp":"2001-02-03T04:05:06+01:00"}})");
  const Schema& schema = *builtin_schema("rbac.authorization.k8s.io/v1", "Role");
  ASSERT_TRUE(decode_typed(schema, value));
  const std::string once = value.dump();
  ASSERT_TRUE(decode_typed(schema, value));
  EXPECT_EQ(value.dump(), once);
}

TEST(Strict, WhenSchemasStandInDefinitions_AlternativesAreAccepted) {
  const std::string head = R"({"spec":{"versions":[{"name":"v","schema":{"openAPIV3Schema":)";
  const auto check = [&](const std::string& schema, std::vector<std::string>* unknown = nullptr) {
    return decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition", head + schema + "}}]}}",
                   unknown);
  };
  EXPECT_NE(check(R"({"additionalProperties":true,"default":{"a":[null]}})")
                .find(R"("openAPIV3Schema":{"additionalProperties":true,"default":{"a":[null]}})"),
            std::string::npos);
  std::vector<std::string> unknown;
  EXPECT_NE(check(R"({"items":{"type":"string","bad":1}})", &unknown)
                .find(R"({"items":{"type":"string"}})"),
            std::string::npos);
  EXPECT_EQ(unknown, std::vector<std::string>{});  // nobody hears of it
  EXPECT_EQ(check(R"({"additionalProperties":"x"})"), "error: boolean or JSON schema expected");
}

TEST(Strict, WhenNestedVeryDeeply_FailsInsteadOfCrashing) {
  std::string schema = "{}";
  for (int i = 0; i < 3000; ++i) {
    schema = R"({"not":)" + schema + "}";
  }
  Json value = parse(schema);
  EXPECT_FALSE(decode_typed(*builtin_type("JSONSchemaProps"), value));
}

TEST(StrictTime, AM322_WhenMicroTimeLacksDigits_IsRefused) {
  EXPECT_TRUE(
      decoded("coordination.k8s.io/v1", "Lease", R"({"spec":{"renewTime":"2001-02-03T04:05:06Z"}})")
          .starts_with("error: parsing time"));
  EXPECT_EQ(decoded("coordination.k8s.io/v1", "Lease",
                    R"({"spec":{"renewTime":"2001-02-03T04:05:07.000001+01:00"}})"),
            R"({"metadata":{},"spec":{"renewTime":"2001-02-03T03:05:07.000001Z"}})");
}

TEST(StrictTime, WhenParsed_RoundTrips) {
  for (std::string_view text :
       {"1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2000-02-29T12:00:00Z",
        "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"}) {
    const auto instant = parse_rfc3339(text);
    ASSERT_TRUE(instant.has_value()) << text;
    EXPECT_EQ(format_time(*instant), text);
  }
  EXPECT_EQ(parse_rfc3339("0001-01-01T00:00:00Z")->seconds, kGoZeroSeconds);
  EXPECT_EQ(parse_rfc3339("1970-01-01T01:00:00.5+01:00")->nanos, 500'000'000);
  for (std::string_view text :
       {"", "yesterday", "2001-02-30T00:00:00Z", "2001-02-03T04:05:06", "2001-02-03 04:05:06Z",
        "2001-02-03T24:05:06Z", "2001-02-03T04:05:06.Z"}) {
    EXPECT_FALSE(parse_rfc3339(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace kintsugi::krm
