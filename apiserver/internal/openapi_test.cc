#include "apiserver/internal/openapi.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/structural.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;
using Pairs = apiserver::testing::Fields;
using apiserver::testing::FakeServer;

constexpr std::string_view kProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(apiserver::testing::widget_kind());
  return all;
}

class OpenApiServing : public ::testing::Test {
 protected:
  apiserver::testing::Exchange get(std::string_view target, const Pairs& fields = {}) {
    return server_.send("GET", target, std::string_view(), fields);
  }
  Json document(std::string_view key) {
    auto answer = get("/openapi/v3/" + std::string(key));
    EXPECT_EQ(answer.status(), 200) << key;
    return answer.json();
  }
  static const Json& schema(const Json& document, std::string_view name) {
    static const Json none;
    const Json* found = document.at({"components", "schemas", name});
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? none : *found;
  }
  static bool has_query_parameter(const Json& operation, std::string_view name) {
    for (const Json& each : operation.find("parameters")->items()) {
      if (each.text({"name"}) == name && each.text({"in"}) == "query") {
        return true;
      }
    }
    return false;
  }

  FakeServer server_{kinds()};
};

void collect_references(const Json& value, std::vector<std::string>& out) {
  if (const Json* reference = value.find("$ref"); reference != nullptr && reference->is_string()) {
    out.emplace_back(reference->as_string());
  }
  for (const krm::JsonMember& member : value.members()) {
    collect_references(member.value, out);
  }
  for (const Json& item : value.items()) {
    collect_references(item, out);
  }
}

TEST_F(OpenApiServing, WhenAM124TheIndexIsRead_NamesEveryGroupVersion) {
  const Json index = get("/openapi/v3", {{"accept", "application/json, */*"}}).json();
  for (const std::string_view key :
       {"api", "api/v1", "apis", "apis/ex.io", "apis/ex.io/v1", "apis/coordination.k8s.io",
        "apis/coordination.k8s.io/v1", "apis/rbac.authorization.k8s.io/v1", "version"}) {
    const std::string_view link = index.text({"paths", key, "serverRelativeURL"});
    EXPECT_TRUE(link.starts_with("/openapi/v3/" + std::string(key) + "?hash=")) << key;
    EXPECT_EQ(link.size() - link.find('=') - 1, 128U);
    EXPECT_EQ(get(link).status(), 200) << link;
  }
}

TEST_F(OpenApiServing, WhenAM125UnderACluster_LinksBeginWithItsRoot) {
  const Json index = get("/clusters/abc/openapi/v3").json();
  const std::string_view link = index.text({"paths", "api/v1", "serverRelativeURL"});
  EXPECT_TRUE(link.starts_with("/clusters/abc/openapi/v3/api/v1?hash=")) << link;
  EXPECT_EQ(get(link).header("cache-control"), "public, immutable");
}

TEST_F(OpenApiServing, WhenAM126To128AHashIsGiven_CachesOrRedirects) {
  const std::string path = "/openapi/v3/apis/ex.io/v1";
  auto plain = get(path);
  EXPECT_EQ(plain.status(), 200);
  EXPECT_EQ(plain.header("cache-control"), "no-cache, private");
  EXPECT_EQ(plain.header("content-type"), "application/json");
  const std::string hash = openapi_hash(plain.body());
  EXPECT_EQ(plain.header("etag"), '"' + hash + '"');

  auto right = get(path + "?hash=" + hash);
  EXPECT_EQ(right.header("cache-control"), "public, immutable");
  EXPECT_EQ(right.header("vary"), "Accept");
  EXPECT_TRUE(right.header("expires").ends_with(" GMT"));
  EXPECT_EQ(right.body(), plain.body());

  auto wrong = get(path + "?hash=WRONG");
  EXPECT_EQ(wrong.status(), 301);
  EXPECT_EQ(wrong.header("location"), path + "?hash=" + hash);

  auto again = get(path, {{"if-none-match", '"' + hash + '"'}});
  EXPECT_EQ(again.status(), 304);
  EXPECT_TRUE(again.body().empty());
}

TEST_F(OpenApiServing, WhenAM129NothingFits_AnswersWithoutBody) {
  auto unknown = get("/openapi/v3/apis/none.example.test/v1");
  EXPECT_EQ(unknown.status(), 404);
  EXPECT_TRUE(unknown.body().empty());
  auto html = get("/openapi/v3/api/v1", {{"accept", "text/html"}});
  EXPECT_EQ(html.status(), 406);
  EXPECT_TRUE(html.body().empty());
  EXPECT_EQ(server_.send("POST", "/openapi/v3", std::string_view("{}")).status(), 405);
}

TEST_F(OpenApiServing, WhenAM130ABuiltinKindIsShown_HasNamesAndReferences) {
  const Json core = document("api/v1");
  EXPECT_EQ(core.text({"openapi"}), "3.0.0");
  EXPECT_EQ(core.text({"info", "title"}), "Kubernetes");
  const Json& map = schema(core, "io.k8s.api.core.v1.ConfigMap");
  EXPECT_EQ(map.find("x-kubernetes-group-version-kind")->dump(),
            R"([{"group":"","kind":"ConfigMap","version":"v1"}])");
  EXPECT_FALSE(map.text({"description"}).empty());
  EXPECT_FALSE(map.text({"properties", "data", "description"}).empty());
  EXPECT_EQ(map.at({"properties", "data", "additionalProperties"})->dump(),
            R"({"default":"","type":"string"})");
  EXPECT_EQ(map.text({"properties", "binaryData", "additionalProperties", "format"}), "byte");
  EXPECT_EQ(map.at({"properties", "metadata", "allOf"})->dump(),
            R"([{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])");
  EXPECT_NE(core.at({"paths", "/api/v1/namespaces/{namespace}/configmaps/{name}"}), nullptr);
  EXPECT_EQ(
      core.text({"paths", "/api/v1/namespaces/{namespace}/configmaps", "post", "operationId"}),
      "createCoreV1NamespacedConfigMap");
  EXPECT_EQ(core.text({"paths", "/api/v1/configmaps", "get", "operationId"}),
            "listCoreV1ConfigMapForAllNamespaces");
  EXPECT_EQ(core.text({"paths", "/api/v1/namespaces/{name}/finalize", "put", "operationId"}),
            "replaceCoreV1NamespaceFinalize");
}

TEST_F(OpenApiServing, WhenAM131PatchIsShown_HasWhatKubectlLooksFor) {
  const Json core = document("api/v1");
  const Json* patch =
      core.at({"paths", "/api/v1/namespaces/{namespace}/configmaps/{name}", "patch"});
  ASSERT_NE(patch, nullptr);
  EXPECT_EQ(patch->text({"x-kubernetes-action"}), "patch");
  EXPECT_EQ(patch->find("x-kubernetes-group-version-kind")->dump(),
            R"({"group":"","kind":"ConfigMap","version":"v1"})");
  for (const std::string_view name : {"dryRun", "fieldManager", "fieldValidation", "force"}) {
    EXPECT_TRUE(has_query_parameter(*patch, name)) << name;
  }
}

TEST_F(OpenApiServing, WhenAM131PatchTypesAreShown_TheyAreThoseThatAreServed) {
  constexpr std::string_view kTypes[] = {
      "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
      "application/strategic-merge-patch+json", "application/apply-patch+cbor"};
  const std::pair<std::string_view, std::string> documents[] = {
      {"api/v1", "/api/v1/namespaces/{namespace}/configmaps/{name}"},
      {"apis/ex.io/v1", "/apis/ex.io/v1/namespaces/{namespace}/widgets/{name}"}};
  for (const auto& [key, path] : documents) {
    const Json whole = document(key);
    const Json* shown = whole.at({"paths", path, "patch", "requestBody", "content"});
    ASSERT_NE(shown, nullptr) << path;
    std::string target = path;
    target.replace(target.find("{namespace}"), 11, "t1");
    target.replace(target.find("{name}"), 6, "absent");
    for (const std::string_view type : kTypes) {
      auto answer = server_.send("PATCH", target + "?fieldManager=m", std::string_view("{}"),
                                 {{"content-type", std::string(type)}});
      EXPECT_EQ(answer.status() != 415, shown->find(type) != nullptr) << path << ' ' << type;
    }
  }
}

TEST_F(OpenApiServing, WhenAM132ACustomKindIsShown_HasItsSchemaAndExtensions) {
  auto def = std::make_shared<ResourceDef>(*apiserver::testing::widget_kind());
  def->plural = "gadgets";
  def->kind = "Gadget";
  def->list_kind = "GadgetList";
  const auto source = Json::parse(R"({"type":"object","description":"A gadget.",
    "required":["spec"],"properties":{"spec":{"type":"object","required":["port"],"properties":{
    "port":{"x-kubernetes-int-or-string":true},
    "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
    "pod":{"type":"object","x-kubernetes-embedded-resource":true},
    "parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],
      "items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}},
    "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
    "box":{"type":"object","x-kubernetes-map-type":"atomic",
      "additionalProperties":{"type":"string","maxLength":5}},
    "size":{"type":"integer","minimum":1,"default":3,"description":"How large.",
      "x-kubernetes-validations":[{"rule":"self > 0","message":"positive"}]}}}}})");
  ASSERT_TRUE(source);
  def->versions[0].schema = krm::structural_schema(*source, true);
  server_.registry().add({def, {}});

  const Json whole = document("apis/ex.io/v1");
  const Json& gadget = schema(whole, "io.ex.v1.Gadget");
  EXPECT_EQ(gadget.text({"description"}), "A gadget.");
  EXPECT_EQ(gadget.find("required")->dump(), R"(["spec"])");
  const Json* spec = gadget.at({"properties", "spec", "properties"});
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(
      spec->find("port")->dump(),
      R"({"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true})");
  EXPECT_TRUE(spec->at({"any", "x-kubernetes-preserve-unknown-fields"})->as_bool());
  EXPECT_TRUE(spec->at({"pod", "x-kubernetes-embedded-resource"})->as_bool());
  EXPECT_EQ(spec->text({"parts", "x-kubernetes-list-type"}), "map");
  EXPECT_EQ(spec->at({"parts", "x-kubernetes-list-map-keys"})->dump(), R"(["id"])");
  EXPECT_EQ(spec->text({"tags", "x-kubernetes-list-type"}), "set");
  EXPECT_EQ(spec->text({"box", "x-kubernetes-map-type"}), "atomic");
  EXPECT_EQ(spec->at({"box", "additionalProperties", "maxLength"})->as_integer(), 5);
  EXPECT_EQ(spec->find("size")->dump(),
            R"({"default":3,"description":"How large.","minimum":1,"type":"integer",)"
            R"("x-kubernetes-validations":[{"message":"positive","rule":"self > 0"}]})");
}

TEST_F(OpenApiServing, WhenACustomGroupIsShown_HasItsPathsOnly) {
  const Json widgets = document("apis/ex.io/v1");
  std::vector<std::string> paths;
  for (const krm::JsonMember& path : widgets.find("paths")->members()) {
    paths.push_back(path.key);
  }
  const std::string base = "/apis/ex.io/v1/namespaces/{namespace}/widgets";
  EXPECT_EQ(paths, (std::vector<std::string>{base, base + "/{name}", base + "/{name}/scale",
                                             base + "/{name}/status", "/apis/ex.io/v1/widgets"}));
  EXPECT_EQ(widgets.text({"paths", base, "post", "operationId"}), "createExIoV1NamespacedWidget");
}

TEST_F(OpenApiServing, WhenAM133BuiltinListsAreShown_HavePatchStrategies) {
  const Json leases = document("apis/coordination.k8s.io/v1");
  const Json& meta = schema(leases, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
  const Json* owners = meta.at({"properties", "ownerReferences"});
  ASSERT_NE(owners, nullptr);
  EXPECT_EQ(owners->text({"x-kubernetes-list-type"}), "map");
  EXPECT_EQ(owners->find("x-kubernetes-list-map-keys")->dump(), R"(["uid"])");
  EXPECT_EQ(owners->text({"x-kubernetes-patch-merge-key"}), "uid");
  EXPECT_EQ(owners->text({"x-kubernetes-patch-strategy"}), "merge");
  EXPECT_EQ(meta.text({"properties", "finalizers", "x-kubernetes-list-type"}), "set");
  EXPECT_EQ(schema(leases, "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference")
                .find("required")
                ->dump(),
            R"(["apiVersion","kind","name","uid"])");
  EXPECT_EQ(schema(leases, "io.k8s.api.coordination.v1.LeaseSpec")
                .text({"properties", "leaseDurationSeconds", "format"}),
            "int32");
  EXPECT_EQ(schema(leases, "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime").text({"format"}),
            "date-time");
}

TEST_F(OpenApiServing, WhenAnyDocumentIsRead_ItsReferencesAreInside) {
  const Json index = get("/openapi/v3").json();
  for (const krm::JsonMember& path : index.find("paths")->members()) {
    const Json whole = document(path.key);
    std::vector<std::string> references;
    collect_references(whole, references);
    for (const std::string& reference : references) {
      constexpr std::string_view kPrefix = "#/components/schemas/";
      ASSERT_TRUE(reference.starts_with(kPrefix)) << reference;
      EXPECT_NE(whole.at({"components", "schemas", reference.substr(kPrefix.size())}), nullptr)
          << path.key << ' ' << reference;
    }
  }
}

TEST_F(OpenApiServing, WhenAKindIsAdded_OnlyItsDocumentChanges) {
  const Json before = get("/openapi/v3").json();
  auto def = std::make_shared<ResourceDef>(*apiserver::testing::widget_kind());
  def->plural = "gadgets";
  def->kind = "Gadget";
  server_.registry().add({def, {}});
  const Json after = get("/openapi/v3").json();
  EXPECT_NE(before.text({"paths", "apis/ex.io/v1", "serverRelativeURL"}),
            after.text({"paths", "apis/ex.io/v1", "serverRelativeURL"}));
  EXPECT_EQ(before.text({"paths", "api/v1", "serverRelativeURL"}),
            after.text({"paths", "api/v1", "serverRelativeURL"}));
}

TEST_F(OpenApiServing, WhenAM135OldClientsAsk_GetTheProtobufDocument) {
  auto protobuf = get("/openapi/v2", {{"accept", std::string(kProtobuf)}});
  EXPECT_EQ(protobuf.status(), 200);
  EXPECT_EQ(protobuf.header("content-type"),
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
  EXPECT_EQ(protobuf.body().substr(0, 5),
            "\x0a\x03"
            "2.0");
  EXPECT_NE(protobuf.body().find("io.k8s.api.core.v1.ConfigMap"), std::string::npos);
  const std::string tag(protobuf.header("etag"));
  EXPECT_FALSE(tag.empty());
  auto again = get("/openapi/v2", {{"accept", std::string(kProtobuf)}, {"if-none-match", tag}});
  EXPECT_EQ(again.status(), 304);
  EXPECT_EQ(get("/openapi/v2", {{"accept", "text/html"}}).status(), 406);
}

TEST_F(OpenApiServing, WhenAM136JsonIsAsked_HasDefinitionsAndPaths) {
  const Json json = get("/openapi/v2").json();
  EXPECT_EQ(json.text({"swagger"}), "2.0");
  const Json* map = json.at({"definitions", "io.k8s.api.core.v1.ConfigMap"});
  ASSERT_NE(map, nullptr);
  EXPECT_EQ(map->find("x-kubernetes-group-version-kind")->dump(),
            R"([{"group":"","kind":"ConfigMap","version":"v1"}])");
  EXPECT_EQ(map->text({"properties", "metadata", "$ref"}),
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
  const Json* patch =
      json.at({"paths", "/api/v1/namespaces/{namespace}/configmaps/{name}", "patch"});
  ASSERT_NE(patch, nullptr);
  EXPECT_EQ(patch->text({"x-kubernetes-action"}), "patch");
  EXPECT_TRUE(has_query_parameter(*patch, "dryRun"));
  EXPECT_EQ(json.text({"paths", "/api/v1/namespaces/{namespace}/configmaps", "get", "operationId"}),
            "listCoreV1NamespacedConfigMap");
  EXPECT_NE(json.at({"definitions", "io.ex.v1.Widget"}), nullptr);
}

TEST_F(OpenApiServing, WhenAM136AnyDefinitionRefers_ItsTargetIsInside) {
  const Json json = get("/openapi/v2").json();
  std::vector<std::string> references;
  collect_references(json, references);
  EXPECT_GT(references.size(), 100U);
  for (const std::string& reference : references) {
    constexpr std::string_view kPrefix = "#/definitions/";
    ASSERT_TRUE(reference.starts_with(kPrefix)) << reference;
    EXPECT_NE(json.at({"definitions", reference.substr(kPrefix.size())}), nullptr) << reference;
  }
}

TEST_F(OpenApiServing, WhenAM136AKindIsAdded_TheTagChanges) {
  const std::string before(get("/openapi/v2").header("etag"));
  EXPECT_EQ(get("/openapi/v2").header("etag"), before);
  auto def = std::make_shared<ResourceDef>(*apiserver::testing::widget_kind());
  def->plural = "gadgets";
  def->kind = "Gadget";
  server_.registry().add({def, {}});
  EXPECT_NE(get("/openapi/v2").header("etag"), before);
}

TEST_F(OpenApiServing, WhenTheIndexIsReadWithASlash_IsEmpty) {
  auto answer = get("/openapi/v3/");
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(answer.body(), "");
  EXPECT_TRUE(answer.header("content-type").empty());
}

TEST_F(OpenApiServing, WhenAM134ProtobufV3IsAsked_IsNotAcceptable) {
  auto answer = get("/openapi/v3/api/v1",
                    {{"accept", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"}});
  EXPECT_EQ(answer.status(), 406);
}

}  // namespace
}  // namespace kintsugi::apiserver::internal
