#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinds/common.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
using Texts = std::vector<std::string>;

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

/// A definition without faults, of one version.
Json definition() {
  return parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"cogs.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced",
    "names":{"plural":"cogs","singular":"cog","kind":"Cog","listKind":"CogList"},
    "conversion":{"strategy":"None"},"versions":[{"name":"v1","served":true,"storage":true,
      "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
        "properties":{"a":{"type":"string"},"l":{"type":"array","items":{"type":"string"}}}}}}}}]},
    "status":{"storedVersions":["v1"],"acceptedNames":{"plural":"cogs","kind":"Cog"},
      "conditions":[{"type":"Established","status":"True"}]}})");
}

Json& first_version(Json& crd) { return crd.at({"spec", "versions"})->edit_items()[0]; }

Texts faults(const Json& crd, const Json* old = nullptr) {
  std::vector<Cause> causes;
  validate_definition(crd, old, causes);
  Texts out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

TEST(ValidateDefinition, WhenAllIsWell_FindsNothing) { EXPECT_EQ(faults(definition()), Texts{}); }

TEST(ValidateDefinition, AM357_WhenAVersionHasNoSchema_Requires) {
  Json crd = definition();
  first_version(crd).erase("schema");
  EXPECT_EQ(faults(crd), Texts{"spec.versions[0].schema.openAPIV3Schema: Required value"});
}

TEST(ValidateDefinition, AM358_WhenUnknownFieldsAreToStay_Refuses) {
  Json crd = definition();
  crd.make({"spec", "preserveUnknownFields"}) = true;
  EXPECT_EQ(faults(crd), Texts{"spec.preserveUnknownFields: Invalid value: true: cannot set to "
                               "true, set x-kubernetes-preserve-unknown-fields to true in "
                               "spec.versions[*].schema instead"});
}

TEST(ValidateDefinition, AM371_WhenColumnsAreWrong_SaysWhich) {
  Json crd = definition();
  first_version(crd)["additionalPrinterColumns"] =
      parse(R"([{"name":"A","type":"foo","jsonPath":".spec.a"},
                {"name":"","type":"string","jsonPath":"spec.a"},{"name":"C","type":"string"}])");
  const std::string path = "spec.additionalPrinterColumns";
  EXPECT_EQ(faults(crd),
            (Texts{path + "[0].type: Invalid value: \"foo\": must be one of "
                          "boolean,date,integer,number,string",
                   path + "[1].name: Required value",
                   path + "[1].JSONPath: Invalid value: \"spec.a\": must be a simple json path "
                          "starting with .",
                   path + "[2].JSONPath: Required value"}));
}

TEST(ValidateDefinition, AM372_WhenSelectableFieldsAreWrong_SaysWhy) {
  Json crd = definition();
  first_version(crd)["selectableFields"] =
      parse(R"([{"jsonPath":".spec.x"},{"jsonPath":".spec.l"},{"jsonPath":".spec.a"},
                {"jsonPath":".spec.a"},{"jsonPath":""}])");
  const std::string path = "spec.selectableFields";
  const Texts found = faults(crd);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], path +
                          "[0].jsonPath: Invalid value: \".spec.x\": is an invalid path: does "
                          "not refer to a valid field");
  EXPECT_EQ(found[1], path +
                          "[1].jsonPath: Invalid value: \".spec.l\": must point to a field of "
                          "type string, boolean or integer. Enum string fields and strings with "
                          "formats are allowed.");
  EXPECT_EQ(found[2], path + "[3].jsonPath: Duplicate value: \".spec.a\"");
  EXPECT_EQ(found[3], path + "[4].jsonPath: Required value");
  Json& properties =
      *first_version(crd).at({"schema", "openAPIV3Schema", "properties", "spec", "properties"});
  Json& fields = first_version(crd)["selectableFields"] = Json::array();
  for (char name = 'a'; name < 'j'; ++name) {
    properties[std::string(1, name)] = parse(R"({"type":"string"})");
    fields.push_back(Json::object({{"jsonPath", ".spec." + std::string(1, name)}}));
  }
  EXPECT_EQ(faults(crd), Texts{path + ": Too many: 9: must have at most 8 items"});
}

TEST(ValidateDefinition, AM372_WhenSelectablePathsAreOdd_SaysWhatWasExpected) {
  Json crd = definition();
  first_version(crd)
      .at({"schema", "openAPIV3Schema", "properties", "spec", "properties"})
      ->make({"m"}) = parse(R"({"type":"object","additionalProperties":{"type":"string"}})");
  first_version(crd)["selectableFields"] =
      parse(R"([{"jsonPath":"spec.a"},{"jsonPath":".spec['a']"},{"jsonPath":".spec."},
                {"jsonPath":".spec.m.k"}])");
  const std::string path = "spec.selectableFields";
  EXPECT_EQ(faults(crd),
            (Texts{path + "[0].jsonPath: Invalid value: \"spec.a\": is an invalid path: expected [ "
                          "or . but got: spec",
                   path + "[1].jsonPath: Invalid value: \".spec['a']\": is an invalid path: array "
                          "notation is not allowed",
                   path + "[2].jsonPath: Invalid value: \".spec.\": is an invalid path: unexpected "
                          "end of JSON path"}));
}

TEST(ValidateDefinition, AM372_WhenThereIsNoSchema_NothingIsSelectable) {
  Json crd = definition();
  first_version(crd)["selectableFields"] = parse(R"([{"jsonPath":".spec.a"}])");
  first_version(crd).erase("schema");
  EXPECT_EQ(faults(crd), (Texts{"spec.versions[0].schema.openAPIV3Schema: Required value",
                                "spec.selectableFields: Invalid value: \"\": may only be set when "
                                "validations.schema is included"}));
}

TEST(ValidateDefinition, WhenOtherPartsAreFaulty_RulesAreStillCompiled) {
  Json crd = definition();
  Json& parts =
      *first_version(crd).at({"schema", "openAPIV3Schema", "properties", "spec", "properties"});
  parts["m"] = parse(R"({"type":"array","items":{"type":"object","properties":{"k":{"type":)"
                     R"("string"}}},"x-kubernetes-list-type":"map",)"
                     R"("x-kubernetes-list-map-keys":["k"]})");
  parts["a"]["x-kubernetes-validations"] = parse(R"([{"rule":"1"}])");
  Texts found = faults(crd);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[1].ends_with("must evaluate to a bool")) << found[1];
  parts["a"]["x-kubernetes-validations"] = parse(R"([{"rule":"true","reason":""}])");
  found = faults(crd);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[1].find(".reason: Unsupported value"), std::string::npos) << found[1];
}

TEST(ValidateDefinition, WhenStatusIsOn_TheRootIsAFrame) {
  Json crd = definition();
  first_version(crd).make({"subresources", "status"}) = Json::object();
  EXPECT_EQ(faults(crd), Texts{});
  Json& schema = *first_version(crd).at({"schema", "openAPIV3Schema"});
  schema["maxProperties"] = 5;
  const Texts found = faults(crd);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].ends_with("XValidations] fields are allowed at the root of the schema if "
                         "the status subresource is enabled"))
      << found[0];
  schema["type"] = "string";
  EXPECT_EQ(faults(crd)[0],
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": only \"object\" is "
            "allowed as the type at the root of the schema if the status subresource is enabled");
}

TEST(ValidateDefinition, WhenGroupAndVersionsAreMissing_OnlyVersionsAreRequired) {
  Json crd = definition();
  crd["metadata"].erase("name");
  crd["spec"].erase("group");
  crd["spec"]["versions"] = Json();
  const Texts found = faults(crd);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0],
            "spec.versions: Invalid value: null: must have exactly one version marked as storage "
            "version");
}

TEST(ValidateDefinition, WhenNamesAndSharedSchemaAreWrong_NamesComeFirst) {
  Json crd = definition();
  crd["spec"]["names"]["categories"] = parse(R"(["a b"])");
  first_version(crd).at({"schema", "openAPIV3Schema"})->make({"properties", "x"}) = Json::object();
  const Texts found = faults(crd);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].starts_with("spec.names.categories[0]: ")) << found[0];
  EXPECT_TRUE(found[1].starts_with("spec.validation.openAPIV3Schema.properties[x].type: "));
}

TEST(ValidateDefinition, AM373_WhenScalePathsLeadElsewhere_Refuses) {
  Json crd = definition();
  first_version(crd).make({"subresources", "scale"}) =
      parse(R"({"specReplicasPath":".status.n","statusReplicasPath":".spec.n",
                "labelSelectorPath":".metadata.x"})");
  const std::string path = "spec.subresources.scale.";
  EXPECT_EQ(faults(crd),
            (Texts{path + "specReplicasPath: Invalid value: \".status.n\": should be a json path "
                          "under .spec",
                   path + "statusReplicasPath: Invalid value: \".spec.n\": should be a json path "
                          "under .status",
                   path + "labelSelectorPath: Invalid value: \".metadata.x\": should be a json "
                          "path under either .spec or .status"}));
}

TEST(ValidateDefinition, AM374_WhenConversionIsWrong_SaysWhy) {
  const auto with = [](std::string_view conversion) {
    Json crd = definition();
    crd.make({"spec", "conversion"}) = parse(conversion);
    return faults(crd);
  };
  EXPECT_EQ(with(R"({"strategy":"Foo"})"),
            Texts{"spec.conversion.strategy: Unsupported value: \"Foo\": supported values: "
                  "\"None\", \"Webhook\""});
  const std::string client = "spec.conversion.webhookClientConfig";
  const std::string reviews = "spec.conversion.conversionReviewVersions";
  EXPECT_EQ(with(R"({"strategy":"Webhook"})"),
            (Texts{client + ": Required value: required when strategy is set to Webhook",
                   reviews + ": Required value"}));
  EXPECT_EQ(with(R"({"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://a/b"},
                     "conversionReviewVersions":["v1"]}})"),
            Texts{});
  EXPECT_EQ(with(R"({"strategy":"Webhook","webhook":{"clientConfig":{},
                     "conversionReviewVersions":["v9","v9"]}})"),
            (Texts{client + ": Required value: exactly one of url or service is required",
                   reviews + "[1]: Invalid value: \"v9\": duplicate version",
                   reviews + ": Invalid value: [\"v9\",\"v9\"]: must include at least one of v1, "
                             "v1beta1"}));
  EXPECT_EQ(with(R"({"strategy":"Webhook","webhook":{"clientConfig":{"url":"http://u:p@/x?q#f"},
                     "conversionReviewVersions":["v1"]}})"),
            (Texts{client + ".url: Invalid value: \"http\": 'https' is the only allowed URL "
                            "scheme; desired format: https://host[/path]",
                   client + ".url: Invalid value: \"\": host must be specified; desired format: "
                            "https://host[/path]",
                   client + ".url: Invalid value: \"u:p\": user information is not permitted in "
                            "the URL",
                   client + ".url: Invalid value: \"f\": fragments are not permitted in the URL",
                   client + ".url: Invalid value: \"q\": query parameters are not permitted in the "
                            "URL"}));
  EXPECT_EQ(with(R"({"strategy":"Webhook","webhook":{"clientConfig":{"service":{"port":0}},
                     "conversionReviewVersions":["v1"]}})"),
            (Texts{client + ".service.name: Required value: service name is required",
                   client + ".service.namespace: Required value: service namespace is required",
                   client + ".service.port: Invalid value: 0: port is not valid: must be between 1 "
                            "and 65535, inclusive"}));
  EXPECT_EQ(with(R"({"strategy":"None","webhook":{"clientConfig":{"url":"https://a"}}})"),
            Texts{client + ": Forbidden: should not be set when strategy is not set to Webhook"});
}

TEST(ValidateDefinition, AM375_WhenTheGroupIsProtected_RequiresApproval) {
  Json crd = definition();
  crd.make({"spec", "group"}) = "ex.k8s.io";
  crd.make({"metadata", "name"}) = "cogs.ex.k8s.io";
  const std::string field = "metadata.annotations[api-approved.kubernetes.io]: ";
  Texts found = faults(crd);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with(
      field + "Required value: protected groups must have approval annotation"));
  crd.make({"metadata", "annotations"})["api-approved.kubernetes.io"] = "x";
  EXPECT_TRUE(faults(crd)[0].starts_with(field + "Invalid value: \"x\": "));
  crd.make({"metadata", "annotations"})["api-approved.kubernetes.io"] = "unapproved, a test";
  EXPECT_EQ(faults(crd), Texts{});
}

TEST(ValidateDefinition, AM376_WhenUpdated_GroupScopePluralAndKindStay) {
  const Json old = definition();
  Json crd = old;
  crd.make({"spec", "group"}) = "ey.io";
  crd.make({"spec", "scope"}) = "Cluster";
  Json& names = crd.make({"spec", "names"});
  names["plural"] = "cogz";
  names["kind"] = "Cogg";
  names["shortNames"] = parse(R"(["cg"])");
  names["categories"] = parse(R"(["all"])");
  EXPECT_EQ(faults(crd, &old),
            (Texts{"spec.scope: Invalid value: \"Cluster\": field is immutable",
                   "spec.names.kind: Invalid value: \"Cogg\": field is immutable",
                   "spec.group: Invalid value: \"ey.io\": field is immutable",
                   "spec.names.plural: Invalid value: \"cogz\": field is immutable"}));
}

/// A version whose rule is dearer than a new one may be.
Json dear_version(const std::string& name, bool storage) {
  Json version = parse(R"j({"name":"","served":true,"storage":false,"schema":{"openAPIV3Schema":
      {"type":"object","properties":{"spec":{"type":"object","properties":{"l":{"type":"array",
      "items":{"type":"string"},"x-kubernetes-validations":[
        {"rule":"self.all(x, self.all(y, x == y))"}]}}}}}}})j");
  version["name"] = Json(name);
  version["storage"] = Json(storage);
  return version;
}

TEST(ValidateDefinition, AM420_WhenOneVersionChanges_OnlyItsRulesAreJudged) {
  Json old = definition();
  Json& versions = *old.at({"spec", "versions"});
  versions.edit_items().push_back(dear_version("v2", false));
  EXPECT_FALSE(faults(old).empty());
  EXPECT_EQ(faults(old, &old), Texts{});

  Json other = old;
  first_version(other).make({"schema", "openAPIV3Schema", "properties", "more"}) =
      parse(R"({"type":"string"})");
  EXPECT_EQ(faults(other, &old), Texts{});

  Json changed = old;
  changed.at({"spec", "versions"})
      ->edit_items()[1]
      .make({"schema", "openAPIV3Schema", "properties", "more"}) = parse(R"({"type":"string"})");
  const Texts found = faults(changed, &old);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(
      found[0].starts_with("spec.versions[1].schema.openAPIV3Schema.properties[spec]."
                           "properties[l].x-kubernetes-validations[0].rule: Forbidden: "
                           "estimated rule cost exceeds budget"))
      << found[0];
}

}  // namespace
}  // namespace kintsugi::kinds
