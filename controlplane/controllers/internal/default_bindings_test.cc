#include "controlplane/controllers/internal/default_bindings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DefaultBindingsTest : public apiserver::ControllerTest {
 protected:
  DefaultBindingsTest() : types_(index_, root_, &catalog_) {
    server_.serve("tenancy.kcp.io", "workspacetypes", "WorkspaceType", false);
    server_.serve("core.kcp.io", "logicalclusters", "LogicalCluster", false);
    server_.serve("apis.kcp.io", "apiexports", "APIExport", false);
    server_.serve("apis.kcp.io", "apibindings", "APIBinding", false);
  }
  void start() {
    index_.start(server_);
    catalog_.start(server_);
    bindings_ = std::make_unique<DefaultBindings>(
        apiserver::ControllerContext{loop_, server_, server_}, types_, catalog_);
    bindings_->start();
  }
  static apiserver::ObjectKey key(std::string_view group, std::string_view resource,
                                  const char* cluster, std::string_view name) {
    return {cluster, std::string(group), std::string(resource), "", std::string(name)};
  }
  void add_provider() { put_cluster("prov", "root:prov", "", R"({"status": {"phase": "Ready"}})"); }
  void put_cluster(const char* name, std::string_view path, std::string_view type,
                   const char* text) {
    Expected<Json> object = Json::parse(text);
    ASSERT_TRUE(object);
    object->make({"metadata", "annotations", krm::kPathAnnotation}) = path;
    if (!type.empty()) {
      object->make({"metadata", "annotations", krm::kTypeAnnotation}) = type;
    }
    server_.put(cluster(name), std::move(*object));
  }
  void add_export(std::string_view name, const char* claims = "[]") {
    Expected<Json> list = Json::parse(claims);
    ASSERT_TRUE(list);
    Json object = Json::object();
    object.make({"metadata", "annotations", krm::kPathAnnotation}) = "root:prov";
    object.make({"spec", "permissionClaims"}) = std::move(*list);
    server_.put(key(kApisGroup, kApiExports, "prov", name), std::move(object));
  }
  void add_type(std::string_view name, const char* spec) {
    Expected<Json> parsed = Json::parse(spec);
    ASSERT_TRUE(parsed);
    Json object = Json::object();
    object.make({"metadata", "annotations", krm::kPathAnnotation}) = "root:prov";
    object["spec"] = std::move(*parsed);
    server_.put(key(kTenancyGroup, kWorkspaceTypes, "prov", name), std::move(object));
  }
  static apiserver::ObjectKey cluster(const char* name) {
    return key(kCoreGroup, kLogicalClusters, name, kClusterName);
  }
  std::vector<Json> bound_in(std::string_view name) {
    std::vector<Json> found;
    server_.list(name, kApisGroup, "apibindings", "", [&](const Json& binding) {
      found.push_back(binding);
      return true;
    });
    return found;
  }
  void set_bound(const Json& binding) {
    Json object = binding;
    object.make({"status", "conditions"}) =
        Json::array({Json::object({{"type", "InitialBindingCompleted"}, {"status", "True"}})});
    server_.put(key(kApisGroup, "apibindings", "c", binding.text({"metadata", "name"})),
                std::move(object));
  }
  void settle() {
    int turns = 0;
    server_.run_until([&] { return bindings_->busy() == 0 ? ++turns > 12 : (turns = 0, false); });
  }

  RootView root_;
  ClusterIndex index_;
  ApiCatalog catalog_;
  WorkspaceTypeLookup types_;
  std::unique_ptr<DefaultBindings> bindings_;
};

constexpr const char* kWaiting =
    R"({"status": {"phase": "Initializing", "initializers": ["a:b", "system:apibindings"]}})";

TEST(DefaultBindingName, WhenMade_IsThatOfKcp) {
  EXPECT_EQ(default_binding_name("1gnrr0twy6c3o", "root", "tenancy.kcp.io"),
            "tenancy.kcp.io-6pdnl");
  EXPECT_EQ(default_binding_name("abc", "root:org", "widgets"), "widgets-1qkcr");
  EXPECT_EQ(default_binding_name("abc", "root", std::string(253, 'x')).size(), 253U);
}

TEST_F(DefaultBindingsTest, WhenNew_AM484_BindsThoseOfTheTypeAndOfWhatItExtends) {
  start();
  add_provider();
  add_export("one", R"([{"group": "", "resource": "configmaps", "verbs": ["get"]}])");
  add_export("two");
  add_type("base", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}]})");
  add_type("mine", R"({"extend": {"with": [{"name": "base", "path": "root:prov"}]},
                       "defaultAPIBindings": [{"path": "root:prov", "export": "one"},
                                              {"path": "root:prov", "export": "two"}]})");
  put_cluster("c", "root:c", "root:prov:mine", kWaiting);
  settle();
  std::vector<Json> made = bound_in("c");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].text({"metadata", "name"}), default_binding_name("c", "root:prov", "one"));
  EXPECT_EQ(made[0].at({"spec"})->dump(),
            R"({"permissionClaims":[{"group":"","resource":"configmaps",)"
            R"("selector":{"matchAll":true},"state":"Accepted","verbs":["get"]}],)"
            R"("reference":{"export":{"name":"one","path":"root:prov"}}})");
  const Json* waiting = server_.find(cluster("c"))->at({"status", "initializers"});
  EXPECT_EQ(waiting->size(), 2U) << "not bound yet";

  set_bound(made[0]);
  settle();
  EXPECT_EQ(server_.find(cluster("c"))->at({"status", "initializers"})->size(), 2U);
  set_bound(made[1]);
  settle();
  const Json& done = *server_.find(cluster("c"));
  EXPECT_EQ(done.at({"status", "initializers"})->dump(), R"(["a:b"])");
  ASSERT_NE(apiserver::find_condition(done, "APIBindingsInitialized"), nullptr);
  EXPECT_EQ(apiserver::find_condition(done, "APIBindingsInitialized")->text({"status"}), "True");
}

TEST_F(DefaultBindingsTest, WhenAnExportIsMissing_SaysSoAndGoesOnWhenItComes) {
  start();
  add_provider();
  add_type("mine", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}]})");
  put_cluster("c", "root:c", "root:prov:mine", kWaiting);
  server_.run_until([&] {
    return apiserver::find_condition(*server_.find(cluster("c")), "APIBindingsInitialized") !=
           nullptr;
  });
  const Json* condition =
      apiserver::find_condition(*server_.find(cluster("c")), "APIBindingsInitialized");
  EXPECT_EQ(condition->text({"status"}), "False");
  EXPECT_EQ(condition->text({"reason"}), "APIBindingErrors");
  add_export("one");
  server_.run_until([&] { return !bound_in("c").empty(); });
  set_bound(bound_in("c").front());
  settle();
  EXPECT_EQ(server_.find(cluster("c"))->at({"status", "initializers"})->dump(), R"(["a:b"])");
}

TEST_F(DefaultBindingsTest, WhenBoundByHand_IsNotBoundTwice) {
  start();
  add_provider();
  add_export("one");
  add_type("mine", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}]})");
  Json own = Json::object();
  own.make({"metadata", "name"}) = "own";
  own.make({"spec", "reference", "export"}) =
      Json::object({{"name", "one"}, {"path", "root:prov"}});
  set_bound(own);
  put_cluster("c", "root:c", "root:prov:mine", kWaiting);
  settle();
  EXPECT_EQ(bound_in("c").size(), 1U);
  EXPECT_EQ(server_.find(cluster("c"))->at({"status", "initializers"})->dump(), R"(["a:b"])");
}

TEST_F(DefaultBindingsTest, WhenReady_OnlyTypesThatMaintainGetTheirBindingsBack) {
  start();
  add_provider();
  add_export("one");
  add_type("mine", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}]})");
  add_type("kept", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}],
                       "defaultAPIBindingLifecycle": "Maintain"})");
  put_cluster("c", "root:c", "root:prov:mine", R"({"status": {"phase": "Ready"}})");
  put_cluster("k", "root:k", "root:prov:kept", R"({"status": {"phase": "Ready"}})");
  settle();
  EXPECT_THAT(bound_in("c"), IsEmpty());
  ASSERT_EQ(bound_in("k").size(), 1U);
  server_.erase(key(kApisGroup, "apibindings", "k", bound_in("k")[0].text({"metadata", "name"})));
  settle();
  EXPECT_EQ(bound_in("k").size(), 1U);

  // A new claim of the export is accepted, and a new default comes to what is there.
  add_export("one", R"([{"group": "", "resource": "secrets", "verbs": ["list"]}])");
  settle();
  EXPECT_EQ(bound_in("k")[0].at({"spec", "permissionClaims"})->items()[0].text({"resource"}),
            "secrets");
  add_export("two");
  add_type("kept", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"},
                                              {"path": "root:prov", "export": "two"}],
                       "defaultAPIBindingLifecycle": "Maintain"})");
  settle();
  EXPECT_EQ(bound_in("k").size(), 2U);
}

TEST_F(DefaultBindingsTest, WhenAClaimProposesASelector_KK073_ItIsTakenAndThenKept) {
  start();
  add_provider();
  add_export("one", R"([{"group": "", "resource": "configmaps", "verbs": ["get"],
                         "defaultSelector": {"matchLabels": {"a": "b"}}}])");
  // Without a path it is of the type's own workspace; the list has no keys.
  add_type("kept", R"({"defaultAPIBindings": [{"export": "one"}, {"export": "one"}],
                       "defaultAPIBindingLifecycle": "Maintain"})");
  put_cluster("k", "root:k", "root:prov:kept", R"({"status": {"phase": "Ready"}})");
  settle();
  ASSERT_EQ(bound_in("k").size(), 1U);
  EXPECT_EQ(bound_in("k")[0].at({"spec", "permissionClaims"})->dump(),
            R"([{"group":"","resource":"configmaps","selector":{"matchLabels":{"a":"b"}},)"
            R"("state":"Accepted","verbs":["get"]}])");
  EXPECT_EQ(bound_in("k")[0].text({"spec", "reference", "export", "path"}), "prov");
  add_export("one", R"([{"group": "", "resource": "configmaps", "verbs": ["get"],
                         "defaultSelector": {"matchLabels": {"a": "c"}}},
                        {"group": "", "resource": "secrets", "verbs": ["list"]}])");
  settle();
  const Json claims = *bound_in("k")[0].at({"spec", "permissionClaims"});
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_EQ(claims.items()[0].at({"selector"})->dump(), R"({"matchLabels":{"a":"b"}})");
  EXPECT_EQ(claims.items()[1].at({"selector"})->dump(), R"({"matchAll":true})");
}

TEST_F(DefaultBindingsTest, WhenNothingIsWantedOrItIsDeleted_WritesNothing) {
  start();
  add_provider();
  add_export("one");
  add_type("mine", R"({"defaultAPIBindings": [{"path": "root:prov", "export": "one"}]})");
  put_cluster("c", "root:c", "root:prov:mine",
              R"({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]},
                  "status": {"phase": "Terminating", "initializers": ["system:apibindings"]}})");
  put_cluster("d", "root:d", "root:prov:mine",
              R"({"status": {"phase": "Initializing", "initializers": ["a:b"]}})");
  settle();
  EXPECT_THAT(bound_in("c"), IsEmpty());
  EXPECT_THAT(bound_in("d"), IsEmpty());
  EXPECT_EQ(server_.writes, 0);
}

}  // namespace
}  // namespace kintsugi::controlplane
