#include "controlplane/controllers/internal/workspace_scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "apiserver/testing/controller_server.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/testing/scheduler.h"
#include "controlplane/internal/bootstrap.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/labels.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::WorkspaceSchedulerTest;

TEST_F(WorkspaceSchedulerTest, WhenCreated_BecomesReadyOnAShard) {
  add_shard("s1", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  const std::string cluster = text("w", {"spec", "cluster"});
  EXPECT_EQ(cluster.size(), 16U);
  EXPECT_EQ(text("w", {"spec", "URL"}), "https://proxy/clusters/root:w");
  EXPECT_EQ(text("w", {"metadata", "labels", krm::kPhaseLabel}), "Ready");
  EXPECT_EQ(text("w", {"metadata", "labels", "region"}), "eu");
  EXPECT_TRUE(apiserver::has_finalizer(*server_.find(key_of("w")), krm::kWorkspaceFinalizer));
  ASSERT_EQ(access_.clusters.size(), 1U);
  const Json& made = access_.clusters.at("s1/" + cluster);
  EXPECT_EQ(annotation(made, "kcp.io/path"), "root:w");
  EXPECT_EQ(annotation(made, krm::kTypeAnnotation), "root:universal");
  EXPECT_EQ(annotation(made, krm::kShardAnnotation), "s1");
  EXPECT_EQ(made.text({"spec", "owner", "uid"}), apiserver::uid_of(*server_.find(key_of("w"))));
  EXPECT_EQ(made.text({"spec", "createdBy", "username"}), "ann");
  EXPECT_EQ(made.at({"spec", "initializers"})->dump(),
            R"(["root:universal","system:apibindings"])");
}

TEST_F(WorkspaceSchedulerTest, KK065_WhenAConditionSaysNo_IsUnavailableUntilItDoesNot) {
  add_shard("s1", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  const auto say = [&](const char* type, const char* status) {
    Json workspace = *server_.find(key_of("w"));
    set_kcp_condition(workspace, type, status);
    server_.put(key_of("w"), std::move(workspace));
  };
  const auto label = [&] { return text("w", {"metadata", "labels", krm::kPhaseLabel}); };
  say("WorkspaceMountReady", "False");
  run_to_phase("w", "Unavailable");
  server_.run_until([&] { return label() == "Unavailable"; });
  restart();  // it is so from what is stored
  say("Other", "False");
  int turns = 0;
  server_.run_until([&] { return ++turns > 10; });
  EXPECT_EQ(text("w", {"status", "phase"}), "Unavailable");
  say("WorkspaceMountReady", "True");
  run_to_phase("w", "Ready");
  server_.run_until([&] { return label() == "Ready"; });
  EXPECT_EQ(access_.clusters.size(), 1U);
}

TEST_F(WorkspaceSchedulerTest, WhenTypesHaveTerminators_ClusterAndWorkspaceNameThem) {
  Expected<Json> base = Json::parse(R"({"spec": {"terminator": true}})");
  Expected<Json> mine = Json::parse(
      R"({"spec": {"terminator": true, "extend": {"with": [{"name": "base", "path": "root"}]}}})");
  ASSERT_TRUE(base && mine);
  root_.put_type("base", &*base);
  root_.put_type("universal", &*mine);
  add_shard("s1", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  Json& cluster = access_.clusters.begin()->second;
  EXPECT_EQ(cluster.at({"spec", "terminators"})->dump(), R"(["root:base","root:universal"])");
  EXPECT_EQ(cluster.at({"spec", "initializers"}), nullptr);

  // While it is deleted the workspace shows how far that is.
  cluster.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  cluster.make({"status", "phase"}) = "Terminating";
  cluster.make({"status", "terminators"}) = Json::array({"root:base"});
  server_.erase(key_of("w"));
  run_to_phase("w", "Terminating");
  EXPECT_EQ(server_.find(key_of("w"))->at({"status", "terminators"})->dump(), R"(["root:base"])");
  access_.clusters.clear();
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
}

TEST_F(WorkspaceSchedulerTest, WhenSelectorIsGiven_PicksAMatchingShard) {
  add_shard("s1", "eu");
  add_shard("s2", "us");
  start();
  add_workspace("w", R"({"spec": {"location": {"selector": {"matchLabels": {"region": "us"}}}}})");
  run_to_phase("w", "Ready");
  EXPECT_EQ(access_.clusters.begin()->first.substr(0, 3), "s2/");
}

TEST_F(WorkspaceSchedulerTest, WhenSeveralAreMade_SpreadsThem) {
  add_shard("s1", "eu");
  add_shard("s2", "us");
  start();
  for (const char* name : {"a", "b", "c", "d"}) {
    add_workspace(name);
    run_to_phase(name, "Ready");
  }
  std::map<std::string, int> counts;
  for (const auto& [place, object] : access_.clusters) {
    ++counts[place.substr(0, 2)];
  }
  EXPECT_EQ(counts["s1"], 2);
  EXPECT_EQ(counts["s2"], 2);
}

TEST_F(WorkspaceSchedulerTest, WhenAShardIsDown_TakesAnother) {
  add_shard("s1", "eu");
  add_shard("s2", "us");
  access_.unreachable = {"s1"};
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  EXPECT_EQ(access_.clusters.begin()->first.substr(0, 3), "s2/");
}

TEST_F(WorkspaceSchedulerTest, WhenNoShardMatches_SaysSoAndGoesOnWhenOneAppears) {
  start();
  add_workspace("w");
  server_.run_until([&] {
    const Json* condition =
        apiserver::find_condition(*server_.find(key_of("w")), "WorkspaceScheduled");
    return condition != nullptr && condition->text({"reason"}) == "Unschedulable";
  });
  EXPECT_EQ(text("w", {"status", "phase"}), "Scheduling");
  add_shard("s1", "eu");
  run_to_phase("w", "Ready");
  EXPECT_EQ(
      apiserver::find_condition(*server_.find(key_of("w")), "WorkspaceScheduled")->text({"status"}),
      "True");
}

TEST_F(WorkspaceSchedulerTest, WhenTheAnswerIsLost_MakesNoSecondCluster) {
  add_shard("s1", "eu");
  access_.lose_answers = 1;
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  EXPECT_EQ(access_.clusters.size(), 1U);
  EXPECT_EQ(access_.creations, 1);
}

TEST_F(WorkspaceSchedulerTest, WhenShardFailsAfterPlacement_WaitsForIt) {
  add_shard("s1", "eu");
  add_shard("s2", "us");
  access_.refuse_creation = true;
  start();
  add_workspace("w");
  server_.run_until([&] { return !placed("w").empty(); });
  const std::string place = placed("w");
  access_.unreachable = {place.substr(0, 2)};
  access_.refuse_creation = false;
  restart();
  int turns = 0;
  server_.run_until([&] { return ++turns > 200; });
  EXPECT_TRUE(access_.clusters.empty());
  access_.unreachable.clear();
  run_to_phase("w", "Ready");
  EXPECT_EQ(access_.clusters.begin()->first, place) << "noted before the restart";
}

TEST_F(WorkspaceSchedulerTest, KKT033_WhenAnnotationsAreForged_NoClusterIsMadeUnderTheirNames) {
  add_shard("s1", "eu");
  Json victim = Json::object();
  victim.make({"metadata", "uid"}) = "victim";
  access_.clusters.emplace("s1/v1u4alow0iv9", victim);
  const std::uint64_t before = untrusted_count(UntrustedValue::kPlacement);
  start();
  int number = 0;
  for (const char* name :
       {"v1u4alow0iv9", "root", "system:admin", "newname", "2okdry95y5lkv", "", "a/b", "../x"}) {
    for (const char* shard : {"s1", "nowhere", "root"}) {
      const std::string workspace = "w" + std::to_string(++number);
      add_workspace(workspace,
                    R"({"metadata": {"finalizers": ["core.kcp.io/logicalcluster"], "annotations": {
          "core.kcp.io/shard": "s1", "internal.tenancy.kcp.io/shard": ")" +
                        std::string(shard) + R"(", "internal.tenancy.kcp.io/cluster": ")" +
                        std::string(name) + R"("}}})");
      run_to_phase(workspace, "Ready");
      const std::string cluster = text(workspace, {"spec", "cluster"});
      EXPECT_EQ(cluster.size(), 16U) << name;
      EXPECT_EQ(text(workspace, {"metadata", "annotations", krm::kPlacedClusterAnnotation}),
                cluster);
      EXPECT_EQ(text(workspace, {"metadata", "annotations", krm::kPlacedShardAnnotation}), "s1");
    }
  }
  EXPECT_EQ(access_.clusters.size(), static_cast<std::size_t>(number) + 1);
  for (const auto& [place, object] : access_.clusters) {
    EXPECT_TRUE(place.size() == 19 || place == "s1/v1u4alow0iv9") << place;
  }
  EXPECT_EQ(apiserver::uid_of(access_.clusters.at("s1/v1u4alow0iv9")), "victim");
  EXPECT_EQ(access_.clusters.at("s1/v1u4alow0iv9").at({"spec"}), nullptr);
  EXPECT_GT(untrusted_count(UntrustedValue::kPlacement), before);
}

TEST_F(WorkspaceSchedulerTest, KKT033_WhenAnnotationsChangeLater_TheyAreRepaired) {
  add_shard("s1", "eu");
  start();
  add_workspace("w");
  run_to_phase("w", "Ready");
  const std::string cluster = text("w", {"spec", "cluster"});
  for (const bool with_restart : {false, true}) {
    for (const std::string_view key :
         {krm::kPlacedClusterAnnotation, krm::kPlacedShardAnnotation}) {
      Json forged = *server_.find(key_of("w"));
      forged.make({"metadata", "annotations", key}) = "root";
      server_.put(key_of("w"), std::move(forged));
      if (with_restart) {
        restart();
      }
      server_.run_until([&] {
        return text("w", {"metadata", "annotations", krm::kPlacedClusterAnnotation}) == cluster &&
               text("w", {"metadata", "annotations", krm::kPlacedShardAnnotation}) == "s1";
      });
    }
  }
  EXPECT_EQ(access_.clusters.size(), 1U);
}

TEST_F(WorkspaceSchedulerTest, SET050_WhenItsClusterIsAnothers_SaysSoOnceAndRests) {
  add_shard("s1", "eu");
  Json other = Json::object();
  other.make({"metadata", "uid"}) = "other";
  const auto owner = [&](std::string_view uid, std::string_view name, std::string_view cluster) {
    other.make({"spec", "owner"}) = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                                                  {"resource", "workspaces"},
                                                  {"name", name},
                                                  {"cluster", cluster},
                                                  {"uid", uid}});
    return other;
  };
  access_.clusters.emplace("s1/taken", owner("foreign", "w1", "root"));
  access_.clusters.emplace("s1/other", owner("foreign", "else", "root"));
  access_.clusters.emplace("s1/home", Json::object({{"metadata", Json::object()}}));
  start();
  int number = 0;
  for (const char* cluster : {"taken", "other", "home", "root", "absent", "system:admin", "a/b"}) {
    const std::string name = "w" + std::to_string(++number);
    SCOPED_TRACE(cluster);
    add_workspace(name, R"({"spec": {"cluster": ")" + std::string(cluster) + R"("}})");
    server_.run_until([&] {
      const Json* stalled = apiserver::find_condition(*server_.find(key_of(name)), "Stalled");
      return stalled != nullptr && stalled->text({"status"}) == "True";
    });
    const Json* scheduled =
        apiserver::find_condition(*server_.find(key_of(name)), "WorkspaceScheduled");
    EXPECT_EQ(scheduled->text({"status"}), "False");
    EXPECT_EQ(scheduled->text({"message"}),
              "logical cluster \"" + std::string(cluster) + "\" does not belong to this workspace");
  }
  server_.run(*scheduler_);
  const int writes = server_.writes;
  int turns = 0;
  server_.run_until([&] { return ++turns > 500; });
  restart();
  turns = 0;
  server_.run_until([&] { return ++turns > 500; });
  EXPECT_EQ(server_.writes, writes);
  EXPECT_EQ(access_.creations, 0);
  EXPECT_EQ(access_.clusters.size(), 3U);
}

TEST_F(WorkspaceSchedulerTest, KKT034_WhenAForgedOneIsDeleted_TheOthersClusterStays) {
  add_shard("s1", "eu");
  const auto owned = [](std::string_view uid, std::string_view name, std::string_view cluster,
                        std::string_view resource = "workspaces",
                        std::string_view version = "tenancy.kcp.io/v1alpha1") {
    Json object = Json::object();
    object.make({"spec", "owner"}) = Json::object({{"apiVersion", version},
                                                   {"resource", resource},
                                                   {"name", name},
                                                   {"cluster", cluster},
                                                   {"uid", uid}});
    return object;
  };
  access_.clusters.emplace("s1/a1", owned("foreign", "w1", "root"));
  access_.clusters.emplace("s1/a2", owned("", "w2", "root"));
  access_.clusters.emplace("s1/a3", Json::object());
  access_.clusters.emplace("s1/a4", owned("foreign", "w4", "root", "things"));
  access_.clusters.emplace("s1/a5", owned("foreign", "w5", "elsewhere"));
  start();
  const char* forms[] = {
      R"({"spec": {"cluster": "NAME"}, "metadata": {"finalizers": ["core.kcp.io/logicalcluster"]}})",
      R"({"metadata": {"finalizers": ["core.kcp.io/logicalcluster"], "annotations": {
          "internal.tenancy.kcp.io/shard": "s1", "internal.tenancy.kcp.io/cluster": "NAME"}}})",
      R"({"spec": {"cluster": "NAME", "mount": {"ref": {"kind": "K", "name": "n"}}},
          "metadata": {"finalizers": ["core.kcp.io/logicalcluster"]}})"};
  for (const char* form : forms) {
    for (int i = 1; i <= 5; ++i) {
      const std::string name = "w" + std::to_string(i);
      std::string body = form;
      body.replace(body.find("NAME"), 4, "a" + std::to_string(i));
      Json deleted = *Json::parse(body);
      deleted.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
      deleted.make({"status", "phase"}) = "Scheduling";
      server_.put(key_of(name), std::move(deleted));
      server_.run_until([&] { return server_.find(key_of(name)) == nullptr; });
    }
  }
  EXPECT_EQ(access_.clusters.size(), 5U);
}

TEST_F(WorkspaceSchedulerTest, KKT029_WhenTheOwnerIsForgedWhileItWaits_WhoMadeItIsTheCreator) {
  start();  // no shard yet
  const char* forged[] = {R"({"username":"mallory","groups":["system:masters"]})",
                          R"({"username":"ann","groups":["system:masters","system:kcp:admin"]})",
                          R"({"username":"root"})",
                          "",
                          "no json",
                          R"(["ann"])",
                          R"({"username":"ann","extra":{"authorization.kcp.io/warrant":["{}"]}})"};
  int number = 0;
  for (const char* owner : forged) {
    for (const bool with_restart : {false, true}) {
      const std::string name = "w" + std::to_string(++number);
      add_workspace(name);
      server_.run_until([&] {
        return apiserver::find_condition(*server_.find(key_of(name)), "WorkspaceScheduled") !=
               nullptr;
      });
      Json changed = *server_.find(key_of(name));
      changed.make({"metadata", "annotations", krm::kOwnerAnnotation}) = owner;
      changed.make({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) = "forged";
      server_.put(key_of(name), std::move(changed));
      if (with_restart) {
        int turns = 0;
        server_.run_until([&] { return ++turns > 50; });
        restart();
      }
    }
  }
  add_shard("s1", "eu");
  for (int i = 1; i <= number; ++i) {
    const std::string name = "w" + std::to_string(i);
    run_to_phase(name, "Ready");
    const Json& made = access_.clusters.at("s1/" + text(name, {"spec", "cluster"}));
    EXPECT_EQ(made.at({"spec", "createdBy"})->dump(), R"({"username":"ann"})");
    EXPECT_EQ(annotation(made, krm::kOwnerAnnotation), R"({"username":"ann"})");
    EXPECT_EQ(annotation(made, krm::kRequiredGroupsAnnotation), "") << "the parent's, not its own";
    EXPECT_EQ(text(name, {"metadata", "annotations", krm::kOwnerAnnotation}),
              R"({"username":"ann"})");
  }
}

TEST_F(WorkspaceSchedulerTest, KK062_WhenAStoreHasNoFactsYet_OwnClustersAreKept) {
  add_shard("s1", "eu");
  add_shard("s2", "us");
  add_workspace("w", R"({"metadata": {"finalizers": ["core.kcp.io/logicalcluster"], "annotations": {
      "internal.tenancy.kcp.io/shard": "s1", "internal.tenancy.kcp.io/cluster": "old"}},
      "spec": {"cluster": "old"}})");
  Json mine = Json::object();
  mine.make({"status", "phase"}) = "Ready";
  mine.make({"status", "URL"}) = "https://proxy/clusters/x";
  mine.make({"spec", "owner"}) =
      Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                    {"resource", "workspaces"},
                    {"name", "w"},
                    {"cluster", "root"},
                    {"uid", apiserver::uid_of(*server_.find(key_of("w")))}});
  access_.clusters.emplace("s2/old", mine);  // moved since
  access_.unreachable = {"s2"};
  start();
  int turns = 0;
  server_.run_until([&] { return ++turns > 200; });
  EXPECT_EQ(apiserver::find_condition(*server_.find(key_of("w")), "Stalled"), nullptr)
      << "s2 may have it";
  access_.unreachable.clear();
  run_to_phase("w", "Ready");
  EXPECT_EQ(text("w", {"metadata", "annotations", krm::kPlacedShardAnnotation}), "s2");
  server_.erase(key_of("w"));
  server_.run_until([&] { return server_.find(key_of("w")) == nullptr; });
  EXPECT_TRUE(access_.clusters.empty());
}

TEST_F(WorkspaceSchedulerTest, WhenInitializersAreLeft_IsInitializing) {
  add_shard("s1", "eu");
  access_.phase = "Initializing";
  start();
  add_workspace("w");
  run_to_phase("w", "Initializing");
  EXPECT_FALSE(text("w", {"spec", "cluster"}).empty());
  EXPECT_EQ(apiserver::find_condition(*server_.find(key_of("w")), "WorkspaceInitialized")
                ->text({"status"}),
            "False");
}

TEST(BootstrapTest, WhenRestarted_WritesNothing) {
  net::Loop loop("test");
  apiserver::TestingServer server(loop);
  for (const auto& [group, plural, kind] :
       {std::tuple("core.kcp.io", "logicalclusters", "LogicalCluster"),
        std::tuple("tenancy.kcp.io", "workspacetypes", "WorkspaceType"),
        std::tuple("apis.kcp.io", "apiexports", "APIExport")}) {
    server.serve(group, plural, kind, false);
  }
  const apiserver::ControllerContext context{loop, server, server};
  const std::vector<BootstrapObject> wanted = bootstrap_objects("root");
  int done = 0;
  Bootstrap first(context, wanted, [&] { ++done; });
  first.start();
  server.run_until([&] { return done == 1; });
  EXPECT_EQ(server.objects.size(), wanted.size());
  const auto writes = server.writes;
  EXPECT_EQ(static_cast<std::size_t>(writes), wanted.size());
  Bootstrap second(context, wanted, [&] { ++done; });
  second.start();
  server.run_until([&] { return done == 2; });
  EXPECT_EQ(server.writes, writes);
  EXPECT_TRUE(second.complete());
}

TEST(BootstrapTest, WhenThePolicyIsThere_KK314_AStartBringsBackWhatMayBe) {
  net::Loop loop("test");
  apiserver::TestingServer server(loop);
  server.serve("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false);
  server.serve("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", false);
  const apiserver::ControllerContext context{loop, server, server};
  const std::vector<BootstrapObject> wanted = bootstrap_policy();
  const auto start = [&] {
    bool done = false;
    Bootstrap one(context, wanted, [&] { done = true; });
    one.start();
    server.run_until([&] { return done; });
    const int writes = static_cast<int>(server.writes);
    server.writes = 0;
    return writes;
  };
  EXPECT_EQ(start(), static_cast<int>(wanted.size()));
  EXPECT_EQ(start(), 0);
  const auto at = [&](const std::string& resource, const std::string& name) {
    return apiserver::ObjectKey{"system:admin", "rbac.authorization.k8s.io", resource, "", name};
  };
  const apiserver::ObjectKey admin = at("clusterroles", "cluster-admin"),
                             view = at("clusterroles", "view"), edit = at("clusterroles", "edit"),
                             discovery = at("clusterrolebindings", "system:discovery");
  const auto change = [&](const apiserver::ObjectKey& key, const char* member, bool keep) {
    Json object = *server.find(key);
    object[member] = Json::array();
    if (keep) {
      object.make({"metadata", "annotations", krm::kAutoUpdateAnnotation}) = "false";
    }
    server.put(key, object);
  };
  change(view, "rules", false);
  change(edit, "rules", true);
  change(discovery, "subjects", false);
  server.erase(admin);
  server.writes = 0;
  EXPECT_EQ(start(), 3);
  for (const BootstrapObject& one : wanted) {
    const Json* stored = server.find(one.key);
    ASSERT_NE(stored, nullptr) << one.key.name;
    EXPECT_EQ(*stored->find(one.restored) == *one.object.find(one.restored), one.key != edit)
        << one.key.name;
  }
}

TEST(KcpConditionTest, WhenNothingChanges_SaysSo) {
  Json object;
  EXPECT_TRUE(set_kcp_condition(object, "Ready", "False", "Error", "Broken", "why"));
  EXPECT_FALSE(set_kcp_condition(object, "Ready", "False", "Error", "Broken", "why"));
  EXPECT_TRUE(set_kcp_condition(object, "Ready", "True"));
  const Json& condition = object.at({"status", "conditions"})->items().front();
  EXPECT_EQ(condition.find("reason"), nullptr);
  EXPECT_EQ(condition.find("severity"), nullptr);
  EXPECT_EQ(condition.text({"status"}), "True");
  EXPECT_FALSE(condition.text({"lastTransitionTime"}).empty());
}

}  // namespace
}  // namespace kintsugi::controlplane
