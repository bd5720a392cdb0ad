#include "krm/structural.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kintsugi::krm {
namespace {

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

constexpr std::string_view kWidget = R"({"type":"object","required":["spec"],"properties":{
  "spec":{"type":"object","required":["size"],"properties":{
    "size":{"type":"integer","minimum":1,"maximum":10,"default":3},
    "color":{"type":"string","enum":["red","green"],"default":"red"},
    "name":{"type":"string","maxLength":5,"pattern":"^[a-z]+$","nullable":true},
    "port":{"x-kubernetes-int-or-string":true},
    "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
    "tmpl":{"type":"object","x-kubernetes-embedded-resource":true,
            "x-kubernetes-preserve-unknown-fields":true},
    "items":{"type":"array","maxItems":3,"x-kubernetes-list-type":"map",
      "x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{
        "k":{"type":"string"},"d":{"type":"string","default":"dd"},"v":{"type":"string"}}}},
    "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
    "m":{"type":"object","additionalProperties":{"type":"string"}},
    "i32":{"type":"integer","format":"int32"},
    "ex":{"type":"integer","minimum":2,"exclusiveMinimum":true,"multipleOf":2},
    "any":{"type":"integer","anyOf":[{"minimum":10},{"maximum":2}]},
    "one":{"type":"integer","oneOf":[{"minimum":5},{"minimum":6}]},
    "all":{"type":"integer","allOf":[{"minimum":5},{"maximum":7}]},
    "not":{"type":"integer","not":{"enum":[5]}},
    "when":{"type":"string","format":"date-time"},
    "odd":{"type":"integer","format":"int32","minimum":1.5,"maximum":3000000000},
    "n":{"type":"number"}}},
  "status":{"type":"object","properties":{"phase":{"type":"string"}}}}})";

const Schema& widget() {
  static const SchemaPtr schema = structural_schema(parse(kWidget), true);
  return *schema;
}

std::vector<std::string> faults(std::string_view object, std::string_view old = {}) {
  std::vector<Cause> causes;
  const Json before = old.empty() ? Json() : parse(old);
  validate_object(widget(), parse(object), causes, old.empty() ? nullptr : &before);
  std::vector<std::string> out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

std::vector<std::string> spec_faults(std::string_view members) {
  return faults(R"({"spec":{"size":3,)" + std::string(members) + "}}");
}

using Texts = std::vector<std::string>;

TEST(Structural, AM390_WhenObjectIsCreated_PrunesCoercesAndDefaults) {
  Json object = parse(R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"a","foo":1},
    "spec":{"size":4,"x":1,"name":null,"color":null,"free":{"a":{"b":1}},
    "tmpl":{"apiVersion":"v1","kind":"T","metadata":{"name":"t","foo":1},"z":1},
    "items":[{"k":"a","y":1}],"port":"x","n":null},"other":1})");
  EXPECT_EQ(prune(widget(), object), (Texts{"other", "spec.items[0].y", "spec.x"}));
  std::vector<std::string> unknown;
  ASSERT_TRUE(coerce_metadata(widget(), object, &unknown));
  EXPECT_EQ(unknown, (Texts{"metadata.foo", "spec.tmpl.metadata.foo"}));
  apply_defaults(widget(), object);
  EXPECT_EQ(object.dump(),
            R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"a"},)"
            R"("spec":{"color":"red","free":{"a":{"b":1}},"items":[{"d":"dd","k":"a"}],)"
            R"("name":null,"port":"x","size":4,)"
            R"("tmpl":{"apiVersion":"v1","kind":"T","metadata":{"name":"t"},"z":1}}})");
}

TEST(Structural, AM142_WhenMetadataHasWrongTypes_IsABadRequest) {
  Json object = parse(R"({"metadata":{"labels":{"a":1}}})");
  const auto done = coerce_metadata(widget(), object);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type "
            "string");
}

TEST(Structural, AM391_WhenManyThingsAreWrong_FindsThemAll) {
  Texts found = faults(R"({"spec":{"size":40,"color":"blue","items":[{"k":"a"},{"k":"a"},{},
    {"k":"b"}],"tags":["a","a"],"port":1.5,"m":{"a":1},"name":"ABCDEFG"}})");
  std::sort(found.begin(), found.end());
  EXPECT_EQ(
      found,
      (Texts{"spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
             "spec.items: Too many: 4: must have at most 3 items",
             "spec.items[1]: Duplicate value: {\"k\":\"a\"}", "spec.items[2].k: Required value",
             "spec.m.a: Invalid value: \"integer\": spec.m.a in body must be of type string: "
             "\"integer\"",
             "spec.name: Too long: may not be more than 5 bytes",
             "spec.port: Invalid value: \"number\": spec.port in body must be of type "
             "integer,string: \"number\"",
             "spec.size: Invalid value: 40: spec.size in body should be less than or equal to 10",
             "spec.tags[1]: Duplicate value: \"a\""}));
}

TEST(Structural, AM392_WhenSpecIsMissing_IsRequired) {
  std::vector<Cause> causes;
  validate_object(widget(), parse("{}"), causes);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0], (Cause{"FieldValueRequired", "Required value", "spec"}));
  EXPECT_TRUE(blocks_rules(causes));
  EXPECT_EQ(rules_not_checked().field, "<nil>");
  EXPECT_EQ(rules_not_checked().message,
            "Invalid value: null: some validation rules were not checked because the object was "
            "invalid; correct the existing errors to complete validation");
}

TEST(Structural, AM393_WhenCombinationsFail_SaysWhich) {
  EXPECT_EQ(spec_faults(R"("any":5)"),
            (Texts{"<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema "
                   "(anyOf)",
                   "spec.any: Invalid value: 5: spec.any in body should be greater than or equal "
                   "to 10"}));
  EXPECT_EQ(spec_faults(R"("one":6)"),
            Texts{"<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema "
                  "(oneOf). Found 2 valid alternatives"});
  EXPECT_EQ(spec_faults(R"("all":1)"),
            (Texts{"spec.all: Invalid value: 1: spec.all in body should be greater than or equal "
                   "to 5",
                   "<nil>: Invalid value: \"\": \"spec.all\" must validate all the schemas "
                   "(allOf)"}));
  EXPECT_EQ(spec_faults(R"("not":5)"),
            Texts{"<nil>: Invalid value: \"\": \"spec.not\" must not validate the schema (not)"});
  EXPECT_EQ(spec_faults(R"("any":1,"one":5,"all":6,"not":4)"), Texts{});
}

TEST(Structural, AM393_WhenBoundsAreBroken_SaysWhich) {
  EXPECT_EQ(spec_faults(R"("ex":2)"),
            Texts{"spec.ex: Invalid value: 2: spec.ex in body should be greater than 2"});
  EXPECT_EQ(spec_faults(R"("ex":3)"),
            Texts{"spec.ex: Invalid value: 3: spec.ex in body should be a multiple of 2"});
  EXPECT_EQ(spec_faults(R"("name":"Ab")"),
            Texts{"spec.name: Invalid value: \"Ab\": spec.name in body should match '^[a-z]+$'"});
  EXPECT_EQ(spec_faults(R"("i32":3000000000)"),
            Texts{"<nil>: Invalid value: \"\": Checked value must be of type integer with format "
                  "int32 in spec.i32"});
}

TEST(Structural, AM405_WhenNumbersAreWhole_TheyAreIntegers) {
  EXPECT_EQ(spec_faults(R"("ex":4.0)"), Texts{});
  EXPECT_EQ(spec_faults(R"("i32":2.5)"),
            (Texts{"spec.i32: Invalid value: \"float64\": spec.i32 in body must be of type "
                   "int32: \"float64\"",
                   "<nil>: Invalid value: \"\": Checked value must be of type integer with format "
                   "int32 in spec.i32"}));
  EXPECT_EQ(spec_faults(R"("n":1)"), Texts{});
  EXPECT_EQ(spec_faults(R"("name":null)"), Texts{});
}

TEST(Structural, WhenABoundIsNoIntegerOfTheFormat_EveryValueFails) {
  EXPECT_EQ(
      spec_faults(R"("odd":5)"),
      (Texts{"<nil>: Invalid value: \"\": Maximum boundary value must be of type integer with "
             "format int32 in spec.odd",
             "<nil>: Invalid value: \"\": Minimum boundary value must be of type integer with "
             "format int32 in spec.odd"}));
}

TEST(Structural, WhenTypeIsWrongAndFormatGiven_NamesTheFormat) {
  EXPECT_EQ(spec_faults(R"("i32":true)"),
            Texts{"spec.i32: Invalid value: \"\": spec.i32 in body must be of type int32: \"\""});
  EXPECT_EQ(spec_faults(R"("i32":"x")"),
            Texts{"spec.i32: Invalid value: \"string\": spec.i32 in body must be of type integer: "
                  "\"string\""});
  EXPECT_EQ(spec_faults(R"("when":5)"),
            Texts{"spec.when: Invalid value: \"int64\": spec.when in body must be of type "
                  "date-time: \"int64\""});
}

TEST(Structural, AM404_WhenIntOrString_BothAreFine) {
  EXPECT_EQ(spec_faults(R"("port":8080)"), Texts{});
  EXPECT_EQ(spec_faults(R"("port":"http")"), Texts{});
  EXPECT_EQ(spec_faults(R"("port":true)"),
            Texts{"spec.port: Invalid value: \"boolean\": spec.port in body must be of type "
                  "integer,string: \"boolean\""});
}

TEST(Structural, AM400_WhenResourceIsEmbedded_ItsIdentityIsChecked) {
  EXPECT_EQ(spec_faults(R"("tmpl":{"kind":"T","metadata":{"labels":{"a b":"x"}}})").front(),
            "spec.tmpl.apiVersion: Required value");
  EXPECT_EQ(spec_faults(R"("tmpl":{"kind":"T","metadata":{"labels":{"-":"x"}}})").size(), 2U);
  EXPECT_EQ(spec_faults(R"("tmpl":{"apiVersion":"v1","kind":"T"})"), Texts{});
}

TEST(Structural, AM395_WhenInvalidValueIsUnchanged_IsAccepted) {
  const std::string_view old = R"({"spec":{"size":40,"color":"blue","tags":["a","a"],
                                  "items":[{"k":"a","v":1}]}})";
  EXPECT_EQ(faults(old, old), Texts{});
  EXPECT_EQ(faults(R"({"spec":{"size":41,"color":"blue"}})", old),
            Texts{"spec.size: Invalid value: 41: spec.size in body should be less than or equal to "
                  "10"});
  EXPECT_EQ(faults(R"({"spec":{"size":40,"items":[{"k":"b"},{"k":"a","v":1}]}})", old), Texts{});
}

TEST(Structural, WhenDefinitionRestrictsNames_TheyAreChecked) {
  const SchemaPtr schema = structural_schema(
      parse(R"({"type":"object","properties":{"metadata":{"type":"object","properties":{
        "name":{"type":"string","maxLength":3}}}}})"),
      true);
  std::vector<Cause> causes;
  validate_object(*schema, parse(R"({"metadata":{"name":"abcd"}})"), causes);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].field, "metadata.name");
}

TEST(Structural, WhenRulesStandSomewhere_AreFound) {
  EXPECT_FALSE(has_rules(widget()));
  EXPECT_TRUE(has_rules(*structural_schema(
      parse(R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"object",
        "x-kubernetes-validations":[{"rule":"true"}]}}}})"),
      true)));
}

Texts definition_faults(std::string_view spec_schema) {
  std::vector<Cause> causes;
  validate_structural_schema(parse(spec_schema), "S", causes);
  Texts out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

Texts property_faults(std::string_view schema) {
  return definition_faults(R"({"type":"object","properties":{"a":)" + std::string(schema) + "}}");
}

TEST(StructuralDefinition, WhenSchemaIsFine_SaysNothing) {
  EXPECT_EQ(definition_faults(kWidget), Texts{});
}

TEST(StructuralDefinition, AM359_WhenRootIsNoObject_IsRefused) {
  EXPECT_EQ(definition_faults(R"({"type":"string"})"),
            Texts{"S.type: Invalid value: \"string\": must be object at the root"});
}

TEST(StructuralDefinition, AM360_AM361_WhenTypesAreMissingOrUnknown_IsRefused) {
  EXPECT_EQ(property_faults("{}"),
            Texts{"S.properties[a].type: Required value: must not be empty for specified object "
                  "fields"});
  EXPECT_EQ(property_faults(R"({"type":"foo"})"),
            Texts{"S.properties[a].type: Unsupported value: \"foo\": supported values: \"array\", "
                  "\"boolean\", \"integer\", \"number\", \"object\", \"string\""});
}

TEST(StructuralDefinition, AM362_AM363_WhenShapesContradict_IsRefused) {
  EXPECT_EQ(property_faults(R"({"type":"object","properties":{"b":{"type":"string"}},
              "additionalProperties":{"type":"string"}})"),
            Texts{"S.properties[a].additionalProperties: Forbidden: additionalProperties and "
                  "properties are mutual exclusive"});
  EXPECT_EQ(
      definition_faults(R"({"type":"object","properties":{"metadata":{"type":"object",
              "properties":{"labels":{"type":"object"}}}}})"),
      Texts{"S.properties[metadata]: Forbidden: must not specify anything other than name and "
            "generateName, but metadata is implicitly specified"});
}

TEST(StructuralDefinition, AM364_WhenCombinationsDescribeStructure_IsRefused) {
  EXPECT_EQ(property_faults(R"({"type":"object","properties":{"b":{"type":"string"}},
              "anyOf":[{"properties":{"b":{"type":"string"}}}],"oneOf":[{},{"default":1}]})"),
            (Texts{"S.properties[a].anyOf[0].properties[b].type: Forbidden: must be empty to be "
                   "structural",
                   "S.properties[a].oneOf[1].default: Forbidden: must be undefined to be "
                   "structural"}));
  EXPECT_EQ(property_faults(R"({"x-kubernetes-int-or-string":true,
              "anyOf":[{"type":"integer"},{"type":"string"}]})"),
            Texts{});
  EXPECT_EQ(property_faults(R"({"type":"object","anyOf":[{"properties":{"z":{"minimum":1}}}]})"),
            Texts{"S.properties[a].properties[z]: Required value: because it is defined in "
                  "S.properties[a].anyOf[0].properties[z]"});
}

TEST(StructuralDefinition, AM365_WhenUnsupportedThingsAreUsed_IsRefused) {
  EXPECT_EQ(property_faults(R"({"type":"array"})"),
            Texts{"S.properties[a].items: Required value: must be specified"});
  EXPECT_EQ(property_faults(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})"),
            Texts{"S.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since "
                  "the runtime complexity becomes quadratic"});
  EXPECT_EQ(property_faults(R"({"type":"object","$ref":"#/x"})"),
            Texts{"S.properties[a].$ref: Forbidden: $ref is not supported"});
  EXPECT_EQ(property_faults(R"({"type":"object","x-kubernetes-preserve-unknown-fields":false})"),
            Texts{"S.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: "
                  "must be true or undefined"});
}

TEST(StructuralDefinition, AM366_AM367_AM368_WhenExtensionsAreMisused_IsRefused) {
  EXPECT_EQ(property_faults(R"({"type":"object","x-kubernetes-embedded-resource":true})"),
            Texts{"S.properties[a].properties: Required value: must not be empty if "
                  "x-kubernetes-embedded-resource is true without "
                  "x-kubernetes-preserve-unknown-fields"});
  EXPECT_EQ(property_faults(R"({"type":"array","x-kubernetes-list-type":"map",
              "x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{
              "k":{"type":"string"}}}})"),
            Texts{"S.properties[a].items.properties[k].default: Required value: this property is "
                  "in x-kubernetes-list-map-keys, so it must have a default or be a required "
                  "property"});
  EXPECT_EQ(
      property_faults(R"({"type":"array","x-kubernetes-list-type":"set",
              "items":{"type":"object","properties":{"k":{"type":"string"}}}})"),
      Texts{"S.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic "
            "as item of a list with x-kubernetes-list-type=set"});
  EXPECT_EQ(property_faults(R"({"type":"object","x-kubernetes-map-type":"loose"})"),
            Texts{"S.properties[a].x-kubernetes-map-type: Unsupported value: \"loose\": supported "
                  "values: \"atomic\", \"granular\""});
  EXPECT_EQ(property_faults(R"({"type":"object","x-kubernetes-list-type":"set"})"),
            Texts{"S.properties[a].type: Invalid value: \"object\": must be array if "
                  "x-kubernetes-list-type is specified"});
}

TEST(StructuralDefinition, AM369_WhenDefaultsDoNotFit_IsRefused) {
  EXPECT_EQ(property_faults(R"({"type":"integer","default":"x"})"),
            Texts{"S.properties[a].default: Invalid value: \"string\":  in body must be of type "
                  "integer: \"string\""});
  EXPECT_EQ(
      property_faults(R"({"type":"integer","maximum":3,"default":5})"),
      Texts{"S.properties[a].default: Invalid value: 5:  in body should be less than or equal "
            "to 3"});
  EXPECT_EQ(property_faults(R"({"type":"object","properties":{"b":{"type":"string"}},
              "default":{"c":1}})"),
            Texts{"S.properties[a].default: Invalid value: {\"c\":1}: must not have unknown "
                  "fields"});
  EXPECT_EQ(definition_faults(R"({"type":"object","properties":{"metadata":{"type":"object",
              "properties":{"name":{"type":"string","default":"x"}}}}})"),
            Texts{"S.properties[metadata].properties[name].default: Forbidden: must not be set in "
                  "top-level metadata"});
}

TEST(StructuralDefinition, AM369_WhenDefaultsOfResourcesAreNone_IsRefused) {
  const std::string resource = R"("type":"object","x-kubernetes-embedded-resource":true,
      "x-kubernetes-preserve-unknown-fields":true)";
  EXPECT_EQ(property_faults("{" + resource + R"(,"default":{"kind":"Pod","x":1}})"),
            Texts{"S.properties[a].default.apiVersion: Required value"});
  EXPECT_EQ(property_faults("{" + resource + R"(,"default":{"kind":"Pod","apiVersion":5}})"),
            Texts{"S.properties[a].default.apiVersion: Invalid value: 5: must be a string"});
  EXPECT_EQ(property_faults("{" + resource + R"(,"properties":{"kind":
                {"type":"string","default":"A B"},"metadata":{"type":"object","properties":{
                "name":{"type":"string","default":"x"},
                "labels":{"type":"object","additionalProperties":{"type":"string"},
                          "default":{"a":"b"}}}}}})"),
            Texts{"S.properties[a].properties[kind].default: Invalid value: \"A B\": must result "
                  "in valid metadata: kind: Invalid value: \"A B\": may have mixed case, but "
                  "should otherwise match: a DNS-1035 label must consist of lower case "
                  "alphanumeric characters or '-', start with an alphabetic character, and end "
                  "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
                  "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"});
}

TEST(StructuralDefinition, WhenMetadataOfAResourceIsDescribed_DefaultsOfMapsAreRefused) {
  EXPECT_EQ(property_faults(R"({"type":"object","x-kubernetes-embedded-resource":true,
                "properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object",
                "additionalProperties":{"type":"string","default":"x"}},
                "a":{"type":"object","x-kubernetes-embedded-resource":true,
                     "x-kubernetes-preserve-unknown-fields":true}}}}})"),
            (Texts{"S.properties[a].properties[metadata].properties[a]."
                   "x-kubernetes-embedded-resource: Forbidden: must not be used inside of "
                   "resource meta",
                   "S.properties[a].properties[metadata].properties[labels].additionalProperties."
                   "default: Forbidden: must not be set inside additionalProperties applying to "
                   "object metadata"}));
}

TEST(StructuralDefinition, AM369_WhenADefaultAndOneInsideAreWrong_BothAreNamed) {
  EXPECT_EQ(property_faults(R"({"type":"object","default":{"b":7,"c":1},"properties":{
                "b":{"type":"string","default":1}}})"),
            (Texts{"S.properties[a].default: Invalid value: {\"b\":7,\"c\":1}: must not have "
                   "unknown fields",
                   "S.properties[a].default.b: Invalid value: \"integer\": b in body must be of "
                   "type string: \"integer\"",
                   "S.properties[a].properties[b].default: Invalid value: \"integer\":  in body "
                   "must be of type string: \"integer\""}));
}

TEST(StructuralDefinition, AM370_WhenPatternIsMalformed_IsRefused) {
  const Texts found = property_faults(R"({"type":"string","pattern":"("})");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].starts_with("S.properties[a].pattern: Invalid value: \"(\": must be a valid "
                           "regular expression, but isn't: "));
}

}  // namespace
}  // namespace kintsugi::krm
