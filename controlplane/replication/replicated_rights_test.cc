#include "controlplane/replication/replicated_rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "controlplane/internal/names.h"
#include "controlplane/internal/shard_access.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kRbac = "rbac.authorization.k8s.io";

class ReplicatedRightsTest : public apiserver::ControllerTest {
 protected:
  ReplicatedRightsTest()
      : rbac_(params()), rights_(index_, rbac_, [this](std::string_view cluster) {
          changed_.emplace_back(cluster);
        }) {}
  ~ReplicatedRightsTest() override {
    rights_.stop();
    rbac_.stop();
    index_.stop();
  }
  static kinds::RbacParams params() {
    kinds::RbacParams params;
    params.workspace_access = true;
    return params;
  }
  void start() {
    index_.start(server_);
    rbac_.start(server_);
    rights_.start(server_);
  }
  void settle() {
    int turns = 0;
    server_.run_until([&] { return ++turns > 3; });
  }
  static apiserver::ObjectKey key(std::string_view group, std::string_view resource) {
    return {"c", std::string(group), std::string(resource), "", "binder"};
  }
  /// User bob may bind widgets in cluster c.
  void allow(std::string_view group) {
    server_.put(key(group, "clusterroles"),
                R"({"rules":[{"apiGroups":["apis.kcp.io"],"resources":["apiexports"],
                    "resourceNames":["widgets"],"verbs":["bind"]}]})");
    server_.put(key(group, "clusterrolebindings"),
                R"({"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",
                    "name":"binder"},
                    "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User",
                    "name":"bob"}]})");
    settle();
  }
  void put_cluster() {
    server_.put({"c", std::string(kCoreGroup), std::string(kLogicalClusters), "",
                 std::string(kClusterName)},
                R"({"status":{"phase":"Ready"}})");
    settle();
  }
  void erase(const apiserver::ObjectKey& which) {
    server_.erase(which);
    settle();
  }
  /// As an admission hook asks.
  [[nodiscard]] bool may(std::string_view verb, bool deep = true) {
    auth::Attributes attributes;
    attributes.user.name = "bob";
    attributes.user.groups = {std::string(auth::kGroupAuthenticated)};
    attributes.cluster = "c";
    attributes.verb = verb;
    attributes.group = kApisGroup;
    attributes.version = "v1alpha2";
    attributes.resource = kApiExports;
    attributes.name = "widgets";
    attributes.deep = deep;
    bool allowed = false;
    PhaseAuthorizer(index_, rbac_).authorize(attributes, [&](Expected<auth::Decision> decision) {
      allowed = decision && decision->allowed;
    });
    return allowed;
  }

  ClusterIndex index_;
  kinds::RbacAuthorizer rbac_;
  std::vector<std::string> changed_;
  ReplicatedRights rights_;
};

TEST_F(ReplicatedRightsTest, AM498_WhenRightsAreCopied_TheyAreDecidedHere) {
  start();
  EXPECT_FALSE(may("bind"));
  allow(kinds::kReplicaGroup);
  EXPECT_TRUE(may("bind"));
  EXPECT_FALSE(may("delete"));
  EXPECT_FALSE(may("bind", false)) << "no way into that cluster";
  EXPECT_THAT(changed_, ElementsAre("c", "c"));
  erase(key(kinds::kReplicaGroup, "clusterrolebindings"));
  EXPECT_FALSE(may("bind"));
}

TEST_F(ReplicatedRightsTest, WhenStarted_KnowsWhatIsStored) {
  allow(kinds::kReplicaGroup);
  start();
  EXPECT_TRUE(may("bind"));
}

TEST_F(ReplicatedRightsTest, WhenTheClusterIsHere_OnlyItsOwnObjectsCount) {
  put_cluster();
  start();
  allow(kinds::kReplicaGroup);
  EXPECT_FALSE(may("bind"));
  allow(kRbac);
  EXPECT_TRUE(may("bind"));
  erase(key(kinds::kReplicaGroup, "clusterroles"));
  EXPECT_TRUE(may("bind"));
  EXPECT_THAT(changed_, IsEmpty());
}

TEST_F(ReplicatedRightsTest, WhenAClusterMoves_ItsRightsFollow) {
  start();
  allow(kinds::kReplicaGroup);
  put_cluster();
  EXPECT_FALSE(may("bind")) << "it has none of its own yet";
  allow(kRbac);
  EXPECT_TRUE(may("bind"));
  erase(key(kRbac, "clusterrolebindings"));
  erase(key(kRbac, "clusterroles"));
  EXPECT_FALSE(may("bind"));
  erase(
      {"c", std::string(kCoreGroup), std::string(kLogicalClusters), "", std::string(kClusterName)});
  EXPECT_TRUE(may("bind"));
}

}  // namespace
}  // namespace kintsugi::controlplane
