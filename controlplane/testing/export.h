#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/testing/fake_server.h"
#include "base/strings.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "controlplane/views/apiexport_view.h"
#include "controlplane/views/claim_labeller.h"
#include "controlplane/views/claim_labels.h"
#include "kinds/builtin_kinds.h"

/// For tests of virtual workspaces only: the export "widgets" of cluster "prov" with identity
/// "idw", which user "provider" may use, and consumers "c1" and "c2", on a server that keeps the
/// labels of claims. Requests of "admin" and others go to the clusters themselves, those below
/// "/view" through the export's virtual workspace.
namespace kintsugi::controlplane {

class ExportTest : public ::testing::Test {
 protected:
  static std::vector<apiserver::ResourcePtr> kinds() {
    std::vector<apiserver::ResourcePtr> out = kinds::builtin_kinds();
    for (const apiserver::ResourcePtr& kind :
         {api_binding_kind(), api_export_kind(), api_resource_schema_kind()}) {
      out.push_back(kind);
    }
    return out;
  }

  ExportTest() : server(kinds()) {
    server.prepare_with([this](const apiserver::WriteContext& context,
                               const apiserver::ResourceDef& def, krm::Json& object,
                               const krm::Json* /*old*/) {
      return keep_claim_labels(bindings, in_root, context, def, object);
    });
    catalog.start(server.server());
    bindings.start(server.server());
    rbac.start(server.server());
    views.start(server.server());
    labeller.start();
    for (const char* cluster : {"prov", "c1", "c2"}) {
      must("POST", at(cluster, "/api/v1/namespaces"), R"({"metadata":{"name":"default"}})");
    }
    add_schema("prov", "v1.widgets.ex.io", "ex.io", "widgets", "Widget");
    add_export("prov", "widgets", "idw", R"([{"group":"ex.io","name":"widgets",
        "schema":"v1.widgets.ex.io","storage":{"crd":{}}}])");
    open();
  }
  ~ExportTest() override {
    server.look_through(nullptr);
    views_stop();
  }

  static std::string at(std::string_view cluster, std::string_view path) {
    return "/clusters/" + std::string(cluster) + std::string(path);
  }
  static std::string through(std::string_view cluster, std::string_view path) {
    return "/view" + at(cluster, path);
  }
  void must(std::string_view method, const std::string& target, std::string_view body,
            const char* type = "application/json") {
    const apiserver::testing::Exchange done =
        server.send(method, target, body, {{"content-type", type}});
    ASSERT_LT(done.status(), 300) << method << " " << target << " " << done.body();
    server.settle();
  }
  void merge(const std::string& target, std::string_view body) {
    must("PATCH", target, body, "application/merge-patch+json");
  }
  void add_schema(const char* cluster, const std::string& name, const std::string& group,
                  const std::string& plural, const std::string& kind) {
    must("POST", at(cluster, "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"),
         R"({"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIResourceSchema","metadata":{"name":")" +
             name + R"("},"spec":{"group":")" + group +
             R"(","scope":"Namespaced","names":{"plural":")" + plural + R"(","kind":")" + kind +
             R"(","singular":")" + to_lower(kind) + R"(","listKind":")" + kind +
             R"(List"},"versions":[{"name":"v1","served":true,"storage":true,
             "subresources":{"status":{}},"schema":{"type":"object",
             "x-kubernetes-preserve-unknown-fields":true}}]}})");
  }
  void add_export(const char* cluster, const std::string& name, const std::string& identity,
                  const std::string& resources) {
    must("POST", at(cluster, "/apis/apis.kcp.io/v1alpha2/apiexports"),
         R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport","metadata":{"name":")" + name +
             R"("},"spec":{"resources":)" + resources + "}}");
    merge(at(cluster, "/apis/apis.kcp.io/v1alpha2/apiexports/" + name + "/status"),
          R"({"status":{"identityHash":")" + identity + R"("}})");
  }
  /// Claims of the export, or those that a binding grants.
  void claim(const std::string& claims) {
    merge(at("prov", "/apis/apis.kcp.io/v1alpha2/apiexports/widgets"),
          R"({"spec":{"permissionClaims":)" + claims + "}}");
  }
  void grant(const char* cluster, const std::string& claims) {
    merge(at(cluster, "/apis/apis.kcp.io/v1alpha2/apibindings/wb"),
          R"({"spec":{"permissionClaims":)" + claims + "}}");
  }
  void bind(const char* cluster, const std::string& provider = "prov") {
    must("POST", at(cluster, "/apis/apis.kcp.io/v1alpha2/apibindings"),
         R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBinding","metadata":{"name":"wb"},
             "spec":{"reference":{"export":{"path":")" +
             provider + R"(","name":"widgets"}}}})");
    merge(at(cluster, "/apis/apis.kcp.io/v1alpha2/apibindings/wb/status"),
          R"({"status":{"apiExportClusterName":")" + provider +
              R"(","phase":"Bound","boundResources":[{"group":"ex.io","resource":"widgets",
              "schema":{"name":"v1.widgets.ex.io","UID":"u","identityHash":"idw"}}]}})");
  }
  /// Gives "provider" verbs on the content of the export, in place of those before.
  void allow(const std::string& verbs, const char* resource = "apiexports/content") {
    const std::string roles = "/apis/rbac.authorization.k8s.io/v1/";
    must("PUT", at("prov", roles + "clusterroles/content"),
         R"({"metadata":{"name":"content"},"rules":[{"apiGroups":["apis.kcp.io"],"resources":[")" +
             std::string(resource) + R"("],"verbs":[)" + verbs + "]}]}");
    must("PUT", at("prov", roles + "clusterrolebindings/content"),
         R"({"metadata":{"name":"content"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
            "kind":"ClusterRole","name":"content"},"subjects":[{"kind":"User","name":"provider",
            "apiGroup":"rbac.authorization.k8s.io"}]})");
  }
  /// Looks through the virtual workspace of an export; null when it is refused.
  std::shared_ptr<apiserver::View> open(const char* cluster = "prov",
                                        const char* name = "widgets") {
    http::RequestHead head;
    head.method = "GET";
    head.target = "/services/apiexport/" + std::string(cluster) + "/" + name + "/clusters/*/api";
    const std::string_view rest = std::string_view(head.target).substr(19);
    const auto found = views.resolve({head, {}, "apiexport", rest});
    std::shared_ptr<apiserver::View> view = found && *found ? (*found)->view : nullptr;
    server.look_through(view);
    return view;
  }

  apiserver::testing::Exchange as_provider(std::string_view method, const std::string& target,
                                           std::string_view body = {},
                                           const char* type = "application/json") {
    return server.send(method, target, body, {{"x-user", "provider"}, {"content-type", type}});
  }
  int status(std::string_view method, const std::string& target, std::string_view body = {},
             const char* type = "application/json") {
    return as_provider(method, target, body, type).status();
  }
  std::vector<std::string> names(const std::string& target) {
    std::vector<std::string> out;
    const krm::Json list = as_provider("GET", target).json();
    const krm::Json* items = list.find("items");
    for (const krm::Json& item : items == nullptr ? krm::Json::Array() : items->items()) {
      out.push_back(std::string(item.text({"metadata", "annotations", "kcp.io/cluster"})) + "/" +
                    std::string(item.text({"metadata", "name"})));
    }
    return out;
  }
  static std::vector<std::string> seen(const apiserver::testing::Exchange& watch) {
    std::vector<std::string> out;
    for (const krm::Json& event : watch.events()) {
      const bool is_fault = event.text({"type"}) == "ERROR";
      out.push_back(std::string(event.text({"type"})) + " " +
                    std::string(is_fault ? event.text({"object", "message"})
                                         : event.text({"object", "metadata", "name"})));
    }
    return out;
  }
  void add_map(const char* cluster, const std::string& name, const std::string& labels = "{}") {
    must("POST", at(cluster, kMaps),
         R"({"metadata":{"name":")" + name + R"(","labels":)" + labels + "}}");
  }
  /// Until the labeller rests.
  void settle() {
    EXPECT_TRUE(server.run_until([this] {
      server.settle();
      return labeller.busy() == 0;
    }));
  }
  void views_stop() {
    rbac.stop();
    bindings.stop();
    catalog.stop();
  }

  static constexpr const char* kMaps = "/api/v1/namespaces/default/configmaps";
  static constexpr const char* kWidgets = "/apis/ex.io/v1/namespaces/default/widgets";
  static constexpr const char* kAllWidgets = "/apis/ex.io/v1/widgets";

  ApiCatalog catalog;
  BindingIndex bindings{catalog};
  IdentityCheck in_root;
  ClusterIndex clusters;
  kinds::RbacAuthorizer rbac{kinds::RbacParams()};
  apiserver::testing::FakeServer server;
  ApiExportViews views{{catalog, bindings, clusters, rbac, server.registry(), in_root}};
  ClaimLabeller labeller{{server.loop(), server.server(), server.registry()}, bindings, in_root};
};

}  // namespace kintsugi::controlplane
