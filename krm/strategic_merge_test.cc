#include "krm/strategic_merge.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "krm/go_value.h"
#include "krm/status.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

/// The patched object, or the text of the refusal.
std::string patched(std::string_view kind, std::string_view object, std::string_view patch) {
  Expected<Json> parsed = parse_strategic_merge(patch);
  if (!parsed) {
    return std::string(parsed.error().message());
  }
  const Expected<Json> out =
      apply_strategic_merge(*builtin_schema("v1", kind), *Json::parse(object), *parsed);
  return out ? out->dump() : "refused: " + std::string(out.error().message());
}

std::string config_map(std::string_view object, std::string_view patch) {
  return patched("ConfigMap", object, patch);
}

std::string account(std::string_view object, std::string_view patch) {
  return patched("ServiceAccount", object, patch);
}

TEST(StrategicMerge, WhenMapsDiffer_AM207_MergesAndNullDeletes) {
  EXPECT_EQ(config_map(R"({"data":{"a":"1","b":"2","c":"3"}})",
                       R"({"data":{"b":null,"c":"4","d":"5","e":null}})"),
            R"({"data":{"a":"1","c":"4","d":"5"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":null})"), "{}");
  EXPECT_EQ(config_map("{}", R"({"data":{"a":null,"b":"1"}})"), R"({"data":{"b":"1"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", "{}"), R"({"data":{"a":"1"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", "null"), R"({"data":{"a":"1"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":"x"})"), R"({"data":"x"})");
}

TEST(StrategicMerge, WhenFinalizersAreGiven_AM208_MakesUnion) {
  EXPECT_EQ(config_map(R"({"metadata":{"finalizers":["a/a","b/b"]}})",
                       R"({"metadata":{"finalizers":["x.y/a","b/b","x.y/a"]}})"),
            R"({"metadata":{"finalizers":["x.y/a","a/a","b/b"]}})");
  EXPECT_EQ(config_map(R"({"metadata":{}})", R"({"metadata":{"finalizers":["x.y/a"]}})"),
            R"({"metadata":{"finalizers":["x.y/a"]}})");
}

TEST(StrategicMerge, WhenPrimitivesAreDeleted_AM209_RemovesThem) {
  EXPECT_EQ(config_map(R"({"metadata":{"finalizers":["a/a","b/b","c/c"]}})",
                       R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["b/b","z/z"]}})"),
            R"({"metadata":{"finalizers":["a/a","c/c"]}})");
  EXPECT_EQ(config_map(R"({"metadata":{}})",
                       R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["b/b"]}})"),
            R"({"metadata":{}})");
  EXPECT_EQ(config_map(R"({"metadata":{"finalizers":["a/a"]}})",
                       R"({"metadata":{"$deleteFromPrimitiveList":["a/a"]}})"),
            "refused: invalid patch format of primitive list");
}

TEST(StrategicMerge, WhenOwnerHasSameUid_AM210_IsMergedOrRemoved) {
  const std::string_view object =
      R"({"metadata":{"ownerReferences":[{"name":"a","uid":"1"},{"name":"b","uid":"2"}]}})";
  EXPECT_EQ(
      config_map(object,
                 R"({"metadata":{"ownerReferences":[{"uid":"2","controller":true},{"uid":"3"}]}})"),
      R"({"metadata":{"ownerReferences":[{"name":"a","uid":"1"},{"controller":true,"name":"b",)"
      R"("uid":"2"},{"uid":"3"}]}})");
  EXPECT_EQ(
      config_map(object, R"({"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"}]}})"),
      R"({"metadata":{"ownerReferences":[{"name":"b","uid":"2"}]}})");
  EXPECT_EQ(
      config_map(object, R"({"metadata":{"ownerReferences":[{"$patch":"replace"},{"uid":"9"}]}})"),
      R"({"metadata":{"ownerReferences":[{"uid":"9"}]}})");
  EXPECT_EQ(config_map(object, R"({"metadata":{"ownerReferences":[{"name":"x"}]}})"),
            "refused: map: map[name:x] does not contain declared merge key: uid");
  EXPECT_EQ(
      config_map(object, R"({"metadata":{"ownerReferences":[{"$patch":"merge","uid":"1"}]}})"),
      "refused: merging lists cannot yet be specified in the patch");
  EXPECT_EQ(config_map(object, R"({"metadata":{"ownerReferences":["x"]}})"),
            "refused: list element types are not identical: [[map[name:a uid:1] map[name:b uid:2]] "
            "[x]]");
}

TEST(StrategicMerge, WhenMapHasDirective_AM211_ReplacesOrEmpties) {
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$patch":"replace","only":"1"}})"),
            R"({"data":{"only":"1"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$patch":"delete"}})"),
            R"({"data":{}})");
  EXPECT_EQ(config_map("{}", R"({"data":{"$patch":"replace","only":"1"}})"), "{}");
}

TEST(StrategicMerge, WhenOrderIsSet_AM212_FollowsIt) {
  EXPECT_EQ(config_map(R"({"metadata":{"finalizers":["a/a","b/b","c/c","d/d"]}})",
                       R"({"metadata":{"$setElementOrder/finalizers":["c/c","a/a"]}})"),
            R"({"metadata":{"finalizers":["b/b","c/c","a/a","d/d"]}})");
  const std::string_view object = R"({"secrets":[{"name":"a"},{"name":"b"},{"name":"c"}]})";
  EXPECT_EQ(account(object, R"({"$setElementOrder/secrets":[{"name":"d"},{"name":"c"},)"
                            R"({"name":"a"}],"secrets":[{"name":"d"}]})"),
            R"({"secrets":[{"name":"d"},{"name":"b"},{"name":"c"},{"name":"a"}]})");
  EXPECT_EQ(account(object, R"({"$setElementOrder/secrets":[{"name":"a"}],)"
                            R"("secrets":[{"name":"d"}]})"),
            "refused: The order in patch list:\n[map[name:d]]\n doesn't match $setElementOrder "
            "list:\n[map[name:a]]\n");
  EXPECT_EQ(account(object, R"({"$setElementOrder/secrets":5})"),
            "refused: expected a []interface {}, but received a int64");
  EXPECT_EQ(account(object, R"({"$setElementOrder":[]})"),
            "refused: invalid patch format of setElementOrder list");
  EXPECT_EQ(account(object, R"({"$setElementOrder/none":[]})"),
            "refused: unable to find api field in struct ServiceAccount for the json field "
            "\"none\"");
}

TEST(StrategicMerge, WhenKeysAreRetained_AM213_DropsOthers) {
  EXPECT_EQ(
      config_map(R"({"data":{"a":"1","b":"2"}})", R"({"data":{"$retainKeys":["b","c"],"c":"3"}})"),
      R"({"data":{"b":"2","c":"3"}})");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$retainKeys":["b"],"c":"3"}})"),
            "refused: invalid patch format of retainKeys");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$retainKeys":"b"}})"),
            "refused: invalid patch format of retainKeys");
}

TEST(StrategicMerge, WhenListHasNoMergeKey_AM214_IsReplaced) {
  EXPECT_EQ(
      account(R"({"imagePullSecrets":[{"name":"a"}]})", R"({"imagePullSecrets":[{"name":"b"}]})"),
      R"({"imagePullSecrets":[{"name":"b"}]})");
}

TEST(StrategicMerge, WhenDirectiveIsUnknown_AM215_IsUnclassifiedInReferenceWords) {
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$patch":"foo","z":[1,null]}})"),
            "refused: unknown patch type: foo in map: map[$patch:foo z:[1 <nil>]]");
  EXPECT_EQ(config_map(R"({"data":{"a":"1"}})", R"({"data":{"$patch":1}})"),
            "refused: unknown patch type: %!s(int64=1) in map: map[$patch:1]");
  Json patch = *Json::parse(R"({"data":{"$patch":"foo"}})");
  const Expected<Json> out = apply_strategic_merge(*builtin_schema("v1", "ConfigMap"),
                                                   *Json::parse(R"({"data":{}})"), patch);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), Errc::kInternal);
  EXPECT_EQ(http_status(out.error()), 500);
  EXPECT_EQ(to_status(out.error()).find("reason"), nullptr);
}

TEST(StrategicMerge, WhenBodyIsNoObject_AM216_IsRefused) {
  EXPECT_EQ(config_map("{}", "{"), "unexpected end of JSON input");
  EXPECT_EQ(config_map("{}", "[1]"),
            "json: cannot unmarshal array into Go value of type map[string]interface {}");
  EXPECT_EQ(config_map("{}", "\"x\""),
            "json: cannot unmarshal string into Go value of type map[string]interface {}");
}

TEST(StrategicMerge, WhenListsAreLong_AM208_TakesLinearTime) {
  Json object = Json::object();
  Json patch = Json::object();
  for (int i = 0; i < 20'000; ++i) {
    object.make({"metadata", "finalizers"}).push_back("a/" + std::to_string(i));
    patch.make({"metadata", "finalizers"}).push_back("a/" + std::to_string(2 * i));
  }
  const Expected<Json> out =
      apply_strategic_merge(*builtin_schema("v1", "ConfigMap"), std::move(object), patch);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at({"metadata", "finalizers"})->size(), 30'000U);
}

TEST(StrategicMerge, WhenListsAreTooLong_IsRefused) {
  Json patch = Json::object();
  patch.make({"metadata", "finalizers"}) = Json(Json::Array(100'001, Json("a")));
  const Expected<Json> out = apply_strategic_merge(
      *builtin_schema("v1", "ConfigMap"), *Json::parse(R"({"metadata":{"finalizers":[]}})"), patch);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), Errc::kRequestEntityTooLarge);
}

TEST(GoValue, WhenPrinted_LooksAsFmtDoes) {
  const Json value =
      *Json::parse(R"({"a":[1,1.5,1e6,123456789.5,1e21,0.0001,0.00001,null,true,"x y"],"b":{}})");
  EXPECT_EQ(go_value_text(value),
            "map[a:[1 1.5 1e+06 1.234567895e+08 1e+21 0.0001 1e-05 <nil> true x y] b:map[]]");
  EXPECT_EQ(go_value_text(*Json::parse(R"([5,1.5,true,null,"x"])"), 's'),
            "[%!s(int64=5) %!s(float64=1.5) %!s(bool=true) <nil> x]");
  EXPECT_EQ(go_value_text(Json(), 's'), "%!s(<nil>)");
}

}  // namespace
}  // namespace kintsugi::krm
