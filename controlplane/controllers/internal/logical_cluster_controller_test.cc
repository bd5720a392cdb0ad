#include "controlplane/controllers/internal/logical_cluster_controller.h"

#include <gtest/gtest.h>

#include "apiserver/keys.h"
#include "apiserver/testing/controller_server.h"
#include "kinds/replicas.h"
#include "store/memory/memory_store.h"

namespace kintsugi::controlplane {
namespace {

class LogicalClusterControllerTest : public apiserver::ControllerTest {
 protected:
  void put_row(std::string_view resource, std::string_view cluster, std::string_view name) {
    ASSERT_TRUE(store_.commit_wait(
        {{store::EventType::kPut, *apiserver::object_key(resource, cluster, "", name), "x",
          std::nullopt}}));
  }
  [[nodiscard]] bool has_row(std::string_view resource, std::string_view cluster,
                             std::string_view name) const {
    return store_.get(*apiserver::object_key(resource, cluster, "", name)).has_value();
  }

  store::MemoryStore store_;
  ClusterIndex index_;
};

TEST_F(LogicalClusterControllerTest, AM489_WhenAClusterIsGone_ItsRowsAreSwept) {
  const std::string copies = apiserver::stored_resource(kinds::kReplicaGroup, "apiexports");
  for (const char* cluster : {"gone", "other"}) {
    put_row("apiexports.apis.kcp.io", cluster, "widgets");
    put_row(copies, cluster, "widgets");
    put_row("widgets.ex.io:0a1b", cluster, "w");
    put_row("zebras.ex.io", cluster, "z");
  }
  LogicalClusterController controller(
      context(),
      {"one", store_, index_, [] { return std::string(); }, [](std::string_view, bool) {}});
  controller.start();
  controller.add_cluster("gone");
  server_.run(controller);
  EXPECT_FALSE(has_row("apiexports.apis.kcp.io", "gone", "widgets"));
  EXPECT_FALSE(has_row("widgets.ex.io:0a1b", "gone", "w"));
  EXPECT_FALSE(has_row("zebras.ex.io", "gone", "z"));
  EXPECT_TRUE(has_row(copies, "gone", "widgets")) << "it may live on another shard";
  for (const std::string& resource :
       {std::string("apiexports.apis.kcp.io"), copies, std::string("widgets.ex.io:0a1b")}) {
    const char* name = resource.starts_with("widgets") ? "w" : "widgets";
    EXPECT_TRUE(has_row(resource, "other", name)) << resource;
  }
}

/// One logical cluster with a config map, and the controller that keeps it.
class LivingClusterTest : public LogicalClusterControllerTest {
 protected:
  LivingClusterTest()
      : controller_(context(), {"one", store_, index_, [] { return std::string("https://proxy"); },
                                [](std::string_view, bool) {}}) {
    server_.serve("core.kcp.io", "logicalclusters", "LogicalCluster", false);
    server_.serve("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", false);
    controller_.start();
  }
  void put(const char* text) {
    server_.put(kKey, text);
    server_.run(controller_);
  }
  /// Of a list in status, "" when it is absent.
  [[nodiscard]] std::string list(std::string_view name) const {
    const krm::Json* names = server_.find(kKey)->at({"status", name});
    return names == nullptr ? "" : names->dump();
  }
  [[nodiscard]] std::string phase() const {
    return std::string(server_.find(kKey)->text({"status", "phase"}));
  }

  const apiserver::ObjectKey kKey{"c", "core.kcp.io", "logicalclusters", "", "cluster"};
  LogicalClusterController controller_;
};

TEST_F(LivingClusterTest, WhenNew_AM488_KK109_ListsGoFromSpecToStatus) {
  put(R"({"spec": {"initializers": ["a:b", "root:universal", "system:apibindings"],
                   "terminators": ["a:t"]}})");
  EXPECT_EQ(phase(), "Initializing");
  EXPECT_EQ(list("initializers"), R"(["a:b","system:apibindings"])");
  EXPECT_EQ(list("terminators"), R"(["a:t"])");
  EXPECT_NE(server_.find({"c", "", "namespaces", "", "default"}), nullptr);

  krm::Json object = *server_.find(kKey);
  object.at({"status"})->erase("initializers");
  server_.put(kKey, std::move(object));
  server_.run(controller_);
  EXPECT_EQ(phase(), "Ready");
}

TEST_F(LivingClusterTest, WhenNobodyInitializes_IsReadyAtOnce) {
  put(R"({"spec": {"initializers": ["root:universal"]}})");
  EXPECT_EQ(phase(), "Ready");
  EXPECT_EQ(list("initializers"), "");
}

TEST_F(LivingClusterTest, WhenDeleted_TP075_ContentStaysUntilTheTerminatorsAreGone) {
  server_.put(config_map("kept"));
  const char* going = R"({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
      "finalizers": ["core.kcp.io/logicalcluster-deletion"]}, "status": {"phase": "Terminating",
      "terminators": ["a:t"]}})";
  put(going);
  EXPECT_NE(server_.find(config_map("kept")), nullptr);
  krm::Json object = *server_.find(kKey);
  object.at({"status"})->erase("terminators");
  server_.put(kKey, std::move(object));
  server_.run_until([&] { return server_.find(kKey) == nullptr; });
  EXPECT_EQ(server_.find(config_map("kept")), nullptr);
}

TEST_F(LivingClusterTest, KK117_WhoServesAResource_IsWrittenDownAndRestored) {
  const auto locks = [this] {
    return std::string(server_.find(kKey)->text(
        {"metadata", "annotations", "internal.apis.kcp.io/resource-bindings"}));
  };
  server_.serve("apis.kcp.io", "apibindings", "APIBinding", false);
  server_.serve("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
                false);
  put(R"({"metadata": {"annotations": {"internal.apis.kcp.io/resource-bindings": "{}"}}})");
  EXPECT_EQ(locks(), "{}");
  const auto definition = [this](const char* plural, const char* status) {
    server_.put(
        {"c", "apiextensions.k8s.io", "customresourcedefinitions", "",
         std::string(plural) + ".ex.io"},
        *krm::Json::parse(std::string(R"({"spec": {"group": "ex.io", "names": {"plural": ")") +
                          plural + R"("}}, "status": {"conditions": [{"type": "Established",
                                  "status": ")" +
                          status + R"("}]}})"));
  };
  definition("widgets", "True");
  definition("refused", "False");  // another has its names
  server_.put({"c", "apis.kcp.io", "apibindings", "", "gears"},
              *krm::Json::parse(R"({"status": {"boundResources": [{"group": "gear.io",
                  "resource": "gears"}, {"group": "", "resource": "things"}]}})"));
  const std::string wanted =
      R"({"gears.gear.io":{"n":"gears"},"things.core":{"n":"gears"},"widgets.ex.io":{"c":true}})";
  int number = 0;  // another label each time: nothing is written for ever (SE-101)
  const auto forge = [&](const std::string& annotations) {
    put((R"({"metadata": {"labels": {"n": ")" + std::to_string(++number) + "\"}" + annotations +
         "}}")
            .c_str());
  };
  for (const char* forged : {R"({\"gears.gear.io\":{\"n\":\"mine\"}})", "no JSON"}) {
    forge(R"(, "annotations": {"internal.apis.kcp.io/resource-bindings": ")" + std::string(forged) +
          "\"}");
    EXPECT_EQ(locks(), wanted) << forged;
  }
  forge("");
  EXPECT_EQ(locks(), wanted) << "none at all";
}

TEST_F(LivingClusterTest, KK104_WhenTheAdminBindingIsChanged_ItIsRestored) {
  const apiserver::ObjectKey binding{"c", "rbac.authorization.k8s.io", "clusterrolebindings", "",
                                     "workspace-admin"};
  krm::Json info = *krm::Json::parse(R"({"status": {"phase": "Ready"}})");
  index_.put_cluster("c", &info);
  put(R"({"metadata": {"annotations": {"experimental.tenancy.kcp.io/owner":
          "{\"username\":\"eve\"}"}}, "spec": {"createdBy": {"username": "ann"}}})");
  const auto holds = [&] {
    const krm::Json* found = server_.find(binding);
    return found != nullptr && found->text({"roleRef", "name"}) == "cluster-admin" &&
           found->find("subjects") != nullptr &&
           found->find("subjects")->dump() ==
               R"([{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}])";
  };
  EXPECT_TRUE(holds());
  const char* changed[] = {
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "cluster-admin"}, "subjects": [{"kind": "User", "name": "eve"}]})",
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "cluster-admin"}, "subjects": []})",
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "cluster-admin"}})",
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "cluster-admin"}, "subjects": [{"kind": "User", "name": "ann"},
          {"kind": "Group", "name": "system:authenticated"}]})",
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "view"}, "subjects": [{"kind": "User", "name": "ann"}]})",
      R"({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
          "name": "view"}, "subjects": [{"kind": "User", "name": "eve"}]})"};
  for (const char* text : changed) {
    server_.put(binding, text);
    server_.run_until(holds);
  }
  server_.erase(binding);
  server_.run_until(holds);
  server_.run(controller_);
  const int writes = server_.writes;
  server_.run(controller_);
  EXPECT_EQ(server_.writes, writes);
}

}  // namespace
}  // namespace kintsugi::controlplane
