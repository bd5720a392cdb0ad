#include "apiserver/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/status.h"

/// What a virtual workspace changes about the same objects, and what it does not.
namespace kintsugi::apiserver {
namespace {

using krm::Json;
using testing::config_map;
using ::testing::ElementsAre;
using testing::Exchange;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMaps = "/clusters/c1/api/v1/namespaces/t1/configmaps";
constexpr const char* kViewMaps = "/view/clusters/c1/api/v1/namespaces/t1/configmaps";
constexpr const char* kAllMaps = "/view/clusters/*/api/v1/configmaps";

/// Serves the kinds that it is given and shows ConfigMaps labelled shown=yes; what is written gets
/// the label, and "bad" data is refused.
class HidingView final : public View, public Registry, public auth::Authorizer {
 public:
  const Registry& registry() const override { return *this; }
  auth::Authorizer& authorizer() override { return *this; }
  std::string_view rights_cluster() const override { return "rights"; }
  krm::Selector visible(std::string_view, const ResourceDef& def) const override {
    return def.plural == "configmaps" ? *krm::Selector::parse("shown=yes") : krm::Selector();
  }
  krm::Selector known(std::string_view, const ResourceDef&) const override {
    return *krm::Selector::parse("soon=yes");
  }
  bool is_plain(const Error& error) const override { return error.message() == "in words"; }
  Expected<void> prepare(const WriteContext& context, const ResourceDef& def, Json& object,
                         const Json*) const override {
    if (object.at({"data", "bad"}) != nullptr) {
      return fail(krm::forbidden(def.group, def.plural, "x", context.user.name + " is bad"));
    }
    object.make({"metadata", "labels", "shown"}) = "yes";
    return {};
  }

  ResourcePtr find(std::string_view, std::string_view group,
                   std::string_view resource) const override {
    for (const ResourcePtr& def : kinds) {
      if (def->group == group && def->plural == resource) {
        return def;
      }
    }
    return nullptr;
  }
  std::vector<ResourcePtr> all(std::string_view) const override { return kinds; }
  std::uint64_t generation(std::string_view) const override { return kinds.size(); }
  bool ready(std::string_view) const override { return true; }

  void authorize(const auth::Attributes& attributes, Done done) override {
    asked.push_back(attributes.cluster + " " + attributes.verb + " " + attributes.resource);
    if (attributes.user.name == "unknown") {
      done(fail(Errc::kForbidden, attributes.verb == "get" ? "in words" : "as a Status"));
      return;
    }
    done(auth::Decision{attributes.user.name != denied, "access denied"});
  }

  std::vector<ResourcePtr> kinds;
  std::vector<std::string> asked;
  std::string denied;
};

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() : server(kinds::builtin_kinds()) {
    for (const ResourcePtr& kind : kinds::builtin_kinds()) {
      if (kind->plural == "configmaps" || kind->plural == "secrets") {
        view->kinds.push_back(kind);
      }
    }
    server.look_through(view);
    for (const char* cluster : {"c1", "c2"}) {
      Json ns = Json::object();
      ns.make({"metadata", "name"}) = "t1";
      const std::string path = "/clusters/" + std::string(cluster) + "/api/v1/namespaces";
      EXPECT_EQ(server.send("POST", path, ns).status(), 201);
    }
  }
  void put(const char* name, const char* shown, const char* cluster = "c1") {
    const std::string path =
        "/clusters/" + std::string(cluster) + "/api/v1/namespaces/t1/configmaps";
    EXPECT_EQ(
        server.send("POST", path, config_map(name, {{"k", "v"}}, {{"shown", shown}})).status(),
        201);
  }
  std::vector<std::string> names(const std::string& target) {
    std::vector<std::string> out;
    const Json list = server.send("GET", target).json();
    const Json* items = list.find("items");
    for (const Json& item : items == nullptr ? Json::Array() : items->items()) {
      out.emplace_back(item.text({"metadata", "name"}));
    }
    return out;
  }
  static std::vector<std::string> seen(const Exchange& watch) {
    std::vector<std::string> out;
    for (const Json& event : watch.events()) {
      out.push_back(std::string(event.text({"type"})) + " " +
                    std::string(event.text({"object", "metadata", "name"})));
    }
    return out;
  }
  static std::string item(const char* name) { return std::string(kViewMaps) + "/" + name; }

  std::shared_ptr<HidingView> view = std::make_shared<HidingView>();
  FakeServer server;
};

TEST_F(ViewTest, WhenObjectIsHidden_AM515_NoVerbFindsIt) {
  put("seen", "yes");
  put("unseen", "no");
  EXPECT_EQ(server.send("GET", item("seen")).status(), 200);
  Exchange get = server.send("GET", item("unseen"));
  EXPECT_EQ(get.status(), 404);
  EXPECT_EQ(get.json().text({"message"}), "configmaps \"unseen\" not found");
  Exchange put = server.send("PUT", item("unseen"), config_map("unseen"));
  EXPECT_EQ(put.status(), 404);
  Exchange patch = server.send("PATCH", item("unseen"), std::string_view(R"({"data":{"a":"b"}})"),
                               {{"content-type", "application/merge-patch+json"}});
  EXPECT_EQ(patch.status(), 404);
  EXPECT_EQ(server.send("DELETE", item("unseen")).status(), 404);
  const std::string direct = std::string(kMaps) + "/unseen";
  EXPECT_EQ(server.send("GET", direct).json().text({"data", "k"}), "v");
}

TEST_F(ViewTest, WhenListed_AM512_ShowsWhatIsVisibleOfAllClusters) {
  put("a", "yes");
  put("b", "no");
  put("c", "yes", "c2");
  EXPECT_THAT(names(kViewMaps), ElementsAre("a"));
  EXPECT_THAT(names(kAllMaps), ElementsAre("a", "c"));
  EXPECT_THAT(names(std::string(kAllMaps) + "?labelSelector=shown%3Dno"), IsEmpty());
  EXPECT_THAT(names("/clusters/*/api/v1/configmaps"), ElementsAre("a", "b", "c"));
  const Json page = server.send("GET", std::string(kAllMaps) + "?limit=1").json();
  EXPECT_EQ(page.at({"metadata", "remainingItemCount"}), nullptr);
  const std::string token(page.text({"metadata", "continue"}));
  EXPECT_THAT(names(std::string(kAllMaps) + "?limit=1&continue=" + token), ElementsAre("c"));
}

TEST_F(ViewTest, WhenWatched_AM512_LabelsComeAndGo) {
  put("a", "yes");
  Exchange watch = server.send("GET", std::string(kAllMaps) + "?watch=true&resourceVersion=0");
  put("b", "no");
  const auto label = [&](const char* name, const char* value) {
    const std::string body = R"({"metadata":{"labels":{"shown":")" + std::string(value) + "\"}}}";
    EXPECT_EQ(server
                  .send("PATCH", std::string(kMaps) + "/" + name, std::string_view(body),
                        {{"content-type", "application/merge-patch+json"}})
                  .status(),
              200);
  };
  label("b", "yes");
  label("a", "no");
  ASSERT_TRUE(server.run_until([&] { return watch.events().size() >= 3; }));
  EXPECT_THAT(seen(watch), ElementsAre("ADDED a", "ADDED b", "DELETED a"));
}

TEST_F(ViewTest, WhenWhatBecomesVisibleIsKnown_TP075_ItIsModified) {
  for (const char* name : {"new", "known"}) {
    EXPECT_EQ(server
                  .send("POST", kMaps,
                        config_map(name, {{"k", "v"}},
                                   {{"shown", "no"}, {"soon", *name == 'k' ? "yes" : "no"}}))
                  .status(),
              201);
  }
  Exchange watch = server.send("GET", std::string(kAllMaps) + "?watch=true&resourceVersion=0");
  for (const char* name : {"new", "known"}) {
    EXPECT_EQ(server
                  .send("PATCH", std::string(kMaps) + "/" + name,
                        std::string_view(R"({"metadata": {"labels": {"shown": "yes"}}})"),
                        {{"content-type", "application/merge-patch+json"}})
                  .status(),
              200);
  }
  ASSERT_TRUE(server.run_until([&] { return watch.events().size() >= 2; }));
  EXPECT_THAT(seen(watch), ElementsAre("ADDED new", "MODIFIED known"));
  Exchange later = server.send("GET", std::string(kAllMaps) + "?watch=true&resourceVersion=0");
  ASSERT_TRUE(server.run_until([&] { return later.events().size() >= 2; }));
  EXPECT_THAT(seen(later), ::testing::UnorderedElementsAre("ADDED new", "ADDED known"));
}

TEST_F(ViewTest, WhenItsAuthorizerFails_KK351_TheViewSaysInWhichForm) {
  put("a", "yes");
  const testing::Fields who = {{"x-user", "unknown"}};
  Exchange plain = server.send("GET", item("a"), std::string_view(), who);
  EXPECT_EQ(plain.status(), 403);
  EXPECT_EQ(plain.body(), "in words\n");
  EXPECT_EQ(plain.header("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(server.send("GET", kViewMaps, std::string_view(), who).json().text({"message"}),
            "as a Status");
}

TEST_F(ViewTest, WhenCollectionIsDeleted_TP065_HiddenObjectsStay) {
  put("a", "yes");
  put("b", "no");
  EXPECT_EQ(server.send("DELETE", kViewMaps).status(), 200);
  EXPECT_THAT(names(kMaps), ElementsAre("b"));
}

TEST_F(ViewTest, WhenWritten_AM515_PrepareShapesAndRefuses) {
  Exchange created = server.send("POST", kViewMaps, config_map("new"));
  EXPECT_EQ(created.status(), 201);
  EXPECT_EQ(created.json().text({"metadata", "labels", "shown"}), "yes");
  EXPECT_EQ(created.json().text({"metadata", "annotations", "kcp.io/cluster"}), "c1");
  Exchange refused = server.send("POST", kViewMaps, config_map("x", {{"bad", "1"}}));
  EXPECT_EQ(refused.status(), 403);
  EXPECT_THAT(std::string(refused.json().text({"message"})), HasSubstr("admin is bad"));
  Exchange applied =
      server.send("PATCH", item("applied") + "?fieldManager=m", config_map("applied"),
                  {{"content-type", "application/apply-patch+yaml"}});
  EXPECT_EQ(applied.status(), 201);
  EXPECT_EQ(applied.json().text({"metadata", "labels", "shown"}), "yes");
}

TEST_F(ViewTest, WhenKindsAreAsked_AM510_ShowsOnlyItsOwn) {
  const Json core = server.send("GET", "/view/clusters/*/api/v1").json();
  std::vector<std::string> found;
  for (const Json& resource : core.find("resources")->items()) {
    found.emplace_back(resource.text({"name"}));
  }
  EXPECT_THAT(found, ElementsAre("configmaps", "secrets"));
  EXPECT_EQ(server.send("GET", "/view/clusters/*/apis").json().find("groups")->size(), 0U);
  const Json documents = server.send("GET", "/view/clusters/*/openapi/v3").json();
  EXPECT_NE(documents.at({"paths", "api/v1"}), nullptr);
  EXPECT_EQ(documents.at({"paths", "apis/rbac.authorization.k8s.io/v1"}), nullptr);
  for (const char* target :
       {"/view/clusters/c1/api/v1/namespaces", "/view/clusters/*/api/v1/events",
        "/view/clusters/*/apis/no.such/v1", "/view/clusters/*/api/v2/secrets",
        "/view/clusters/*/apis/rbac.authorization.k8s.io/v1/clusterroles"}) {
    Exchange exchange = server.send("GET", target);
    EXPECT_EQ(exchange.status(), 404) << target;
    EXPECT_EQ(exchange.body(), "404 page not found\n") << target;
  }
  // What the cluster itself serves is as before.
  EXPECT_EQ(server.send("GET", "/clusters/c1/api/v1/namespaces").status(), 200);
  view->kinds.pop_back();
  EXPECT_EQ(server.send("GET", "/view/clusters/*/api/v1/secrets").status(), 404);
  const Json fewer = server.send("GET", "/view/clusters/*/api/v1").json();
  EXPECT_EQ(fewer.find("resources")->size(), 1U);
}

TEST_F(ViewTest, WhenRightsAreAsked_AM515_TheViewDecides) {
  server.deny("bob");
  EXPECT_EQ(server.send("GET", kViewMaps, std::string_view(), {{"x-user", "bob"}}).status(), 200);
  EXPECT_THAT(view->asked, ElementsAre("c1 list configmaps"));
  view->denied = "carol";
  Exchange refused = server.send("GET", kAllMaps, std::string_view(), {{"x-user", "carol"}});
  EXPECT_EQ(refused.status(), 403);
  EXPECT_EQ(refused.json().text({"message"}),
            "configmaps is forbidden: User \"carol\" cannot list resource \"configmaps\" in API "
            "group \"\" at the cluster scope: access denied");
  EXPECT_EQ(server.send("GET", "/view/clusters/*/apis", std::string_view(), {{"x-user", "carol"}})
                .status(),
            403);
}

TEST_F(ViewTest, WhenRightsChange_AM312_ItsWatchesAreReviewedWhereTheyAreGiven) {
  const std::string target = std::string(kAllMaps) + "?watch=true";
  Exchange watch = server.send("GET", target, std::string_view(), {{"x-user", "bob"}});
  view->denied = "bob";
  server.server().review_watches("c1");
  server.settle();
  EXPECT_FALSE(watch.stream().ended);
  server.server().review_watches("rights");
  EXPECT_TRUE(server.run_until([&] { return watch.stream().ended; }));
}

TEST_F(ViewTest, WhenTold_EndsTheWatchesOfOneViewOnly) {
  Exchange through = server.send("GET", std::string(kAllMaps) + "?watch=true");
  Exchange direct = server.send("GET", std::string(kMaps) + "?watch=true");
  server.server().end_watches(*view, "", "secrets");
  server.settle();
  EXPECT_FALSE(through.stream().ended);
  server.server().end_watches(*view, "", "configmaps");
  server.settle();
  EXPECT_TRUE(through.stream().ended);
  EXPECT_FALSE(direct.stream().ended);
}

TEST_F(ViewTest, WhenWildcardIsNamespaced_TP079_Says400) {
  for (const char* query : {"", "?watch=true"}) {
    Exchange exchange = server.send(
        "GET", "/view/clusters/*/api/v1/namespaces/default/configmaps" + std::string(query));
    EXPECT_EQ(exchange.status(), 400);
    EXPECT_EQ(exchange.json(),
              *Json::parse(R"({"kind":"Status","apiVersion":"v1","metadata":{},
        "status":"Failure","code":400,"message":"cross-cluster LIST and WATCH are required to be )"
                           R"(cross-namespace, not scoped to namespace default"})"));
  }
}

TEST_F(ViewTest, WhenWildcardIsWritten_TP080_Says405) {
  const std::string one = "/view/clusters/*/api/v1/namespaces/t1/configmaps/a";
  Exchange exchange = server.send("PUT", one, config_map("a"));
  EXPECT_EQ(exchange.status(), 405);
  EXPECT_EQ(exchange.json().text({"message"}),
            "update is not supported on resources of kind \"configmaps\" in the `*` logical "
            "cluster");
  EXPECT_EQ(server.send("GET", one).status(), 405);
  EXPECT_EQ(server.send("DELETE", one).status(), 405);
  EXPECT_EQ(server.send("POST", kAllMaps, config_map("a")).status(), 405);
  EXPECT_EQ(server.send("DELETE", kAllMaps).status(), 405);
}

TEST_F(ViewTest, WhenSubresourceIsUnknown_NamesTheObjectBeforeThePath) {
  view->kinds.push_back(testing::widget_kind());
  Exchange exchange = server.send("GET", "/view/clusters/c1/apis/ex.io/v1/widgets/a/nope");
  EXPECT_EQ(exchange.status(), 404);
  EXPECT_EQ(exchange.json().text({"message"}), "widgets.ex.io \"a\" not found");
}

TEST_F(ViewTest, WhenServerPrepares_AM508_ItComesAfterTheView) {
  server.prepare_with([](const WriteContext& context, const ResourceDef& def, Json& object,
                         const Json* old) -> Expected<void> {
    if (object.at({"metadata", "labels", "forged"}) != nullptr) {
      return fail(krm::forbidden(def.group, def.plural, "x", "must not be set"));
    }
    object.make({"metadata", "labels", "kept"}) =
        std::string(context.cluster) + (old == nullptr ? ".new." : ".old.") +
        (object.text({"metadata", "labels", "shown"}).empty() ? "none" : "yes");
    return {};
  });
  Exchange created = server.send("POST", kViewMaps, config_map("new"));
  EXPECT_EQ(created.json().text({"metadata", "labels", "kept"}), "c1.new.yes");
  Exchange updated = server.send("PUT", item("new"), config_map("new"));
  EXPECT_EQ(updated.json().text({"metadata", "labels", "kept"}), "c1.old.yes");
  Exchange direct = server.send("POST", kMaps, config_map("direct"));
  EXPECT_EQ(direct.json().text({"metadata", "labels", "kept"}), "c1.new.none");
  Exchange refused = server.send("POST", kMaps, config_map("x", {}, {{"forged", "1"}}));
  EXPECT_EQ(refused.status(), 403);
}

}  // namespace
}  // namespace kintsugi::apiserver
