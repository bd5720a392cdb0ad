#include <gtest/gtest.h>

#include <algorithm>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/structural.h"

namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;
using testing::Fields;

constexpr const char* kMap = "/api/v1/namespaces/t1/configmaps/a";
constexpr const char* kThing = "/apis/ex.io/v1/namespaces/t1/things/t";
constexpr const char* kBeta = "/apis/ex.io/v1beta1/namespaces/t1/things/t";
constexpr const char* kWidget = "/apis/ex.io/v1/namespaces/t1/widgets/w";

/// A custom kind with every list and map type, in two versions.
ResourcePtr thing_kind() {
  auto def = std::make_shared<ResourceDef>();
  def->group = "ex.io";
  def->plural = "things";
  def->singular = "thing";
  def->kind = "Thing";
  def->list_kind = "ThingList";
  def->generation = true;
  const Expected<krm::Json> schema = krm::Json::parse(R"({"type":"object","properties":{
    "spec":{"type":"object","properties":{
      "items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
        "items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"string"},
          "d":{"type":"string","default":"dd"}}}},
      "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
      "atom":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}},
      "size":{"type":"integer","default":3},
      "text":{"type":"string"},
      "note":{"type":"string","nullable":true},
      "port":{"x-kubernetes-int-or-string":true},
      "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
    "status":{"type":"object","properties":{"phase":{"type":"string"}}}}})");
  ResourceVersion version;
  version.name = "v1";
  version.status = true;
  version.schema = krm::structural_schema(*schema, true);
  ResourceVersion beta = version;
  beta.name = "v1beta1";
  beta.storage = false;
  def->versions = {std::move(version), std::move(beta)};
  return def;
}

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(testing::widget_kind());
  all.push_back(thing_kind());
  return all;
}

std::string map_of(std::string_view rest) {
  return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"})" + std::string(rest) +
         "}";
}

std::string thing_of(std::string_view spec, std::string_view version = "v1") {
  return R"({"apiVersion":"ex.io/)" + std::string(version) +
         R"(","kind":"Thing","metadata":{"name":"t"},"spec":)" + std::string(spec) + "}";
}

/// "a:Apply={…};b:Update/status={…};", sorted, without versions and times.
std::string owners(const krm::Json& object) {
  const krm::Json* list = object.at({"metadata", "managedFields"});
  if (list == nullptr) {
    return "none";
  }
  std::vector<std::string> entries;
  for (const krm::Json& entry : list->items()) {
    const std::string_view subresource = entry.text({"subresource"});
    entries.push_back(std::string(entry.text({"manager"})) + ":" +
                      std::string(entry.text({"operation"})) +
                      (subresource.empty() ? "" : "/" + std::string(subresource)) + "=" +
                      entry.find("fieldsV1")->dump() + ";");
  }
  std::sort(entries.begin(), entries.end());
  std::string out;
  for (const std::string& entry : entries) {
    out += entry;
  }
  return out;
}

class ApplyRequests : public ::testing::Test {
 protected:
  ApplyRequests() : server(kinds(), "lc") {
    EXPECT_EQ(server
                  .send("POST", "/api/v1/namespaces",
                        std::string_view(
                            R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t1"}})"))
                  .status(),
              201);
  }
  Exchange apply(const std::string& target, std::string_view manager, std::string_view body,
                 std::string_view query = {}, const Fields& more = {}) {
    Fields fields = more;
    fields.emplace_back("content-type", "application/apply-patch+yaml");
    return server.send("PATCH",
                       target + "?fieldManager=" + std::string(manager) + std::string(query), body,
                       fields);
  }
  Exchange merge(const std::string& target, std::string_view body, std::string_view manager = "u",
                 std::string_view type = "application/merge-patch+json") {
    return server.send("PATCH", target + "?fieldManager=" + std::string(manager), body,
                       {{"content-type", std::string(type)}});
  }
  krm::Json get(const char* target) { return server.send("GET", target).json(); }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }
  static std::string revision(const Exchange& exchange) {
    return std::string(exchange.json().text({"metadata", "resourceVersion"}));
  }

  FakeServer server;
};

TEST_F(ApplyRequests, WhenAM217ObjectIsAbsent_IsCreatedAndOwned) {
  Exchange made = apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})"));
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(owners(made.json()), R"(m1:Apply={"f:data":{"f:a":{}}};)");
  EXPECT_EQ(made.json().text({"metadata", "annotations", "kcp.io/cluster"}), "lc");
  EXPECT_EQ(get(kMap), made.json());
}

TEST_F(ApplyRequests, WhenAM217CreateIsDenied_SaysSoAndStillPatches) {
  Exchange denied = apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})"), "", {{"x-user", "patcher"}});
  EXPECT_EQ(denied.status(), 403);
  EXPECT_NE(message(denied).find("cannot create resource"), std::string::npos) << message(denied);
  ASSERT_EQ(apply(kMap, "m1", map_of("")).status(), 201);
  EXPECT_EQ(apply(kMap, "m2", map_of(R"(,"data":{"b":"1"})"), "", {{"x-user", "patcher"}}).status(),
            200);
}

TEST_F(ApplyRequests, WhenAM218And152To154ParametersAreBad_SaysWhich) {
  Exchange none = server.send("PATCH", kMap, std::string_view(map_of("")),
                              {{"content-type", "application/apply-patch+yaml"}});
  EXPECT_EQ(none.status(), 422);
  EXPECT_EQ(message(none),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required "
            "for apply patch");
  EXPECT_EQ(apply(kMap, "m", map_of(""), "&fieldValidation=Foo").status(), 422);
  EXPECT_EQ(apply(kMap, "m", map_of(""), "&dryRun=Foo").status(), 422);
  EXPECT_EQ(apply(kMap, std::string(129, 'm'), map_of("")).status(), 422);
}

TEST_F(ApplyRequests, WhenAM219FieldIsOfAnother_IsConflictWithCauses) {
  ASSERT_EQ(apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})")).status(), 201);
  Exchange refused = apply(kMap, "m2", map_of(R"(,"data":{"a":"2"})"));
  EXPECT_EQ(refused.status(), 409);
  EXPECT_EQ(refused.json().text({"reason"}), "Conflict");
  EXPECT_EQ(message(refused), "Apply failed with 1 conflict: conflict with \"m1\": .data.a");
  EXPECT_EQ(refused.json().find("details")->dump(),
            R"({"causes":[{"field":".data.a","message":"conflict with \"m1\"",)"
            R"("reason":"FieldManagerConflict"}]})");
}

TEST_F(ApplyRequests, WhenAM223ForceIsAsked_FieldsMoveAndEmptyEntriesVanish) {
  ASSERT_EQ(apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})")).status(), 201);
  Exchange forced = apply(kMap, "m2", map_of(R"(,"data":{"a":"2"})"), "&force=1");
  EXPECT_EQ(forced.status(), 200);
  EXPECT_EQ(forced.json().text({"data", "a"}), "2");
  EXPECT_EQ(owners(forced.json()), R"(m2:Apply={"f:data":{"f:a":{}}};)");
}

TEST_F(ApplyRequests, WhenAM225And226NothingChanges_OnlyNewEntriesMoveTheVersion) {
  Exchange first = apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})"));
  Exchange same = apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})"));
  EXPECT_EQ(same.status(), 200);
  EXPECT_EQ(revision(same), revision(first));
  Exchange other = apply(kMap, "m2", map_of(R"(,"data":{"a":"1"})"));
  EXPECT_EQ(other.status(), 200);
  EXPECT_NE(revision(other), revision(first));
  EXPECT_EQ(other.json().at({"metadata", "managedFields"})->size(), 2U);
  EXPECT_EQ(revision(apply(kMap, "m2", map_of(R"(,"data":{"a":"1"})"))), revision(other));
}

TEST_F(ApplyRequests, WhenAM227And228BodyIsOfSomethingElse_IsBadRequest) {
  const auto refused = [&](std::string_view body) {
    Exchange answer = apply(kMap, "m", body);
    EXPECT_EQ(answer.status(), 400) << body;
    return message(answer);
  };
  EXPECT_EQ(refused(R"({"kind":"ConfigMap"})"), "invalid object type: /, Kind=ConfigMap");
  EXPECT_EQ(refused(R"({"apiVersion":"v1"})"), "invalid object type: /v1, Kind=");
  EXPECT_EQ(refused(R"({"apiVersion":"apps/v1","kind":"X"})"),
            "invalid object type: apps/v1, Kind=X");
  EXPECT_EQ(refused(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}})"),
            "the name of the object (b) does not match the name on the URL (a)");
  EXPECT_EQ(refused(R"({"apiVersion":"v1","kind":"ConfigMap"})"),
            "the name of the object (a based on URL) was undeterminable: name must be provided");
  ASSERT_EQ(apply(kMap, "m", map_of("")).status(), 201);
  EXPECT_EQ(apply(kMap, "m", R"({"apiVersion":"v1","kind":"ConfigMap"})").status(), 200);
}

TEST_F(ApplyRequests, WhenAM229To231MetadataIsNotTheClients_IsRefused) {
  const auto with = [&](std::string_view metadata) {
    return apply(kMap, "m",
                 R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",)" +
                     std::string(metadata) + R"(},"data":{"a":"1"}})");
  };
  Exchange entries = with(R"("managedFields":[])");
  EXPECT_EQ(entries.status(), 400);
  EXPECT_EQ(message(entries), "metadata.managedFields must be nil");
  Exchange uid = with(R"("uid":"1")");
  EXPECT_EQ(uid.status(), 409);
  EXPECT_EQ(message(uid),
            "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object "
            "specified uid 1, and no existing object was found");
  EXPECT_EQ(with(R"("resourceVersion":"1")").status(), 201);
  Exchange stale = with(R"("resourceVersion":"1")");
  EXPECT_EQ(stale.status(), 409);
  EXPECT_NE(message(stale).find("the object has been modified"), std::string::npos);
  const std::string version(get(kMap).text({"metadata", "resourceVersion"}));
  EXPECT_EQ(with(R"("resourceVersion":")" + version + "\"").status(), 200);
}

TEST_F(ApplyRequests, WhenAM232And233ConfigurationDoesNotFit_SaysWhere) {
  Exchange unknown = apply(kMap, "m", map_of(R"(,"foo":1)"), "&fieldValidation=Ignore");
  EXPECT_EQ(unknown.status(), 500);
  EXPECT_EQ(message(unknown),
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not "
            "declared in schema");
  Exchange type = apply(kMap, "m", map_of(R"(,"data":{"a":1})"));
  EXPECT_EQ(type.status(), 500);
  EXPECT_EQ(message(type),
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data.a: expected "
            "string, got &value.valueUnstructured{Value:1}");
  EXPECT_EQ(
      message(apply(kThing, "m", thing_of(R"({"items":[{"k":"b"},{"k":"b"}]})"))),
      "failed to create typed patch object (/t; ex.io/v1, Kind=Thing): .spec.items: duplicate "
      "entries for key [k=\"b\"]");
  EXPECT_EQ(message(apply(kThing, "m", thing_of(R"({"items":[{"v":"b"}]})"))),
            "failed to create typed patch object (/t; ex.io/v1, Kind=Thing): .spec.items: element "
            "0: associative list with keys has an element that omits all key fields [\"k\"] (and "
            "doesn't have default values for any key fields)");
}

TEST_F(ApplyRequests, WhenAM234TextIsYaml_IsReadOrRefused) {
  constexpr const char* kYaml =
      "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: \"1\"\n  a: \"2\"\n";
  Exchange strict = apply(kMap, "m", kYaml, "&fieldValidation=Strict");
  EXPECT_EQ(strict.status(), 400);
  EXPECT_EQ(message(strict),
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            "  line 7: key \"a\" already set in map");
  Exchange warned = apply(kMap, "m", kYaml);
  EXPECT_EQ(warned.status(), 201);
  EXPECT_NE(warned.header("warning").find("already set in map"), std::string::npos);
  EXPECT_EQ(warned.json().text({"data", "a"}), "2");
  EXPECT_EQ(apply(kMap, "m", kYaml, "&fieldValidation=Ignore").header("warning"), "");
  const auto refused = [&](std::string_view body) {
    Exchange answer = apply(kMap, "m", body);
    EXPECT_EQ(answer.status(), 400) << body;
    return message(answer);
  };
  EXPECT_EQ(refused("a: [").rfind("error decoding YAML: error converting YAML to JSON: ", 0), 0U);
  EXPECT_EQ(refused("[1]"),
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            "unmarshal array into Go value of type "
            "map[string]interface {}");
  EXPECT_EQ(refused(""), "invalid object type: /, Kind=");
  // Conflicts are reported first.
  Exchange conflict = apply(kMap, "n",
                            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},)"
                            R"("data":{"a":"3","a":"4"}})",
                            "&fieldValidation=Strict");
  EXPECT_EQ(conflict.status(), 409);
}

TEST_F(ApplyRequests, WhenAM235And236ListsAreApplied_MergeByTheirTypes) {
  ASSERT_EQ(
      apply(kThing, "m1", thing_of(R"({"items":[{"k":"a","v":"1"}],"tags":["x"],"atom":["p"]})"))
          .status(),
      201);
  const std::string other = thing_of(R"({"items":[{"k":"b","v":"2"}],"tags":["y"],"atom":["q"]})");
  EXPECT_EQ(message(apply(kThing, "m2", other)),
            "Apply failed with 1 conflict: conflict with \"m1\": .spec.atom");
  const krm::Json forced = apply(kThing, "m2", other, "&force=true").json();
  EXPECT_EQ(forced.find("spec")->dump(),
            R"({"atom":["q"],"items":[{"d":"dd","k":"a","v":"1"},{"d":"dd","k":"b","v":"2"}],)"
            R"("size":3,"tags":["x","y"]})");
  const krm::Json dropped = apply(kThing, "m1", thing_of(R"({"tags":["x"]})")).json();
  EXPECT_EQ(dropped.at({"spec", "items"})->dump(), R"([{"d":"dd","k":"b","v":"2"}])");
}

TEST_F(ApplyRequests, WhenAM237DefaultsAreFilled_NobodyOwnsThem) {
  const krm::Json made = apply(kThing, "m", thing_of(R"({"items":[{"k":"a"}]})")).json();
  EXPECT_EQ(made.at({"spec", "items"})->dump(), R"([{"d":"dd","k":"a"}])");
  EXPECT_EQ(owners(made),
            R"(m:Apply={"f:spec":{"f:items":{"k:{\"k\":\"a\"}":{".":{},"f:k":{}}}}};)");
}

TEST_F(ApplyRequests, WhenAM238And239StatusIsApplied_OnlyItIsTakenAndOwned) {
  const std::string status = std::string(kThing) + "/status";
  const std::string body =
      R"({"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"name":"t","labels":{"x":"y"}},)"
      R"("spec":{"size":9},"status":{"phase":"Up"}})";
  EXPECT_EQ(apply(status, "m", body).status(), 404);
  ASSERT_EQ(apply(kThing, "m", thing_of(R"({"size":1})")).status(), 201);
  const krm::Json object = apply(status, "m", body).json();
  EXPECT_EQ(object.at({"spec", "size"})->as_integer(), 1);
  EXPECT_EQ(object.text({"status", "phase"}), "Up");
  EXPECT_EQ(object.at({"metadata", "labels"}), nullptr);
  EXPECT_EQ(object.at({"metadata", "generation"})->as_integer(), 1);
  EXPECT_EQ(owners(object), R"(m:Apply/status={"f:status":{"f:phase":{}}};)"
                            R"(m:Apply={"f:spec":{"f:size":{}}};)");
  EXPECT_EQ(message(apply(status, "n",
                          R"({"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"name":"t"},)"
                          R"("status":{"phase":"Down"}})")),
            "Apply failed with 1 conflict: conflict with \"m\" with subresource \"status\": "
            ".status.phase");
  const krm::Json left = apply(kThing, "m", thing_of(R"({"text":"x"})")).json();
  EXPECT_EQ(left.text({"status", "phase"}), "Up");
}

TEST_F(ApplyRequests, WhenAM240And241OthersUpdate_OwnershipFollowsChanges) {
  ASSERT_EQ(apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})")).status(), 201);
  EXPECT_EQ(owners(merge(kMap, R"({"data":{"a":"1"}})").json()),
            R"(m1:Apply={"f:data":{"f:a":{}}};)");
  EXPECT_EQ(owners(merge(kMap, R"({"data":{"a":"2"}})").json()),
            R"(u:Update={"f:data":{"f:a":{}}};)");
  EXPECT_EQ(message(apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})"))),
            "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.a");
}

TEST_F(ApplyRequests, WhenAM243KubectlMigrates_EntriesAreClean) {
  const std::string config = map_of(R"(,"data":{"a":"1"})");
  krm::Json object = config_map("a", {{"a", "1"}});
  object.make({"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}) =
      config;
  ASSERT_EQ(
      server
          .send("POST", "/api/v1/namespaces/t1/configmaps?fieldManager=kubectl-client-side-apply",
                object)
          .status(),
      201);
  EXPECT_EQ(apply(kMap, "kubectl", config).status(), 200);
  EXPECT_EQ(apply(kMap, "kubectl-last-applied",
                  R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":)"
                  R"({"kubectl.kubernetes.io/last-applied-configuration":"{}"}}})",
                  "&force=true")
                .status(),
            200);
  const krm::Json before = get(kMap);
  krm::Json entries = krm::Json::array();
  for (const krm::Json& entry : before.at({"metadata", "managedFields"})->items()) {
    if (entry.text({"operation"}) == "Apply") {
      entries.push_back(entry);
    }
  }
  krm::Json replace = krm::Json::object(
      {{"op", "replace"}, {"path", "/metadata/managedFields"}, {"value", entries}});
  EXPECT_EQ(
      merge(kMap, krm::Json::array({replace}).dump(), "kubectl", "application/json-patch+json")
          .status(),
      200);
  Exchange last = apply(kMap, "kubectl", config);
  EXPECT_EQ(last.status(), 200);
  EXPECT_EQ(owners(last.json()).find("Update"), std::string::npos) << owners(last.json());
}

TEST_F(ApplyRequests, WhenAM245EntriesWereCleared_WhatWasThereBeforeIsOwned) {
  ASSERT_EQ(apply(kMap, "m1", map_of(R"(,"data":{"a":"1"})")).status(), 201);
  EXPECT_EQ(owners(merge(kMap, R"({"metadata":{"managedFields":[]}})").json()), "none");
  EXPECT_EQ(message(apply(kMap, "m1", map_of(R"(,"data":{"a":"2"})"))),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a");
}

TEST_F(ApplyRequests, WhenAM246VersionsDiffer_EntriesNameTheirOwn) {
  ASSERT_EQ(apply(kThing, "m1", thing_of(R"({"size":1})")).status(), 201);
  EXPECT_EQ(message(apply(kBeta, "m1", thing_of("{}"))),
            "invalid object type: ex.io/v1, Kind=Thing");
  const std::string beta = thing_of(R"({"size":2})", "v1beta1");
  EXPECT_EQ(message(apply(kBeta, "m2", beta)),
            "Apply failed with 1 conflict: conflict with \"m1\": .spec.size");
  const krm::Json forced = apply(kBeta, "m2", beta, "&force=true").json();
  const krm::Json* entries = forced.at({"metadata", "managedFields"});
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->items()[0].text({"apiVersion"}), "ex.io/v1beta1");
  // What it applied through one version goes when the other leaves it out.
  const krm::Json without = apply(kThing, "m2", thing_of(R"({"text":"x"})")).json();
  EXPECT_EQ(without.at({"spec", "size"})->as_integer(), 3);
}

TEST_F(ApplyRequests, WhenAM248DryRunIsAsked_NothingIsStored) {
  Exchange dry = apply(kMap, "m", map_of(R"(,"data":{"a":"1"})"), "&dryRun=All");
  EXPECT_EQ(dry.status(), 201);
  EXPECT_EQ(dry.json().text({"data", "a"}), "1");
  EXPECT_EQ(server.send("GET", kMap).status(), 404);
  ASSERT_EQ(apply(kMap, "m", map_of(R"(,"data":{"a":"1"})")).status(), 201);
  Exchange change = apply(kMap, "m", map_of(R"(,"data":{"a":"2"})"), "&dryRun=All");
  EXPECT_EQ(change.status(), 200);
  EXPECT_EQ(change.json().text({"data", "a"}), "2");
  EXPECT_EQ(get(kMap).text({"data", "a"}), "1");
}

TEST_F(ApplyRequests, WhenAM249ValuesAreNull_SchemaSaysWhatTheyAre) {
  const krm::Json map = apply(kMap, "m", map_of(R"(,"data":{"a":null})")).json();
  EXPECT_EQ(map.find("data")->dump(), R"({"a":""})");
  EXPECT_EQ(owners(map), R"(m:Apply={"f:data":{"f:a":{}}};)");
  const krm::Json thing = apply(kThing, "m", thing_of(R"({"note":null,"size":null})")).json();
  EXPECT_EQ(thing.find("spec")->dump(), R"({"note":null,"size":3})");
  Exchange refused = apply(kThing, "m", thing_of(R"({"text":null})"));
  EXPECT_EQ(refused.status(), 422);
  EXPECT_EQ(refused.json().at({"details", "causes"})->items()[0].text({"reason"}),
            "FieldValueTypeInvalid");
}

TEST_F(ApplyRequests, WhenAM250TheLastMemberIsGivenUp_AnEmptyMapStays) {
  ASSERT_EQ(apply(kThing, "m", thing_of(R"({"text":"x"})")).status(), 201);
  Exchange given = apply(kThing, "m", thing_of("{}"));
  EXPECT_EQ(given.status(), 200) << given.body();
  EXPECT_EQ(given.json().find("spec")->dump(), R"({"size":3})");
  EXPECT_EQ(revision(apply(kThing, "m", thing_of("{}"))), revision(given));
}

TEST_F(ApplyRequests, WhenScaleIsApplied_OnlyReplicasMove) {
  const std::string body = R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},)"
                           R"("spec":{"color":"red","replicas":2}})";
  ASSERT_EQ(apply(kWidget, "m1", body).status(), 201);
  const std::string scale = std::string(kWidget) + "/scale";
  const std::string four =
      R"({"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"w"},)"
      R"("spec":{"replicas":4}})";
  EXPECT_EQ(message(apply(scale, "hpa", four)),
            "Apply failed with 1 conflict: conflict with \"m1\": .spec.replicas");
  EXPECT_EQ(message(apply(scale, "hpa", body)), "invalid object type: ex.io/v1, Kind=Widget");
  Exchange forced = apply(scale, "hpa", four, "&force=true");
  EXPECT_EQ(forced.status(), 200);
  EXPECT_EQ(forced.json().at({"spec", "replicas"})->as_integer(), 4);
  EXPECT_EQ(owners(get(kWidget)), R"(hpa:Apply/scale={"f:spec":{"f:replicas":{}}};)"
                                  R"(m1:Apply={"f:spec":{"f:color":{}}};)");
  const krm::Json updated = merge(scale, R"({"spec":{"replicas":5}})", "scaler").json();
  EXPECT_EQ(updated.at({"spec", "replicas"})->as_integer(), 5);
  EXPECT_EQ(owners(get(kWidget)), R"(m1:Apply={"f:spec":{"f:color":{}}};)"
                                  R"(scaler:Update/scale={"f:spec":{"f:replicas":{}}};)");
  EXPECT_EQ(message(apply(kWidget, "m1", body)),
            "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" "
            "using ex.io/v1: .spec.replicas");
}

TEST_F(ApplyRequests, WhenManyApplyAtOnce_AllAreThere) {
  constexpr int kManagers = 20;
  std::vector<Exchange> running;
  for (int i = 0; i < kManagers; ++i) {
    const std::string name = "m" + std::to_string(i);
    http::RequestHead head;
    head.method = "PATCH";
    head.target = std::string(kMap) + "?fieldManager=" + name;
    head.headers.add("content-type", "application/apply-patch+yaml");
    running.emplace_back(server.server(), std::move(head),
                         map_of(R"(,"data":{")" + name + R"(":"1"})"));
    if (i == 0) {
      // Takes the name while the first apply is on its way to create.
      http::RequestHead post;
      post.method = "POST";
      post.target = "/api/v1/namespaces/t1/configmaps?fieldManager=poster";
      post.headers.add("content-type", "application/json");
      running.emplace_back(server.server(), std::move(post), map_of(R"(,"data":{"p":"1"})"));
    }
  }
  ASSERT_TRUE(server.run_until([&] {
    return std::all_of(running.begin(), running.end(),
                       [](Exchange& each) { return each.stream().ended; });
  }));
  int created = 0;
  int refused = 0;
  for (const Exchange& each : running) {
    created += each.status() == 201 ? 1 : 0;
    refused += each.status() == 409 ? 1 : 0;
    EXPECT_LT(each.status(), 410) << each.body();
  }
  EXPECT_EQ(created, 1);
  EXPECT_LE(refused, 1);  // the POST, when an apply was first
  const krm::Json object = get(kMap);
  EXPECT_EQ(object.find("data")->size(), static_cast<std::size_t>(kManagers + 1 - refused));
  EXPECT_EQ(object.at({"metadata", "managedFields"})->size(),
            static_cast<std::size_t>(kManagers + 1 - refused));
}

}  // namespace
}  // namespace kintsugi::apiserver
