#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controlplane/testing/export.h"

namespace kintsugi::controlplane {
namespace {

using apiserver::testing::Exchange;
using krm::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kMerge = "application/merge-patch+json";
constexpr const char* kApply = "application/apply-patch+yaml";
constexpr const char* kClaimMaps = R"([{"group":"","resource":"configmaps","verbs":["*"]}])";
constexpr const char* kGrantMaps =
    R"([{"group":"","resource":"configmaps","verbs":["*"],"state":"Accepted",
         "selector":{"matchAll":true}}])";

std::string widget(const std::string& name) {
  return R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":")" + name +
         R"("},"spec":{"size":1}})";
}
std::string map(const std::string& name, const std::string& labels = "{}") {
  return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name + R"(","labels":)" +
         labels + "}}";
}

class ExportViewTest : public ExportTest {
 protected:
  ExportViewTest() { allow(R"("*")"); }
  std::vector<std::string> resources(const std::string& target) {
    std::vector<std::string> out;
    const Json list = as_provider("GET", target).json();
    const Json* found = list.find("resources");
    for (const Json& one : found == nullptr ? Json::Array() : found->items()) {
      out.emplace_back(one.text({"name"}));
    }
    return out;
  }
  void claimed_maps(const char* cluster = "c1", const std::string& grants = kGrantMaps) {
    claim(kClaimMaps);
    grant(cluster, grants);
    settle();
  }
};

TEST_F(ExportViewTest, WhenDiscovered_AM510_ShowsOwnClaimedAndBindings) {
  bind("c1");
  EXPECT_THAT(resources(through("*", "/apis/ex.io/v1")), ElementsAre("widgets", "widgets/status"));
  EXPECT_THAT(resources(through("*", "/apis/apis.kcp.io/v1alpha1")),
              ElementsAre("apibindings", "apibindings/status", "apibindings/status"));
  EXPECT_EQ(status("GET", through("*", "/api/v1/configmaps")), 404);
  claim(kClaimMaps);
  EXPECT_THAT(resources(through("*", "/api/v1")), ElementsAre("configmaps"));
  EXPECT_EQ(status("GET", through("*", "/api/v1/secrets")), 404);
  EXPECT_EQ(status("GET", through("*", "/openapi/v3/apis/ex.io/v1")), 200);
}

TEST_F(ExportViewTest, WhenExportIsUnknown_AM511_IsRefused) {
  EXPECT_EQ(open("prov", "none"), nullptr);
  EXPECT_EQ(open("none", "widgets"), nullptr);
  EXPECT_EQ(open("root:prov", "widgets"), nullptr);
  EXPECT_NE(open(), nullptr);
  EXPECT_EQ(open(), open());
}

TEST_F(ExportViewTest, WhenObjectsAreWritten_AM515_TheyLieUnderTheIdentity) {
  bind("c1");
  bind("c2");
  EXPECT_EQ(status("POST", through("c1", kWidgets), widget("a")), 201);
  EXPECT_EQ(status("POST", through("c2", kWidgets), widget("b")), 201);
  EXPECT_THAT(names(through("*", kAllWidgets)), ElementsAre("c1/a", "c2/b"));
  EXPECT_THAT(names(through("c1", kAllWidgets)), ElementsAre("c1/a"));
  const std::string a = through("c1", kWidgets) + "/a";
  EXPECT_EQ(status("PATCH", a, R"({"spec":{"size":2}})", kMerge), 200);
  EXPECT_EQ(status("PATCH", a + "/status", R"({"status":{"phase":"Up"}})", kMerge), 200);
  EXPECT_EQ(status("PATCH", a + "?fieldManager=m", widget("a"), kApply), 409);
  EXPECT_EQ(as_provider("GET", a).json().text({"status", "phase"}), "Up");
  const auto counted = server.server().count("c1", "widgets.ex.io:idw", "");
  EXPECT_EQ(counted->objects, 1);
  EXPECT_EQ(status("DELETE", a), 200);
  EXPECT_EQ(status("GET", a), 404);
}

TEST_F(ExportViewTest, WhenClusterHasNoBinding_AM515_IsRefused) {
  bind("c1");
  Exchange other = as_provider("GET", through("c2", kAllWidgets));
  EXPECT_EQ(other.status(), 403);
  EXPECT_EQ(other.json().text({"message"}),
            "widgets.ex.io is forbidden: User \"provider\" cannot list resource \"widgets\" in API "
            "group \"ex.io\" at the cluster scope: access denied");
  EXPECT_EQ(status("POST", through("c2", kWidgets), widget("x")), 403);
  EXPECT_EQ(status("GET", through("prov", kAllWidgets)), 403);
  EXPECT_EQ(status("GET", through("nowhere", kAllWidgets)), 403);
}

TEST_F(ExportViewTest, WhenVerbsAreGranted_TP058_TP059_OnlyTheyWork) {
  bind("c1");
  const std::string a = through("c1", kWidgets) + "/a";
  const std::string list = through("c1", kWidgets);
  const std::vector<std::pair<std::string, std::function<int()>>> requests = {
      {"create", [&] { return status("POST", list, widget("a")); }},
      {"get", [&] { return status("GET", a); }},
      {"list", [&] { return status("GET", through("*", kAllWidgets)); }},
      {"patch", [&] { return status("PATCH", a, R"({"spec":{"size":3}})", kMerge); }},
      {"patch", [&] { return status("PATCH", a + "/status", R"({"status":{"x":1}})", kMerge); }},
      {"update", [&] { return status("PUT", a, "{}"); }},
      {"deletecollection", [&] { return status("DELETE", list); }},
      {"delete", [&] { return status("DELETE", a); }},
      {"watch", [&] { return status("GET", list + "?watch=true&timeoutSeconds=1"); }}};
  for (const auto& [verb, send] : requests) {
    allow("\"none\"");
    EXPECT_EQ(send(), 403) << verb;
    allow("\"" + verb + "\"");
    EXPECT_NE(send(), 403) << verb;
  }
  allow(R"("*")", "apiexports");
  EXPECT_EQ(status("GET", list), 403);
}

TEST_F(ExportViewTest, WhenClaimIsNotAccepted_TP062_NothingIsThere) {
  bind("c1");
  add_map("c1", "mine");
  claim(kClaimMaps);
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), IsEmpty());
  EXPECT_EQ(status("GET", through("*", "/api/v1/configmaps")), 200);
  EXPECT_EQ(status("GET", through("c1", kMaps) + "/mine"), 403);
  EXPECT_EQ(status("POST", through("c1", kMaps), map("new")), 403);
  std::string rejected = kGrantMaps;
  rejected.replace(rejected.find("Accepted"), 8, "Rejected");
  grant("c1", rejected);
  settle();
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), IsEmpty());
  EXPECT_EQ(status("GET", through("c1", kMaps) + "/mine"), 403);
}

TEST_F(ExportViewTest, WhenClaimIsAccepted_TP062_ObjectsAppearUntilItIsWithdrawn) {
  bind("c1");
  bind("c2");
  add_map("c1", "old");
  add_map("c2", "foreign");
  claim(kClaimMaps);
  Exchange watch = as_provider("GET", through("*", "/api/v1/configmaps?watch=true"));
  grant("c1", kGrantMaps);
  settle();
  add_map("c1", "new");
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), ElementsAre("c1/new", "c1/old"));
  EXPECT_EQ(status("GET", through("c2", kMaps) + "/foreign"), 403);
  grant("c1", "[]");
  settle();
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), IsEmpty());
  std::vector<std::string> events = seen(watch);
  std::sort(events.begin(), events.end());
  EXPECT_THAT(events, ElementsAre("ADDED new", "ADDED old", "DELETED new", "DELETED old"));
  claim("[]");
  EXPECT_EQ(status("GET", through("*", "/api/v1/configmaps")), 404);
  server.settle();
  EXPECT_TRUE(watch.stream().ended);
}

TEST_F(ExportViewTest, WhenClaimHasVerbs_TP063_TP064_BothSidesMustAllow) {
  bind("c1");
  const auto verbs = [](const std::string& list, bool accepted) {
    return R"([{"group":"","resource":"configmaps","verbs":[)" + list + "]" +
           (accepted ? R"(,"state":"Accepted","selector":{"matchAll":true}}])" : "}]");
  };
  claim(verbs(R"("get","list","patch","create")", false));
  grant("c1", verbs(R"("get","list","patch")", true));
  settle();
  EXPECT_EQ(status("GET", through("c1", kMaps)), 200);
  EXPECT_EQ(status("POST", through("c1", kMaps), map("a")), 403);
  const std::string target = through("c1", kMaps) + "/a?fieldManager=m";
  EXPECT_EQ(status("PATCH", target, map("a"), kApply), 403);
  grant("c1", verbs(R"("get","list","patch","create","delete")", true));
  settle();
  EXPECT_EQ(status("PATCH", target, map("a"), kApply), 201);
  EXPECT_EQ(status("POST", through("c1", kMaps), map("b")), 201);
  EXPECT_EQ(status("DELETE", through("c1", kMaps) + "/a"), 403);  // not offered
}

TEST_F(ExportViewTest, WhenClaimHasMatchLabels_TP065_KK347_KKT142_OnlyMatchingObjectsExist) {
  bind("c1");
  add_map("c1", "yes", R"({"pick":"me"})");
  add_map("c1", "no");
  claimed_maps("c1", R"([{"group":"","resource":"configmaps","verbs":["*"],"state":"Accepted",
                          "selector":{"matchLabels":{"pick":"me"}}}])");
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), ElementsAre("c1/yes"));
  const std::string maps = through("c1", kMaps);
  for (const char* method : {"GET", "DELETE"}) {
    EXPECT_EQ(status(method, maps + "/no"), 404) << method;
  }
  EXPECT_EQ(status("PUT", maps + "/no", map("no")), 404);
  Exchange created = as_provider("POST", maps, map("new"));
  EXPECT_EQ(created.status(), 201);
  EXPECT_EQ(created.json().text({"metadata", "labels", "pick"}), "me");
  Exchange refused = as_provider("POST", maps, map("x", R"({"pick":"other"})"));
  EXPECT_EQ(refused.status(), 403);
  EXPECT_EQ(refused.json().text({"message"}),
            "configmaps \"x\" is forbidden: protected label pick must have value me");
  Exchange dropped = as_provider("PUT", maps + "/new", map("new"));
  EXPECT_EQ(dropped.json().text({"metadata", "labels", "pick"}), "me");
  EXPECT_EQ(status("PATCH", maps + "/new", R"({"metadata":{"labels":{"pick":"x"}}})", kMerge), 403);
  EXPECT_EQ(status("DELETE", maps), 200);
  EXPECT_EQ(server.send("GET", at("c1", kMaps)).json().find("items")->size(), 1U);
}

TEST_F(ExportViewTest, WhenClaimHasExpressions_TP066_KK347_MismatchesAreRefused) {
  bind("c1");
  claimed_maps("c1", R"([{"group":"","resource":"configmaps","verbs":["*"],"state":"Accepted",
      "selector":{"matchExpressions":[{"key":"pick","operator":"In","values":["a","b"]}]}}])");
  const std::string maps = through("c1", kMaps);
  Exchange bare = as_provider("POST", maps, map("x"));
  EXPECT_EQ(bare.status(), 403);
  EXPECT_EQ(bare.json().text({"message"}),
            "configmaps \"x\" is forbidden: object does not match required labels");
  EXPECT_EQ(status("POST", maps, map("x", R"({"pick":"b"})")), 201);
  EXPECT_EQ(status("PATCH", maps + "/x", R"({"metadata":{"labels":{"pick":null}}})", kMerge), 403);
  EXPECT_EQ(status("PATCH", maps + "/x", R"({"metadata":{"labels":{"pick":"a"}}})", kMerge), 200);
}

TEST_F(ExportViewTest, WhenSelectorOfBindingChanges_TP067_ListsAndWatchesFollow) {
  bind("c1");
  add_map("c1", "a", R"({"pick":"a"})");
  add_map("c1", "b", R"({"pick":"b"})");
  const auto select = [](const std::string& value) {
    return R"([{"group":"","resource":"configmaps","verbs":["*"],"state":"Accepted",
                "selector":{"matchLabels":{"pick":")" +
           value + R"("}}}])";
  };
  claimed_maps("c1", select("a"));
  // Over all clusters: the watch of one would end if it was looked at while that grants nothing.
  Exchange watch = as_provider("GET", through("*", "/api/v1/configmaps?watch=true"));
  server.settle();
  grant("c1", "[]");  // the schema lets no selector change of a claim that it can tell from others
  grant("c1", select("b"));
  settle();
  EXPECT_THAT(names(through("*", "/api/v1/configmaps")), ElementsAre("c1/b"));
  std::vector<std::string> events = seen(watch);
  std::sort(events.begin(), events.end());
  EXPECT_THAT(events, ElementsAre("ADDED a", "ADDED b", "DELETED a"));
}

TEST_F(ExportViewTest, WhenConsumerUnbinds_AM516_ClaimedObjectsAreDeletedAndItsWatchEnds) {
  bind("c1");
  bind("c2");
  add_map("c1", "one");
  add_map("c2", "two");
  claim(kClaimMaps);
  grant("c1", kGrantMaps);
  grant("c2", kGrantMaps);
  settle();
  Exchange all = as_provider("GET", through("*", "/api/v1/configmaps?watch=true"));
  Exchange one = as_provider("GET", through("c1", "/api/v1/configmaps?watch=true"));
  Exchange of_bindings =
      as_provider("GET", through("*", "/apis/apis.kcp.io/v1alpha2/apibindings?watch=true"));
  must("DELETE", at("c1", "/apis/apis.kcp.io/v1alpha2/apibindings/wb"), "");
  settle();
  EXPECT_THAT(seen(all), ElementsAre("ADDED one", "ADDED two", "DELETED one"));
  EXPECT_THAT(seen(of_bindings), ElementsAre("ADDED wb", "ADDED wb", "DELETED wb"));
  EXPECT_FALSE(all.stream().ended);
  EXPECT_TRUE(server.run_until([&] { return one.stream().ended; }));
  EXPECT_EQ(status("GET", through("c1", kMaps)), 403);
}

TEST_F(ExportViewTest, WhenConsumerBinds_AM517_OpenWatchesShowItsObjects) {
  Exchange watch = as_provider("GET", through("*", std::string(kAllWidgets) + "?watch=true"));
  bind("c1");
  EXPECT_EQ(status("POST", through("c1", kWidgets), widget("a")), 201);
  server.settle();
  EXPECT_THAT(seen(watch), ElementsAre("ADDED a"));
}

TEST_F(ExportViewTest, WhenBindingsAreAsked_AM510_OnlyThoseOfTheExportCanBeRead) {
  add_export("c2", "widgets", "other", "[]");
  bind("c1");
  bind("prov", "c2");
  for (const char* version : {"v1alpha1", "v1alpha2"}) {
    const std::string path = "/apis/apis.kcp.io/" + std::string(version) + "/apibindings";
    EXPECT_THAT(names(through("*", path)), ElementsAre("c1/wb"));
    EXPECT_EQ(status("GET", through("c1", path + "/wb")), 200);
    Exchange refused = as_provider("DELETE", through("c1", path + "/wb"));
    EXPECT_EQ(refused.status(), 403);
    EXPECT_EQ(refused.json().text({"message"}),
              "apibindings.apis.kcp.io \"wb\" is forbidden: User \"provider\" cannot delete "
              "resource \"apibindings\" in API group \"apis.kcp.io\" at the cluster scope: access "
              "denied");
    EXPECT_EQ(status("PATCH", through("c1", path + "/wb/status"), "{}", kMerge), 403);
  }
}

TEST_F(ExportViewTest, WhenApiOfAnotherExportIsClaimed_TP071_ItsPolicyDecides) {
  add_schema("c2", "v1.sheriffs.west.io", "west.io", "sheriffs", "Sheriff");
  add_export("c2", "sheriffs", "ids", R"([{"group":"west.io","name":"sheriffs",
      "schema":"v1.sheriffs.west.io","storage":{"crd":{}}}])");
  bind("c1");
  claim(R"([{"group":"west.io","resource":"sheriffs","identityHash":"ids","verbs":["*"]}])");
  const std::string list = through("*", "/apis/west.io/v1/sheriffs");
  EXPECT_EQ(status("GET", list), 200);
  merge(at("c2", "/apis/apis.kcp.io/v1alpha2/apiexports/sheriffs"),
        R"({"spec":{"maximalPermissionPolicy":{"local":{}}}})");
  EXPECT_EQ(status("GET", list), 403);
  EXPECT_EQ(status("GET", through("*", kAllWidgets)), 200);
  const std::string roles = "/apis/rbac.authorization.k8s.io/v1/";
  must("POST", at("c2", roles + "clusterroles"),
       R"({"metadata":{"name":"p"},"rules":[{"apiGroups":["west.io"],"resources":["sheriffs"],
           "verbs":["list"]}]})");
  must("POST", at("c2", roles + "clusterrolebindings"),
       R"({"metadata":{"name":"p"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
           "kind":"ClusterRole","name":"p"},"subjects":[{"kind":"User",
           "name":"apis.kcp.io:binding:provider","apiGroup":"rbac.authorization.k8s.io"}]})");
  EXPECT_EQ(status("GET", list), 200);
  claim(R"([{"group":"west.io","resource":"sheriffs","identityHash":"forged","verbs":["*"]}])");
  EXPECT_EQ(status("GET", list), 403);
}

TEST_F(ExportViewTest, WhenTwoExportsHaveTheSameResource_AM503_EachSeesItsOwn) {
  bind("c1");
  EXPECT_EQ(status("POST", through("c1", kWidgets), widget("a")), 201);
  add_schema("c2", "v1.widgets.ex.io", "ex.io", "widgets", "Widget");
  add_export("c2", "widgets", "thief", R"([{"group":"ex.io","name":"widgets",
      "schema":"v1.widgets.ex.io","storage":{"crd":{}}}])");
  ASSERT_NE(open("c2"), nullptr);
  const Json list = server.send("GET", through("*", kAllWidgets)).json();
  EXPECT_EQ(status("GET", through("*", kAllWidgets)), 403);  // no content right there
  EXPECT_NE(list.text({"kind"}), "WidgetList");
  EXPECT_EQ(status("GET", through("c1", kAllWidgets)), 403);
}

TEST_F(ExportViewTest, WhenExportChanges_AM504_KindsFollowAndWatchesEnd) {
  bind("c1");
  Exchange watch = as_provider("GET", through("*", std::string(kAllWidgets) + "?watch=true"));
  add_schema("prov", "v2.widgets.ex.io", "ex.io", "widgets", "Widget");
  add_schema("prov", "v1.gears.ex.io", "ex.io", "gears", "Gear");
  EXPECT_FALSE(watch.stream().ended);
  merge(at("prov", "/apis/apis.kcp.io/v1alpha2/apiexports/widgets"),
        R"({"spec":{"resources":[
            {"group":"ex.io","name":"widgets","schema":"v2.widgets.ex.io","storage":{"crd":{}}},
            {"group":"ex.io","name":"gears","schema":"v1.gears.ex.io","storage":{"crd":{}}}]}})");
  EXPECT_TRUE(watch.stream().ended);
  EXPECT_THAT(resources(through("*", "/apis/ex.io/v1")),
              ElementsAre("gears", "gears/status", "widgets", "widgets/status"));
  must("DELETE", at("prov", "/apis/apis.kcp.io/v1alpha2/apiexports/widgets"), "");
  EXPECT_EQ(open(), nullptr);
}

TEST_F(ExportViewTest, WhenRightsAreTakenAway_AM312_WatchesEnd) {
  bind("c1");
  Exchange watch = as_provider("GET", through("*", std::string(kAllWidgets) + "?watch=true"));
  allow(R"("list")");
  server.server().review_watches("prov");
  EXPECT_TRUE(server.run_until([&] { return watch.stream().ended; }));
}

TEST_F(ExportViewTest, WhenPolicyOfAClaimedApiShrinks_AM312_TP071_WatchesEnd) {
  add_schema("c2", "v1.sheriffs.west.io", "west.io", "sheriffs", "Sheriff");
  add_export("c2", "sheriffs", "ids", R"([{"group":"west.io","name":"sheriffs",
      "schema":"v1.sheriffs.west.io","storage":{"crd":{}}}])");
  merge(at("c2", "/apis/apis.kcp.io/v1alpha2/apiexports/sheriffs"),
        R"({"spec":{"maximalPermissionPolicy":{"local":{}}}})");
  bind("c1");
  claim(R"([{"group":"west.io","resource":"sheriffs","identityHash":"ids","verbs":["*"]}])");
  const std::string roles = at("c2", "/apis/rbac.authorization.k8s.io/v1/");
  must("POST", roles + "clusterroles",
       R"({"metadata":{"name":"p"},"rules":[{"apiGroups":["west.io"],"resources":["sheriffs"],
           "verbs":["list","watch"]}]})");
  must("POST", roles + "clusterrolebindings",
       R"({"metadata":{"name":"p"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
           "kind":"ClusterRole","name":"p"},"subjects":[{"kind":"User",
           "name":"apis.kcp.io:binding:provider","apiGroup":"rbac.authorization.k8s.io"}]})");
  Exchange own = as_provider("GET", through("*", std::string(kAllWidgets) + "?watch=true"));
  Exchange claimed = as_provider("GET", through("*", "/apis/west.io/v1/sheriffs?watch=true"));
  must("DELETE", roles + "clusterrolebindings/p", "");
  views.rights_changed("nobody");
  views.rights_changed("c2");
  EXPECT_TRUE(server.run_until([&] { return claimed.stream().ended; }));
  EXPECT_FALSE(own.stream().ended);
}

}  // namespace
}  // namespace kintsugi::controlplane
