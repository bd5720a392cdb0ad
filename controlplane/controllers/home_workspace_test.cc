#include "controlplane/controllers/home_workspace.h"

#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "controlplane/internal/bootstrap.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

auth::UserInfo user(std::string name) {
  auth::UserInfo out;
  out.name = std::move(name);
  out.groups = {"dev", std::string(auth::kGroupAuthenticated)};
  return out;
}

class HomeWorkspacesTest : public ::testing::Test {
 protected:
  HomeWorkspacesTest()
      : loop_("test"), server_(loop_), types_(index_, root_), homes_(types_, "root") {
    server_.serve("core.kcp.io", "logicalclusters", "LogicalCluster", false);
    for (const BootstrapObject& one : bootstrap_objects("root")) {
      if (one.key.resource == kWorkspaceTypes) {
        root_.put_type(one.key.name, &one.object);
      }
    }
    homes_.start(server_);
  }
  /// Errc::kOk: the answer is in answer_.
  Errc get(const auth::UserInfo& who, std::string_view cluster = "root",
           std::string_view name = "~") {
    bool answered = false;
    Errc code = Errc::kOk;
    if (!homes_.get(who, cluster, name, [&](Expected<Json> object) {
          answered = true;
          code = object ? Errc::kOk : object.error().code();
          retry_after_ = object ? 0 : object.error().detail().retry_after_seconds;
          answer_ = object ? std::move(*object) : Json();
        })) {
      return Errc::kNotProcessed;
    }
    server_.run_until([&] { return answered; });
    return code;
  }
  static apiserver::ObjectKey key(const char* cluster) {
    return {cluster, "core.kcp.io", "logicalclusters", "", "cluster"};
  }
  void set_phase(const char* cluster, const char* phase) {
    const Json* stored = server_.find(key(cluster));
    ASSERT_NE(stored, nullptr);
    Json object = *stored;
    object.make({"status", "phase"}) = phase;
    object.make({"status", "URL"}) = "https://proxy/clusters/" + std::string(cluster);
    server_.put(key(cluster), std::move(object));
  }

  net::Loop loop_;
  apiserver::TestingServer server_;
  ClusterIndex index_;
  RootView root_;
  WorkspaceTypeLookup types_;
  HomeWorkspaces homes_;
  Json answer_;
  int retry_after_ = 0;
};

TEST_F(HomeWorkspacesTest, WhenItIsAskedForFirst_IsMadeForItsOwner) {
  EXPECT_EQ(get(user("alice")), Errc::kTooManyRequests);
  EXPECT_EQ(retry_after_, 1);
  const Json* made = server_.find(key("v1u4alow0iv9"));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(annotation(*made, krm::kPathAnnotation), "user:alice");
  EXPECT_EQ(annotation(*made, krm::kTypeAnnotation), "root:home");
  EXPECT_EQ(annotation(*made, krm::kShardAnnotation), "root");
  EXPECT_EQ(made->text({"spec", "createdBy", "username"}), "alice");
  EXPECT_EQ(made->at({"metadata", "finalizers"})->size(), 1U);
}

TEST_F(HomeWorkspacesTest, WhenItIsNotReady_ClientsWait) {
  EXPECT_EQ(get(user("alice")), Errc::kTooManyRequests);
  for (const char* phase : {"Scheduling", "Initializing"}) {
    set_phase("v1u4alow0iv9", phase);
    EXPECT_EQ(get(user("alice")), Errc::kTooManyRequests) << phase;
  }
  set_phase("v1u4alow0iv9", "Ready");
  EXPECT_EQ(get(user("alice")), Errc::kOk);
  EXPECT_EQ(answer_.text({"kind"}), "Workspace");
  EXPECT_EQ(answer_.text({"metadata", "name"}), "cluster");
  EXPECT_EQ(answer_.text({"spec", "cluster"}), "v1u4alow0iv9");
  EXPECT_EQ(answer_.text({"spec", "URL"}), "https://proxy/clusters/v1u4alow0iv9");
  EXPECT_EQ(answer_.at({"spec", "type"}), nullptr);
  EXPECT_EQ(answer_.text({"status", "phase"}), "Ready");
}

TEST_F(HomeWorkspacesTest, KK107_WhenTheNameIsTaken_NobodyGetsThatCluster) {
  const std::string workspace =
      R"("owner": {"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": "w",
          "cluster": "root", "uid": "u"})";
  const std::string taken[] = {R"({"createdBy": {"username": "eve"}})", "{}",
                               R"({"createdBy": {}})",
                               R"({"createdBy": {"groups": ["alice"], "uid": "alice"}})",
                               R"({"createdBy": {"username": "Alice"}})",
                               // A Workspace that captured it, and says the right creator.
                               R"({"createdBy": {"username": "alice"}, )" + workspace + "}"};
  for (const std::string& spec : taken) {
    SCOPED_TRACE(spec);
    server_.put(key("v1u4alow0iv9"), R"({"metadata": {"annotations": {
        "experimental.tenancy.kcp.io/owner": "{\"username\":\"alice\"}",
        "kcp.io/path": "user:alice"}}, "spec": )" +
                                         spec + "}");
    for (const char* phase : {"Scheduling", "Ready"}) {
      set_phase("v1u4alow0iv9", phase);
      EXPECT_EQ(get(user("alice")), Errc::kConflict) << phase;
    }
  }
}

TEST_F(HomeWorkspacesTest, KK104_WhenTheAnnotationIsChanged_CreatedByCounts) {
  EXPECT_EQ(get(user("alice")), Errc::kTooManyRequests);
  Json object = *server_.find(key("v1u4alow0iv9"));
  object.make({"metadata", "annotations", krm::kOwnerAnnotation}) = R"({"username":"eve"})";
  server_.put(key("v1u4alow0iv9"), std::move(object));
  set_phase("v1u4alow0iv9", "Ready");
  EXPECT_EQ(get(user("alice")), Errc::kOk);
}

TEST_F(HomeWorkspacesTest, KK107_WhenTheUserHasSpecialGroups_TheyAreNotStored) {
  auth::UserInfo alice = user("alice");
  alice.groups.insert(alice.groups.end(), {"system:masters", "system:kcp:admin"});
  alice.extra = {{"authorization.kcp.io/warrant", {"{}"}}, {"kcp.io/x", {"y"}}, {"mine", {"v"}}};
  EXPECT_EQ(get(alice), Errc::kTooManyRequests);
  const Json* made = server_.find(key("v1u4alow0iv9"));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(
      made->at({"spec", "createdBy"})->dump(),
      R"({"extra":{"mine":["v"]},"groups":["dev","system:authenticated"],"username":"alice"})");
}

TEST_F(HomeWorkspacesTest, WhenTheTypeIsNotKnownYet_IsUnavailable) {
  root_.put_type("home", nullptr);
  EXPECT_EQ(get(user("alice")), Errc::kUnavailable);
  EXPECT_EQ(server_.find(key("v1u4alow0iv9")), nullptr);
}

TEST_F(HomeWorkspacesTest, WhenTheUserHasNone_IsAnOrdinaryName) {
  EXPECT_EQ(get(auth::anonymous_user()), Errc::kNotProcessed);
  EXPECT_EQ(get(user("system:serviceaccount:default:robot")), Errc::kNotProcessed);
  auth::UserInfo scoped = user("alice");
  scoped.extra.emplace_back(auth::kExtraScopes, std::vector<std::string>{"cluster:abc"});
  EXPECT_EQ(get(scoped), Errc::kNotProcessed);
  EXPECT_EQ(get(user("alice"), "root", "home"), Errc::kNotProcessed);
  EXPECT_EQ(get(user("alice"), "elsewhere"), Errc::kNotProcessed);
}

TEST(HomePath, WhenTheNameFitsAPath_IsThatOfTheUser) {
  EXPECT_EQ(home_path("alice"), "user:alice");
  EXPECT_EQ(home_path("user:with:colons"), "2bqfj6xlthg3t");
  EXPECT_EQ(home_path("Alice@example.com").find_first_of(":@"), std::string::npos);
}

TEST(HomeRequest, WhenItIsAnythingElse_NeedsRights) {
  const auth::UserInfo alice = user("alice");
  auth::Attributes get;
  get.user = alice;
  get.cluster = "root";
  get.is_resource = true;
  get.verb = "get";
  get.group = "tenancy.kcp.io";
  get.resource = "workspaces";
  get.name = "~";
  EXPECT_TRUE(is_home_request(get));
  const auto still = [&get](auto&& change) {
    auth::Attributes other = get;
    change(other);
    return is_home_request(other);
  };
  EXPECT_FALSE(still([](auth::Attributes& a) { a.verb = "delete"; }));
  EXPECT_FALSE(still([](auth::Attributes& a) { a.name = "x"; }));
  EXPECT_FALSE(still([](auth::Attributes& a) { a.cluster = "abc"; }));
  EXPECT_FALSE(still([](auth::Attributes& a) { a.subresource = "status"; }));
  EXPECT_FALSE(still([](auth::Attributes& a) { a.group = ""; }));
}

}  // namespace
}  // namespace kintsugi::controlplane
