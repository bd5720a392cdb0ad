#include "controlplane/clusters/cluster_resolver.h"

#include <gtest/gtest.h>

#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json logical_cluster(std::string_view path, const char* phase = "Ready") {
  Json object;
  object.make({"metadata", "annotations", "kcp.io/path"}) = path;
  object.make({"status", "phase"}) = phase;
  return object;
}

Json workspace(std::string_view cluster) {
  Json object;
  object.make({"metadata", "uid"}) = "of " + std::string(cluster);
  object.make({"spec", "cluster"}) = cluster;
  return object;
}

/// Belongs to the Workspace `name` in `parent` that names the cluster.
Json owned(Json object, std::string_view parent, std::string_view name, std::string_view cluster) {
  object.make({"spec", "owner"}) = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                                                 {"resource", "workspaces"},
                                                 {"cluster", parent},
                                                 {"name", name},
                                                 {"uid", "of " + std::string(cluster)}});
  return object;
}

auth::UserInfo user(std::string_view group = "devs") {
  auth::UserInfo out;
  out.name = "alice";
  out.groups = {std::string(group)};
  return out;
}

class ClusterResolverTest : public ::testing::Test {
 protected:
  ClusterResolverTest() {
    put("root", logical_cluster("root"));
    put("aaa", owned(logical_cluster("root:org"), "root", "org", "aaa"));
    put("bbb", owned(logical_cluster("root:org:team"), "aaa", "team", "bbb"));
    Json inactive = logical_cluster("root:off");
    inactive.make({"metadata", "annotations", "core.kcp.io/inactive"}) = "true";
    put("off", inactive);
    Json going = logical_cluster("root:going");
    going.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
    put("going", going);
    child("root", "org", "aaa");
    child("aaa", "team", "bbb");
    child("aaa", "far", "zzz");
  }
  void put(std::string_view name, const Json& object) { index_.put_cluster(name, &object); }
  void child(std::string_view parent, std::string_view name, std::string_view cluster) {
    const Json object = workspace(cluster);
    index_.put_workspace(parent, name, &object);
  }
  Expected<std::optional<apiserver::ClusterTarget>> resolve(std::string target,
                                                            const char* method = "GET",
                                                            const auth::UserInfo& who = user()) {
    head_.method = method;
    head_.target = std::move(target);
    return make_cluster_resolver(index_)(head_, who);
  }
  std::string name_of(std::string target) {
    const auto found = resolve(std::move(target));
    return found && *found ? (*found)->name : "";
  }
  int status_of(std::string target, const char* method = "GET",
                const auth::UserInfo& who = user()) {
    const auto found = resolve(std::move(target), method, who);
    return found ? 0 : krm::http_status(found.error());
  }

  ClusterIndex index_;
  http::RequestHead head_;
};

TEST_F(ClusterResolverTest, WhenNameOrPathIsKnown_AM470_GivesTheName) {
  EXPECT_EQ(name_of("/clusters/root/api"), "root");
  EXPECT_EQ(name_of("/clusters/aaa/api"), "aaa");
  EXPECT_EQ(name_of("/clusters/root:org/api"), "aaa");
  EXPECT_EQ(name_of("/clusters/root:org:team"), "bbb");
  EXPECT_EQ(name_of("/clusters/root%3Aorg/api"), "aaa");
  EXPECT_EQ(name_of("/clusters/aaa:team/api"), "bbb");
  EXPECT_EQ(name_of("/clusters/*/api/v1/pods"), "*");
  EXPECT_EQ(name_of("/clusters/%2A/api/v1/pods"), "*");
}

TEST_F(ClusterResolverTest, WhenResolved_KeepsRootAsSentAndRest) {
  const auto found = resolve("/clusters/root:org/api/v1/pods?limit=1");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->api_root, "/clusters/root:org");
  EXPECT_EQ((*found)->rest, "/api/v1/pods?limit=1");
}

TEST_F(ClusterResolverTest, WhenThereIsNoPrefix_AM475_IsOutside) {
  for (const char* target : {"/livez", "/version", "/api", "/clusters", "/clusters/"}) {
    const auto found = resolve(target);
    ASSERT_TRUE(found) << target;
    EXPECT_FALSE(*found) << target;
  }
}

TEST_F(ClusterResolverTest, WhenSegmentIsMalformed_AM471_Answers400) {
  for (const char* segment : {"ROOT", "Bad_", "root:prov:", "root::x", ":a", "-a"}) {
    const auto found = resolve("/clusters/" + std::string(segment) + "/api");
    ASSERT_FALSE(found) << segment;
    EXPECT_EQ(krm::http_status(found.error()), 400);
    EXPECT_EQ(found.error().message(),
              "invalid cluster: \"" + std::string(segment) + "\" does not match the regex");
  }
}

TEST_F(ClusterResolverTest, WhenASlashIsEscapedInTheSegment_KK372_ItIsNobodys) {
  for (const char* target : {"/clusters/root%2Fapi", "/clusters/aaa%2Fbbb/api",
                             "/clusters/root%2f..%2Faaa/api/v1/secrets"}) {
    EXPECT_EQ(status_of(target), 403) << target;
    EXPECT_EQ(status_of(target, "GET", user("system:masters")), 403) << target;
  }
}

TEST_F(ClusterResolverTest, WhenNameIsUnknown_AM472_AnswersAsIfForbidden) {
  const auto found = resolve("/clusters/nope/api/v1/namespaces/default/configmaps/x");
  ASSERT_FALSE(found);
  EXPECT_EQ(krm::http_status(found.error()), 403);
  EXPECT_EQ(found.error().message(),
            "configmaps \"x\" is forbidden: User \"alice\" cannot get resource \"configmaps\" in "
            "API group \"\" in the namespace \"default\": access denied");
  EXPECT_EQ(status_of("/clusters/nope/api", "GET", user("system:kcp:admin")), 403);
}

TEST_F(ClusterResolverTest, KK300_WhenTheClusterIsGone_TheSystemSeesAndClearsWhatIsLeft) {
  const char* target = "/clusters/nope/api/v1/namespaces/default/configmaps/x";
  for (const char* method : {"GET", "DELETE"}) {
    EXPECT_EQ(status_of(target, method, user("system:masters")), 0) << method;
    EXPECT_EQ(status_of(target, method, user("system:kcp:external-logical-cluster-admin")), 403);
  }
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    EXPECT_EQ(status_of(target, method, user("system:masters")), 403) << method;
  }
}

TEST_F(ClusterResolverTest, KK379_WhenTheClusterIsTheShardsOwn_OnlyTheSystemGetsThere) {
  for (const char* cluster : {"system:admin", "system:bound-crds", "system:x", "system%3Aadmin"}) {
    const std::string target = "/clusters/" + std::string(cluster) + "/api";
    EXPECT_EQ(status_of(target, "POST", user("system:masters")), 0) << cluster;
    for (const char* group : {"devs", "system:kcp:admin", "system:kintsugi:shard",
                              "system:kcp:external-logical-cluster-admin",
                              "system:kcp:tenancy:workspace-bootstrapper"}) {
      EXPECT_EQ(status_of(target, "GET", user(group)), 403) << cluster << " " << group;
    }
  }
  EXPECT_EQ(status_of("/clusters/system:admin:x/api", "GET", user("system:masters")), 403);
  // Nobody gets a path there.
  put("system", logical_cluster("system"));
  child("system", "admin", "aaa");
  EXPECT_EQ(status_of("/clusters/system:admin/api"), 403);
}

TEST_F(ClusterResolverTest, KK366_WhenTheShardsMetricsAreAsked_RootDecides) {
  for (const char* target : {"/metrics", "/metrics?x=1"}) {
    const auto found = resolve(target);
    ASSERT_TRUE(found && *found) << target;
    EXPECT_EQ((*found)->name, "root");
    EXPECT_EQ((*found)->api_root, "");
    EXPECT_EQ((*found)->rest, target);
  }
  for (const char* target : {"/metrics/slis", "/metricsx", "/metrics/"}) {
    const auto found = resolve(target);
    ASSERT_TRUE(found) << target;
    EXPECT_FALSE(*found) << target;
  }
}

TEST_F(ClusterResolverTest, WhenPathIsUnknown_AM472_Answers404) {
  const auto found = resolve("/clusters/root:nope/api");
  ASSERT_FALSE(found);
  EXPECT_EQ(krm::http_status(found.error()), 404);
  EXPECT_EQ(found.error().message(), "workspaces.tenancy.kcp.io \"root:nope\" not found");
  EXPECT_EQ(status_of("/clusters/root:org:none:deeper/api"), 404);
}

TEST_F(ClusterResolverTest, WhenPathLeadsElsewhere_AM473_Answers429) {
  EXPECT_EQ(status_of("/clusters/root:org:far/api"), 429);
  EXPECT_EQ(status_of("/clusters/aaa:far:below/api"), 429);
  const auto text = text_answer(index_, "/clusters/root:org:far/api");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->status, 429);
  EXPECT_EQ(text->retry_after, 1);
  EXPECT_EQ(text->text, "Not found on this shard\n");
}

TEST_F(ClusterResolverTest, WhenClusterIsInactive_AM481_OnlyOpenApiAndItsObjectAnswer) {
  const auto found = resolve("/clusters/off/api");
  ASSERT_FALSE(found);
  EXPECT_EQ(krm::http_status(found.error()), 403);
  EXPECT_EQ(found.error().message(),
            "logicalclusters.core.kcp.io \"off\" is forbidden: logical cluster is marked inactive");
  EXPECT_EQ(name_of("/clusters/off/openapi/v3"), "off");
  EXPECT_EQ(name_of("/clusters/off/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"), "off");
}

TEST_F(ClusterResolverTest, WhenClusterIsInactive_KK113_OnlyItsManagersWakeIt) {
  const std::string own = "/clusters/off/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
  for (const char* method : {"PUT", "PATCH", "DELETE", "POST"}) {
    EXPECT_EQ(status_of(own, method), 403) << method;
    EXPECT_EQ(status_of(own + "/status", method), 403) << method;
    for (const char* group :
         {"system:masters", "system:kcp:admin", "system:kcp:logical-cluster-admin",
          "system:kcp:external-logical-cluster-admin",
          "system:kcp:tenancy:workspace-bootstrapper"}) {
      EXPECT_EQ(status_of(own, method, user(group)), 0) << method << " " << group;
    }
  }
  const std::string review = "/clusters/off/apis/authorization.k8s.io/v1/subjectaccessreviews";
  EXPECT_EQ(status_of(review, "POST", user("system:masters")), 0);
  EXPECT_EQ(status_of(review, "POST", user("system:kcp:admin")), 403);
  EXPECT_EQ(status_of(review, "POST"), 403);
  for (const char* path : {"/openapixyz", "/openapi%2F..", "/apis/core.kcp.io/v1alpha1/shards",
                           "/apis/core.kcp.io/v1alpha1/logicalclustersX",
                           "/apis/core.kcp.io/v1alpha1", "/livez", "/api/v1/configmaps"}) {
    EXPECT_EQ(status_of("/clusters/off" + std::string(path)), 403) << path;
    EXPECT_EQ(status_of("/clusters/off" + std::string(path), "GET", user("system:kcp:admin")), 403)
        << path;
  }
  for (const char* path : {"/livez", "/readyz", "/healthz?verbose"}) {
    EXPECT_FALSE(health_target(index_, "/clusters/off" + std::string(path))) << path;
  }
}

TEST_F(ClusterResolverTest, WhenClusterIsBeingDeleted_NothingNewIsMade) {
  EXPECT_EQ(status_of("/clusters/going/api/v1/namespaces", "POST"), 403);
  EXPECT_EQ(status_of("/clusters/going/api/v1/namespaces"), 0);
  EXPECT_EQ(
      status_of("/clusters/going/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "POST"),
      0);
}

TEST_F(ClusterResolverTest, WhenIdentityIsBootstrap_MayAddressAnAbsentLogicalCluster) {
  const char* target = "/clusters/new/apis/core.kcp.io/v1alpha1/logicalclusters";
  EXPECT_EQ(status_of(target, "POST", user("system:masters")), 0);
  EXPECT_EQ(status_of(target, "POST", user("system:kcp:external-logical-cluster-admin")), 0);
  EXPECT_EQ(status_of(target, "POST", user("system:kcp:admin")), 403);
}

TEST_F(ClusterResolverTest, WhenClusterGoesAway_ForgetsNameAndPath) {
  index_.put_cluster("aaa", nullptr);
  EXPECT_EQ(status_of("/clusters/aaa/api"), 403);
  EXPECT_EQ(status_of("/clusters/root:org/api"), 429);  // its workspace is still there
  index_.put_workspace("root", "org", nullptr);
  EXPECT_EQ(status_of("/clusters/root:org/api"), 404);
}

TEST_F(ClusterResolverTest, KK064_WhenAWorkspaceNamesAnothersCluster_LeadsNowhere) {
  child("root", "eve", "bbb");
  child("aaa", "eve", "root");
  child("bbb", "eve", "aaa");
  Json other = workspace("bbb");
  other.make({"metadata", "uid"}) = "another";
  index_.put_workspace("aaa", "same", &other);
  for (const char* path : {"root:eve", "root:eve:x", "aaa:eve", "root:org:eve", "bbb:eve",
                           "root:org:team:eve:team", "aaa:same"}) {
    EXPECT_EQ(status_of("/clusters/" + std::string(path) + "/api"), 404) << path;
  }
  EXPECT_EQ(name_of("/clusters/root:org:team/api"), "bbb");
  // Made anew under the old name: another Workspace, until its cluster names it.
  index_.put_workspace("aaa", "team", &other);
  EXPECT_EQ(status_of("/clusters/aaa:team/api"), 404);
  child("aaa", "team", "bbb");
  EXPECT_EQ(name_of("/clusters/aaa:team/api"), "bbb");
}

TEST_F(ClusterResolverTest, KKT056_WhenAPathIsForged_ItIsWhereItsWorkspaceIs) {
  for (const char* forged : {"root", "root:org", "root:org:team:x", "user:alice", "bbb", ""}) {
    SCOPED_TRACE(forged);
    // On a cluster that is known, on one that is new, and on one that nobody's Workspace names.
    put("bbb", owned(logical_cluster(forged), "aaa", "team", "bbb"));
    EXPECT_EQ(index_.path_of("bbb"), "root:org:team");
    Json lone = owned(logical_cluster(forged), "aaa", "none", "lone");
    put("lone", lone);
    EXPECT_EQ(index_.path_of("lone"), "lone");
    index_.put_cluster("lone", nullptr);
    put("fresh", logical_cluster(forged));
    EXPECT_EQ(name_of("/clusters/root/api"), "root");
    EXPECT_EQ(name_of("/clusters/root:org/api"), "aaa");
    EXPECT_EQ(index_.path_of("aaa"), "root:org");
    index_.put_cluster("fresh", nullptr);
    EXPECT_EQ(name_of("/clusters/root:org:team/api"), "bbb");
  }
  // A home has its user's.
  Json home = logical_cluster("root:org");
  home.make({"spec", "createdBy", "username"}) = "alice";
  put("v1u4alow0iv9", home);
  EXPECT_EQ(index_.path_of("v1u4alow0iv9"), "user:alice");
  // Of a cluster whose parent is elsewhere the first word counts, and only one that fits.
  put("far", owned(logical_cluster("root:away:w"), "elsewhere", "w", "far"));
  EXPECT_EQ(index_.path_of("far"), "root:away:w");
  put("far", owned(logical_cluster("root:other:w"), "elsewhere", "w", "far"));
  EXPECT_EQ(index_.path_of("far"), "root:away:w");
  put("odd", owned(logical_cluster("root:prov"), "elsewhere", "w", "odd"));
  EXPECT_EQ(index_.path_of("odd"), "odd");
}

TEST_F(ClusterResolverTest, KK103_WhenParentsComeLater_PathsFollow) {
  index_.put_cluster("aaa", nullptr);
  index_.put_cluster("bbb", nullptr);
  put("bbb", owned(logical_cluster("forged:team"), "aaa", "team", "bbb"));
  put("aaa", owned(logical_cluster("forged"), "root", "org", "aaa"));
  EXPECT_EQ(index_.path_of("aaa"), "root:org");
  EXPECT_EQ(index_.path_of("bbb"), "root:org:team");
  EXPECT_EQ(status_of("/clusters/forged:team/api"), 404);
}

TEST_F(ClusterResolverTest, WhenMetricsAreAsked_AM476_SaysNotHere) {
  const auto text = text_answer(index_, "/clusters/root/metrics");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->status, 501);
  EXPECT_EQ(text->text, "shard-level endpoint not available at workspace scope\n");
  EXPECT_FALSE(text_answer(index_, "/clusters/root/debug/pprof"));  // rights come first (KK-367)
  EXPECT_FALSE(text_answer(index_, "/clusters/root/metrics/slis"));
  EXPECT_FALSE(text_answer(index_, "/clusters/root/metricsx"));
  EXPECT_EQ(text_answer(index_, "/clusters/nope/metrics")->status, 501) << "KK-366: whatever it is";
  EXPECT_EQ(text_answer(index_, "/clusters/system:admin/metrics")->status, 501);
  EXPECT_FALSE(text_answer(index_, "/clusters/nope:x/metrics"));
  EXPECT_FALSE(text_answer(index_, "/metrics"));
}

TEST_F(ClusterResolverTest, WhenHealthIsAskedBelowACluster_OpensIt) {
  EXPECT_EQ(health_target(index_, "/clusters/root:org/livez?verbose"), "/livez?verbose");
  EXPECT_EQ(health_target(index_, "/clusters/root/healthz"), "/healthz");
  EXPECT_EQ(health_target(index_, "/clusters/nope/livez"), "/livez") << "KK-301, KK-363";
  EXPECT_EQ(health_target(index_, "/clusters/system:admin/livez"), "/livez");
  EXPECT_FALSE(health_target(index_, "/clusters/nope:x/livez"));
  EXPECT_FALSE(health_target(index_, "/clusters/root/version"));
  EXPECT_FALSE(health_target(index_, "/clusters/root/healthz/ping"));
  EXPECT_FALSE(health_target(index_, "/clusters/*/healthz"));
}

TEST(WithoutIdentityTest, WhenHashIsRight_TakesItOut) {
  const IdentityCheck check = [](std::string_view group, std::string_view resource,
                                 std::string_view hash) {
    return group == "tenancy.kcp.io" && resource == "workspaces" && hash == "abc";
  };
  EXPECT_EQ(
      without_identity("/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:abc?watch=1", check),
      "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces?watch=1");
  EXPECT_EQ(without_identity("/clusters/%2A/apis/tenancy.kcp.io/v1alpha1/workspaces%3Aabc", check),
            "/clusters/%2A/apis/tenancy.kcp.io/v1alpha1/workspaces");
  EXPECT_EQ(without_identity("/clusters/*/apis/tenancy.kcp.io/v1alpha1/namespaces/x/workspaces:abc",
                             check),
            "/clusters/*/apis/tenancy.kcp.io/v1alpha1/namespaces/x/workspaces");
  EXPECT_FALSE(
      without_identity("/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:wrong", check));
  EXPECT_FALSE(without_identity("/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces", check));
  EXPECT_FALSE(without_identity("/clusters/a/apis/tenancy.kcp.io/v1alpha1/workspaces:abc", check));
  EXPECT_FALSE(without_identity("/clusters/*/api/v1/pods:abc", check));
}

}  // namespace
}  // namespace kintsugi::controlplane
