#include "krm/managed_fields.h"

#include <gtest/gtest.h>

#include "krm/structural.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

FieldSet set_of(std::string_view text) {
  auto set = FieldSet::from_json(parse(text));
  EXPECT_TRUE(set.has_value());
  return set ? *set : FieldSet();
}

const Schema& config_map() {
  static const SchemaPtr schema = builtin_schema("v1", "ConfigMap");
  return *schema;
}

class Writer {
 public:
  explicit Writer(const Schema& schema, std::string version = "v1")
      : schema_(schema), version_(std::move(version)) {}

  /// Stores `text` as `manager` and returns managedFields.
  std::string write(std::string_view manager, std::string_view text,
                    OwnedPart part = OwnedPart::kAll, std::string_view subresource = {}) {
    Json object = parse(text);
    OwnershipContext context;
    context.schema = &schema_;
    context.manager = manager;
    context.api_version = version_;
    context.subresource = subresource;
    const std::string now = "2026-01-01T00:00:" + std::to_string(10 + clock_++) + "Z";
    context.now = now;
    context.part = part;
    track_update(context, stored_ ? &*stored_ : nullptr, object);
    stored_ = object;
    const Json* fields = object.at({"metadata", "managedFields"});
    if (fields == nullptr) {
      return "none";
    }
    std::string out;
    for (const Json& entry : fields->items()) {
      out += std::string(entry.text({"manager"})) + "=" + entry.find("fieldsV1")->dump() + ";";
    }
    return out;
  }
  [[nodiscard]] const Json& stored() const { return *stored_; }

 private:
  const Schema& schema_;
  std::string version_;
  std::optional<Json> stored_;
  int clock_ = 0;
};

TEST(FieldSet, WhenReadAndWritten_StaysTheSame) {
  const std::string text =
      R"({"f:data":{".":{},"f:x":{}},"f:l":{"k:{\"a\":1,\"b\":\"c\"}":{".":{},"f:v":{}},)"
      R"("v:\"s\"":{}}})";
  EXPECT_EQ(set_of(text).to_json().dump(), text);
  EXPECT_EQ(set_of(R"({"k:{\"b\": 1, \"a\":2}":{}})").to_json().dump(),
            R"({"k:{\"a\":2,\"b\":1}":{}})");
  EXPECT_EQ(set_of(R"({"z:future":{},"f:a":{}})").to_json().dump(), R"({"f:a":{}})");
  EXPECT_FALSE(FieldSet::from_json(parse(R"({"k:nojson":{}})")).has_value());
  EXPECT_FALSE(FieldSet::from_json(parse(R"({"x":{}})")).has_value());
  EXPECT_FALSE(FieldSet::from_json(parse("[]")).has_value());
}

TEST(FieldSet, WhenKeysAreWrittenOtherwise_AreTheSame) {
  const FieldSet plain = set_of(R"({"f:a":{"k:{\"type\":\"Ready\"}":{}}})");
  EXPECT_EQ(plain, set_of(R"({"f:a":{"k:{ \"type\" : \"Ready\" }":{}}})"));
  EXPECT_EQ(plain, set_of(R"({"f:a":{"k:{\"type\":\"\\u0052eady\"}":{}}})"));
  EXPECT_TRUE(plain.below("f:a")->has_element(R"(k:{"type":"Ready"})"));
  EXPECT_FALSE(FieldSet::from_json(parse(R"({"k:{\"type\":\"Ready\"":{}})")).has_value());
  EXPECT_EQ(set_of(R"({"k:{\"b\":\"1\",\"a\":\"2\"}":{}})"),
            set_of(R"({"k:{\"a\":\"2\",\"b\":\"1\"}":{}})"));
}

TEST(FieldSet, WhenCombined_ParentsAndChildrenAreIndependent) {
  const FieldSet a = set_of(R"({"f:a":{".":{},"f:b":{},"f:c":{}}})");
  const FieldSet b = set_of(R"({"f:a":{"f:b":{}},"f:z":{}})");
  EXPECT_EQ(a.difference(b).to_json().dump(), R"({"f:a":{".":{},"f:c":{}}})");
  EXPECT_EQ(a.intersection(b).to_json().dump(), R"({"f:a":{"f:b":{}}})");
  EXPECT_EQ(a.union_with(b).to_json().dump(), R"({"f:a":{".":{},"f:b":{},"f:c":{}},"f:z":{}})");
  const FieldSet whole = set_of(R"({"f:a":{}})");
  EXPECT_TRUE(a.difference_below(whole).empty());
  EXPECT_EQ(a.only_below(whole), a);
  EXPECT_EQ(a.size(), 3U);
  EXPECT_TRUE(a.has({"f:a"}));
  EXPECT_FALSE(b.has({"f:a"}));
}

TEST(FieldSet, AM219_WhenPathsArePrinted_LookAsInConflicts) {
  EXPECT_EQ(FieldSet::path_text({"f:data", "f:a"}), ".data.a");
  EXPECT_EQ(FieldSet::path_text({"f:spec", "f:m", R"(k:{"k":"b","p":"tcp"})", "f:v"}),
            R"(.spec.m[k="b",p="tcp"].v)");
  EXPECT_EQ(FieldSet::path_text({"f:tags", "v:\"x\""}), ".tags[=\"x\"]");
}

TEST(FieldSet, AM217_WhenObjectIsApplied_LeavesAreItsFields) {
  EXPECT_EQ(
      fields_of(&config_map(), parse(R"({"data":{"a":"1"},"immutable":true})")).to_json().dump(),
      R"({"f:data":{"f:a":{}},"f:immutable":{}})");
  EXPECT_EQ(fields_of(&config_map(), parse(R"({"metadata":{"finalizers":["a/b"],"labels":{},
             "ownerReferences":[{"uid":"u","name":"n"}]}})"))
                .to_json()
                .dump(),
            R"({"f:metadata":{"f:finalizers":{"v:\"a/b\"":{}},"f:labels":{},)"
            R"("f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}})");
}

TEST(FieldSet, AM235_WhenSchemaSaysListTypes_ItemsAreElements) {
  const SchemaPtr schema = structural_schema(
      parse(R"({"type":"object","properties":{"spec":{"type":"object","properties":{
        "items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","p"],
          "items":{"type":"object","properties":{"k":{"type":"string"},
          "p":{"type":"string","default":"tcp"},"v":{"type":"integer"}}}},
        "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "atom":{"type":"array","items":{"type":"string"}},
        "free":{"x-kubernetes-preserve-unknown-fields":true}}}}})"),
      true);
  EXPECT_EQ(fields_of(schema.get(), parse(R"({"spec":{"items":[{"k":"a","v":1}],"tags":["x"],
             "atom":["p"],"free":{"a":{"b":[1]}}}})"))
                .to_json()
                .dump(),
            R"({"f:spec":{"f:atom":{},"f:free":{"f:a":{".":{},"f:b":{}}},)"
            R"("f:items":{"k:{\"k\":\"a\",\"p\":\"tcp\"}":{".":{},"f:k":{},"f:v":{}}},)"
            R"("f:tags":{"v:\"x\"":{}}}})");
}

TEST(ManagedFields, WhenCreated_RecordsWhatTheReferenceRecords) {
  Writer writer(config_map());
  EXPECT_EQ(writer.write("maker", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",
              "annotations":{"example.test/z":"1"},"labels":{"x":"y"}},"data":{"k":"1"}})"),
            R"(maker={"f:data":{".":{},"f:k":{}},"f:metadata":{"f:annotations":{".":{},)"
            R"("f:example.test/z":{}},"f:labels":{".":{},"f:x":{}}}};)");
  // Another manager changes k and adds n; the first keeps the map itself.
  EXPECT_EQ(writer.write("second", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",
              "annotations":{"example.test/z":"1"},"labels":{"x":"y"}},"data":{"k":"2","n":"1"}})"),
            R"(maker={"f:data":{},"f:metadata":{"f:annotations":{".":{},"f:example.test/z":{}},)"
            R"("f:labels":{".":{},"f:x":{}}}};second={"f:data":{"f:k":{},"f:n":{}}};)");
  // A third removes k and adds an annotation.
  EXPECT_EQ(writer.write("third", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",
              "annotations":{"example.test/z":"1","example.test/a":"2"},"labels":{"x":"y"}},
              "data":{"n":"1"}})"),
            R"(maker={"f:data":{},"f:metadata":{"f:annotations":{".":{},"f:example.test/z":{}},)"
            R"("f:labels":{".":{},"f:x":{}}}};second={"f:data":{"f:n":{}}};)"
            R"(third={"f:metadata":{"f:annotations":{"f:example.test/a":{}}}};)");
}

TEST(ManagedFields, AM241_WhenValuesAreEqual_NothingMoves) {
  Writer writer(config_map());
  const std::string text = R"({"metadata":{"name":"a"},"data":{"k":"1"}})";
  writer.write("maker", text);
  const Json before = writer.stored();
  writer.write("other", text);
  EXPECT_EQ(writer.stored(), before);
  EXPECT_FALSE(differs_beyond_times(before, writer.stored()));
}

TEST(ManagedFields, AM173_WhenEntriesAreSortedByOtherTimes_IsNoChange) {
  const auto with = [](std::string_view entries, std::string_view more = "") {
    return parse(R"({"metadata":{"managedFields":[)" + std::string(entries) + "]" +
                 std::string(more) + "}}");
  };
  const std::string a1 = R"({"manager":"a","time":"2026-01-01T00:00:00Z"})";
  const std::string a2 = R"({"manager":"a","time":"2026-01-03T00:00:00Z"})";
  const std::string b = R"({"manager":"b","time":"2026-01-02T00:00:00Z"})";
  EXPECT_FALSE(differs_beyond_times(with(a1 + "," + b), with(b + "," + a2)));
  EXPECT_FALSE(differs_beyond_times(with(a1), with(R"({"manager":"a"})")));
  EXPECT_FALSE(differs_beyond_times(with(a1), with(a1, R"(,"resourceVersion":"7")")));
  EXPECT_TRUE(differs_beyond_times(with(a1 + "," + b), with(b + "," + b)));
  EXPECT_TRUE(differs_beyond_times(with(a1 + "," + b), with(a1)));
  EXPECT_TRUE(differs_beyond_times(with(a1), with(a1, R"(,"name":"n")")));
  EXPECT_TRUE(differs_beyond_times(with(a1), parse(R"({"metadata":{}})")));
  EXPECT_TRUE(differs_beyond_times(with(a1), parse("{}")));
}

TEST(ManagedFields, AM173_WhenOnlyTimesDiffer_IsNoChange) {
  const Json a = parse(R"({"metadata":{"resourceVersion":"1","managedFields":[{"time":"x"}]}})");
  const Json b = parse(R"({"metadata":{"resourceVersion":"2","managedFields":[{"time":"y"}]}})");
  EXPECT_FALSE(differs_beyond_times(a, b));
  const Json c = parse(R"({"metadata":{"managedFields":[{"time":"y","manager":"m"}]}})");
  EXPECT_TRUE(differs_beyond_times(a, c));
}

TEST(ManagedFields, AM178_WhenStatusIsWritten_EntryHasSubresource) {
  const SchemaPtr schema = structural_schema(
      parse(R"({"type":"object","properties":{"spec":{"type":"object","properties":{
        "a":{"type":"integer"}}},"status":{"type":"object","properties":{
        "p":{"type":"string"}}}}})"),
      true);
  Writer writer(*schema, "ex.io/v1");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"w"},"spec":{"a":1},"status":{"p":"x"}})",
                         OwnedPart::kWithoutStatus),
            R"(m={"f:spec":{".":{},"f:a":{}}};)");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"w"},"spec":{"a":1},"status":{"p":"y"}})",
                         OwnedPart::kOnlyStatus, "status"),
            R"(m={"f:spec":{".":{},"f:a":{}}};m={"f:status":{"f:p":{}}};)");
  EXPECT_EQ(writer.stored().at({"metadata", "managedFields"})->items()[1].text({"subresource"}),
            "status");
}

TEST(ManagedFields, AM245_WhenReset_IsUntrackedUntilApplied) {
  Writer writer(config_map());
  writer.write("maker", R"({"metadata":{"name":"a"},"data":{"k":"1"}})");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"a","managedFields":[]},"data":{"k":"1"}})"),
            "none");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"a"},"data":{"k":"2"}})"), "none");
}

TEST(ManagedFields, WhenSentEntriesAreUnusable_KeepsTheStoredOnes) {
  Writer writer(config_map());
  writer.write("maker", R"({"metadata":{"name":"a"},"data":{"k":"1"}})");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"a","managedFields":[{"operation":"Zap"}]},
                                  "data":{"k":"1"}})"),
            R"(maker={"f:data":{".":{},"f:k":{}}};)");
}

TEST(ManagedFields, AM244_WhenThereAreManyUpdaters_TheOldestAreMerged) {
  Writer writer(config_map());
  std::string data;
  for (int i = 0; i < 13; ++i) {
    data += (i == 0 ? "" : ",") + std::string("\"k") + std::to_string(i) + "\":\"1\"";
    writer.write("m" + std::to_string(i), R"({"metadata":{"name":"a"},"data":{)" + data + "}}");
  }
  const Json* entries = writer.stored().at({"metadata", "managedFields"});
  ASSERT_EQ(entries->size(), 10U);
  EXPECT_EQ(entries->items()[0].text({"manager"}), "ancient-changes");
  EXPECT_EQ(entries->items()[0].find("fieldsV1")->dump(),
            R"({"f:data":{".":{},"f:k0":{},"f:k1":{},"f:k2":{},"f:k3":{}}})");
}

TEST(ManagedFields, WhenEntryIsOfAnotherVersion_ItsSchemaCompares) {
  Json old = parse(R"({"metadata":{"managedFields":[{"manager":"x","operation":"Update",
      "apiVersion":"v9","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}},
      {"manager":"y","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",
      "fieldsV1":{"f:immutable":{}}}]},"data":{"k":"1"},"immutable":true})");
  Json object = parse(R"({"metadata":{},"data":{"k":"1"},"immutable":true})");
  OwnershipContext context;
  context.schema = &config_map();
  context.manager = "m";
  context.api_version = "v1";
  context.now = "2026-01-01T00:00:00Z";
  context.schema_of = [](std::string_view) { return std::optional<const Schema*>(); };
  track_update(context, &old, object);
  const Json* entries = object.at({"metadata", "managedFields"});
  ASSERT_NE(entries, nullptr);
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->items()[0].text({"manager"}), "y");
}

TEST(ManagedFields, WhenNothingNamesTheManager_TakesTheUserAgent) {
  EXPECT_EQ(field_manager_name("m", "kubectl/v1"), "m");
  EXPECT_EQ(field_manager_name("", "kubectl/v1.30 (linux)"), "kubectl");
  EXPECT_EQ(field_manager_name("", ""), "unknown");
}

TEST(ManagedFields, WhenTypedKindIsCreated_EmptyStructsBelongToNobody) {
  Writer writer(*builtin_schema("coordination.k8s.io/v1", "Lease"), "coordination.k8s.io/v1");
  EXPECT_EQ(writer.write("m", R"({"metadata":{"name":"l"},"spec":{}})"), "none");
}

}  // namespace
}  // namespace kintsugi::krm
