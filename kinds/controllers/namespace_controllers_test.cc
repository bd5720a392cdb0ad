#include "apiserver/testing/controller_server.h"
#include "kinds/controllers/internal/namespace_defaults.h"
#include "kinds/controllers/internal/namespace_lifecycle.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr const char* kNamespace =
    R"({"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}})";

class NamespaceDeletion : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    controller_ = std::make_unique<NamespaceLifecycle>(context());
    controller_->start();
    server_.put(ns_key("t1"), kNamespace);
  }
  std::string condition(const char* type) {
    const Json* found = apiserver::find_condition(*server_.find(ns_key("t1")), type);
    return found == nullptr
               ? "absent"
               : std::string(found->text({"status"})) + " " + std::string(found->text({"reason"}));
  }
  std::unique_ptr<NamespaceLifecycle> controller_;
};

TEST_F(NamespaceDeletion, WhenEmpty_GoesAtOnce_AM335) {
  server_.erase(ns_key("t1"));
  server_.run(*controller_);
  EXPECT_EQ(server_.find(ns_key("t1")), nullptr);
}

TEST_F(NamespaceDeletion, WhenActive_IsLeftAlone) {
  server_.put(config_map("a"));
  server_.run(*controller_);
  EXPECT_EQ(server_.writes, 0);
}

TEST_F(NamespaceDeletion, WhenContentHasAFinalizer_ConditionsSaySo_AM336_AM337) {
  server_.put(config_map("a"), R"({"metadata":{"finalizers":["a.b/c"]}})");
  server_.put(config_map("b"));
  server_.put(config_map("other", "t2"));
  server_.erase(ns_key("t1"));
  server_.run(*controller_);
  ASSERT_NE(server_.find(ns_key("t1")), nullptr);
  EXPECT_EQ(server_.find(config_map("b")), nullptr);
  EXPECT_NE(server_.find(config_map("other", "t2")), nullptr);
  EXPECT_EQ(condition("NamespaceDeletionDiscoveryFailure"), "False ResourcesDiscovered");
  EXPECT_EQ(condition("NamespaceDeletionGroupVersionParsingFailure"), "False ParsedGroupVersions");
  EXPECT_EQ(condition("NamespaceDeletionContentFailure"), "False ContentDeleted");
  EXPECT_EQ(condition("NamespaceContentRemaining"), "True SomeResourcesRemain");
  EXPECT_EQ(condition("NamespaceFinalizersRemaining"), "True SomeFinalizersRemain");
  const Json& object = *server_.find(ns_key("t1"));
  EXPECT_EQ(apiserver::find_condition(object, "NamespaceContentRemaining")->text({"message"}),
            "Some resources are remaining: configmaps. has 1 resource instances");
  EXPECT_EQ(apiserver::find_condition(object, "NamespaceFinalizersRemaining")->text({"message"}),
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource "
            "instances");
  EXPECT_FALSE(apiserver::find_condition(object, "NamespaceContentRemaining")
                   ->text({"lastTransitionTime"})
                   .empty());

  Json held = *server_.find(config_map("a"));
  apiserver::drop_finalizer(held, "a.b/c");
  server_.put(config_map("a"), std::move(held));
  server_.run(*controller_);
  EXPECT_EQ(server_.find(config_map("a")), nullptr);
  EXPECT_EQ(server_.find(ns_key("t1")), nullptr);
}

TEST_F(NamespaceDeletion, WhenStartedInTheMiddle_GoesOn_AM341) {
  controller_.reset();
  server_.put(config_map("a"));
  server_.erase(ns_key("t1"));
  server_.put(ns_key("t3", "other"), kNamespace);
  server_.run_until([] { return true; });
  controller_ = std::make_unique<NamespaceLifecycle>(context());
  controller_->start();
  controller_->add_cluster("c");
  server_.run(*controller_);
  EXPECT_EQ(server_.find(config_map("a")), nullptr);
  EXPECT_EQ(server_.find(ns_key("t1")), nullptr);
  EXPECT_NE(server_.find(ns_key("t3", "other")), nullptr);
}

TEST_F(NamespaceDeletion, WhenDefinitionsAreNotLoaded_Waits) {
  server_.is_ready = false;
  server_.erase(ns_key("t1"));
  server_.run_until(
      [&] { return condition("NamespaceDeletionDiscoveryFailure") == "True DiscoveryFailed"; });
  EXPECT_NE(server_.find(ns_key("t1")), nullptr);
  server_.is_ready = true;
  server_.run_until([&] { return server_.find(ns_key("t1")) == nullptr; });
}

class Defaults : public apiserver::ControllerTest {
 protected:
  void start(NamespaceDefaultsParams params) {
    controller_ = std::make_unique<NamespaceDefaults>(context(), std::move(params));
    controller_->start();
  }
  apiserver::ObjectKey account(const char* ns) {
    return {"c", "", "serviceaccounts", ns, "default"};
  }
  std::unique_ptr<NamespaceDefaults> controller_;
};

TEST_F(Defaults, WhenAClusterIsAdded_ItsNamespacesAndAccountsAreMade_AM330_AM333) {
  start({});
  controller_->add_cluster("c");
  server_.run(*controller_);
  for (const char* name : {"default", "kube-system"}) {
    EXPECT_NE(server_.find(ns_key(name)), nullptr);
    EXPECT_NE(server_.find(account(name)), nullptr);
  }
  EXPECT_EQ(server_.find(config_map("kube-root-ca.crt", "default")), nullptr);
}

TEST_F(Defaults, WhenTheClusterIsNotWanted_NothingIsMade) {
  NamespaceDefaultsParams params;
  params.wanted = [](std::string_view cluster) { return cluster != "c"; };
  start(std::move(params));
  controller_->add_cluster("c");
  server_.run(*controller_);
  EXPECT_TRUE(server_.objects.empty());
}

TEST_F(Defaults, WhenTheAccountIsDeleted_ItComesBack_AM330) {
  start({});
  server_.put(ns_key("t1"), kNamespace);
  server_.run(*controller_);
  const std::string first = apiserver::uid_of(*server_.find(account("t1")));
  server_.erase(account("t1"));
  server_.run(*controller_);
  ASSERT_NE(server_.find(account("t1")), nullptr);
  EXPECT_NE(apiserver::uid_of(*server_.find(account("t1"))), first);
}

TEST_F(Defaults, WhenTheNamespaceIsTerminating_NothingIsMade) {
  start({});
  server_.put(ns_key("t1"),
              R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},
                  "spec":{"finalizers":["kubernetes"]}})");
  controller_->add_cluster("c");
  server_.run(*controller_);
  EXPECT_EQ(server_.find(account("t1")), nullptr);
}

TEST_F(Defaults, WhenTheRootCaIsChanged_ItIsRestored_AM331) {
  NamespaceDefaultsParams params;
  params.root_ca_pem = "PEM";
  start(std::move(params));
  server_.put(ns_key("t1"), kNamespace);
  server_.run(*controller_);
  const apiserver::ObjectKey key = config_map("kube-root-ca.crt");
  ASSERT_NE(server_.find(key), nullptr);
  EXPECT_EQ(server_.find(key)->text({"data", "ca.crt"}), "PEM");
  EXPECT_FALSE(
      server_.find(key)->text({"metadata", "annotations", "kubernetes.io/description"}).empty());
  server_.put(key, R"({"data":{"ca.crt":"forged","x":"y"}})");
  server_.run(*controller_);
  EXPECT_EQ(server_.find(key)->at({"data"})->dump(), R"({"ca.crt":"PEM"})");
  server_.erase(key);
  server_.run(*controller_);
  EXPECT_NE(server_.find(key), nullptr);
}

}  // namespace
}  // namespace kintsugi::kinds
