#include "apiserver/shard/shard_access.h"

#include <gtest/gtest.h>

#include "apiserver/shard/names.h"
#include "krm/json.h"

namespace kintsugi::apiserver {
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
      cluster.make({"metadata", "annotations", kRequiredGroupsAnnotation}) = groups;
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
}  // namespace kintsugi::apiserver
