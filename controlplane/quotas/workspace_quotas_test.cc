#include "controlplane/quotas/workspace_quotas.h"

#include <gtest/gtest.h>

#include <string>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/controllers/owner_annotation.h"
#include "krm/annotations.h"
#include "store/memory/memory_store.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json parsed(const std::string& text) { return *Json::parse(text); }

/// What a store with the rules says, after objects have been put into it.
class WorkspaceBooks : public ::testing::Test {
 protected:
  void put_text(std::string_view resource, std::string_view cluster, std::string_view ns,
                std::string_view name, const std::string& value) {
    const auto key = apiserver::object_key(resource, cluster, ns, name);
    ASSERT_TRUE(key);
    ASSERT_TRUE(store_.commit_wait({{store::EventType::kPut, *key, value, {}}}));
  }
  void put(std::string_view resource, std::string_view cluster, std::string_view ns,
           std::string_view name,
           const Json& object = Json::object({{"metadata", Json::object()}})) {
    put_text(resource, cluster, ns, name, apiserver::encode_stored(object));
  }
  std::int64_t sum(std::string_view account, Quota quota) {
    return store_.books()->sums(account)[column_of(quota)];
  }
  store::MemoryStore store_{workspace_books()};
};

TEST_F(WorkspaceBooks, SE093_KK233_WhatCountsIsCounted) {
  put("configmaps", "c", "default", "a");
  put("configmaps", "d", "default", "a");
  put("events", "c", "default", "e");
  put("logicalclusters.core.kcp.io", "c", "", "cluster");
  put("clusterrolebindings.rbac.authorization.k8s.io", "c", "", "workspace-admin");
  EXPECT_EQ(sum("c", Quota::kObjects), 1);
  EXPECT_GT(sum("c", Quota::kBytes), 4 * sum("d", Quota::kBytes) - 1) << "bytes are of all";
  put("clusterrolebindings.rbac.authorization.k8s.io", "c", "", "another");
  put("namespaces", "c", "", "n");
  put("serviceaccounts", "c", "n", "s");
  put("customresourcedefinitions.apiextensions.k8s.io", "c", "", "x.ex.io");
  put("apiexports.apis.kcp.io", "c", "", "e");
  put("apibindings.apis.kcp.io", "c", "", "b");
  put("widgets.ex.io:0a1b", "c", "n", "w");
  EXPECT_EQ(sum("c", Quota::kObjects), 8);
  for (const Quota quota : {Quota::kNamespaces, Quota::kServiceAccounts, Quota::kDefinitions,
                            Quota::kExports, Quota::kBindings}) {
    EXPECT_EQ(sum("c", quota), 1) << quota_name(quota);
  }
}

TEST_F(WorkspaceBooks, SE093_TheServersOwnRowsAreNobodys) {
  put("workspaces.facts", "c", "", "w");
  put("apiexports.replica", "c", "", "e");
  put("apiresourceschemas.bound", "system:bound", "", "uid");
  EXPECT_EQ(store_.books()->sums("c"), store::Sums{});
  EXPECT_EQ(store_.books()->sums("system:bound"), store::Sums{});
}

TEST_F(WorkspaceBooks, SE093_BoundSchemasAreDefinitions) {
  const Json bound = parsed(R"({"metadata":{"name":"b"},"status":{"boundResources":[
      {"group":"ex.io","resource":"a","schema":{"UID":"]}"}},{"group":"ex.io","resource":"b"}]}})");
  put("apibindings.apis.kcp.io", "c", "", "b", bound);
  EXPECT_EQ(sum("c", Quota::kDefinitions), 2);
  EXPECT_EQ(sum("c", Quota::kBindings), 1);
  put_text("apibindings.apis.kcp.io", "c", "", "b", "k8s:enc:aesgcm:v1:key:whatever");
  EXPECT_EQ(sum("c", Quota::kDefinitions), 0) << "what is encrypted cannot be looked into";
  EXPECT_EQ(sum("c", Quota::kBindings), 1);
  for (const char* broken : {"", "x", "\x01", "{\"boundResources\":[{"}) {
    put_text("apibindings.apis.kcp.io", "c", "", "b", broken);
    EXPECT_EQ(sum("c", Quota::kBindings), 1);
  }
}

TEST_F(WorkspaceBooks, SE093_WorkspacesCountForTheirOwner) {
  const auto workspace = [](const std::string& user) {
    auth::UserInfo info;
    info.name = user;
    info.groups = {"g"};
    Json object = Json::object({{"metadata", Json::object()}});
    object.make({"metadata", "annotations", krm::kOwnerAnnotation}) = owner_annotation(info);
    return object;
  };
  const auto account = [&](const std::string& user) {
    const std::string text = Json(owner_annotation([&] {
                               auth::UserInfo info;
                               info.name = user;
                               return info;
                             }()))
                                 .dump();
    // The annotation as it is stored, without what follows the name.
    const std::size_t end = text.rfind("\\\"");
    return text.substr(1, end - 1);
  };
  int number = 0;
  for (const char* user : {"ann", "ann\"x", "ann\\", "ann\\\"", "\"", "a{b}", "user:ann"}) {
    const std::string name = "w" + std::to_string(++number);
    put("workspaces.tenancy.kcp.io", "c", "", name, workspace(user));
    put("workspaces.tenancy.kcp.io", "d", "", name, workspace(user));
    EXPECT_EQ(sum(account(user), Quota::kOwned), 2) << user << " " << account(user);
    EXPECT_TRUE(is_owner_account(account(user)));
  }
  EXPECT_EQ(sum("c", Quota::kChildren), 7);
  put("workspaces.tenancy.kcp.io", "c", "", "w1");  // says nothing
  EXPECT_EQ(sum(account("ann"), Quota::kOwned), 1);
}

TEST(WorkspaceQuotas, SE093_DefaultsHoldFromReadyOnAndAnnotationsSayOtherwise) {
  const store::Sums defaults = default_quotas();
  Json cluster = parsed(R"({"metadata":{"annotations":{}},"status":{"phase":"Initializing"}})");
  EXPECT_FALSE(quotas_of("c", cluster, defaults));
  cluster.make({"status", "phase"}) = "Ready";
  auto most = quotas_of("c", cluster, defaults);
  ASSERT_TRUE(most);
  EXPECT_EQ((*most)[column_of(Quota::kObjects)], 100'000);
  EXPECT_EQ((*most)[column_of(Quota::kBytes)], 512 << 20);
  EXPECT_EQ((*most)[column_of(Quota::kOwned)], store::kNoLimit) << "is of owners";
  for (const char* own : {"root", "system:admin"}) {
    EXPECT_EQ(*quotas_of(own, cluster, defaults), store::no_limits());
  }
  struct Case {
    const char* text;
    std::int64_t most;
  };
  for (const Case& one : {Case{"7", 7}, Case{"1Ki", 1024}, Case{"0", store::kNoLimit},
                          Case{"-1", store::kNoLimit}, Case{"x", 100'000}, Case{"", 100'000}}) {
    cluster.make({"metadata", "annotations", krm::kMaxObjectsAnnotation}) = one.text;
    EXPECT_EQ((*quotas_of("c", cluster, defaults))[column_of(Quota::kObjects)], one.most)
        << one.text;
  }
  cluster.make({"metadata", "annotations", krm::kMaxChildrenAnnotation}) = "3";
  EXPECT_EQ((*quotas_of("root", cluster, defaults))[column_of(Quota::kChildren)], 3);
}

class Write final : public apiserver::PendingWrite {
 public:
  [[nodiscard]] std::string_view verb() const noexcept override { return "create"; }
  [[nodiscard]] bool is_dry_run() const noexcept override { return false; }
  [[nodiscard]] Json options_document(apiserver::Operation) const override { return {}; }
  void convert(Json, apiserver::ServedKindPtr, std::function<void(Expected<Json>)>) override {}
  [[nodiscard]] Duration time_left() const override { return {}; }
  void take_back(Json, apiserver::ServedKindPtr, std::function<void(Expected<Json>)>) override {}
};

TEST(QuotaStep, SE093_WhoeverComesFromOutsideIsBoundButMasters) {
  store::MemoryStore store(workspace_books());
  const ApiCatalog catalog;
  const auto step = quota_step(*store.books(), catalog);
  Write write;
  write.user.name = "ann";
  const std::uint32_t owned = 1U << column_of(Quota::kOwned);
  const std::uint32_t bytes = 1U << column_of(Quota::kBytes);
  EXPECT_NE(step->keeps(write).columns & owned, 0U);
  EXPECT_NE(step->keeps(write).columns & bytes, 0U);
  EXPECT_FALSE(step->keeps(write).reserve);
  write.subresource = "status";
  EXPECT_EQ(step->keeps(write).columns, bytes);
  EXPECT_TRUE(step->keeps(write).reserve);
  write.subresource.clear();
  write.user.groups = {std::string(auth::kGroupKcpAdmin)};
  EXPECT_EQ(step->keeps(write).columns & owned, 0U);
  EXPECT_NE(step->keeps(write).columns & bytes, 0U);
  write.user.groups = {std::string(auth::kGroupMasters)};
  EXPECT_EQ(step->keeps(write).columns, 0U);
}

}  // namespace
}  // namespace kintsugi::controlplane
