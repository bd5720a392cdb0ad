#include "kinds/rbac/rbac.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "auth/effective_users.h"
#include "kinds/testing/rbac_rig.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
using testing::json;
using testing::Rbac;
using testing::Texts;
using testing::user_of;

TEST_F(Rbac, WhenResourceNamesLimit_OnlyTheNamedObjectPasses_AM437) {
  give_bob(
      R"([{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["b"],"verbs":["*"]}])");
  EXPECT_TRUE(ask(bob_, "get", "configmaps", "t1", "b").allowed);
  EXPECT_FALSE(ask(bob_, "get", "configmaps", "t1", "y1").allowed);
  EXPECT_FALSE(ask(bob_, "list", "configmaps").allowed);
  EXPECT_FALSE(ask(bob_, "create", "configmaps").allowed);
  auth::Attributes by_name;
  by_name.user = bob_;
  by_name.cluster = "c";
  by_name.resource = "configmaps";
  by_name.ns = "t1";
  by_name.field_selector_name = "b";
  by_name.verb = "list";
  EXPECT_TRUE(rbac_->decide(by_name).allowed);
  by_name.verb = "deletecollection";
  EXPECT_FALSE(rbac_->decide(by_name).allowed);
}

TEST_F(Rbac, WhenARuleNamesTheResource_SubresourcesNeedTheirOwn_AM438) {
  give_bob(R"([{"apiGroups":["ex.io"],"resources":["widgets"],"verbs":["get"]}])");
  EXPECT_FALSE(ask(bob_, "get", "widgets/status", "t1", "w", "ex.io").allowed);
  give_bob(R"([{"apiGroups":["ex.io"],"resources":["*/status"],"verbs":["get"]}])");
  EXPECT_TRUE(ask(bob_, "get", "widgets/status", "t1", "w", "ex.io").allowed);
  EXPECT_FALSE(ask(bob_, "get", "widgets", "t1", "w", "ex.io").allowed);
  give_bob(R"([{"apiGroups":["ex.io"],"resources":["widgets/*"],"verbs":["get"]}])");
  EXPECT_FALSE(ask(bob_, "get", "widgets/status", "t1", "w", "ex.io").allowed);
  give_bob(R"([{"apiGroups":["*"],"resources":["*"],"verbs":["get"]}])");
  EXPECT_TRUE(ask(bob_, "get", "widgets/status", "t1", "w", "ex.io").allowed);
}

TEST_F(Rbac, WhenTheGroupDiffers_IsDenied_AM439) {
  give_bob(R"([{"apiGroups":[""],"resources":["*"],"verbs":["*"]}])");
  EXPECT_FALSE(ask(bob_, "get", "widgets", "t1", "w", "ex.io").allowed);
  EXPECT_FALSE(ask(bob_, "get", "configmaps", "t2", "a").allowed);
  EXPECT_FALSE(ask(bob_, "get", "configmaps", "", "a").allowed);
}

TEST_F(Rbac, WhenAM116DiscoveryIsRead_EveryUserMayButAnonymousOnlyVersionAndHealth) {
  for (const char* path : {"/api", "/api/v1", "/apis", "/apis/ex.io/v1", "/openapi/v2",
                           "/openapi/v3", "/openapi/v3/api/v1"}) {
    EXPECT_TRUE(get_path(bob_, path)) << path;
    EXPECT_FALSE(get_path(bob_, path, "post")) << path;
    EXPECT_FALSE(get_path(auth::anonymous_user(), path)) << path;
  }
  for (const char* path : {"/version", "/healthz", "/livez", "/readyz"}) {
    EXPECT_TRUE(get_path(bob_, path)) << path;
    EXPECT_TRUE(get_path(auth::anonymous_user(), path)) << path;
  }
}

TEST_F(Rbac, WhenPathsAreGranted_StarAtTheEndIsAPrefix_AM440) {
  put("clusterroles", "", "n",
      R"({"rules":[{"nonResourceURLs":["/none","/deep/*"],"verbs":["get"]}]})");
  bind_cluster_role("n", "n", R"({"kind":"User","name":"bob"})");
  EXPECT_TRUE(get_path(bob_, "/none"));
  EXPECT_TRUE(get_path(bob_, "/deep/x"));
  EXPECT_FALSE(get_path(bob_, "/deep"));
  EXPECT_FALSE(get_path(bob_, "/none/x"));
  EXPECT_FALSE(get_path(bob_, "/none", "post"));
  EXPECT_TRUE(get_path(bob_, "/healthz"));  // system:public-info-viewer
  EXPECT_FALSE(get_path(bob_, "/healthz/ping"));
  put("clusterroles", "", "n", R"({"rules":[{"nonResourceURLs":["/healthz*"],"verbs":["get"]}]})");
  EXPECT_TRUE(get_path(bob_, "/healthz/ping"));
  EXPECT_TRUE(get_path(auth::anonymous_user(), "/version"));
  EXPECT_FALSE(get_path(auth::anonymous_user(), "/api"));
  EXPECT_FALSE(get_path(bob_, "/metrics"));
}

TEST_F(Rbac, WhenAllowed_TheReasonNamesTheBinding_AM451) {
  give_bob(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])");
  EXPECT_EQ(ask(bob_, "get", "configmaps").reason,
            "RBAC: allowed by RoleBinding \"b/t1\" of Role \"r\" to User \"bob\"");
  EXPECT_EQ(ask(bob_, "delete", "configmaps").reason, "");
  bind_cluster_role("x", "view", R"({"kind":"Group","name":"system:authenticated"})");
  EXPECT_EQ(ask(bob_, "list", "configmaps").reason,
            "RBAC: allowed by ClusterRoleBinding \"x\" of ClusterRole \"view\" to Group "
            "\"system:authenticated\"");
}

TEST_F(Rbac, WhenReasonsAreMasked_OnlyGrantedAndDeniedShow_AM019) {
  RbacParams params;
  params.mask_reasons = true;
  options(params);
  give_bob(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])");
  EXPECT_EQ(ask(bob_, "get", "configmaps").reason, "access granted");
  EXPECT_EQ(ask(bob_, "delete", "configmaps").reason, "access denied");
}

TEST_F(Rbac, WhenBootstrapRolesAreBound_TheyHoldWithoutBeingStored_AM449) {
  bind_cluster_role("admin", "cluster-admin", R"({"kind":"User","name":"bob"})");
  EXPECT_TRUE(ask(bob_, "deletecollection", "anything", "", "", "any.io").allowed);
  EXPECT_TRUE(get_path(bob_, "/metrics"));
  EXPECT_FALSE(ask(user_of("carol"), "get", "configmaps").allowed);
  EXPECT_TRUE(
      ask(user_of("carol"), "create", "selfsubjectaccessreviews", "", "", "authorization.k8s.io")
          .allowed);
  EXPECT_FALSE(
      ask(auth::anonymous_user(), "create", "selfsubjectreviews", "", "", "authentication.k8s.io")
          .allowed);
  EXPECT_EQ(rbac_->stored_role("c", true, "", "cluster-admin"), nullptr);
}

TEST_F(Rbac, WhenRolesAreLabelled_TheyJoinTheSharedRole_AM448_AM449) {
  bind_cluster_role("v", "edit", R"({"kind":"User","name":"bob"})");
  put("clusterroles", "", "mine",
      R"({"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
          "rules":[{"apiGroups":["ex.io"],"resources":["widgets"],"verbs":["get"]}]})");
  EXPECT_TRUE(ask(bob_, "get", "widgets", "t1", "w", "ex.io").allowed);
  EXPECT_TRUE(ask(bob_, "update", "secrets", "t1", "s").allowed);
  EXPECT_FALSE(ask(bob_, "update", "roles", "t1", "s", "rbac.authorization.k8s.io").allowed);
}

TEST_F(Rbac, WhenObjectsChangeOrGo_TheIndexFollows_AM450) {
  give_bob(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])");
  EXPECT_TRUE(ask(bob_, "get", "configmaps").allowed);
  EXPECT_EQ(rbac_->cluster_count(), 1U);
  rbac_->apply("c", "rolebindings", "t1", "b", nullptr);
  EXPECT_FALSE(ask(bob_, "get", "configmaps").allowed);
  rbac_->apply("c", "roles", "t1", "r", nullptr);
  EXPECT_EQ(rbac_->cluster_count(), 0U);
  rbac_->apply("other", "roles", "t1", "r", nullptr);
  EXPECT_EQ(rbac_->cluster_count(), 0U);
}

TEST_F(Rbac, WhenServiceAccountsAreSubjects_TheirNamespaceCounts) {
  put("roles", "t1", "r",
      R"({"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]})");
  put("rolebindings", "t1", "b",
      R"({"roleRef":{"kind":"Role","name":"r"},
          "subjects":[{"kind":"ServiceAccount","name":"s"},
                      {"kind":"ServiceAccount","name":"o","namespace":"t2"}]})");
  EXPECT_TRUE(ask(user_of("system:serviceaccount:t1:s"), "get", "configmaps").allowed);
  EXPECT_TRUE(ask(user_of("system:serviceaccount:t2:o"), "get", "configmaps").allowed);
  EXPECT_FALSE(ask(user_of("system:serviceaccount:t2:s"), "get", "configmaps").allowed);
}

TEST_F(Rbac, WhenTheClusterIsTheWildcard_OnlyAdminsPass_AM477_AM480) {
  bind_cluster_role("admin", "cluster-admin", R"({"kind":"User","name":"bob"})", "*");
  EXPECT_FALSE(ask(bob_, "list", "configmaps", "", "", "", "*").allowed);
  EXPECT_TRUE(ask(user_of("x", {"system:masters"}), "list", "configmaps", "", "", "", "*").allowed);
  EXPECT_TRUE(
      ask(user_of("x", {"system:kcp:admin"}), "list", "configmaps", "", "", "", "*").allowed);
  EXPECT_TRUE(ask(user_of("x", {"system:kcp:admin"}), "delete", "any", "n", "a").allowed);
}

TEST_F(Rbac, WhenWorkspaceAccessIsAsked_ContentNeedsIt_AM491) {
  RbacParams params;
  params.workspace_access = true;
  params.open_clusters = {"root"};
  options(params);
  give_bob(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])");
  EXPECT_FALSE(ask(bob_, "get", "configmaps").allowed);
  EXPECT_FALSE(get_path(bob_, "/api"));
  auth::Attributes deep;
  deep.user = bob_;
  deep.cluster = "c";
  deep.verb = "get";
  deep.resource = "configmaps";
  deep.ns = "t1";
  EXPECT_FALSE(rbac_->decide(deep).allowed);
  deep.deep = true;
  EXPECT_TRUE(rbac_->decide(deep).allowed) << "a bind check leaves out the way in";
  deep.verb = "delete";
  EXPECT_FALSE(rbac_->decide(deep).allowed) << "and nothing else";
  bind_cluster_role("in", "system:kcp:workspace:access", R"({"kind":"User","name":"bob"})");
  EXPECT_TRUE(ask(bob_, "get", "configmaps").allowed);
  EXPECT_TRUE(get_path(bob_, "/api"));
  EXPECT_FALSE(get_path(bob_, "/api", "get", "other"));
  EXPECT_TRUE(get_path(bob_, "/api", "get", "root"));
  EXPECT_FALSE(get_path(auth::anonymous_user(), "/version", "get", "c"));
  auth::UserInfo account = user_of("system:serviceaccount:t1:s");
  account.extra = {{std::string(auth::kExtraClusterName), {"c"}}};
  EXPECT_TRUE(get_path(account, "/api"));
  EXPECT_FALSE(get_path(account, "/api", "get", "other"));
}

TEST_F(Rbac, WhenAClusterIsOpen_KK075_KK106_KK131_ReviewsSayWhatEverybodyMayThere) {
  RbacParams params;
  params.workspace_access = true;
  params.open_clusters = {"root"};
  options(params);
  auth::Attributes asked;
  asked.user = bob_;
  const auto may = [&](const char* verb, const char* group, const char* resource, const char* name,
                       const char* cluster = "root") {
    asked.verb = verb;
    asked.group = group;
    asked.resource = resource;
    asked.name = name;
    asked.cluster = cluster;
    return rbac_->decide(asked).allowed;
  };
  for (const char* type : {"universal", "organization", "team"}) {
    EXPECT_TRUE(may("use", "tenancy.kcp.io", "workspacetypes", type)) << type;
    EXPECT_FALSE(may("use", "tenancy.kcp.io", "workspacetypes", type, "c")) << type;
  }
  for (const char* type : {"root", "home", "", "mine"}) {
    EXPECT_FALSE(may("use", "tenancy.kcp.io", "workspacetypes", type)) << type;
  }
  EXPECT_TRUE(may("bind", "apis.kcp.io", "apiexports", "tenancy.kcp.io"));
  EXPECT_TRUE(may("bind", "apis.kcp.io", "apiexports", "topology.kcp.io"));
  EXPECT_FALSE(may("bind", "apis.kcp.io", "apiexports", "shards.core.kcp.io"));
  EXPECT_FALSE(may("get", "apis.kcp.io", "apiexports", "tenancy.kcp.io"));
  EXPECT_TRUE(may("create", "tenancy.kcp.io", "workspaces", "~"));
  EXPECT_FALSE(may("create", "tenancy.kcp.io", "workspaces", ""));
  EXPECT_FALSE(may("create", "tenancy.kcp.io", "workspaces", "mine"));
  asked.user = auth::anonymous_user();
  EXPECT_FALSE(may("use", "tenancy.kcp.io", "workspacetypes", "universal")) << "nobody";
}

TEST_F(Rbac, WhenOpenClustersAreRead_KK075_EverybodySeesTheTenancyKindsThere) {
  for (const bool read : {false, true}) {
    RbacParams params;
    params.workspace_access = true;
    params.open_clusters = {"root"};
    params.open_clusters_are_read = read;
    options(params);
    auth::Attributes asked;
    asked.user = bob_;
    for (const auto& [group, resource] :
         {std::pair("tenancy.kcp.io", "workspaces"), std::pair("tenancy.kcp.io", "workspacetypes"),
          std::pair("core.kcp.io", "logicalclusters")}) {
      asked.group = group;
      asked.resource = resource;
      for (const char* verb : {"get", "list", "watch"}) {
        asked.verb = verb;
        asked.subresource.clear();
        asked.cluster = "root";
        EXPECT_EQ(rbac_->decide(asked).allowed, read) << verb << " " << resource;
        asked.subresource = "status";
        EXPECT_FALSE(rbac_->decide(asked).allowed) << resource;
        asked.subresource.clear();
        asked.cluster = "c";
        EXPECT_FALSE(rbac_->decide(asked).allowed) << "elsewhere";
      }
      asked.cluster = "root";
      for (const char* verb : {"create", "update", "patch", "delete", "deletecollection"}) {
        asked.verb = verb;
        EXPECT_FALSE(rbac_->decide(asked).allowed) << verb << " " << resource;
      }
    }
    asked.verb = "list";
    asked.user = auth::anonymous_user();
    EXPECT_FALSE(rbac_->decide(asked).allowed) << "nobody";
  }
}

TEST_F(Rbac, WhenAShardOfKcpAsks_TP119_ItMayWriteTheStatusOfSlicesEverywhere) {
  RbacParams params;
  params.workspace_access = true;
  options(params);
  const auth::UserInfo shard =
      user_of("shard-1", {std::string(auth::kGroupExternalLogicalClusterAdmin)});
  const char* group = "apis.kcp.io";
  EXPECT_TRUE(ask(shard, "patch", "apiexportendpointslices/status", "", "s", group).allowed);
  EXPECT_TRUE(
      ask(shard, "patch", "apiexportendpointslices/status", "", "s", group, "other").allowed);
  EXPECT_TRUE(ask(shard, "get", "apiexportendpointslices", "", "s", group).allowed);
  EXPECT_FALSE(ask(shard, "patch", "apiexportendpointslices", "", "s", group).allowed);
  EXPECT_FALSE(ask(shard, "create", "apiexportendpointslices", "", "s", group).allowed);
  EXPECT_FALSE(ask(shard, "get", "configmaps").allowed);
  EXPECT_FALSE(ask(bob_, "patch", "apiexportendpointslices/status", "", "s", group).allowed);
}

TEST_F(Rbac, WhenOutOfScope_TheUserIsAStranger_AM428) {
  auth::UserInfo account = user_of("bob");
  account.extra = {{std::string(auth::kExtraScopes), {"cluster:x,cluster:c"}}};
  give_bob(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])");
  EXPECT_TRUE(ask(account, "get", "configmaps").allowed);
  account.extra = {{std::string(auth::kExtraScopes), {"cluster:x"}}};
  EXPECT_FALSE(ask(account, "get", "configmaps").allowed);
  EXPECT_TRUE(get_path(account, "/api"));
  account.groups = {"system:kcp:admin"};
  EXPECT_FALSE(ask(account, "get", "configmaps").allowed);
  account.extra = {{std::string(auth::kExtraScopes), {"cluster:x", "cluster:c"}}};
  EXPECT_FALSE(ask(account, "get", "configmaps").allowed);
  account.groups.emplace_back("system:masters");
  EXPECT_TRUE(ask(account, "get", "configmaps").allowed) << "that group is not bounded (KK-300)";
  account = user_of("x");
  account.extra = {{std::string(auth::kExtraWarrant),
                    {R"({"user":"m","groups":["system:masters","system:authenticated"]})"}}};
  EXPECT_FALSE(ask(account, "get", "configmaps").allowed) << "nor given by a warrant (KK-325)";
}

TEST_F(Rbac, WhenAClusterIsShared_KK314_ItsRolesAndBindingsHoldEverywhere) {
  RbacParams params;
  params.shared_cluster = "system:admin";
  options(params);
  const auto maps = [](const char* verb) {
    return std::string(R"({"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":[")") +
           verb + R"("]}]})";
  };
  const char* bob = R"({"kind":"User","name":"bob"})";
  bind_cluster_role("b", "maps", bob);
  EXPECT_FALSE(ask(bob_, "get", "configmaps").allowed);
  put("clusterroles", "", "maps", maps("get"), "system:admin");
  EXPECT_TRUE(ask(bob_, "get", "configmaps").allowed) << "bound in the cluster";
  EXPECT_FALSE(ask(bob_, "get", "configmaps", "t1", "", "", "other").allowed);
  bind_cluster_role("everywhere", "maps", bob, "system:admin");
  EXPECT_TRUE(ask(bob_, "get", "configmaps", "t1", "", "", "other").allowed);
  put("clusterroles", "", "maps", maps("list"));
  EXPECT_TRUE(ask(bob_, "list", "configmaps").allowed) << "the cluster's own role of that name";
  EXPECT_TRUE(ask(bob_, "get", "configmaps").allowed)
      << "what is bound everywhere means the shared";
  EXPECT_FALSE(ask(bob_, "list", "configmaps", "t1", "", "", "other").allowed);
  // A binding of the bootstrap policy's name takes its place.
  EXPECT_TRUE(get_path(bob_, "/api"));
  bind_cluster_role("system:discovery", "maps", bob, "system:admin");
  EXPECT_FALSE(get_path(bob_, "/api"));
  rbac_->apply("system:admin", "clusterrolebindings", "", "system:discovery", nullptr);
  EXPECT_TRUE(get_path(bob_, "/api"));
}

TEST_F(Rbac, WhenTheBootstrapPolicyIsStored_KK314_ItHoldsAsItDidBefore) {
  RbacParams params;
  params.shared_cluster = "system:admin";
  params.workspace_access = true;
  params.open_clusters = {"root"};
  std::size_t stored = 0;
  const auto fill = [&] {
    for (const Json& object : bootstrap_policy_objects()) {
      const bool is_role = object.text({"kind"}) == "ClusterRole";
      rbac_->apply("system:admin", is_role ? "clusterroles" : "clusterrolebindings", "",
                   object.text({"metadata", "name"}), &object);
      ++stored;
    }
  };
  // A role of the cluster that the shared role takes in, and bindings of roles by name.
  const auto own = [&] {
    put("clusterroles", "", "wide",
        R"({"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},)"
        R"("rules":[{"apiGroups":["ex.io"],"resources":["widgets"],"verbs":["get"]}]})");
    bind_cluster_role("v", "view", R"({"kind":"User","name":"bob"})");
    bind_cluster_role("e", "system:kcp:workspace:access", R"({"kind":"User","name":"bob"})");
  };
  const auto decisions = [&] {
    std::vector<std::string> all;
    for (const char* group :
         {"system:masters", "system:kcp:admin", "system:authenticated", "system:unauthenticated",
          "system:serviceaccounts", "system:kcp:tenancy:workspace-bootstrapper",
          "system:kcp:logical-cluster-admin", "system:kcp:external-logical-cluster-admin"}) {
      const auth::UserInfo user = user_of("bob", {group});
      for (const char* cluster : {"c", "root", "other"}) {
        for (const std::string resource : {"configmaps", "secrets", "widgets", "workspaces"}) {
          for (const char* verb : {"get", "delete"}) {
            for (const char* in : {"", "ex.io", "tenancy.kcp.io"}) {
              all.push_back(ask(user, verb, resource, "t1", "x", in, cluster).allowed ? "y" : "n");
            }
          }
        }
        for (const char* path : {"/api", "/version", "/metrics", "/", "/openid/v1/jwks"}) {
          all.push_back(get_path(user, path, "get", cluster) ? "y" : "n");
        }
        PolicyRules rules = rbac_->rules_for(user, cluster, "t1");
        std::vector<std::string> texts;
        for (const PolicyRule& rule : rules) {
          texts.push_back(describe_rule(rule));
        }
        std::sort(texts.begin(), texts.end());
        all.insert(all.end(), texts.begin(), texts.end());
      }
    }
    return all;
  };
  options(params);
  own();
  EXPECT_TRUE(ask(bob_, "get", "widgets", "t1", "x", "ex.io").allowed);
  const std::vector<std::string> before = decisions();
  options(params);
  own();
  fill();
  EXPECT_EQ(stored, bootstrap_roles().size() + bootstrap_bindings().size());
  EXPECT_EQ(decisions(), before);
}

TEST_F(Rbac, WhenKcpsOwnGroupsAsk_KK315_TheBootstrapPolicyIsKcps) {
  RbacParams params;
  params.workspace_access = true;
  options(params);
  const auth::UserInfo boot = user_of("b", {"system:kcp:tenancy:workspace-bootstrapper"});
  EXPECT_TRUE(ask(boot, "delete", "anything", "t1", "x", "some.group").allowed);
  EXPECT_TRUE(get_path(boot, "/any/path"));
  const auth::UserInfo inner = user_of("l", {"system:kcp:logical-cluster-admin"});
  EXPECT_TRUE(ask(inner, "patch", "logicalclusters/status", "", "c", "core.kcp.io").allowed);
  EXPECT_TRUE(ask(inner, "update", "workspaces", "", "w", "tenancy.kcp.io").allowed);
  EXPECT_FALSE(ask(inner, "create", "workspaces", "", "w", "tenancy.kcp.io").allowed);
  EXPECT_FALSE(ask(inner, "get", "secrets").allowed);
  const auth::UserInfo outer = user_of("x", {"system:kcp:external-logical-cluster-admin"});
  EXPECT_TRUE(ask(outer, "patch", "workspaces", "", "w", "tenancy.kcp.io").allowed);
  EXPECT_TRUE(ask(outer, "get", "secrets").allowed);
  EXPECT_TRUE(ask(outer, "create", "subjectaccessreviews", "", "", "authorization.k8s.io").allowed);
  EXPECT_FALSE(ask(outer, "list", "secrets").allowed);
  EXPECT_FALSE(ask(outer, "create", "workspaces", "", "w", "tenancy.kcp.io").allowed);
  bind_cluster_role("m", "system:kcp:metrics-reader", R"({"kind":"User","name":"bob"})");
  bind_cluster_role("in", "system:kcp:workspace:access", R"({"kind":"User","name":"bob"})");
  EXPECT_TRUE(get_path(bob_, "/metrics"));
  EXPECT_FALSE(get_path(user_of("erin"), "/metrics"));
}

TEST_F(Rbac, WhenAnAdministratorsRulesAreListed_KK333_WhatEverybodyMayIsThereToo) {
  const auto listed = [&](const auth::UserInfo& user) { return rbac_->rules_for(user, "c", "t1"); };
  const auto has = [](const PolicyRules& rules, const PolicyRule& rule) {
    return std::count(rules.begin(), rules.end(), rule);
  };
  const PolicyRule all{{"*"}, {"*"}, {"*"}, {}, {}}, all_paths{{"*"}, {}, {}, {}, {"*"}};
  const PolicyRule basic{{"create"}, {"authentication.k8s.io"}, {"selfsubjectreviews"}, {}, {}};
  for (const char* group : {"system:masters", "system:kcp:admin"}) {
    const PolicyRules rules = listed(user_of("adm", {group, "system:authenticated"}));
    EXPECT_EQ(has(rules, all), 1) << group;
    EXPECT_EQ(has(rules, all_paths), 1) << group;
    EXPECT_EQ(has(rules, basic), 1) << group;
  }
  EXPECT_EQ(has(listed(bob_), all), 0);
  EXPECT_EQ(has(listed(bob_), basic), 1);
  for (const PolicyRule& rule : listed(bob_)) {
    EXPECT_TRUE(std::is_sorted(rule.non_resource_urls.begin(), rule.non_resource_urls.end()));
  }
}

}  // namespace
}  // namespace kintsugi::kinds
