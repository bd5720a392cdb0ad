#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

class Serving : public ::testing::Test {
 protected:
  Serving() : server(kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
    EXPECT_EQ(server.send("POST", kMaps, config_map("a", {{"x", "1"}})).status(), 201);
  }
  static std::vector<ResourcePtr> kinds() {
    std::vector<ResourcePtr> all = kinds::builtin_kinds();
    all.push_back(testing::widget_kind());
    return all;
  }
  Exchange get(const std::string& target, const testing::Fields& fields = {}) {
    return server.send("GET", target, std::string_view(), fields);
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }
  static const krm::Json* named(const krm::Json& list, const char* member, std::string_view name) {
    for (const krm::Json& item : list.find(member)->items()) {
      if (item.text({"name"}) == name) {
        return &item;
      }
    }
    return nullptr;
  }

  FakeServer server;
};

TEST_F(Serving, WhenAM001To003PathsAreUnknown_ThreeKindsOf404) {
  Exchange absent = get(std::string(kMaps) + "/nope");
  EXPECT_EQ(absent.status(), 404);
  EXPECT_EQ(message(absent), "configmaps \"nope\" not found");
  for (const char* path :
       {"/api/v1/namespaces/t1/bogus", "/apis/rbac.authorization.k8s.io/v9/roles", "/api/v2",
        "/api/v1/namespaces/t1/configmaps/a/b/c", "/api/v1/configmaps/a",
        "/api/v1/namespaces/t1/namespaces/t1", "/api/v1/namespaces/t1/configmaps/a/status",
        "/api/v1/namespaces/t1/finalize2"}) {
    Exchange unknown = get(path);
    EXPECT_EQ(unknown.status(), 404) << path;
    EXPECT_EQ(message(unknown), "the server could not find the requested resource") << path;
    EXPECT_EQ(unknown.json().find("details")->dump(), "{}") << path;
  }
  for (const char* path : {"/no/such/path", "/apis/bogus.example.test/v1/things", "/apis/bogus",
                           "/openapi", "/openapi/v1"}) {
    Exchange text = get(path);
    EXPECT_EQ(text.status(), 404) << path;
    EXPECT_EQ(text.body(), "404 page not found\n") << path;
    EXPECT_EQ(text.header("x-content-type-options"), "nosniff");
  }
}

TEST_F(Serving, WhenAM013And014CallersAreRefused_SaysWhom) {
  Exchange bad = get(kMaps, {{"x-user", "bad"}});
  EXPECT_EQ(bad.status(), 401);
  EXPECT_EQ(message(bad), "Unauthorized");
  Exchange denied = get(kMaps, {{"x-user", "alice"}});
  EXPECT_EQ(denied.status(), 403);
  EXPECT_EQ(message(denied),
            "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API "
            "group \"\" in the namespace \"t1\"");
  EXPECT_EQ(get("/api/v1/bogus", {{"x-user", "alice"}}).status(), 403);
  EXPECT_EQ(get("/outside/x").status(), 403);
}

TEST_F(Serving, WhenAM021And053MethodsDoNotFit_Is405) {
  const std::string item = std::string(kMaps) + "/a";
  const std::pair<const char*, std::string> requests[] = {{"POST", item},
                                                          {"PUT", kMaps},
                                                          {"PATCH", kMaps},
                                                          {"BREW", item},
                                                          {"HEAD", item},
                                                          {"OPTIONS", item},
                                                          {"DELETE", "/api/v1/namespaces"},
                                                          {"POST", "/api/v1/configmaps"},
                                                          {"DELETE", "/api/v1/configmaps"},
                                                          {"get", item},
                                                          {"POST", "/version"}};
  for (const auto& [method, target] : requests) {
    EXPECT_EQ(server.send(method, target, std::string_view("{}")).status(), 405)
        << method << target;
  }
  Exchange status = server.send("DELETE", "/apis/ex.io/v1/namespaces/t1/widgets/w/status");
  EXPECT_EQ(message(status), "delete is not supported on resources of kind \"widgets.ex.io\"");
}

TEST_F(Serving, WhenAM034DefinitionsAreLoading_UnknownPathsAre503) {
  FakeServer fresh(kinds::builtin_kinds(), "lc");
  kinds::StaticPlusCrdRegistry loading({});
  EXPECT_FALSE(loading.ready("lc"));
  EXPECT_TRUE(fresh.registry().ready("lc"));
}

TEST_F(Serving, WhenTheClusterIsAPath_FP045_NothingIsReadOrStoredThere) {
  for (const char* path : {"root:internal-cluster", "root:org:ws", "system:a:b", "system:"}) {
    const std::string target = "/clusters/" + std::string(path) + kMaps;
    for (const char* method : {"GET", "POST"}) {
      Exchange answer = server.send(method, target, config_map("a"));
      EXPECT_EQ(answer.status(), 500) << path;
      EXPECT_NE(message(answer).find("invariant violation: "), std::string::npos);
    }
  }
  for (const char* root : {"/clusters/abc", "/clusters/system:admin", "/clusters/*", ""}) {
    EXPECT_EQ(get(std::string(root) + kMaps).status(), 200) << root;
  }
  EXPECT_NE(get("/outside").status(), 500);
}

TEST_F(Serving, WhenAM069AuditIdIsSent_IsEchoed) {
  EXPECT_EQ(get(kMaps, {{"audit-id", "mine"}}).header("audit-id"), "mine");
  EXPECT_EQ(get("/no/such", {{"audit-id", "mine"}}).header("audit-id"), "mine");
}

TEST_F(Serving, WhenAM057And031ParametersAreBad_IsBadRequest) {
  EXPECT_EQ(message(get(std::string(kMaps) + "/a?export=true")),
            "the export parameter, deprecated since v1.14, is no longer supported");
  Exchange timeout = get(std::string(kMaps) + "?timeout=7");
  EXPECT_EQ(timeout.status(), 400);
  EXPECT_EQ(get(std::string(kMaps) + "?foo=bar&shardSelector=").status(), 200);
}

TEST_F(Serving, WhenAM078YamlIsAsked_IsYaml) {
  Exchange yaml = get(std::string(kMaps) + "/a", {{"accept", "application/yaml"}});
  EXPECT_EQ(yaml.header("content-type"), "application/yaml");
  EXPECT_TRUE(yaml.body().starts_with("apiVersion: v1\n"));
  Exchange none = get(std::string(kMaps) + "/a", {{"accept", "text/plain"}});
  EXPECT_EQ(none.status(), 406);
  Exchange made =
      server.send("POST", kMaps, std::string_view("metadata:\n  name: yy\ndata: {k: v}\n"),
                  {{"content-type", "application/yaml"}});
  EXPECT_EQ(made.status(), 201);
  Exchange twice = server.send("POST", std::string(kMaps) + "?fieldValidation=Strict",
                               std::string_view("metadata: {name: z}\ndata:\n  bar: a\n  bar: b\n"),
                               {{"content-type", "application/yaml"}});
  EXPECT_EQ(twice.status(), 400);
  EXPECT_NE(message(twice).find("key \"bar\" already set in map"), std::string::npos);
}

TEST_F(Serving, WhenAM085To088TablesAreAsked_RowsCarryMetadata) {
  const testing::Fields table = {{"accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}};
  const krm::Json one = get(std::string(kMaps) + "/a", table).json();
  EXPECT_EQ(one.text({"kind"}), "Table");
  EXPECT_EQ(one.find("columnDefinitions")->items()[0].text({"name"}), "Name");
  const krm::Json& row = one.find("rows")->items()[0];
  EXPECT_EQ(row.find("cells")->items()[0].as_string(), "a");
  EXPECT_EQ(row.find("cells")->items()[1].as_integer(), 1);
  EXPECT_EQ(row.text({"object", "kind"}), "PartialObjectMetadata");
  const krm::Json list = get(std::string(kMaps) + "?limit=1&includeObject=None", table).json();
  EXPECT_EQ(list.find("rows")->size(), 1U);
  ASSERT_NE(list.find("rows")->items()[0].find("object"), nullptr);
  EXPECT_TRUE(list.find("rows")->items()[0].find("object")->is_null());
  Exchange bad = get(std::string(kMaps) + "?includeObject=Foo", table);
  EXPECT_EQ(message(bad),
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must "
            "be 'Metadata', 'Object', 'None', or empty");
  Exchange missing = get(std::string(kMaps) + "/none", table);
  EXPECT_EQ(missing.json().text({"kind"}), "Status");
}

TEST_F(Serving, WhenAM092To094MetadataIsAsked_NothingElseComes) {
  const testing::Fields item = {
      {"accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}};
  const testing::Fields list = {
      {"accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}};
  const krm::Json one = get(std::string(kMaps) + "/a", item).json();
  EXPECT_EQ(one.text({"kind"}), "PartialObjectMetadata");
  EXPECT_EQ(one.find("data"), nullptr);
  EXPECT_NE(one.at({"metadata", "managedFields"}), nullptr);
  const krm::Json many = get(kMaps, list).json();
  EXPECT_EQ(many.text({"kind"}), "PartialObjectMetadataList");
  EXPECT_EQ(many.find("items")->items()[0].text({"apiVersion"}), "meta.k8s.io/v1");
  EXPECT_TRUE(get(std::string(kMaps) + "?labelSelector=no", list).json().find("items")->is_null());
  EXPECT_EQ(message(get(std::string(kMaps) + "/a", list)),
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*core.ConfigMap)");
  EXPECT_EQ(get(kMaps, item).status(), 406);
}

TEST_F(Serving, WhenAM096PrettyIsAsked_IsIndented) {
  const std::string plain = get(std::string(kMaps) + "/a").body();
  EXPECT_TRUE(plain.ends_with("}\n"));
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 1);
  const std::string pretty = get(std::string(kMaps) + "/a?pretty=true").body();
  EXPECT_TRUE(pretty.starts_with("{\n  \""));
  EXPECT_FALSE(pretty.ends_with("\n"));
}

TEST_F(Serving, WhenAM103To109DiscoveryIsRead_NamesWhatIsServed) {
  const krm::Json api = get("/api").json();
  EXPECT_EQ(api.find("versions")->dump(), "[\"v1\"]");
  EXPECT_EQ(api.find("apiVersion"), nullptr);
  const krm::Json groups = get("/apis").json();
  EXPECT_EQ(groups.text({"kind"}), "APIGroupList");
  ASSERT_NE(named(groups, "groups", "ex.io"), nullptr);
  EXPECT_EQ(named(groups, "groups", "ex.io")->text({"preferredVersion", "groupVersion"}),
            "ex.io/v1");
  EXPECT_EQ(get("/apis/ex.io").json().text({"kind"}), "APIGroup");
  const krm::Json core = get("/api/v1").json();
  EXPECT_EQ(core.find("apiVersion"), nullptr);
  ASSERT_NE(named(core, "resources", "configmaps"), nullptr);
  EXPECT_EQ(named(core, "resources", "configmaps")->find("shortNames")->dump(), "[\"cm\"]");
  EXPECT_EQ(named(core, "resources", "namespaces/finalize")->find("verbs")->dump(), "[\"update\"]");
  const krm::Json widgets = get("/apis/ex.io/v1").json();
  EXPECT_EQ(named(widgets, "resources", "widgets")->text({"storageVersionHash"}), "RDFwhYKgK0s=");
  EXPECT_EQ(named(widgets, "resources", "widgets/scale")->text({"group"}), "autoscaling");
  EXPECT_EQ(named(widgets, "resources", "widgets/status")->text({"singularName"}), "");
  EXPECT_EQ(server.send("HEAD", "/apis").status(), 200);
}

TEST_F(Serving, WhenAM110To113AggregatedDiscoveryIsRead_HasATag) {
  const std::string v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
  Exchange first = get("/apis", {{"accept", v2 + ",application/json"}});
  EXPECT_EQ(first.json().text({"apiVersion"}), "apidiscovery.k8s.io/v2");
  EXPECT_EQ(first.header("content-type"), v2);
  EXPECT_EQ(first.header("cache-control"), "public");
  EXPECT_EQ(first.header("vary"), "Accept");
  const std::string tag(first.header("etag"));
  Exchange same = get("/apis", {{"accept", v2}, {"if-none-match", tag}});
  EXPECT_EQ(same.status(), 304);
  EXPECT_EQ(same.body(), "");
  EXPECT_EQ(get("/apis", {{"accept", v2}, {"if-none-match", "W/" + tag}}).status(), 200);
  EXPECT_EQ(get("/api", {{"accept", v2}}).json().find("items")->size(), 1U);
  const std::string v9 = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
  EXPECT_EQ(get("/apis", {{"accept", v9}}).status(), 406);
  EXPECT_EQ(get("/apis", {{"accept", v9 + ",application/json"}}).json().text({"kind"}),
            "APIGroupList");
}

TEST_F(Serving, WhenAM117To122HealthIsAsked_AnswersText) {
  for (const char* path : {"/healthz", "/livez", "/readyz", "/livez/ping"}) {
    Exchange ok = get(path);
    EXPECT_EQ(ok.status(), 200) << path;
    EXPECT_EQ(ok.body(), "ok") << path;
    EXPECT_EQ(ok.header("content-type"), "text/plain; charset=utf-8");
  }
  const std::string verbose = get("/readyz?verbose&exclude=store-write").body();
  EXPECT_TRUE(verbose.starts_with("[+]ping ok\n"));
  EXPECT_NE(verbose.find("[+]store-write excluded: ok\n"), std::string::npos);
  EXPECT_TRUE(verbose.ends_with("readyz check passed\n"));
  EXPECT_EQ(get("/livez/none").status(), 404);
  const krm::Json version = get("/version").json();
  EXPECT_EQ(version.text({"major"}), "1");
  EXPECT_TRUE(version.text({"gitVersion"}).starts_with("v1."));
}

TEST_F(Serving, WhenAM354DefinitionsComeAndGo_TheyAreServedWhileEstablished) {
  server.registry().follow(server.server());
  const char* crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const Expected<krm::Json> crd = krm::Json::parse(R"({"apiVersion":"apiextensions.k8s.io/v1",
    "kind":"CustomResourceDefinition","metadata":{"name":"cogs.ex3.io"},"spec":{"group":"ex3.io",
    "scope":"Namespaced","names":{"plural":"cogs","singular":"cog","kind":"Cog","listKind":"CogList"},
    "versions":[{"name":"v1","served":true,"storage":true,
      "schema":{"openAPIV3Schema":{"type":"object"}}}]}})");
  ASSERT_TRUE(crd);
  Exchange made = server.send("POST", crds, *crd);
  ASSERT_EQ(made.status(), 201) << made.body();
  EXPECT_EQ(get("/apis/ex3.io/v1/cogs").status(), 404);
  const std::string tag = std::to_string(server.registry().generation("lc"));
  Exchange established = server.send(
      "PATCH", std::string(crds) + "/cogs.ex3.io/status",
      std::string_view(
          R"({"status":{"acceptedNames":{"plural":"cogs","kind":"Cog"},"storedVersions":["v1"],
        "conditions":[{"type":"Established","status":"True","reason":"x","message":"",
                       "lastTransitionTime":"2026-01-01T00:00:00Z"}]}})"),
      {{"content-type", "application/merge-patch+json"}});
  ASSERT_EQ(established.status(), 200) << established.body();
  EXPECT_EQ(get("/apis/ex3.io/v1/cogs").status(), 200);
  EXPECT_EQ(get("/clusters/other/apis/ex3.io/v1/cogs").status(), 404);
  EXPECT_NE(std::to_string(server.registry().generation("lc")), tag);
  Exchange stream = get("/apis/ex3.io/v1/cogs?watch=1");
  EXPECT_EQ(server
                .send("PATCH", std::string(crds) + "/cogs.ex3.io",
                      std::string_view(R"({"metadata":{"labels":{"a":"b"}}})"),
                      {{"content-type", "application/merge-patch+json"}})
                .status(),
            200);
  EXPECT_FALSE(stream.stream().ended);
  EXPECT_EQ(server.send("DELETE", std::string(crds) + "/cogs.ex3.io").status(), 200);
  EXPECT_EQ(server.send("PATCH", std::string(crds) + "/cogs.ex3.io",
                        std::string_view(R"({"metadata":{"finalizers":null}})"),
                        {{"content-type", "application/merge-patch+json"}})
                    .status() /
                100 % 2,
            0);
  EXPECT_TRUE(stream.stream().ended);
  EXPECT_EQ(get("/apis/ex3.io/v1/cogs").status(), 404);
}

}  // namespace
}  // namespace kintsugi::apiserver
