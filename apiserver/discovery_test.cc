#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/protobuf.h"

/// Discovery, version and health (AM-102 to AM-116, AM-117 to AM-123).
namespace kintsugi::apiserver {
namespace {

using krm::Json;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(testing::widget_kind());
  return all;
}

/// The widget with other versions; `served` says of each whether it is.
ResourcePtr versioned(std::initializer_list<std::pair<const char*, bool>> versions) {
  auto def = std::make_shared<ResourceDef>(*testing::widget_kind());
  def->group = "ex3.io";
  const ResourceVersion base = def->versions.front();
  def->versions.clear();
  for (const auto& [name, served] : versions) {
    ResourceVersion version = base;
    version.name = name;
    version.served = served;
    version.storage = def->versions.empty();
    def->versions.push_back(version);
  }
  return def;
}

class DiscoveryDocuments : public ::testing::Test {
 protected:
  Exchange get(const std::string& target, const testing::Fields& fields = {}) {
    return server.send("GET", target, std::string_view(), fields);
  }
  /// A reference into `list`.
  static const Json& named(const Json& list, const char* member, std::string_view name) {
    static const Json none;
    for (const Json& item : list.find(member)->items()) {
      if (item.text({"name"}) == name || item.text({"resource"}) == name ||
          item.text({"metadata", "name"}) == name) {
        return item;
      }
    }
    ADD_FAILURE() << name;
    return none;
  }

  FakeServer server{kinds()};
};

TEST_F(DiscoveryDocuments, WhenAM102TheRootIsRead_ListsPathsSorted) {
  for (const char* root : {"/", "/clusters/lc", "/clusters/lc/"}) {
    const Json document = get(root).json();
    const Json* paths = document.find("paths");
    ASSERT_NE(paths, nullptr) << root;
    std::vector<std::string_view> all;
    for (const Json& path : paths->items()) {
      all.push_back(path.as_string());
    }
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    for (const char* path : {"/api/v1", "/apis", "/apis/ex.io/v1", "/version", "/openapi/v2"}) {
      EXPECT_NE(std::find(all.begin(), all.end(), path), all.end()) << path;
    }
  }
}

TEST_F(DiscoveryDocuments, WhenAM103And104RootsAreRead_NameGroupsAndVersions) {
  const Json api = get("/api").json();
  EXPECT_EQ(api.text({"kind"}), "APIVersions");
  EXPECT_EQ(api.find("apiVersion"), nullptr);
  EXPECT_EQ(api.find("serverAddressByClientCIDRs")->items().front().text({"clientCIDR"}),
            "0.0.0.0/0");
  const Json groups = get("/apis").json();
  EXPECT_EQ(groups.text({"apiVersion"}), "v1");
  const Json& group = named(groups, "groups", "ex.io");
  EXPECT_EQ(group.find("versions")->dump(), R"([{"groupVersion":"ex.io/v1","version":"v1"}])");
  EXPECT_EQ(group.text({"preferredVersion", "version"}), "v1");
}

TEST_F(DiscoveryDocuments, WhenAM105AGroupHasVersions_TheyAreInOrder) {
  server.registry().add({versioned({{"v1alpha1", true},
                                    {"foo", true},
                                    {"v1", true},
                                    {"v9", false},
                                    {"v10", true},
                                    {"v1beta1", true}}),
                         {}});
  const Json group = get("/apis/ex3.io").json();
  EXPECT_EQ(group.text({"kind"}), "APIGroup");
  std::string order;
  for (const Json& version : group.find("versions")->items()) {
    order += std::string(version.text({"version"})) + ' ';
  }
  EXPECT_EQ(order, "v10 v1 v1beta1 v1alpha1 foo ");
  EXPECT_EQ(group.text({"preferredVersion", "version"}), "v10");
}

TEST_F(DiscoveryDocuments, WhenAM106And107ResourcesAreRead_SubresourcesSayWhatTheyTake) {
  const Json core = get("/api/v1").json();
  EXPECT_EQ(core.text({"groupVersion"}), "v1");
  EXPECT_EQ(core.find("apiVersion"), nullptr);
  const Json widgets = get("/apis/ex.io/v1").json();
  EXPECT_EQ(widgets.text({"apiVersion"}), "v1");
  const Json& scale = named(widgets, "resources", "widgets/scale");
  EXPECT_EQ(scale.text({"kind"}), "Scale");
  EXPECT_EQ(scale.text({"group"}), "autoscaling");
  EXPECT_EQ(scale.text({"version"}), "v1");
  EXPECT_EQ(scale.text({"singularName"}), "");
  EXPECT_EQ(named(widgets, "resources", "widgets/status").find("group"), nullptr);
}

TEST_F(DiscoveryDocuments, WhenAM108VerbsAreRead_TheyAreSortedAndTrue) {
  const Json core = get("/api/v1").json();
  const auto verbs = [&](const char* name) {
    return named(core, "resources", name).find("verbs")->dump();
  };
  EXPECT_EQ(verbs("configmaps"),
            R"(["create","delete","deletecollection","get","list","patch","update","watch"])");
  EXPECT_EQ(verbs("namespaces"), R"(["create","delete","get","list","patch","update","watch"])");
  EXPECT_EQ(verbs("namespaces/status"), R"(["get","patch","update"])");
  EXPECT_EQ(verbs("namespaces/finalize"), R"(["update"])");
  const std::string text = core.dump();
  EXPECT_LT(text.find("namespaces/finalize"), text.find("namespaces/status"));
  const Json widgets = get("/apis/ex.io/v1").json();
  EXPECT_EQ(named(widgets, "resources", "widgets").find("verbs")->dump(),
            R"(["delete","deletecollection","get","list","patch","create","update","watch"])")
      << "the reference's order of what has a definition";
}

TEST_F(DiscoveryDocuments, WhenAM109TheStorageVersionIsHashed_IsKubernetesHash) {
  EXPECT_EQ(
      named(get("/apis/ex.io/v1").json(), "resources", "widgets").text({"storageVersionHash"}),
      "RDFwhYKgK0s=");
}

TEST_F(DiscoveryDocuments, WhenAM110And111OneDocumentIsAsked_HasEverything) {
  const std::string mixed =
      "application/json;as=APIGroupDiscoveryList;v=v2;profile=nopeer;g=apidiscovery.k8s.io";
  Exchange answer = get("/apis", {{"accept", mixed}});
  EXPECT_EQ(answer.header("content-type"), kAggregated);
  EXPECT_EQ(answer.header("cache-control"), "public");
  EXPECT_EQ(answer.header("vary"), "Accept");
  const Json document = answer.json();
  const Json& group = named(document, "items", "ex.io");
  const Json& version = group.find("versions")->items().front();
  EXPECT_EQ(version.text({"freshness"}), "Current");
  const Json& widgets = named(version, "resources", "widgets");
  EXPECT_EQ(widgets.text({"scope"}), "Namespaced");
  EXPECT_EQ(widgets.text({"responseKind", "kind"}), "Widget");
  EXPECT_EQ(widgets.text({"singularResource"}), "widget");
  EXPECT_EQ(widgets.find("subresources")->size(), 2U);
  const Json core = get("/api", {{"accept", kAggregated}}).json();
  EXPECT_EQ(core.find("items")->items().front().find("metadata")->dump(), "{}");
}

TEST_F(DiscoveryDocuments, WhenAM112OlderFormsAreAsked_ThePlainOneIsBehindThem) {
  const std::string beta =
      "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
  const std::string v9 = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
  const auto kind = [&](const std::string& accept) {
    return std::string(get("/apis", {{"accept", accept}}).json().text({"kind"}));
  };
  EXPECT_EQ(kind(std::string(kAggregated) + "," + beta + ",application/json"),
            "APIGroupDiscoveryList");
  EXPECT_EQ(kind(beta + ",application/json"), "APIGroupList");
  EXPECT_EQ(kind("application/json"), "APIGroupList");
  EXPECT_EQ(get("/apis", {{"accept", v9}}).status(), 406);
  EXPECT_EQ(get("/apis", {{"accept", beta}}).status(), 406);
}

TEST_F(DiscoveryDocuments, WhenAM113TheTagIsKnown_OnlyItsStrongFormCounts) {
  const std::string tag(get("/apis", {{"accept", kAggregated}}).header("etag"));
  Exchange same = get("/apis", {{"accept", kAggregated}, {"if-none-match", tag}});
  EXPECT_EQ(same.status(), 304);
  EXPECT_EQ(same.body(), "");
  EXPECT_EQ(get("/apis", {{"accept", kAggregated}, {"if-none-match", "W/" + tag}}).status(), 200);
}

TEST_F(DiscoveryDocuments, WhenAM114KindsComeAndGo_TheTagFollowsAndIsStableOtherwise) {
  const auto tag = [&] {
    return std::string(get("/apis", {{"accept", kAggregated}}).header("etag"));
  };
  const std::string before = tag();
  EXPECT_EQ(tag(), before);
  FakeServer replica(kinds());
  EXPECT_EQ(
      replica.send("GET", "/apis", std::string_view(), {{"accept", kAggregated}}).header("etag"),
      before);
  server.registry().add({versioned({{"v1", true}}), {}});
  EXPECT_NE(tag(), before);
}

TEST_F(DiscoveryDocuments, WhenAM115NothingOfAGroupIsServed_ItIsNotThere) {
  server.registry().add({versioned({{"v1", false}}), {}});
  EXPECT_EQ(get("/apis/ex3.io").status(), 404);
  EXPECT_EQ(get("/apis/ex3.io/v1").status(), 404);
  EXPECT_EQ(get("/apis").body().find("ex3.io"), std::string::npos);
  EXPECT_EQ(get("/apis", {{"accept", kAggregated}}).body().find("ex3.io"), std::string::npos);
  EXPECT_EQ(get("/openapi/v3").body().find("ex3.io"), std::string::npos);
}

TEST_F(DiscoveryDocuments, WhenProtobufIsAsked_TheTypedDocumentsComeSo) {
  const std::pair<const char*, const char*> documents[] = {{"/api", "APIVersions"},
                                                           {"/apis", "APIGroupList"},
                                                           {"/apis/ex.io", "APIGroup"},
                                                           {"/api/v1", "APIResourceList"}};
  for (const auto& [path, kind] : documents) {
    Exchange answer = get(path, {{"accept", "application/vnd.kubernetes.protobuf"}});
    EXPECT_EQ(answer.status(), 200) << path;
    const auto object = krm::decode_protobuf(answer.body());
    ASSERT_TRUE(object) << path;
    EXPECT_EQ(object->text({"kind"}), kind);
    EXPECT_EQ(object->text({"apiVersion"}), "v1");
  }
  const auto core = krm::decode_protobuf(
      get("/api/v1", {{"accept", "application/vnd.kubernetes.protobuf"}}).body());
  ASSERT_TRUE(core);
  EXPECT_EQ(named(*core, "resources", "configmaps").find("shortNames")->dump(), R"(["cm"])");
  EXPECT_EQ(named(*core, "resources", "namespaces/finalize").find("verbs")->dump(),
            R"(["update"])");
  EXPECT_EQ(get("/", {{"accept", "application/vnd.kubernetes.protobuf"}}).status(), 406);
}

TEST_F(DiscoveryDocuments, WhenAM117TheVersionIsRead_ClientsCanParseIt) {
  Exchange answer = get("/version");
  EXPECT_NE(answer.body().find("\n  \"major\": \"1\""), std::string::npos);
  const Json version = answer.json();
  EXPECT_GE(std::stoi(std::string(version.text({"minor"}))), 30);
  const std::string_view git = version.text({"gitVersion"});
  EXPECT_TRUE(git.starts_with("v1." + std::string(version.text({"minor"})) + "."));
  EXPECT_NE(git.find("+kintsugi-"), std::string_view::npos);
  for (const char* member :
       {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}) {
    EXPECT_NE(version.find(member), nullptr) << member;
  }
}

TEST_F(DiscoveryDocuments, WhenAM118To119AllIsWell_SaysOk) {
  for (const char* root : {"healthz", "livez", "readyz"}) {
    Exchange answer = get("/" + std::string(root));
    EXPECT_EQ(answer.status(), 200);
    EXPECT_EQ(answer.body(), "ok");
    EXPECT_EQ(answer.header("content-type"), "text/plain; charset=utf-8");
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    const std::string lines = get("/" + std::string(root) + "?verbose").body();
    EXPECT_TRUE(lines.starts_with("[+]ping ok\n")) << lines;
    EXPECT_TRUE(lines.ends_with(std::string(root) + " check passed\n")) << lines;
  }
}

TEST_F(DiscoveryDocuments, WhenAM120To123TheServerDrains_OnlyReadinessFails) {
  server.server().start_drain();
  EXPECT_EQ(get("/livez").status(), 200);
  Exchange ready = get("/readyz");
  EXPECT_EQ(ready.status(), 500);
  EXPECT_TRUE(ready.body().starts_with("[+]ping ok\n")) << ready.body();
  EXPECT_NE(ready.body().find("[-]shutdown failed: reason withheld\n"), std::string::npos);
  EXPECT_TRUE(ready.body().ends_with("readyz check failed\n"));
  Exchange check = get("/readyz/shutdown");
  EXPECT_EQ(check.status(), 500);
  EXPECT_TRUE(check.body().starts_with("internal server error: ")) << check.body();
  EXPECT_EQ(get("/readyz/ping").body(), "ok");
  EXPECT_EQ(get("/readyz/none").status(), 404);
  EXPECT_EQ(get("/readyz?exclude=shutdown&exclude=unknown").status(), 200);
  EXPECT_NE(get("/readyz?verbose&exclude=shutdown").body().find("[+]shutdown excluded: ok\n"),
            std::string::npos);
}

}  // namespace
}  // namespace kintsugi::apiserver
