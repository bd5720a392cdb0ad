#include "kinds/controllers/garbage_collector.h"

#include <algorithm>
#include <string>
#include <vector>

#include "apiserver/testing/controller_server.h"
#include "kinds/replicas.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

class Collector : public apiserver::ControllerTest {
 protected:
  void SetUp() override { restart(); }
  void restart() {
    controller_ = std::make_unique<GarbageCollector>(context());
    controller_->start();
    controller_->add_cluster("c");
  }
  static Json reference(const char* name, const std::string& uid, bool blocks = true,
                        const char* kind = "ConfigMap", const char* version = "v1") {
    return Json::object({{"apiVersion", version},
                         {"kind", kind},
                         {"name", name},
                         {"uid", Json(uid)},
                         {"blockOwnerDeletion", blocks}});
  }
  std::string put_owned(const apiserver::ObjectKey& key, std::initializer_list<Json> references) {
    Json object = Json::object();
    object.make({"metadata", "ownerReferences"}) = Json::array(references);
    return server_.put(key, std::move(object));
  }
  void run() { server_.run(*controller_); }
  std::size_t owners_of(const apiserver::ObjectKey& key) {
    const Json* list = server_.find(key)->at({"metadata", "ownerReferences"});
    return list == nullptr ? 0 : list->size();
  }
  std::string last_event() {
    std::string text;
    server_.list("c", "", "events", "", [&](const Json& event) {
      text = std::string(event.text({"reason"})) + ": " + std::string(event.text({"message"}));
      return true;
    });
    return text;
  }
  std::unique_ptr<GarbageCollector> controller_;
};

TEST_F(Collector, WhenTheOwnerIsDeleted_DependentsGo_AM342) {
  const std::string uid = server_.put(config_map("own"));
  put_owned(config_map("dep"), {reference("own", uid)});
  server_.put(config_map("free"));
  run();
  EXPECT_NE(server_.find(config_map("dep")), nullptr);
  server_.erase(config_map("own"));
  run();
  EXPECT_EQ(server_.find(config_map("dep")), nullptr);
  EXPECT_NE(server_.find(config_map("free")), nullptr);
  EXPECT_EQ(controller_->tracked(), 0U);
}

TEST_F(Collector, SE100_ManyDependentsTakeNobodysTurnAndAreJudgedAgain) {
  constexpr int kMany = 500;
  const auto dependent = [](int i) {
    return config_map(("dep-" + std::to_string(100 + i)).c_str());
  };
  const auto elsewhere = [](const char* name) { return config_map(name, "t1", "other"); };
  controller_->add_cluster("other");
  const std::string mine = server_.put(config_map("own"));
  const std::string theirs = server_.put(elsewhere("own"));
  for (int i = 0; i < kMany; ++i) {
    put_owned(dependent(i), {reference("own", mine)});
  }
  put_owned(elsewhere("dep"), {reference("own", theirs)});
  run();
  server_.erase(config_map("own"));
  server_.erase(elsewhere("own"));
  server_.run_until([&] { return server_.find(elsewhere("dep")) == nullptr; });
  std::vector<int> left;
  for (int i = 0; i < kMany; ++i) {
    if (server_.find(dependent(i)) != nullptr) {
      left.push_back(i);
    }
  }
  ASSERT_GE(left.size(), 100U) << "more than a burst goes step by step";
  const apiserver::ObjectKey kept = dependent(left.back());
  put_owned(kept, {reference("own", mine), reference("alive", server_.put(config_map("alive")))});
  server_.run_until([&] {
    return std::all_of(left.begin(), left.end() - 1,
                       [&](int i) { return server_.find(dependent(i)) == nullptr; });
  });
  run();
  ASSERT_NE(server_.find(kept), nullptr);
  EXPECT_EQ(owners_of(kept), 1U);
}

TEST_F(Collector, WhenAChainHangsOnTheOwner_AllOfItGoes_AM342) {
  const std::string a = server_.put(config_map("a"));
  const std::string b = put_owned(config_map("b"), {reference("a", a)});
  put_owned(config_map("c"), {reference("b", b)});
  run();
  server_.erase(config_map("a"));
  run();
  EXPECT_EQ(server_.find(config_map("b")), nullptr);
  EXPECT_EQ(server_.find(config_map("c")), nullptr);
}

TEST_F(Collector, WhenAnObjectIsACopyOfAnotherShards_ItIsLeftAlone) {
  const apiserver::ObjectKey copy{"c", std::string(kReplicaGroup), "clusterroles", "", "admin"};
  put_owned(copy, {reference("own", "no-such-uid")});
  run();
  EXPECT_NE(server_.find(copy), nullptr);
  EXPECT_EQ(controller_->tracked(), 0U);
}

TEST_F(Collector, WhenTheOwnersUidIsAnother_TheDependentGoes_AM343) {
  server_.put(config_map("own"));
  put_owned(config_map("dep"), {reference("own", "no-such-uid")});
  run();
  EXPECT_EQ(server_.find(config_map("dep")), nullptr);
}

TEST_F(Collector, WhenOneOfTwoOwnersGoes_OnlyItsReferenceGoes_AM344) {
  const std::string one = server_.put(config_map("one"));
  const std::string two = server_.put(config_map("two"));
  put_owned(config_map("dep"), {reference("one", one), reference("two", two)});
  run();
  server_.erase(config_map("one"));
  run();
  ASSERT_NE(server_.find(config_map("dep")), nullptr);
  EXPECT_EQ(owners_of(config_map("dep")), 1U);
}

TEST_F(Collector, WhenForeground_TheOwnerWaitsForBlockingDependents_AM345) {
  const std::string uid = server_.put(config_map("own"));
  Json dependent = Json::object();
  dependent.make({"metadata", "ownerReferences"}) = Json::array({reference("own", uid)});
  dependent.make({"metadata", "finalizers"}) = Json::array({"a.b/c"});
  server_.put(config_map("dep"), std::move(dependent));
  put_owned(config_map("loose"), {reference("own", uid, false)});
  run();
  server_.erase(config_map("own"), "Foreground");
  run();
  ASSERT_NE(server_.find(config_map("own")), nullptr);
  EXPECT_TRUE(apiserver::has_finalizer(*server_.find(config_map("own")), "foregroundDeletion"));
  EXPECT_TRUE(apiserver::is_deleted(*server_.find(config_map("dep"))));
  EXPECT_EQ(server_.find(config_map("loose")), nullptr);
  Json held = *server_.find(config_map("dep"));
  apiserver::drop_finalizer(held, "a.b/c");
  server_.put(config_map("dep"), std::move(held));
  run();
  EXPECT_EQ(server_.find(config_map("dep")), nullptr);
  EXPECT_EQ(server_.find(config_map("own")), nullptr);
}

TEST_F(Collector, WhenForegroundHasGrandchildren_TheyGoFirst_AM345) {
  const std::string a = server_.put(config_map("a"));
  const std::string b = put_owned(config_map("b"), {reference("a", a)});
  Json leaf = Json::object();
  leaf.make({"metadata", "ownerReferences"}) = Json::array({reference("b", b)});
  leaf.make({"metadata", "finalizers"}) = Json::array({"x.y/z"});
  server_.put(config_map("leaf"), std::move(leaf));
  run();
  server_.erase(config_map("a"), "Foreground");
  run();
  ASSERT_NE(server_.find(config_map("b")), nullptr);
  EXPECT_TRUE(apiserver::has_finalizer(*server_.find(config_map("b")), "foregroundDeletion"));
  Json held = *server_.find(config_map("leaf"));
  apiserver::drop_finalizer(held, "x.y/z");
  server_.put(config_map("leaf"), std::move(held));
  run();
  EXPECT_EQ(server_.find(config_map("a")), nullptr);
  EXPECT_EQ(server_.find(config_map("b")), nullptr);
}

TEST_F(Collector, WhenOrphan_DependentsStayWithoutTheReference_AM346) {
  const std::string uid = server_.put(config_map("own"));
  put_owned(config_map("one"), {reference("own", uid)});
  put_owned(config_map("two"), {reference("own", uid)});
  run();
  server_.erase(config_map("own"), "Orphan");
  run();
  EXPECT_EQ(server_.find(config_map("own")), nullptr);
  ASSERT_NE(server_.find(config_map("one")), nullptr);
  EXPECT_EQ(owners_of(config_map("one")), 0U);
  EXPECT_EQ(owners_of(config_map("two")), 0U);
}

TEST_F(Collector, WhenTheOwnerIsInAnotherNamespace_ItIsAbsent_AM347) {
  const std::string uid = server_.put(config_map("own", "t2"));
  put_owned(config_map("dep", "default"), {reference("own", uid)});
  run();
  EXPECT_EQ(server_.find(config_map("dep", "default")), nullptr);
  EXPECT_EQ(last_event(),
            "OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: default, "
            "name: own, uid: " +
                uid + "] does not exist in namespace \"default\"");
}

TEST_F(Collector, WhenAClusterScopedObjectHasANamespacedOwner_ItStays_AM348) {
  const apiserver::ObjectKey role = {"c", "rbac.authorization.k8s.io", "clusterroles", "", "r"};
  put_owned(role, {reference("own", "uid-1")});
  run();
  EXPECT_NE(server_.find(role), nullptr);
  EXPECT_TRUE(last_event().starts_with("OwnerRefInvalidNamespace: "));
}

TEST_F(Collector, WhenTheOwnersKindIsUnknownOrLoading_NothingIsDeleted_AM349) {
  put_owned(config_map("dep"), {reference("own", "uid-1", true, "Widget", "ex.io/v1")});
  server_.is_ready = false;
  put_owned(config_map("two"), {reference("own", "uid-1")});
  run();
  EXPECT_NE(server_.find(config_map("dep")), nullptr);
  EXPECT_NE(server_.find(config_map("two")), nullptr);
  // Tried again: once it can be known that the owner is gone, its dependent goes.
  server_.is_ready = true;
  server_.serve("ex.io", "widgets", "Widget");
  server_.run_until([&] {
    return server_.find(config_map("dep")) == nullptr && server_.find(config_map("two")) == nullptr;
  });
}

TEST_F(Collector, WhenTheOwnerIsInAnotherCluster_ItDoesNotExist_AM350) {
  const std::string uid = server_.put(config_map("own", "t1", "other"));
  put_owned(config_map("dep"), {reference("own", uid)});
  run();
  EXPECT_EQ(server_.find(config_map("dep")), nullptr);
}

TEST_F(Collector, WhenOwnersFormACycle_ForegroundStillEnds_AM351) {
  const std::string a = server_.put(config_map("a"));
  const std::string b = put_owned(config_map("b"), {reference("a", a)});
  put_owned(config_map("a"), {reference("b", b)});
  run();
  server_.erase(config_map("a"), "Foreground");
  server_.erase(config_map("b"), "Foreground");
  run();
  EXPECT_EQ(server_.find(config_map("a")), nullptr);
  EXPECT_EQ(server_.find(config_map("b")), nullptr);
}

TEST_F(Collector, WhenOneOfACycleIsDeleted_BothGo_AM351) {
  const std::string a = server_.put(config_map("a"));
  const std::string b = put_owned(config_map("b"), {reference("a", a)});
  put_owned(config_map("a"), {reference("b", b)});
  run();
  server_.erase(config_map("a"), "Foreground");
  run();
  EXPECT_EQ(server_.find(config_map("a")), nullptr);
  EXPECT_EQ(server_.find(config_map("b")), nullptr);
}

TEST_F(Collector, WhenTheOwnerWentWhileStopped_TheScanFindsIt_AM352) {
  const std::string uid = server_.put(config_map("own"));
  put_owned(config_map("dep"), {reference("own", uid)});
  run();
  controller_.reset();
  server_.erase(config_map("own"));
  server_.run_until([] { return true; });
  restart();
  run();
  EXPECT_EQ(server_.find(config_map("dep")), nullptr);
}

TEST_F(Collector, WhenThereAreManyDependents_AllGo_AM353) {
  const std::string uid = server_.put(config_map("own"));
  for (int i = 0; i < 2000; ++i) {
    put_owned(config_map(("d" + std::to_string(i)).c_str()), {reference("own", uid)});
  }
  run();
  EXPECT_EQ(controller_->tracked(), 2000U);
  server_.erase(config_map("own"));
  run();
  EXPECT_TRUE(server_.objects.empty());
  EXPECT_EQ(controller_->tracked(), 0U);
}

}  // namespace
}  // namespace kintsugi::kinds
