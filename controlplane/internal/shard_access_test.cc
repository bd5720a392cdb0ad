#include "controlplane/internal/shard_access.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST_F(PhaseAuthorizerTest, WhenTheClusterIsNotReady_AM491_OnlyAdministratorsPass) {
  for (const char* phase : {"", "Scheduling", "Initializing", "Unavailable"}) {
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

TEST_F(PhaseAuthorizerTest, WhenGroupsAreRequired_AM491_OthersAreDenied) {
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

}  // namespace
}  // namespace kintsugi::controlplane
