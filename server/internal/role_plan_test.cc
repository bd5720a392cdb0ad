#include "server/internal/role_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "server/files.h"
#include "server/internal/embedded_files.h"
#include "server/internal/worker_roles.h"

namespace kintsugi::server {
namespace {

using krm::Json;

RolePlan plan_of(const std::string& role) {
  auto plan = plan_role(role);
  EXPECT_TRUE(plan) << plan.error().to_string();
  return plan ? std::move(*plan) : RolePlan();
}

std::vector<const Json*> of_kind(const std::vector<Json>& objects, std::string_view kind) {
  std::vector<const Json*> out;
  for (const Json& object : objects) {
    if (object.text({"kind"}) == kind) {
      out.push_back(&object);
    }
  }
  return out;
}

TEST(EmbeddedFiles, TheyAreWhatIsInTheFolder) {
  EXPECT_GE(embedded_files().size(), 18U);
  for (const EmbeddedFile& file : embedded_files()) {
    const auto text =
        read_file(std::string(KINTSUGI_SOURCE_DIR) + "/configs/" + std::string(file.name));
    ASSERT_TRUE(text) << file.name;
    EXPECT_EQ(*text, file.text) << file.name;
  }
}

TEST(RolePlan, EveryRoleWithAnExportHasOne) {
  for (const std::string& role : worker_roles()) {
    const RolePlan plan = plan_of(role);
    // It has no export: it fills workspaces that its clients name.
    EXPECT_EQ(plan.in_provider.empty(), role == "delivery");
    EXPECT_EQ(plan.in_targets.empty(), role != "delivery");
    EXPECT_EQ(plan.in_pools.empty(), role != "eventing");  // its dispatchers stand there
    EXPECT_FALSE(plan.in_root.empty()) << role;
    EXPECT_FALSE(plan.in_leases.empty()) << role;
  }
}

TEST(RolePlan, WhatThereAreNoFilesOf_IsNamed) {
  const auto plan = plan_role("nonsense");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message(), "this program has no APIExport for workers of role nonsense");
  EXPECT_FALSE(plan_role("worker/lease"));
  EXPECT_FALSE(plan_role(""));
}

TEST(RolePlan, SchemasComeFirst_ThenRightsTheExportAndTheSlice) {
  for (const auto& [role, schemas] : {std::pair<const char*, std::size_t>("example", 1),
                                      std::pair<const char*, std::size_t>("eventing", 7),
                                      std::pair<const char*, std::size_t>("messaging", 12)}) {
    const RolePlan plan = plan_of(role);
    ASSERT_GE(plan.in_provider.size(), schemas + 4) << role;
    EXPECT_EQ(of_kind(plan.in_provider, "APIResourceSchema").size(), schemas);
    EXPECT_EQ(plan.in_provider[schemas - 1].text({"kind"}), "APIResourceSchema");
    EXPECT_EQ(plan.in_provider[plan.in_provider.size() - 2].text({"kind"}), "APIExport");
    const Json& slice = plan.in_provider.back();
    EXPECT_EQ(of_kind(plan.in_provider, "APIExportEndpointSlice").size(), 1U);
    EXPECT_EQ(slice.text({"metadata", "name"}), "workers");
    EXPECT_EQ(slice.text({"spec", "export", "path"}), "root:" + std::string(role));
    EXPECT_EQ(slice.text({"spec", "export", "name"}),
              plan.in_provider[plan.in_provider.size() - 2].text({"metadata", "name"}));
    EXPECT_EQ(slice.text({"spec", "partition"}), "workers");
    EXPECT_EQ(slice.text({"metadata", "annotations", "kintsugi.dev/endpoint-mode"}), "proxied");
  }
}

TEST(RolePlan, TheExportNamesTheSchemasThatAreThere_ByWhatTheySay) {
  const RolePlan plan = plan_of("messaging");
  std::set<std::string> there, named;
  for (const Json* schema : of_kind(plan.in_provider, "APIResourceSchema")) {
    const std::string name(schema->text({"metadata", "name"}));
    EXPECT_EQ(name.find('.'), 9U) << name;
    EXPECT_TRUE(name.ends_with("." + std::string(schema->text({"spec", "names", "plural"})) + "." +
                               std::string(schema->text({"spec", "group"}))))
        << name;
    there.insert(name);
  }
  for (const Json& resource :
       of_kind(plan.in_provider, "APIExport").front()->at({"spec", "resources"})->items()) {
    named.insert(std::string(resource.text({"schema"})));
  }
  EXPECT_EQ(there, named);
  EXPECT_EQ(there.size(), 12U);
}

TEST(RolePlan, RightsAreTheGroupsOfTheRole_AndNobodyElses) {
  for (const std::string role : {"example", "eventing", "messaging"}) {
    const RolePlan plan = plan_of(role);
    std::size_t bound = 0;
    for (const auto* objects : {&plan.in_root, &plan.in_provider, &plan.in_leases}) {
      for (const Json& object : *objects) {
        const Json* const subjects = object.find("subjects");
        if (subjects == nullptr) {
          continue;
        }
        ASSERT_EQ(subjects->size(), 1U);
        EXPECT_EQ(subjects->items().front().text({"kind"}), "Group");
        const std::string_view name = subjects->items().front().text({"name"});
        bound += name == role + "-workers" ? 1U : 0U;
        EXPECT_TRUE(name == role + "-workers" || name == "system:authenticated") << name;
      }
    }
    EXPECT_EQ(bound, 4U) << role;
  }
}

TEST(RolePlan, RolesDoNotShareABindingInRoot) {
  const RolePlan one = plan_of("example"), other = plan_of("messaging");
  EXPECT_EQ(of_kind(one.in_root, "ClusterRoleBinding").front()->text({"metadata", "name"}),
            "workers-at-shards-example");
  EXPECT_EQ(of_kind(other.in_root, "ClusterRoleBinding").front()->text({"metadata", "name"}),
            "workers-at-shards-messaging");
}

TEST(RolePlan, ObjectsHavePaths) {
  const RolePlan plan = plan_of("example");
  EXPECT_EQ(object_target("root:example:leases-root", plan.in_leases.front()),
            "/clusters/root:example:leases-root/api/v1/namespaces/kintsugi-system");
  EXPECT_EQ(object_target("c", *of_kind(plan.in_leases, "RoleBinding").front()),
            "/clusters/c/apis/rbac.authorization.k8s.io/v1/namespaces/kintsugi-system/rolebindings/"
            "worker");
  EXPECT_EQ(object_target("c", *of_kind(plan.in_provider, "APIExport").front()),
            "/clusters/c/apis/apis.kcp.io/v1alpha2/apiexports/greetings");
  EXPECT_EQ(collection_target("root", workspace_on("a", "root")),
            "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces");
}

TEST(RolePlan, PartitionAndWorkspacesNameShards) {
  EXPECT_EQ(partition_of_workers({"root", "far"}).find("spec")->dump(),
            R"({"selector":{"matchExpressions":[{"key":"name","operator":"In",)"
            R"("values":["root","far"]}]}})");
  EXPECT_EQ(workspace_on("leases-far", "far").find("spec")->dump(),
            R"({"location":{"selector":{"matchLabels":{"name":"far"}}}})");
}

TEST(RolePlan, TheWorkerUnderstandsWhatItIsTold) {
  const Layout layout{"/srv/it"};
  const WorkerConfig config = config_of_role(layout, {"example"}, {"root", "shard-1"});
  const auto read = parse_worker_config(render_worker_config(config),
                                        layout.worker_config("example"), worker_roles());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->health.address, "/srv/it/run/worker-example.sock");
  EXPECT_EQ(read->metrics.address, "/srv/it/run/worker-example.metrics.sock");
  EXPECT_EQ(read->kubeconfig, "/srv/it/workers/example/worker.kubeconfig");
  EXPECT_EQ(read->data_dir, "/srv/it/workers/example/data");
  ASSERT_EQ(read->roles.size(), 1U);
  EXPECT_EQ(read->roles.front().slice_cluster, "root:example");
  EXPECT_EQ(read->roles.front().slice, "workers");
  EXPECT_EQ(read->roles.front().lease_clusters,
            (std::vector<std::string>{"root:example:leases-root", "root:example:leases-shard-1"}));
}

}  // namespace
}  // namespace kintsugi::server
