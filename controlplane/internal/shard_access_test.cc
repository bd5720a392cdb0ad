#include "controlplane/internal/shard_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/json.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

class AllowsAll final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes&, Done done) override { done(auth::Decision{true, {}}); }
};

auth::UserInfo member(std::vector<std::string> groups, std::string name = "ann") {
  auth::UserInfo user;
  user.name = std::move(name);
  user.groups = std::move(groups);
  return user;
}

class PhaseAuthorizerTest : public ::testing::Test {
 protected:
  void put(std::string_view phase, std::string_view groups = "") {
    Json cluster;
    cluster.make({"status", "phase"}) = phase;
    if (!groups.empty()) {
      cluster.make({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) = groups;
    }
    index_.put_cluster("abc", &cluster);
  }
  bool allows(auth::UserInfo user, bool deep = false) {
    auth::Attributes attributes;
    attributes.user = std::move(user);
    attributes.cluster = "abc";
    attributes.verb = "get";
    attributes.resource = "configmaps";
    attributes.deep = deep;
    bool allowed = false;
    authorizer_.authorize(attributes, [&](Expected<auth::Decision> decision) {
      ASSERT_TRUE(decision);
      allowed = decision->allowed;
    });
    return allowed;
  }
  ClusterIndex index_;
  AllowsAll inner_;
  PhaseAuthorizer authorizer_{index_, inner_};
};

TEST_F(PhaseAuthorizerTest, WhenTheClusterIsNotReady_AM491_KK306_OnlyAdministratorsPass) {
  for (const char* phase : {"", "Scheduling", "Initializing", "Unavailable", "Inactive"}) {
    put(phase);
    EXPECT_FALSE(allows(member({}))) << phase;
    EXPECT_FALSE(allows(member({}), true)) << phase;
    EXPECT_FALSE(allows(member({"system:serviceaccounts"}, "system:serviceaccount:a:b"))) << phase;
    EXPECT_TRUE(allows(member({"system:masters"}))) << phase;
    EXPECT_TRUE(allows(member({"system:kcp:admin"}))) << phase;
  }
  for (const char* phase : {"Ready", "Terminating", "Deleting"}) {
    put(phase);
    EXPECT_TRUE(allows(member({}))) << phase;
  }
}

TEST_F(PhaseAuthorizerTest, KK300_KK305_WhenTheClusterIsTheSystems_OnlyTheSystemPasses) {
  const auto passes = [&](auth::UserInfo user, bool deep) {
    auth::Attributes asked;
    asked.user = std::move(user);
    asked.cluster = "system:admin";
    asked.verb = "get";
    asked.resource = "configmaps";
    asked.deep = deep;
    bool allowed = false;
    authorizer_.authorize(
        asked, [&](const Expected<auth::Decision>& found) { allowed = found && found->allowed; });
    return allowed;
  };
  for (const bool deep : {false, true}) {
    EXPECT_TRUE(passes(member({"system:masters"}), deep));
    for (const char* group :
         {"system:kcp:admin", "system:kcp:tenancy:workspace-bootstrapper", "system:authenticated",
          "system:kcp:logical-cluster-admin", "system:kcp:external-logical-cluster-admin"}) {
      EXPECT_FALSE(passes(member({group}), deep)) << group;
    }
  }
  auth::UserInfo scoped = member({"system:masters"});
  scoped.extra = {{std::string(auth::kExtraScopes), {"cluster:other"}}};
  put("Scheduling", "a,b");
  EXPECT_TRUE(allows(scoped)) << "system:masters is bounded by nothing";
}

struct StatusCase {
  const char *group, *resource;
  bool readable;
  std::vector<const char*> writers;
};

TEST_F(PhaseAuthorizerTest, WhenAStatusIsTheSystems_KK060_KK101_KK311_OthersAreDenied) {
  put("Ready");
  const StatusCase cases[] = {
      {"apis.kcp.io", "apibindings", false, {"system:masters"}},
      {"apis.kcp.io", "apiexports", false, {"system:masters"}},
      {"core.kcp.io",
       "logicalclusters",
       true,
       {"system:masters", "system:kcp:admin", "system:kcp:logical-cluster-admin",
        "system:kcp:external-logical-cluster-admin", "system:kcp:tenancy:workspace-bootstrapper"}},
      {"tenancy.kcp.io",
       "workspaces",
       true,
       {"system:masters", "system:kcp:admin", "system:kcp:tenancy:workspace-bootstrapper"}},
      {"tenancy.kcp.io",
       "workspacetypes",
       true,
       {"system:masters", "system:kcp:admin", "system:kcp:tenancy:workspace-bootstrapper"}}};
  for (const StatusCase& one : cases) {
    for (const char* group :
         {"devs", "system:masters", "system:kcp:admin", "system:kcp:logical-cluster-admin",
          "system:kcp:external-logical-cluster-admin", "system:kcp:tenancy:workspace-bootstrapper",
          "system:kcp:initializer:root:t", "system:serviceaccounts"}) {
      const bool writes =
          std::count(one.writers.begin(), one.writers.end(), std::string_view(group)) > 0;
      for (const char* verb : {"get", "update", "patch", "create", "delete", "*"}) {
        for (const bool deep : {false, true}) {
          auth::Attributes asked;
          asked.user = member({group});
          asked.cluster = "abc";
          asked.verb = verb;
          asked.group = one.group;
          asked.resource = one.resource;
          asked.subresource = "status";
          asked.deep = deep;
          const bool reads = one.readable && asked.verb == "get";
          bool allowed = false;
          std::string reason;
          authorizer_.authorize(asked, [&](Expected<auth::Decision> decision) {
            allowed = decision && decision->allowed;
            reason = decision ? decision->reason : "";
          });
          EXPECT_EQ(allowed, writes || reads) << one.resource << " " << verb << " " << group;
          if (!allowed) {
            EXPECT_EQ(reason, "access denied");
          }
          asked.subresource.clear();
          EXPECT_FALSE(is_systems_status(asked));
        }
      }
    }
  }
}

TEST_F(PhaseAuthorizerTest, WhenGroupsAreRequired_AM491_KK303_OthersAreDenied) {
  put("Ready", "a,b;c");
  EXPECT_TRUE(allows(member({"a", "b"})));
  EXPECT_TRUE(allows(member({"x", "c"})));
  EXPECT_FALSE(allows(member({"a"})));
  EXPECT_FALSE(allows(member({"b", "x"})));
  EXPECT_FALSE(allows(member({})));
  EXPECT_FALSE(allows(member({"a,b"})));
  EXPECT_TRUE(allows(member({}), true));
  EXPECT_TRUE(allows(member({}, "system:serviceaccount:a:b")));
  for (const char* group :
       {"system:masters", "system:kcp:admin", "system:kcp:external-logical-cluster-admin",
        "system:kcp:logical-cluster-admin", "system:kcp:tenancy:workspace-bootstrapper"}) {
    EXPECT_TRUE(allows(member({group}))) << group;
  }
}

/// Everything is allowed by RBAC here: what is refused, the role does not hold.
struct OwnCase {
  const char *verb, *group, *resource, *subresource;
  bool proxy, reader;
};

TEST_F(PhaseAuthorizerTest, WhenTheCertificateIsTheProxys_SE148_ItsTableDecidesAlone) {
  const OwnCase cases[] = {
      {"get", "core.kcp.io", "logicalclusters", "", true, true},
      {"watch", "core.kcp.io", "shards", "", true, true},
      {"list", "tenancy.kcp.io", "workspaces", "", true, true},
      {"list", "tenancy.kcp.io", "workspacetypes", "", true, true},
      {"watch", "tenancy.kcp.io", "workspaceauthenticationconfigurations", "", true, true},
      {"get", "apis.kcp.io", "apiexports", "", true, true},
      {"list", "apis.kcp.io", "apibindings", "", true, true},
      {"list", "apis.kcp.io", "apiexportendpointslices", "", true, true},
      {"list", "topology.kcp.io", "partitions", "", true, true},
      {"watch", "cache.kcp.io", "clustercachedresourceendpointslices", "", true, true},
      {"get", "cache.kcp.io", "clustercachedresourceendpointslices", "", false, true},
      {"list", "cache.kcp.io", "clustercachedresources", "", false, true},
      {"create", "topology.kcp.io", "partitionnotes", "", false, false},
      {"list", "topology.kcp.io", "partitionsets", "", true, true},
      {"watch", "rbac.authorization.k8s.io", "clusterroles", "", true, true},
      {"list", "rbac.authorization.k8s.io", "rolebindings", "", true, true},
      {"get", "rbac.authorization.k8s.io", "clusterroles", "", false, true},
      {"create", "authorization.k8s.io", "subjectaccessreviews", "", true, false},
      {"create", "authentication.k8s.io", "tokenreviews", "", true, false},
      {"create", "authentication.k8s.io", "selfsubjectreviews", "", true, false},
      {"list", "", "configmaps", "", false, true},
      {"list", "", "secrets", "", false, true},
      {"get", "", "serviceaccounts", "", false, true},
      {"create", "", "serviceaccounts", "token", false, false},
      {"get", "", "pods", "exec", false, false},
      {"get", "apis.kcp.io", "apiexports", "content", false, true},
      {"get", "core.kcp.io", "logicalclusters", "status", false, false},
      {"create", "core.kcp.io", "logicalclusters", "", false, false},
      {"update", "tenancy.kcp.io", "workspaces", "", false, false},
      {"delete", "core.kcp.io", "shards", "", false, false},
      {"patch", "apis.kcp.io", "apibindings", "", false, false},
      {"impersonate", "", "users", "", false, false},
      {"escalate", "rbac.authorization.k8s.io", "clusterroles", "", false, false},
      {"create", "authorization.k8s.io", "selfsubjectrulesreviews", "", false, false},
      {"*", "*", "*", "", false, false}};
  for (const char* phase : {"Scheduling", "Ready", "Unavailable"}) {
    put(phase, "nobody-has-this");
    for (const OwnCase& one : cases) {
      const auto allowed = [&](std::vector<std::string> groups, std::string cluster) {
        auth::Attributes asked;
        asked.user = member(std::move(groups));
        asked.cluster = std::move(cluster);
        asked.verb = one.verb;
        asked.group = one.group;
        asked.resource = one.resource;
        asked.subresource = one.subresource;
        bool found = false;
        authorizer_.authorize(asked, [&](const Expected<auth::Decision>& decision) {
          found = decision && decision->allowed;
        });
        return found;
      };
      for (const char* cluster : {"abc", "*", "root", "nowhere"}) {
        EXPECT_EQ(allowed({"system:kintsugi:proxy"}, cluster), one.proxy)
            << one.verb << " " << one.resource << "/" << one.subresource << " in " << cluster;
        EXPECT_EQ(allowed({"system:kintsugi:reader"}, cluster), one.reader)
            << one.verb << " " << one.resource << "/" << one.subresource << " in " << cluster;
        // Whatever else it is in.
        EXPECT_EQ(allowed({"system:masters", "system:kintsugi:proxy"}, cluster), one.proxy);
      }
    }
  }
}

TEST_F(PhaseAuthorizerTest, WhenAnotherShardAsks_SE148_ItCopiesPlacesAndRegisters) {
  put("Scheduling");
  const auto allowed = [&](std::string_view verb, std::string_view group, std::string_view resource,
                           std::string_view subresource = "") {
    auth::Attributes asked;
    asked.user = member({"system:kintsugi:shard"}, "shard-west");
    asked.cluster = "abc";
    asked.verb = verb;
    asked.group = group;
    asked.resource = resource;
    asked.subresource = subresource;
    bool found = false;
    authorizer_.authorize(asked, [&](const Expected<auth::Decision>& decision) {
      found = decision && decision->allowed;
    });
    return found;
  };
  for (const char* verb : {"get", "create", "delete"}) {
    EXPECT_TRUE(allowed(verb, "core.kcp.io", "logicalclusters")) << verb;
  }
  for (const char* verb : {"get", "list", "watch", "create", "update"}) {
    EXPECT_TRUE(allowed(verb, "core.kcp.io", "shards")) << verb;
  }
  EXPECT_TRUE(allowed("watch", "apis.kcp.io", "apiresourceschemas"));
  EXPECT_TRUE(allowed("list", "tenancy.kcp.io", "workspaceauthenticationconfigurations"));
  EXPECT_TRUE(allowed("create", "authentication.k8s.io", "tokenreviews"));
  EXPECT_FALSE(allowed("create", "authorization.k8s.io", "subjectaccessreviews"));
  EXPECT_FALSE(allowed("get", "", "serviceaccounts"));
  EXPECT_TRUE(allowed("list", "rbac.authorization.k8s.io", "clusterroles"));
  EXPECT_FALSE(allowed("update", "core.kcp.io", "logicalclusters"));
  EXPECT_FALSE(allowed("update", "core.kcp.io", "logicalclusters", "status"));
  EXPECT_FALSE(allowed("delete", "core.kcp.io", "shards"));
  EXPECT_FALSE(allowed("create", "rbac.authorization.k8s.io", "clusterroles"));
  EXPECT_FALSE(allowed("list", "", "secrets"));
  EXPECT_FALSE(allowed("get", "", "configmaps"));
  EXPECT_FALSE(allowed("create", "tenancy.kcp.io", "workspaces"));
}

TEST_F(PhaseAuthorizerTest, WhenTheProxyAsksForPaths_SE148_ThoseOfItsTable) {
  const auto allowed = [&](std::string_view verb, std::string_view path) {
    auth::Attributes asked;
    asked.user = member({"system:kintsugi:proxy"});
    asked.cluster = "abc";
    asked.is_resource = false;
    asked.verb = verb;
    asked.path = path;
    bool found = false;
    authorizer_.authorize(asked, [&](const Expected<auth::Decision>& decision) {
      found = decision && decision->allowed;
    });
    return found;
  };
  for (const char* path : {"/livez", "/readyz", "/version", "/api", "/api/v1", "/apis",
                           "/apis/apps/v1", "/openapi/v3"}) {
    EXPECT_TRUE(allowed("get", path)) << path;
    EXPECT_FALSE(allowed("post", path)) << path;
  }
  for (const char* path : {"/", "/metrics", "/debug/pprof", "/logs", "/apisx", "/livez/ping"}) {
    EXPECT_FALSE(allowed("get", path)) << path;
  }
}

TEST(ShardAuthenticator, KK330_WhenNobodyAsks_HeIsRefusedOrAnonymous) {
  for (const bool as_kcp : {false, true}) {
    ShardAuthenticator authenticator({}, as_kcp);
    for (const char* target : {"/clusters/c/api", "/version"}) {
      http::RequestHead head;
      head.method = "GET";
      head.target = target;
      std::optional<bool> passes;
      authenticator.authenticate(head, nullptr, http::PeerInfo(), "c", [&](const auto& found) {
        passes = found.has_value();
        EXPECT_FALSE(found && found->has_value()) << "as nobody";
      });
      EXPECT_EQ(passes, as_kcp || head.target == "/version") << target;
    }
  }
}

TEST(ShardAuthenticator, WhenARoleIsNotByCertificate_SE148_ItIsDropped) {
  auth::RequestAuthenticator::Params params;
  params.request_header.allowed_names = {"kcp-front-proxy"};
  auto tokens = auth::TokenFile::parse("secret,worker,1,\"system:kintsugi:proxy,team\"\n");
  ASSERT_TRUE(tokens);
  params.tokens = *tokens;
  ShardAuthenticator authenticator(params);
  const auto groups_of = [&](const http::RequestHead& head, const http::PeerInfo& peer) {
    std::vector<std::string> groups;
    authenticator.authenticate(head, auth::bearer_of(head.headers), peer, "abc",
                               [&](Expected<std::optional<auth::UserInfo>> user) {
                                 ASSERT_TRUE(user && *user);
                                 groups = (*user)->groups;
                               });
    return groups;
  };
  http::RequestHead by_token;
  by_token.target = "/api";
  by_token.headers.add("authorization", "Bearer secret");
  EXPECT_EQ(groups_of(by_token, {}), (std::vector<std::string>{"team", "system:authenticated"}));

  const auto peer_of = [](bool by_header, std::string name, std::vector<std::string> groups) {
    auth::CertificateIdentity identity;
    identity.valid = true;
    identity.from_client_ca = !by_header;
    identity.from_request_header_ca = by_header;
    identity.common_name = std::move(name);
    identity.organizations = std::move(groups);
    http::PeerInfo peer;
    peer.certificates_der = {"der"};
    peer.identity = std::make_shared<const auth::CertificateIdentity>(identity);
    return peer;
  };
  http::RequestHead asserted;
  asserted.target = "/api";
  asserted.headers.add("x-remote-user", "kintsugi-proxy");
  asserted.headers.add("x-remote-group", "system:kintsugi:proxy");
  EXPECT_EQ(groups_of(asserted, peer_of(true, "kcp-front-proxy", {})),
            (std::vector<std::string>{"system:authenticated"}));
  http::RequestHead plain;
  plain.target = "/api";
  EXPECT_EQ(groups_of(plain, peer_of(false, "kintsugi-proxy", {"system:kintsugi:proxy"})),
            (std::vector<std::string>{"system:kintsugi:proxy", "system:authenticated"}));
}

}  // namespace
}  // namespace kintsugi::controlplane
