#include "controlplane/views/lifecycle_view.h"

#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

auth::UserInfo user(std::string_view name) {
  auth::UserInfo out;
  out.name = name;
  out.groups = {std::string(auth::kGroupAuthenticated)};
  return out;
}

class LifecycleViewTest : public apiserver::ControllerTest {
 protected:
  LifecycleViewTest() : rbac_({}), types_(index_, root_) {
    server_.serve("tenancy.kcp.io", "workspacetypes", "WorkspaceType", false);
    server_.serve("core.kcp.io", "logicalclusters", "LogicalCluster", false);
    server_.serve("", "configmaps", "ConfigMap");
    views_ = std::make_unique<LifecycleViews>(
        LifecycleViewContext{server_, rbac_, rbac_, types_, index_,
                             [this]() -> const apiserver::ObjectReader& { return server_; }});
    views_->add_to(resolver_);
    Json root = Json::object();
    root.make({"status", "phase"}) = "Ready";
    index_.put_cluster("root", &root);
    set_type("{}");
    grant("root", "carol",
          R"([{"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"],
               "resourceNames": ["t"], "verbs": ["initialize"]}])");
    grant("c", "owner", R"([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])");
    put_cluster(R"({"spec": {"createdBy": {"username": "owner", "groups": ["g"]}},
                    "status": {"phase": "Initializing", "initializers": ["root:t"]}})");
  }
  void set_type(const char* spec) {
    Expected<Json> parsed = Json::parse(spec);
    ASSERT_TRUE(parsed);
    Json type = Json::object({{"spec", std::move(*parsed)}});
    root_.put_type("t", &type);
  }
  void put_cluster(const char* text) {
    server_.put({"c", std::string(kCoreGroup), std::string(kLogicalClusters), "", "cluster"}, text);
  }
  void grant(std::string_view cluster, std::string_view who, const char* rules) {
    Expected<Json> list = Json::parse(rules);
    ASSERT_TRUE(list);
    const Json role = Json::object({{"rules", std::move(*list)}});
    rbac_.apply(cluster, "clusterroles", "", who, &role);
    Json binding = Json::object();
    binding["roleRef"] = Json::object(
        {{"kind", "ClusterRole"}, {"apiGroup", "rbac.authorization.k8s.io"}, {"name", who}});
    binding["subjects"].push_back(
        Json::object({{"kind", "User"}, {"apiGroup", "rbac.authorization.k8s.io"}, {"name", who}}));
    rbac_.apply(cluster, "clusterrolebindings", "", who, &binding);
  }
  std::shared_ptr<apiserver::View> view(std::string_view services = "initializingworkspaces",
                                        std::string_view name = "root:t") {
    http::RequestHead head;
    head.method = "GET";
    head.target =
        "/services/" + std::string(services) + "/" + std::string(name) + "/clusters/c/api";
    auto target = resolver_.wrap({})(head, user("carol"));
    return target && *target ? (*target)->view : nullptr;
  }
  static auth::Attributes asks(std::string_view who, std::string_view group,
                               std::string_view resource, std::string_view cluster = "c") {
    auth::Attributes attributes;
    attributes.user = user(who);
    attributes.cluster = cluster;
    attributes.verb = "list";
    attributes.group = group;
    attributes.resource = resource;
    return attributes;
  }
  /// "yes", "no", or the error.
  std::string verdict(const auth::Attributes& attributes) {
    std::string out = "unanswered";
    const std::shared_ptr<apiserver::View> asked = view();
    asked->authorizer().authorize(attributes, [&](const Expected<auth::Decision>& decision) {
      out =
          !decision ? std::string(decision.error().message()) : (decision->allowed ? "yes" : "no");
    });
    return out;
  }

  kinds::RbacAuthorizer rbac_;
  RootView root_;
  ClusterIndex index_;
  WorkspaceTypeLookup types_;
  std::unique_ptr<LifecycleViews> views_;
  ViewResolver resolver_;
};

TEST_F(LifecycleViewTest, WhenResolved_IsOneViewForEachName) {
  EXPECT_NE(view(), nullptr);
  EXPECT_EQ(view(), view());
  EXPECT_NE(view(), view("terminatingworkspaces"));
  EXPECT_EQ(view("initializingworkspaces", "nocolon"), nullptr);
  EXPECT_EQ(view()->rights_cluster(), "root");
}

TEST_F(LifecycleViewTest, WhenAsked_TP073_KK349_NeedsTheVerbOnTheType) {
  EXPECT_FALSE(view()->is_plain(Error(Errc::kForbidden, "forbidden: User \"a\" cannot")));
  EXPECT_TRUE(view()->is_plain(Error(Errc::kForbidden, "initializer \"root:t\" cannot")));
  EXPECT_EQ(verdict(asks("carol", kCoreGroup, kLogicalClusters, "*")), "yes");
  EXPECT_EQ(verdict(asks("carol", kCoreGroup, kLogicalClusters)), "yes");
  EXPECT_EQ(verdict(asks("mallory", kCoreGroup, kLogicalClusters, "*")), "no");
  EXPECT_EQ(verdict(asks("owner", "", "configmaps")), "no");
}

TEST_F(LifecycleViewTest, WhenItWaits_TP073_ContentIsOpenWithTheOwnersRights) {
  EXPECT_EQ(verdict(asks("carol", "", "configmaps")), "yes");
  EXPECT_EQ(
      verdict(asks("carol", "", "secrets")),
      R"(secrets is forbidden: User "owner" cannot list resource "secrets" in API group "" at )"
      "the cluster scope");
  const std::optional<auth::UserInfo> acting = view()->acts_as(asks("carol", "", "configmaps"));
  ASSERT_TRUE(acting);
  EXPECT_EQ(acting->name, "owner");
  EXPECT_EQ(acting->groups,
            (std::vector<std::string>{std::string(auth::kGroupAuthenticated), "g"}));
  EXPECT_EQ(*acting->extra_values(auth::kExtraScopes), std::vector<std::string>{"cluster:c"});
  EXPECT_FALSE(view()->acts_as(asks("carol", kCoreGroup, kLogicalClusters)));
}

TEST_F(LifecycleViewTest, WhenItDoesNotWait_TP073_KK351_ContentIsClosed) {
  const std::string refused = R"(initializer "root:t" cannot access this workspace)";
  put_cluster(R"({"status": {"phase": "Ready"}})");
  EXPECT_EQ(verdict(asks("carol", "", "configmaps")), refused);
  put_cluster(R"({"status": {"phase": "Initializing", "initializers": ["root:other"]}})");
  EXPECT_EQ(verdict(asks("carol", "", "configmaps")), refused);
  EXPECT_EQ(verdict(asks("carol", "", "configmaps", "absent")), refused);
  EXPECT_FALSE(view()->acts_as(asks("carol", "", "configmaps")));
}

TEST_F(LifecycleViewTest, KKT053_KKT145_WhenCreatedByIsForged_HeIsAnOrdinaryUser) {
  const char* forged[] = {
      R"({"username": "owner", "groups": ["system:masters"]})",
      R"({"username": "owner", "groups": ["system:kcp:admin", "system:cluster:other", "g"]})",
      R"({"username": "owner", "groups": ["system:kcp:logical-cluster-admin", "system:nodes"]})",
      R"({"username": "owner", "extra": {"authorization.kcp.io/warrant": ["{}"]}})",
      R"({"username": "owner", "extra": {"kcp.io/x": ["1"], "authentication.kcp.io/scopes":
          ["cluster:c,cluster:root"], "authentication.kcp.io/cluster-name": ["root"]}})",
      R"({"username": "owner", "groups": ["system:serviceaccounts"], "extra": {"mine": ["v"]}})"};
  for (const char* creator : forged) {
    SCOPED_TRACE(creator);
    put_cluster((std::string(R"({"spec": {"createdBy": )") + creator +
                 R"(}, "status": {"phase": "Initializing", "initializers": ["root:t"]}})")
                    .c_str());
    const std::optional<auth::UserInfo> acting = view()->acts_as(asks("carol", "", "configmaps"));
    ASSERT_TRUE(acting);
    EXPECT_EQ(acting->groups.front(), auth::kGroupAuthenticated);
    for (std::size_t i = 1; i < acting->groups.size(); ++i) {
      EXPECT_EQ(acting->groups[i], "g");
    }
    for (const auto& [key, values] : acting->extra) {
      EXPECT_TRUE(key == "mine" ||
                  (key == auth::kExtraScopes && values == std::vector<std::string>{"cluster:c"}))
          << key;
    }
    EXPECT_EQ(verdict(asks("carol", "", "configmaps")), "yes");
    EXPECT_NE(verdict(asks("carol", "", "secrets")), "yes");
    auth::Attributes status = asks("carol", kApisGroup, kApiBindings);
    status.verb = "patch";
    status.subresource = "status";
    EXPECT_NE(verdict(status), "yes");
  }
  EXPECT_GT(untrusted_count(UntrustedValue::kCreator), 0U);
  // The annotation is nobody's identity, and a creator without a name is none.
  put_cluster(R"({"metadata": {"annotations": {"experimental.tenancy.kcp.io/owner":
      "{\"username\":\"owner\"}"}}, "spec": {"createdBy": {"groups": ["system:masters"]}},
      "status": {"phase": "Initializing", "initializers": ["root:t"]}})");
  EXPECT_EQ(verdict(asks("carol", "", "configmaps")),
            "LogicalCluster c|cluster had no createdBy username recorded");
  EXPECT_FALSE(view()->acts_as(asks("carol", "", "configmaps")));
}

TEST_F(LifecycleViewTest, KK074_KKT042_WhenPermissionsGrantEverything_WhatIsTheServersStaysClosed) {
  set_type(R"({"initializerPermissions": [
      {"apiGroups": ["*"], "resources": ["*", "*/*"], "verbs": ["*"]}]})");
  grant("c", "owner", R"([{"apiGroups": ["*"], "resources": ["*", "*/*"], "verbs": ["*"]}])");
  EXPECT_EQ(verdict(asks("carol", "", "secrets")), "yes");
  for (const std::string_view verb : {"get", "update", "patch", "list", "delete"}) {
    for (const std::string_view resource : {kApiBindings, kApiExports}) {
      auth::Attributes status = asks("carol", kApisGroup, resource);
      status.verb = verb;
      status.subresource = "status";
      EXPECT_NE(verdict(status), "yes") << verb << " " << resource;
      set_type("{}");  // as the owner, who may everything
      EXPECT_NE(verdict(status), "yes") << verb << " " << resource;
      set_type(R"({"initializerPermissions": [
          {"apiGroups": ["*"], "resources": ["*", "*/*"], "verbs": ["*"]}]})");
    }
  }
  for (const std::string_view verb : {"impersonate", "escalate", "bind"}) {
    auth::Attributes attributes = asks("carol", "rbac.authorization.k8s.io", "clusterroles");
    attributes.verb = verb;
    EXPECT_NE(verdict(attributes), "yes") << verb;
  }
}

TEST_F(LifecycleViewTest, WhenTheTypeHasPermissions_TP074_KK351_TheyCountAndNobodyElseActs) {
  set_type(R"({"initializerPermissions": [
      {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]})");
  EXPECT_EQ(verdict(asks("carol", "", "secrets")), "yes");
  EXPECT_FALSE(view()->acts_as(asks("carol", "", "secrets")));
  auth::Attributes maps = asks("carol", "", "configmaps");
  maps.ns = "default";
  EXPECT_EQ(verdict(maps),
            R"(initializer "root:t" denied by initializerPermissions: no rule allows list on )"
            "core/configmaps in namespace default");
}

TEST_F(LifecycleViewTest, WhenNobodyKnowsTheTypeOrTheOwner_KK351_ClosesContent) {
  put_cluster(R"({"status": {"phase": "Initializing", "initializers": ["root:t"]}})");
  EXPECT_EQ(verdict(asks("carol", "", "configmaps")),
            "LogicalCluster c|cluster had no createdBy recorded");
  root_.put_type("t", nullptr);
  EXPECT_EQ(
      verdict(asks("carol", "", "configmaps")),
      "initializer \"root:t\": WorkspaceType not found in local or cached indexer; refusing to "
      "fall back to owner impersonation: workspacetypes.tenancy.kcp.io \"root:t\" not found");
}

TEST_F(LifecycleViewTest, WhenServing_KK349_ShowsLessOfLogicalClusters) {
  const apiserver::Registry& registry = view()->registry();
  const apiserver::ResourcePtr listed = registry.find("*", kCoreGroup, kLogicalClusters);
  ASSERT_NE(listed, nullptr);
  EXPECT_TRUE(listed->has_verb("watch"));
  EXPECT_FALSE(listed->has_verb("update"));
  EXPECT_EQ(registry.find("*", "", "configmaps"), nullptr);
  EXPECT_EQ(registry.all("*").size(), 1U);
  EXPECT_NE(registry.find("c", "", "configmaps"), nullptr);
  EXPECT_FALSE(registry.find("c", kCoreGroup, kLogicalClusters)->has_verb("delete"));
  EXPECT_EQ(registry.all("c").size(), server_.all("c").size());
}

TEST_F(LifecycleViewTest, WhenSelecting_OnlyClustersThatWaitAreThere) {
  const std::shared_ptr<apiserver::View> here = view();
  const apiserver::ResourcePtr kind = here->registry().find("c", kCoreGroup, kLogicalClusters);
  Json cluster = Json::object();
  cluster.make({"status", "phase"}) = "Initializing";
  cluster.make({"status", "initializers"}) = Json::array({"root:t"});
  keep_lifecycle(cluster);
  EXPECT_TRUE(here->visible("*", *kind).matches(*cluster.at({"metadata", "labels"})));
  EXPECT_FALSE(view("terminatingworkspaces")
                   ->visible("*", *kind)
                   .matches(*cluster.at({"metadata", "labels"})));
  cluster.make({"status", "initializers"}) = Json::array({"root:other"});
  keep_lifecycle(cluster);
  EXPECT_FALSE(here->visible("*", *kind).matches(*cluster.at({"metadata", "labels"})));
  EXPECT_TRUE(here->visible("c", *here->registry().find("c", "", "configmaps")).empty());
}

TEST_F(LifecycleViewTest, TP075_WhenItIsDeleted_ItWasKnownBefore) {
  const std::shared_ptr<apiserver::View> ending = view("terminatingworkspaces");
  const apiserver::ResourcePtr kind = ending->registry().find("*", kCoreGroup, kLogicalClusters);
  Json cluster = Json::object();
  cluster.make({"status", "phase"}) = "Ready";
  cluster.make({"status", "terminators"}) = Json::array({"root:t"});
  keep_lifecycle(cluster);
  const Json& labels = *cluster.at({"metadata", "labels"});
  EXPECT_FALSE(ending->visible("*", *kind).matches(labels));
  EXPECT_TRUE(ending->known("*", *kind).matches(labels));
  EXPECT_TRUE(view()->known("*", *kind).empty()) << "what is initialized is new";
  EXPECT_TRUE(ending->known("c", *ending->registry().find("c", "", "configmaps")).empty());
}

TEST_F(LifecycleViewTest, KK349_WhenTheNameIsNone_OnlyTheSystemGetsItEmpty) {
  for (const char* name : {"something-random", ":t", "root:"}) {
    EXPECT_EQ(view("initializingworkspaces", name), nullptr) << name;
    http::RequestHead head;
    head.method = "GET";
    head.target = "/services/initializingworkspaces/" + std::string(name) + "/clusters/*/apis";
    auth::UserInfo system = user("system");
    system.groups.emplace_back(auth::kGroupMasters);
    const auto target = resolver_.wrap({})(head, system);
    ASSERT_TRUE(target && *target && (*target)->view) << name;
    auth::Authorizer& authorizer = (*target)->view->authorizer();
    for (const bool is_system : {true, false}) {
      auth::Attributes attributes = asks("carol", kCoreGroup, kLogicalClusters, "*");
      if (is_system) {
        attributes.user = system;
      }
      std::optional<bool> allowed;
      authorizer.authorize(attributes, [&](const Expected<auth::Decision>& decision) {
        allowed = decision && decision->allowed;
      });
      EXPECT_EQ(allowed, is_system) << name;
    }
    const apiserver::ResourcePtr kind =
        (*target)->view->registry().find("*", kCoreGroup, kLogicalClusters);
    Json cluster = Json::object();
    cluster.make({"status", "phase"}) = "Initializing";
    cluster.make({"status", "initializers"}) = Json::array({"root:t"});
    keep_lifecycle(cluster);
    EXPECT_FALSE((*target)->view->visible("*", *kind).matches(*cluster.at({"metadata", "labels"})));
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
