#include "controlplane/catalog/conversion_rules.h"

#include <gtest/gtest.h>

#include "controlplane/catalog/bound_schema.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kSchema =
    R"({"metadata":{"name":"v1.widgets.ex.io"},"spec":{"group":"ex.io",
 "scope":"Cluster","names":{"plural":"widgets","kind":"Widget"},"conversion":{"strategy":"None"},"versions":[
 {"name":"v1","served":true,"storage":true,"schema":{"type":"object","properties":{"spec":{"type":"object",
  "properties":{"firstName":{"type":"string"},"lastName":{"type":"string"},"same":{"type":"integer"}}}}}},
 {"name":"v2","served":true,"storage":false,"schema":{"type":"object","properties":{"spec":{"type":"object",
  "properties":{"same":{"type":"integer"},"extra":{"type":"object","properties":{"n":{"type":"integer"}}},
  "name":{"type":"object","properties":{"first":{"type":"string"},"last":{"type":"string"},
  "upper":{"type":"string"}}}}}}}},
 {"name":"v3","served":true,"storage":false,"schema":{"type":"object","properties":{"spec":{"type":"object",
  "properties":{"same":{"type":"integer"}}}}}}]}})";

constexpr std::string_view kRules = R"json([
 {"from":"v1","to":"v2","rules":[{"field":".spec.firstName","destination":".spec.name.first"},
  {"field":"spec.lastName","destination":"spec.name.last"},
  {"field":".spec.lastName","destination":".spec.name.upper","transformation":"self.upperAscii()"
}]
},
 {"from":"v2","to":"v1","rules":[{"field":".spec.name.first","destination":".spec.firstName"},
  {"field":".spec.name.last","destination":".spec.lastName"}],"preserve":[".spec.extra"]}])json";

class ConversionRules : public ::testing::Test {
 protected:
  void use(std::string_view conversions) {
    Json conversion = Json::object();
    conversion.make({"spec", "conversions"}) = *Json::parse(conversions);
    def_ = with_conversion(bound_resource(*Json::parse(kSchema), "1111"), conversion);
    ASSERT_NE(def_, nullptr);
  }
  std::string to(std::string_view version, std::string_view object) {
    std::uint64_t spent = 0;
    const Expected<Json> out =
        def_->webhook->rules(*Json::parse(object), *def_->version(version), spent);
    return out ? out->dump() : std::string(out.error().message());
  }
  apiserver::ResourcePtr def_;
};

TEST_F(ConversionRules, KK191_WithoutAnApiConversion_TheSchemaDecides) {
  const apiserver::ResourcePtr def = bound_resource(*Json::parse(kSchema), "1111");
  EXPECT_EQ(with_conversion(def, std::nullopt), def);
  EXPECT_EQ(with_conversion(nullptr, Json::object()), nullptr);
}

TEST_F(ConversionRules, KK192_FieldsAreMovedAndTransformed) {
  use(kRules);
  EXPECT_EQ(
      to("v2", R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"a"},
                         "spec":{"firstName":"Ada","lastName":"Byron","same":1}})"),
      R"({"apiVersion":"ex.io/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"firstName":"Ada",)"
      R"("lastName":"Byron","name":{"first":"Ada","last":"Byron","upper":"BYRON"},"same":1}})");
  // What is not there is not there afterwards.
  EXPECT_EQ(
      to("v2",
         R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{},"spec":{"firstName":"Ada"}})"),
      R"({"apiVersion":"ex.io/v2","kind":"Widget","metadata":{},"spec":{"firstName":"Ada",)"
      R"("name":{"first":"Ada"}}})");
  // No rules for the pair: only the version changes.
  EXPECT_EQ(to("v3", R"({"apiVersion":"ex.io/v1","kind":"Widget","spec":{"firstName":"Ada"}})"),
            R"({"apiVersion":"ex.io/v3","kind":"Widget","spec":{"firstName":"Ada"}})");
}

TEST_F(ConversionRules, KK193_WhatIsPreservedComesBack) {
  use(kRules);
  const std::string v1 =
      to("v1", R"({"apiVersion":"ex.io/v2","kind":"Widget","metadata":{"name":"a"},
      "spec":{"name":{"first":"Ada","last":"B"},"extra":{"n":7}}})");
  EXPECT_NE(v1.find(R"("preserve.conversion.apis.kcp.io/v2":"{\"spec.extra\":{\"n\":7}}")"),
            std::string::npos)
      << v1;
  Json stored = *Json::parse(v1);
  stored["spec"].erase("extra");  // as pruning does
  const Json back = *Json::parse(to("v2", stored.dump()));
  EXPECT_EQ(back.at({"spec", "extra", "n"})->as_integer(), 7);
  EXPECT_EQ(back.text({"spec", "name", "first"}), "Ada");
  EXPECT_EQ(back.at({"metadata", "annotations"}), nullptr);
}

TEST_F(ConversionRules, KK193_WhatSomebodyWroteThere_BringsNothingElse) {
  use(kRules);
  const auto with = [this](std::string_view kept) {
    Json object = *Json::parse(R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"a"},
                                   "spec":{"same":1}})");
    object.make({"metadata", "annotations", "preserve.conversion.apis.kcp.io/v2"}) = kept;
    return *Json::parse(to("v2", object.dump()));
  };
  for (const char* kept : {"no json", "7", R"({"spec.same":5})", R"({"metadata.name":"b"})",
                           R"({"spec.extra":"a text"})", R"({"spec.extra":{"n":"x"}})"}) {
    const Json made = with(kept);
    EXPECT_EQ(made.text({"metadata", "name"}), "a") << kept;
    EXPECT_EQ(made.at({"metadata", "annotations"}), nullptr) << kept;
    EXPECT_EQ(made.find("spec")->dump(), R"({"same":1})") << kept;
  }
}

TEST_F(ConversionRules, KK192_WhatDoesNotCompile_FailsEveryConversion) {
  const auto fault = [this](std::string_view conversions) {
    use(conversions);
    return to("v2", R"({"apiVersion":"ex.io/v1","kind":"Widget","spec":{"firstName":"Ada"}})");
  };
  const std::string begin = "error getting converter: error compiling conversion rules: ";
  EXPECT_EQ(
      fault(R"([{"from":"v9","to":"v2","rules":[]}])"),
      begin +
          R"(spec.conversions[0].from: Invalid value: "v9": unable to find structural schema for version)");
  EXPECT_EQ(
      fault(
          R"([{"from":"v1","to":"v2","rules":[{"field":"noFieldHere","destination":"spec.x"}]}])"),
      begin +
          R"(spec.conversions[0].rules[0].field: Invalid value: "noFieldHere": field "noFieldHere" doesn't exist)");
  EXPECT_EQ(
      fault(
          R"([{"from":"v1","to":"v2","rules":[{"field":"spec.some.field","destination":"spec.x"}]}])"),
      begin +
          R"(spec.conversions[0].rules[0].field: Invalid value: "spec.some.field": field "spec.some" doesn't exist)");
  EXPECT_EQ(
      fault(
          R"([{"from":"v1","to":"v2","rules":[{"field":"apiVersion.foo","destination":"spec.x"}]}])"),
      begin +
          R"(spec.conversions[0].rules[0].field: Invalid value: "apiVersion.foo": expected field "apiVersion" to be an object)");
  EXPECT_TRUE(
      fault(R"([{"from":"v1","to":"v2","rules":[{"field":"spec.firstName","destination":"spec.x",
                        "transformation":"self.foo was here"}]}])")
          .starts_with(
              begin +
              R"(spec.conversions[0].rules[0].transformation: Invalid value: "self.foo was here": )"
              "error compiling CEL program: ERROR: <input>:1:"));
  EXPECT_EQ(
      fault(
          R"([{"from":"v1","to":"v2","rules":[{"field":"spec.firstName","destination":".metadata.name"}]},
                      {"from":"v8","to":"v2","rules":[]}])"),
      begin +
          R"([spec.conversions[0].rules[0].destination: Invalid value: ".metadata.name": must be a field of the )"
          R"(object's own content, spec.conversions[1].from: Invalid value: "v8": unable to find structural schema for version])");
}

TEST_F(ConversionRules, KK192_WhatFailsForAnObject_IsTold) {
  use(R"([{"from":"v1","to":"v2","rules":[
       {"field":"spec.firstName","destination":"spec.name.first","transformation":"self.split(',')[1]"}]}])");
  EXPECT_EQ(to("v2", R"({"apiVersion":"ex.io/v1","kind":"Widget","spec":{"firstName":"a"}})")
                .find("error converting: error executing transformation: "),
            0U);
  EXPECT_NE(to("v2", R"({"apiVersion":"ex.io/v1","kind":"Widget","spec":{"firstName":"a,b"}})")
                .find(R"("first":"b")"),
            std::string::npos);
  use(R"([{"from":"v1","to":"v2","rules":[
       {"field":"spec.firstName","destination":"spec.firstName.first"}]}])");
  EXPECT_EQ(
      to("v2", R"({"apiVersion":"ex.io/v1","kind":"Widget","spec":{"firstName":"a"}})"),
      "error setting destination field \"spec.firstName.first\": what holds it is not an object");
}

}  // namespace
}  // namespace kintsugi::controlplane
