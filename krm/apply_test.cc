#include "krm/apply.h"

#include <gtest/gtest.h>

#include "krm/internal/field_set.h"
#include "krm/structural.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

/// One object and those who write it.
class Applied {
 public:
  explicit Applied(SchemaPtr schema, std::string version = "v1", std::string kind = "ConfigMap")
      : schema_(std::move(schema)), version_(std::move(version)), kind_(std::move(kind)) {
    live_ = Json::object({{"apiVersion", version_}, {"kind", kind_}});
  }

  /// "" or the message of the failure. `rest` follows the name.
  std::string apply(std::string_view manager, std::string_view rest, bool force = false) {
    Expected<Json> done = apply_configuration(context(manager), force, live_, object(rest));
    if (!done) {
      error_ = done.error().clone();
      return std::string(error_.message());
    }
    live_ = std::move(*done);
    return {};
  }

  void update(std::string_view manager, std::string_view rest, std::string_view subresource = {}) {
    Json next = object(rest);
    OwnershipContext who = context(manager);
    who.subresource = subresource;
    const bool first = live_.find("metadata") == nullptr;
    track_update(who, first ? nullptr : &live_, next);
    live_ = std::move(next);
  }

  /// "m1={…};m2={…};"
  [[nodiscard]] std::string owners() const {
    std::string out;
    const Json* list = live_.at({"metadata", "managedFields"});
    for (const Json& entry : list == nullptr ? Json::Array() : list->items()) {
      out += std::string(entry.text({"manager"})) + "=" + entry.find("fieldsV1")->dump() + ";";
    }
    return out;
  }
  [[nodiscard]] std::string time_of(std::string_view manager) const {
    for (const Json& entry : live_.at({"metadata", "managedFields"})->items()) {
      if (entry.text({"manager"}) == manager) {
        return std::string(entry.text({"time"}));
      }
    }
    return "none";
  }
  [[nodiscard]] std::string text(std::initializer_list<std::string_view> path) const {
    const Json* value = live_.at(path);
    return value == nullptr ? "absent" : value->dump();
  }
  [[nodiscard]] const Error& error() const { return error_; }
  void change_schema(SchemaPtr schema) { schema_ = std::move(schema); }

 private:
  OwnershipContext context(std::string_view manager) {
    OwnershipContext out;
    out.schema = schema_.get();
    out.manager = manager;
    out.api_version = version_;
    now_ = "2026-01-01T00:00:" + std::to_string(10 + clock_++) + "Z";
    out.now = now_;
    return out;
  }
  [[nodiscard]] Json object(std::string_view rest) const {
    return parse("{\"apiVersion\":\"" + version_ + "\",\"kind\":\"" + kind_ +
                 "\",\"metadata\":{\"name\":\"a\"}" + (rest.empty() ? "" : ",") +
                 std::string(rest) + "}");
  }

  SchemaPtr schema_;
  std::string version_, kind_, now_;
  Json live_;
  Error error_{Errc::kOk};
  int clock_ = 0;
};

Applied config_map() { return Applied(builtin_schema("v1", "ConfigMap")); }

SchemaPtr spec_schema(std::string_view properties) {
  return structural_schema(parse(R"({"type":"object","properties":{"spec":{"type":"object",)"
                                 R"("properties":)" +
                                 std::string(properties) + "}}}"),
                           true);
}

Applied thing(std::string_view properties) {
  return Applied(spec_schema(properties), "ex.io/v1", "Thing");
}

constexpr const char* kLists =
    R"({"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],)"
    R"("items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"string"}}}},)"
    R"("tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}})";

TEST(Apply, WhenSeveralConflict_AM220_ListsManagersAndFields) {
  Applied map = config_map();
  map.apply("m2", R"("data":{"a":"1","b":"1"})");
  map.apply("m1", R"("data":{"a":"1"})");
  EXPECT_EQ(map.apply("m3", R"("data":{"b":"2","a":"2"})"),
            "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.a\nconflicts with "
            "\"m2\":\n- .data.a\n- .data.b");
  ASSERT_EQ(map.error().detail().causes.size(), 3U);
  EXPECT_EQ(map.error().detail().causes[2].message, "conflict with \"m2\"");
  EXPECT_EQ(map.error().detail().causes[2].field, ".data.b");
}

TEST(Apply, WhenAnUpdateOwns_AM221_ConflictNamesVersionAndSubresource) {
  Applied map = config_map();
  map.update("upd", R"("data":{"a":"1"})");
  EXPECT_EQ(map.apply("m", R"("data":{"a":"2"})"),
            "Apply failed with 1 conflict: conflict with \"upd\" using v1: .data.a");
  Applied other = config_map();
  other.update("kcp", R"("data":{"a":"1"})", "status");
  EXPECT_EQ(other.apply("m", R"("data":{"a":"2"})"),
            "Apply failed with 1 conflict: conflict with \"kcp\" with subresource \"status\" using "
            "v1: .data.a");
}

TEST(Apply, WhenValuesAreEqual_AM222_BothOwn) {
  Applied map = config_map();
  map.apply("m1", R"("data":{"a":"1"})");
  EXPECT_EQ(map.apply("m2", R"("data":{"a":"1"})"), "");
  EXPECT_EQ(map.owners(), R"(m2={"f:data":{"f:a":{}}};m1={"f:data":{"f:a":{}}};)");
}

TEST(Apply, WhenAFieldIsLeftOut_AM224_GoesUnlessAnotherOwnsIt) {
  Applied map = config_map();
  map.apply("m1", R"("data":{"a":"1","b":"1","c":"1"})");
  map.apply("m2", R"("data":{"b":"1"})");
  map.update("u", R"("data":{"a":"1","b":"1","c":"1","d":"1"})");
  EXPECT_EQ(map.apply("m1", R"("data":{"a":"1"})"), "");
  EXPECT_EQ(map.text({"data"}), R"({"a":"1","b":"1","d":"1"})");
  EXPECT_EQ(map.owners(),
            R"(m2={"f:data":{"f:b":{}}};m1={"f:data":{"f:a":{}}};u={"f:data":{"f:d":{}}};)");
}

TEST(Apply, WhenNothingChanges_AM225_TheTimeStays) {
  Applied map = config_map();
  map.apply("m1", R"("data":{"a":"1"})");
  const std::string first = map.time_of("m1");
  map.apply("m1", R"("data":{"a":"1"})");
  EXPECT_EQ(map.time_of("m1"), first);
  map.apply("m2", R"("data":{"a":"1"})");
  EXPECT_EQ(map.time_of("m2"), "");
  map.apply("m1", R"("data":{"a":"1","b":"1"})");
  EXPECT_NE(map.time_of("m1"), first);
}

TEST(Apply, WhenListsAreApplied_AM235_OrderIsKept) {
  Applied object = thing(kLists);
  object.apply("m1", R"("spec":{"items":[{"k":"a"},{"k":"b"},{"k":"c"}],"tags":["x","y","z"]})");
  EXPECT_EQ(object.apply("m2", R"("spec":{"items":[{"k":"n"},{"k":"b","v":"1"},{"k":"o"}],)"
                               R"("tags":["z","w"]})"),
            "");
  EXPECT_EQ(object.text({"spec", "items"}),
            R"([{"k":"a"},{"k":"n"},{"k":"b","v":"1"},{"k":"c"},{"k":"o"}])");
  EXPECT_EQ(object.text({"spec", "tags"}), R"(["x","y","z","w"])");
  object.apply("m2", R"("spec":{"tags":["w","x"]})");
  EXPECT_EQ(object.text({"spec", "items"}), R"([{"k":"a"},{"k":"b"},{"k":"c"}])");
}

TEST(Apply, WhenAnItemIsShared_AM236_StaysWithTheFieldsOfOthers) {
  Applied object = thing(kLists);
  object.apply("m1", R"("spec":{"items":[{"k":"a","v":"1"}]})");
  object.apply("m2", R"("spec":{"items":[{"k":"a"}]})");
  object.apply("m1", R"("spec":{})");
  EXPECT_EQ(object.text({"spec", "items"}), R"([{"k":"a"}])");
  object.apply("m2", "");
  EXPECT_EQ(object.text({"spec"}), "null");  // as in the reference, where m1 states an empty map
  object.apply("m1", "");
  EXPECT_EQ(object.text({"spec"}), "absent");
}

TEST(Apply, WhenTheLastMemberGoes_AM250_KeepEmptiedMakesItEmpty) {
  const SchemaPtr schema = spec_schema(kLists);
  const Json live = parse(R"({"spec":{"items":[{"k":"a"}],"tags":["x"],"m":{"a":1}}})");
  Json object = parse(R"({"spec":{"items":null,"tags":null,"m":null,"n":null}})");
  keep_emptied(schema.get(), live, parse(R"({"spec":{"tags":null,"n":null}})"), object);
  EXPECT_EQ(object.dump(), R"({"spec":{"items":[],"m":{},"n":null,"tags":null}})");
  Json all = parse(R"({"spec":null})");
  keep_emptied(schema.get(), live, parse(R"({"spec":{}})"), all);
  EXPECT_EQ(all.dump(), R"({"spec":{}})");
}

TEST(Apply, WhenClientSideApplyWasUsed_AM242_KubectlTakesOverWhatItStated) {
  const std::string last =
      R"("annotations":{"kubectl.kubernetes.io/last-applied-configuration":)"
      R"("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},)"
      R"(\"data\":{\"a\":\"1\"}}"})";
  const std::string state = R"("metadata":{"name":"a",)" + last + R"(},"data":{"a":"1","b":"1"})";
  Applied object = config_map();
  object.update("kubectl-client-side-apply", state);
  EXPECT_EQ(object.apply("other", R"("data":{"a":"2"})"),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: "
            ".data.a");
  EXPECT_EQ(object.apply("kubectl", R"("data":{"a":"2","b":"2"})"),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: "
            ".data.b");
  EXPECT_EQ(object.apply("kubectl", R"("data":{"a":"<2>"})"), "");
  EXPECT_EQ(parse(object.text({"metadata", "annotations"}))
                .text({"kubectl.kubernetes.io/last-applied-configuration"}),
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\","
            "\"metadata\":{\"name\":\"a\"}}\n");
}

TEST(Apply, WhenASchemaBecomesAtomic_AM247_SetsFollow) {
  constexpr const char* kGranular =
      R"({"m":{"type":"object","additionalProperties":{"type":"string"}}})";
  constexpr const char* kAtomic = R"({"m":{"type":"object","x-kubernetes-map-type":"atomic",)"
                                  R"("additionalProperties":{"type":"string"}}})";
  Applied object = thing(kGranular);
  object.apply("m1", R"("spec":{"m":{"a":"1"}})");
  object.change_schema(spec_schema(kAtomic));
  EXPECT_EQ(object.apply("m2", R"("spec":{"m":{"b":"1"}})"),
            "Apply failed with 1 conflict: conflict with \"m1\": .spec.m");
  EXPECT_EQ(object.apply("m1", R"("spec":{"m":{"b":"1"}})"), "");
  EXPECT_EQ(object.owners(), R"(m1={"f:spec":{"f:m":{}}};)");
  object.change_schema(spec_schema(kGranular));
  EXPECT_EQ(object.apply("m1", R"("spec":{"m":{"c":"1"}})"), "");
  EXPECT_EQ(object.text({"spec", "m"}), R"({"b":"1","c":"1"})");
}

TEST(Apply, WhenFieldsAreFreeForm_MapsAreGranularAndListsAtomic) {
  Applied object =
      thing(R"({"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}})");
  EXPECT_EQ(object.apply("m1", R"("spec":{"free":{"a":{"b":1},"l":[1,2]}})"), "");
  EXPECT_EQ(object.apply("m2", R"("spec":{"free":{"a":{"c":1}}})"), "");
  EXPECT_EQ(object.apply("m2", R"("spec":{"free":{"a":{"c":1},"l":[1]}})"),
            "Apply failed with 1 conflict: conflict with \"m1\": .spec.free.l");
  EXPECT_EQ(object.text({"spec", "free"}), R"({"a":{"b":1,"c":1},"l":[1,2]})");
}

TEST(Apply, WhenResourcesAreEmbedded_TheirMetadataHasItsTypes) {
  Applied object = thing(R"({"t":{"type":"object","x-kubernetes-embedded-resource":true,)"
                         R"("x-kubernetes-preserve-unknown-fields":true}})");
  object.apply("m1", R"("spec":{"t":{"metadata":{"finalizers":["a.b/c"]}}})");
  EXPECT_EQ(object.apply("m2", R"("spec":{"t":{"metadata":{"finalizers":["a.b/d"]}}})"), "");
  EXPECT_EQ(object.text({"spec", "t"}), R"({"metadata":{"finalizers":["a.b/c","a.b/d"]}})");
  EXPECT_EQ(object.apply("m2", R"("spec":{"t":{"metadata":{"foo":1}}})"),
            "failed to create typed patch object (/a; ex.io/v1, Kind=Thing): .spec.t.metadata.foo: "
            "field not declared in schema");
}

TEST(Apply, WhenSeveralFieldsAreWrong_AM233_AllAreNamed) {
  Applied object =
      thing(R"({"i":{"type":"integer"},"l":{"type":"array","items":{"type":"string"}},)"
            R"("o":{"type":"object","properties":{"x":{"type":"boolean"}}},)"
            R"("p":{"x-kubernetes-int-or-string":true}})");
  EXPECT_EQ(object.apply("m", R"("spec":{"i":"s","l":"t","o":{"x":"y"},"p":1})"),
            "failed to create typed patch object (/a; ex.io/v1, Kind=Thing): errors:\n"
            "  .spec.i: expected numeric (int or float), got string\n"
            "  .spec.l: expected list, got &{t}\n"
            "  .spec.o.x: expected boolean, got &{y}");
  EXPECT_EQ(object.apply("m", R"("spec":{"a":1,"i":"s"})"),
            "failed to create typed patch object (/a; ex.io/v1, Kind=Thing): errors:\n"
            "  .spec.a: field not declared in schema\n"
            "  .spec.i: expected numeric (int or float), got string");
  EXPECT_EQ(object.apply("m", R"("spec":{"l":["a",{"b":[null,1.5]}]})"),
            "failed to create typed patch object (/a; ex.io/v1, Kind=Thing): .spec.l[1]: expected "
            "string, got &value.valueUnstructured{Value:map[string]interface "
            "{}{\"b\":[]interface {}{interface {}(nil), 1.5}}}");
}

TEST(Apply, WhenQuantitiesAreNumbers_AM233_AnyScalarIsTaken) {
  Applied object(builtin_schema("v1", "ResourceQuota"), "v1", "ResourceQuota");
  EXPECT_EQ(object.apply("m", R"("spec":{"hard":{"pods":5,"limits.cpu":1.5,"secrets":"1k"}})"), "");
  EXPECT_EQ(object.apply("m", R"("spec":{"hard":{"pods":[5]}})"),
            "failed to create typed patch object (/a; /v1, Kind=ResourceQuota): .spec.hard.pods: "
            "expected any scalar, got &{[5]}");
}

TEST(Apply, WhenKeysOfABuiltinListAreMissing_TheyAreEmpty) {
  Applied object(builtin_schema("v1", "ServiceAccount"), "v1", "ServiceAccount");
  EXPECT_EQ(object.apply("m", R"("secrets":[{"kind":"k"}])"),
            "failed to create typed patch object (/a; /v1, Kind=ServiceAccount): .secrets: element "
            "0: associative list with keys has an element that omits all key fields [\"name\"] "
            "(and doesn't have default values for any key fields)");
  const SchemaPtr meta = builtin_type("ObjectMeta");
  const Schema& owners = *meta->property("ownerReferences")->schema;
  EXPECT_EQ(list_item_element(owners, parse(R"({"kind":"Node"})")), R"(k:{"uid":""})");
}

TEST(Apply, WhenKindsAreOdd_TextIsThatOfGo) {
  EXPECT_EQ(kind_text(parse(R"({"apiVersion":"a/v1","kind":"K"})")), "a/v1, Kind=K");
  EXPECT_EQ(kind_text(parse(R"({"apiVersion":"a/b/c","kind":"K"})")), "/, Kind=");
  EXPECT_EQ(kind_text(parse(R"({"kind":5})")), "/, Kind=");
}

TEST(Apply, WhenObjectsAreDeep_NothingBreaks) {
  constexpr std::size_t kDepth = 900;
  std::string deep;
  for (std::size_t i = 0; i < kDepth; ++i) {
    deep += "{\"a\":";
  }
  deep += "1" + std::string(kDepth, '}');
  Applied object =
      thing(R"({"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}})");
  const std::string config = R"("spec":{"free":)" + deep + "}";
  EXPECT_EQ(object.apply("m1", config), "");
  EXPECT_EQ(object.apply("m2", config), "");
  EXPECT_EQ(object.apply("m1", ""), "");
  EXPECT_EQ(object.apply("m2", ""), "");
  EXPECT_EQ(object.text({"spec"}), "absent");
}

}  // namespace
}  // namespace kintsugi::krm
