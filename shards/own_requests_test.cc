#include "shards/own_requests.h"

#include <gtest/gtest.h>

#include <optional>

namespace kintsugi::shards {
namespace {

bool allows(OwnRole role, const std::string& method, const std::string& target,
            const std::vector<std::string>& names = {"accept", "user-agent"},
            const std::string& prefix = "") {
  http::RequestHead head;
  head.method = method;
  head.target = target;
  for (const std::string& name : names) {
    head.headers.add(name, "x");
  }
  return is_own_request(role, head, prefix);
}
bool allows(const std::string& method, const std::string& target) {
  return allows(OwnRole::kTopology, method, target);
}

TEST(OwnRequests, WhenInTheTable_SE148_AreAllowed) {
  for (const char* target : {
           "/clusters/root/apis/core.kcp.io/v1alpha1/shards?watch=true",
           "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io",
           "/clusters/%2A/apis/core.kcp.io/v1alpha1/logicalclusters?limit=500",
           "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:somehash?watch=1",
           "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspacetypes",
           "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaceauthenticationconfigurations",
           "/clusters/*/apis/apis.kcp.io/v1alpha2/apibindings",
           "/clusters/*/apis/apis.kcp.io/v1alpha1/apiexportendpointslices",
           "/clusters/*/apis/cache.kcp.io/v1alpha1/clustercachedresourceendpointslices?watch=1",
           "/clusters/*/apis/topology.kcp.io/v1alpha1/partitionsets:h?limit=1",
           "/clusters/c1/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=1",
           "/apis/rbac.authorization.k8s.io/v1/rolebindings?watch=1",
           "/clusters/c1/apis/topology.kcp.io/v1alpha1",
           "/services/admin/apis/core.kcp.io/v1alpha1/shards?limit=1",
           "/livez",
           "/readyz?verbose",
           "/version",
           "/clusters/c1/openapi/v3",
       }) {
    EXPECT_TRUE(allows("GET", target)) << target;
  }
  for (const char* target : {"/clusters/c1/apis/authorization.k8s.io/v1/subjectaccessreviews",
                             "/clusters/c1/apis/authentication.k8s.io/v1/tokenreviews",
                             "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                             "/clusters/root/apis/authentication.k8s.io/v1/selfsubjectreviews"}) {
    EXPECT_TRUE(allows("POST", target)) << target;
    EXPECT_FALSE(allows("PUT", target)) << target;
  }
}

TEST(OwnRequests, WhenBeyondTheTable_SE148_AreRefused) {
  for (const char* target : {
           "/clusters/c1/api/v1/namespaces/default/secrets/s",
           "/clusters/*/api/v1/secrets",
           "/clusters/c1/api/v1/namespaces/default/serviceaccounts/r",
           "/clusters/c1/api/v1/namespaces/default/pods/p",
           "/clusters/*/api/v1/configmaps?watch=1",
           "/clusters/c1/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
           "/clusters/c1/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status",
           "/clusters/c1/apis/apis.kcp.io/v1alpha2/apiexports/e/content",
           "/services/apiexport/c1/e/clusters/*/apis/g/v1/things",
           "/clusters/c1/metrics",
           "/clusters/c1/debug/pprof",
           "/metrics",
           "/logs",
           "/",
       }) {
    EXPECT_FALSE(allows("GET", target)) << target;
  }
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    for (const char* target :
         {"/clusters/c1/apis/core.kcp.io/v1alpha1/logicalclusters",
          "/clusters/c1/apis/tenancy.kcp.io/v1alpha1/workspaces/w",
          "/clusters/c1/api/v1/namespaces/default/secrets",
          "/clusters/root/apis/core.kcp.io/v1alpha1/shards/s",
          "/clusters/c1/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/livez"}) {
      EXPECT_FALSE(allows(method, target)) << method << " " << target;
    }
  }
}

TEST(OwnRequests, WhenSomethingOfACallerIsInIt_IsRefused) {
  const std::string target = "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters";
  EXPECT_TRUE(allows(OwnRole::kTopology, "GET", target, {"accept", "authorization"}));
  for (const char* name :
       {"impersonate-user", "impersonate-group", "impersonate_user", "x-remote-extra-scopes",
        "x-remote-uid", "cookie", "x-forwarded-for", "via", "audit-id", "sec-websocket-protocol"}) {
    EXPECT_FALSE(allows(OwnRole::kTopology, "GET", target, {"accept", name})) << name;
  }
  http::RequestHead upgrade;
  upgrade.method = "GET";
  upgrade.target = target;
  upgrade.protocol = "websocket";
  EXPECT_FALSE(is_own_request(OwnRole::kTopology, upgrade, ""));
}

TEST(OwnRequests, WhenReviewed_OnlyListsAndWatches) {
  const auto reads = [](const std::string& method, const std::string& target) {
    return allows(OwnRole::kReviewed, method, target, {"accept", "audit-id", "via"});
  };
  EXPECT_TRUE(reads("GET", "/clusters/*/api/v1/configmaps?limit=5"));
  EXPECT_TRUE(reads("GET", "/api/v1/namespaces/default/configmaps?watch=1"));
  EXPECT_TRUE(reads("GET", "/services/apiexport/c1/e/clusters/*/apis/g/v1/things"));
  EXPECT_FALSE(reads("GET", "/services/apiexport/c1/e/clusters/c1/apis/g/v1/things/a"));
  EXPECT_FALSE(reads("GET", "/api/v1/namespaces/default/configmaps/a"));
  EXPECT_FALSE(reads("GET", "/api/v1/namespaces/default/pods/a/log"));
  EXPECT_FALSE(reads("POST", "/api/v1/namespaces/default/configmaps"));
  EXPECT_FALSE(reads("DELETE", "/api/v1/namespaces/default/configmaps"));
  EXPECT_FALSE(reads("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"));
  EXPECT_FALSE(allows(OwnRole::kReviewed, "GET", "/api/v1/configmaps", {"impersonate-user"}));
}

TEST(OwnRequests, WhenTheServerHasAPath_ItComesFirst) {
  const auto at = [](const std::string& target) {
    return allows(OwnRole::kTopology, "GET", target, {}, "/k8s");
  };
  EXPECT_TRUE(at("/k8s/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"));
  EXPECT_FALSE(at("/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"));
  EXPECT_FALSE(at("/k8s/clusters/c1/api/v1/secrets"));
}

/// The rule stands where requests leave, whoever makes them.
TEST(OwnRequests, WhenSomethingElseIsAsked_NothingLeaves) {
  net::Loop loop("test");
  net::UpstreamParams params;
  params.url = *net::Url::parse("http://127.0.0.1:1");
  const auto server = net::Upstream::make(loop, params);
  for (const char* target : {"/clusters/c1/api/v1/secrets", "/clusters/c1/metrics"}) {
    net::FetchRequest request;
    request.target = target;
    std::optional<Errc> got;
    const auto call = own_fetch(loop, *server, request, [&](Expected<net::FetchResponse> answer) {
      got = answer ? Errc::kOk : answer.error().code();
      loop.stop();
    });
    EXPECT_FALSE(got) << "never at once";
    loop.run();
    EXPECT_EQ(got, Errc::kForbidden) << target;
    net::StreamCallbacks callbacks;
    callbacks.on_end = [&](Errc cause) {
      got = cause;
      loop.stop();
    };
    got.reset();
    const auto stream = own_stream(loop, *server, request, std::move(callbacks));
    loop.run();
    EXPECT_EQ(got, Errc::kForbidden) << target;
  }
  for (const net::UpstreamClass kind :
       {net::UpstreamClass::kRead, net::UpstreamClass::kWatch, net::UpstreamClass::kWrite}) {
    EXPECT_EQ(server->stats(kind).requests, 0U);
  }
  std::optional<Errc> got;
  net::FetchRequest probe;
  probe.target = "/livez";
  const auto call = own_fetch(loop, *server, probe, [&](Expected<net::FetchResponse> answer) {
    got = answer ? Errc::kOk : answer.error().code();
    loop.stop();
  });
  loop.run();
  EXPECT_NE(got, Errc::kForbidden);
  EXPECT_EQ(server->stats(net::UpstreamClass::kRead).requests, 1U);
}

TEST(OwnRequests, KK_201_WhenANoteOfAPartition_ThatOneSpellingAlone) {
  const std::string note = partition_note_target("abc1");
  EXPECT_EQ(note,
            "/services/partitions/abc1/clusters/abc1/apis/topology.kcp.io/v1alpha1/partitionnotes");
  EXPECT_TRUE(allows("POST", note));
  EXPECT_TRUE(allows(OwnRole::kTopology, "POST", "/prefix" + note, {"accept"}, "/prefix"));
  EXPECT_FALSE(allows(OwnRole::kReviewed, "POST", note));
  EXPECT_FALSE(allows(OwnRole::kTopology, "POST", note, {"x-remote-extra-a"}));
  for (const char* method : {"GET", "PUT", "PATCH", "DELETE"}) {
    EXPECT_FALSE(allows(method, note)) << method;
  }
  for (const std::string& target :
       {note + "/x", note + "?dryRun=All", partition_note_target("*"), partition_note_target("a/b"),
        partition_note_target("a%2Fb"), partition_note_target(""), partition_note_target("root:a"),
        std::string("/services/partitions/a/clusters/b/apis/topology.kcp.io/v1alpha1/"
                    "partitionnotes"),
        std::string("/clusters/a/apis/topology.kcp.io/v1alpha1/partitionnotes"),
        "/shards/x" + note}) {
    EXPECT_FALSE(allows("POST", target)) << target;
  }
}

}  // namespace
}  // namespace kintsugi::shards
