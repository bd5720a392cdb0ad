// Kinds of CustomResourceDefinitions over a whole server (AM-380 to AM-389, AM-390 to AM-405).
#include <gtest/gtest.h>

#include "apiserver/keys.h"
#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr const char* kMerge = "application/merge-patch+json";

Json parse(std::string_view text) {
  Expected<Json> json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

/// An object with properties of spec.
Json schema(std::string_view properties, std::string_view status = "{}") {
  Json out = parse(R"({"type":"object","properties":{"spec":{"type":"object"},
                       "status":{"type":"object"}}})");
  out.make({"properties", "spec", "properties"}) = parse(properties);
  out.make({"properties", "status", "properties"}) = parse(status);
  return out;
}

Json version(std::string_view name, bool storage, Json its_schema) {
  Json out = Json::object({{"name", name}, {"served", true}, {"storage", storage}});
  out.make({"schema", "openAPIV3Schema"}) = std::move(its_schema);
  return out;
}

class CustomKinds : public ::testing::Test {
 protected:
  CustomKinds() : server(kinds::builtin_kinds(), "lc") {
    server.registry().follow(server.server());
    Json ns = Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }

  /// Makes and establishes cogs.ex.io.
  void define(std::initializer_list<Json> versions, const char* scope = "Namespaced") {
    Json crd = parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
      "metadata":{"name":"cogs.ex.io"},"spec":{"group":"ex.io",
      "names":{"plural":"cogs","singular":"cog","kind":"Cog","listKind":"CogList"}}})");
    crd.make({"spec", "scope"}) = scope;
    Json& list = crd.make({"spec", "versions"}) = Json::array();
    for (const Json& each : versions) {
      list.push_back(each);
    }
    Exchange made = server.send("POST", kDefinitions, crd);
    ASSERT_EQ(made.status(), 201) << made.body();
    set_condition("Established");
  }
  void set_condition(const char* type) {
    Json status = parse(R"({"status":{"acceptedNames":{"plural":"cogs","singular":"cog",
      "kind":"Cog","listKind":"CogList"},"conditions":[{"type":"Established","status":"True",
      "reason":"x","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})");
    if (std::string_view(type) != "Established") {
      Json more = status.at({"status", "conditions"})->items()[0];
      more["type"] = type;
      status.at({"status", "conditions"})->push_back(more);
    }
    patch(std::string(kDefinitions) + "/cogs.ex.io/status", status.dump());
  }
  /// Changes versions of the definition.
  void redefine(std::initializer_list<Json> versions) {
    Json change = Json::object();
    Json& list = change.make({"spec", "versions"}) = Json::array();
    for (const Json& each : versions) {
      list.push_back(each);
    }
    patch(std::string(kDefinitions) + "/cogs.ex.io", change.dump());
  }
  Exchange patch(const std::string& target, std::string_view body) {
    Exchange done = server.send("PATCH", target, body, {{"content-type", kMerge}});
    EXPECT_EQ(done.status(), 200) << done.body();
    return done;
  }
  static std::string path(std::string_view version, std::string_view name = "") {
    std::string out = "/apis/ex.io/" + std::string(version) + "/namespaces/t1/cogs";
    return name.empty() ? out : out + "/" + std::string(name);
  }
  static Json cog(std::string_view version, std::string_view name, std::string_view spec) {
    Json out = Json::object({{"apiVersion", "ex.io/" + std::string(version)}, {"kind", "Cog"}});
    out.make({"metadata", "name"}) = name;
    out["spec"] = parse(spec);
    return out;
  }
  Exchange create(std::string_view version, std::string_view name, std::string_view spec) {
    return server.send("POST", path(version), cog(version, name, spec));
  }
  /// spec of an answer.
  static std::string spec(const Exchange& exchange) {
    const Json object = exchange.json();
    const Json* found = object.find("spec");
    return found == nullptr ? exchange.body() : found->dump();
  }
  Exchange get(const std::string& target) { return server.send("GET", target); }

  FakeServer server;
};

TEST_F(CustomKinds, WhenTheSchemaChanges_AM394_ReadsFollowAndStoredBytesStayUntilAWrite) {
  define({version("v1", true, schema(R"({"a":{"type":"string"},"b":{"type":"string"}})"))});
  ASSERT_EQ(create("v1", "x", R"({"a":"1","b":"2"})").status(), 201);
  const std::string before(get(path("v1", "x")).json().text({"metadata", "resourceVersion"}));
  redefine({version("v1", true,
                    schema(R"({"a":{"type":"string"},"c":{"type":"string","default":"d"}})"))});
  Exchange read = get(path("v1", "x"));
  EXPECT_EQ(spec(read), R"({"a":"1","c":"d"})");
  EXPECT_EQ(read.json().text({"metadata", "resourceVersion"}), before);
  EXPECT_EQ(get(path("v1")).json().at({"items"})->items()[0].find("spec")->dump(),
            R"({"a":"1","c":"d"})");
  Exchange watch = get(path("v1") + "?watch=1");
  ASSERT_EQ(watch.events().size(), 1U);
  EXPECT_EQ(watch.events()[0].at({"object", "spec"})->dump(), R"({"a":"1","c":"d"})");
  // Back to the old schema: nothing is lost, because nobody has written.
  redefine({version("v1", true, schema(R"({"a":{"type":"string"},"b":{"type":"string"}})"))});
  EXPECT_EQ(spec(get(path("v1", "x"))), R"({"a":"1","b":"2"})");
  redefine({version("v1", true, schema(R"({"a":{"type":"string"}})"))});
  Exchange written = patch(path("v1", "x"), R"({"metadata":{"labels":{"l":"1"}}})");
  EXPECT_EQ(spec(written), R"({"a":"1"})");
  redefine({version("v1", true, schema(R"({"a":{"type":"string"},"b":{"type":"string"}})"))});
  EXPECT_EQ(spec(get(path("v1", "x"))), R"({"a":"1"})");
}

TEST_F(CustomKinds, WhenTheStatusHasADefault_AM556_ItIsThereUntilSomebodyWritesOne) {
  Json its = schema(R"({"a":{"type":"string"}})", R"({"seen":{"type":"integer"}})");
  its.make({"properties", "status", "default", "seen"}) = -1;
  Json v1 = version("v1", true, its);
  v1.make({"subresources", "status"}) = Json::object();
  define({v1});
  Json thing = cog("v1", "x", R"({"a":"1"})");
  thing.make({"status", "seen"}) = 9;  // not through this endpoint
  const auto seen = [](const Exchange& exchange) {
    const Json object = exchange.json();
    const Json* status = object.find("status");
    return status == nullptr ? exchange.body() : status->dump();
  };
  EXPECT_EQ(seen(server.send("POST", path("v1") + "?dryRun=All", thing)), R"({"seen":-1})");
  EXPECT_EQ(seen(server.send("POST", path("v1"), thing)), R"({"seen":-1})");
  EXPECT_EQ(seen(get(path("v1", "x"))), R"({"seen":-1})");
  EXPECT_EQ(seen(patch(path("v1", "x"), R"({"spec":{"a":"2"}})")), R"({"seen":-1})");
  EXPECT_EQ(seen(patch(path("v1", "x") + "/status", R"({"status":{"seen":2}})")), R"({"seen":2})");
  EXPECT_EQ(seen(patch(path("v1", "x"), R"({"spec":{"a":"3"},"status":null})")), R"({"seen":2})");
}

TEST_F(CustomKinds, WhenNothingButTheSchemaChanged_AM394_AWriteBringsTheBytesUpToDate) {
  define({version("v1", true, schema(R"({"a":{"type":"string"},"b":{"type":"string"}})"))});
  ASSERT_EQ(create("v1", "x", R"({"a":"1","b":"2"})").status(), 201);
  const std::string first(get(path("v1", "x")).json().text({"metadata", "resourceVersion"}));
  EXPECT_EQ(patch(path("v1", "x"), "{}").json().text({"metadata", "resourceVersion"}), first);
  redefine({version("v1", true, schema(R"({"a":{"type":"string"}})"))});
  const std::string second(
      patch(path("v1", "x"), "{}").json().text({"metadata", "resourceVersion"}));
  EXPECT_NE(second, first);
  EXPECT_EQ(patch(path("v1", "x"), "{}").json().text({"metadata", "resourceVersion"}), second);
}

TEST_F(CustomKinds, WhenVersionsDiffer_AM396_FieldsOfOthersArePrunedAndIdentityStays) {
  define({version("v1beta1", true,
                  schema(R"({"a":{"type":"string"},"old":{"type":"string","default":"o"}})")),
          version("v1", false,
                  schema(R"({"a":{"type":"string"},"new":{"type":"string","default":"n"}})"))});
  ASSERT_EQ(create("v1beta1", "x", R"({"a":"1","old":"2"})").status(), 201);
  Exchange stored = get(path("v1beta1", "x"));
  Exchange read = get(path("v1", "x"));
  EXPECT_EQ(read.json().text({"apiVersion"}), "ex.io/v1");
  EXPECT_EQ(spec(read), R"({"a":"1"})");  // defaults are those of the version that it lies in
  for (const char* member : {"uid", "resourceVersion", "creationTimestamp"}) {
    EXPECT_EQ(read.json().text({"metadata", member}), stored.json().text({"metadata", member}));
  }
  EXPECT_EQ(read.json().at({"metadata", "managedFields"})->items()[0].text({"apiVersion"}),
            "ex.io/v1beta1");
  EXPECT_EQ(spec(stored), R"({"a":"1","old":"2"})");
  // A write at v1 keeps what v1beta1 knows, and nothing else.
  Exchange made = create("v1", "y", R"({"a":"1","new":"x"})");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(spec(made), R"({"a":"1"})");
  EXPECT_EQ(spec(get(path("v1beta1", "y"))), R"({"a":"1","old":"o"})");
  EXPECT_EQ(create("v1", "z", R"({"new":5})").status(), 422);
}

TEST_F(CustomKinds, WhenTheStorageVersionMoves_AM378_ObjectsOfBothAreReadAndWrittenOnes_Move) {
  const Json fields = schema(R"({"a":{"type":"string"}})");
  define({version("v1beta1", true, fields), version("v1", false, fields)});
  ASSERT_EQ(create("v1beta1", "x", R"({"a":"1"})").status(), 201);
  const std::string first(get(path("v1", "x")).json().text({"metadata", "resourceVersion"}));
  redefine({version("v1beta1", false, fields), version("v1", true, fields)});
  EXPECT_EQ(spec(get(path("v1", "x"))), R"({"a":"1"})");
  EXPECT_EQ(spec(get(path("v1beta1", "x"))), R"({"a":"1"})");
  const Json crd = get(std::string(kDefinitions) + "/cogs.ex.io").json();
  EXPECT_EQ(crd.at({"status", "storedVersions"})->dump(), R"(["v1beta1","v1"])");
  // The write that migrates: nothing changes but the version that it lies in.
  EXPECT_NE(patch(path("v1", "x"), "{}").json().text({"metadata", "resourceVersion"}), first);
}

TEST_F(CustomKinds, WhenWatchedAtAnotherVersion_AM398_EventsAreOfThatVersion) {
  const Json fields = schema(R"({"a":{"type":"string"}})");
  define({version("v1beta1", true, fields), version("v1", false, fields)});
  Exchange watch = get(path("v1") + "?watch=1");
  ASSERT_EQ(create("v1beta1", "x", R"({"a":"1"})").status(), 201);
  EXPECT_EQ(server.send("DELETE", path("v1beta1", "x")).status(), 200);
  ASSERT_TRUE(server.run_until([&] { return watch.events().size() == 2; }));
  EXPECT_EQ(watch.events()[0].text({"object", "apiVersion"}), "ex.io/v1");
  EXPECT_EQ(watch.events()[1].text({"type"}), "DELETED");
  EXPECT_EQ(watch.events()[1].text({"object", "apiVersion"}), "ex.io/v1");
}

TEST_F(CustomKinds, WhenUpdated_AM395_UntouchedFaultsAreAccepted) {
  define({version("v1", true, schema(R"({"a":{"type":"string"},"b":{"type":"string"}})"))});
  ASSERT_EQ(create("v1", "x", R"({"a":"1","b":"w"})").status(), 201);
  redefine({version("v1", true,
                    schema(R"({"a":{"type":"string"},"b":{"type":"string","pattern":"^z"}})"))});
  patch(path("v1", "x"), R"({"spec":{"a":"2"}})");
  Exchange refused =
      server.send("PATCH", path("v1", "x"), std::string_view(R"({"spec":{"b":"q"}})"),
                  {{"content-type", kMerge}});
  EXPECT_EQ(refused.status(), 422);
  EXPECT_EQ(refused.json().text({"message"}),
            "Cog.ex.io \"x\" is invalid: spec.b: Invalid value: \"q\": spec.b in body should match "
            "'^z'");
}

TEST_F(CustomKinds, WhenTheDefinitionChanges_AM310_AM387_WatchesEndAndResumeAndRequestsFollow) {
  define({version("v1", true, schema(R"({"a":{"type":"string"}})"))});
  ASSERT_EQ(create("v1", "x", R"({"a":"1"})").status(), 201);
  Exchange watch = get(path("v1") + "?watch=1");
  ASSERT_EQ(watch.events().size(), 1U);
  const std::string last(watch.events()[0].text({"object", "metadata", "resourceVersion"}));
  EXPECT_EQ(spec(create("v1", "y", R"({"b":1})")), "{}");
  redefine({version("v1", true, schema(R"({"b":{"type":"integer"}})"))});
  EXPECT_TRUE(watch.stream().ended);
  EXPECT_FALSE(watch.stream().was_reset);
  EXPECT_EQ(spec(create("v1", "z", R"({"b":1})")), R"({"b":1})");
  Exchange resumed = get(path("v1") + "?watch=1&resourceVersion=" + last);
  ASSERT_TRUE(server.run_until([&] { return resumed.events().size() == 2; }));
  EXPECT_EQ(resumed.events()[0].text({"object", "metadata", "name"}), "y");
  EXPECT_EQ(resumed.events()[1].text({"object", "metadata", "name"}), "z");
}

TEST_F(CustomKinds, WhenTheDefinitionTerminates_AM311_AM385_NothingIsCreatedAndWatchersSeeTheEnd) {
  define({version("v1", true, schema(R"({"a":{"type":"string"}})"))});
  ASSERT_EQ(create("v1", "x", R"({"a":"1"})").status(), 201);
  Exchange watch = get(path("v1") + "?watch=1");
  Exchange deleted = server.send("DELETE", std::string(kDefinitions) + "/cogs.ex.io");
  EXPECT_EQ(deleted.status(), 200);
  EXPECT_EQ(deleted.json().at({"metadata", "finalizers"})->dump(),
            R"(["customresourcecleanup.apiextensions.k8s.io"])");
  set_condition("Terminating");
  Exchange refused = create("v1", "g2", "{}");
  EXPECT_EQ(refused.status(), 403);
  EXPECT_EQ(refused.json().text({"message"}),
            "cogs.ex.io \"g2\" is forbidden: create not allowed while custom resource definition "
            "is terminating");
  EXPECT_EQ(get("/apis/ex.io/v1").json().at({"resources"})->items()[0].at({"verbs"})->dump(),
            R"(["delete","deletecollection","get","list","watch"])");
  patch(path("v1", "x"), R"({"spec":{"a":"2"}})");
  EXPECT_FALSE(watch.stream().ended);
  EXPECT_EQ(server.send("DELETE", path("v1", "x")).status(), 200);
  static_cast<void>(server.send("PATCH", std::string(kDefinitions) + "/cogs.ex.io",
                                std::string_view(R"({"metadata":{"finalizers":null}})"),
                                {{"content-type", kMerge}}));
  ASSERT_TRUE(server.run_until([&] { return watch.stream().ended; }));
  ASSERT_EQ(watch.events().size(), 3U);
  EXPECT_EQ(watch.events()[2].text({"type"}), "DELETED");
  EXPECT_EQ(get(path("v1") + "?watch=1").status(), 404);
}

TEST_F(CustomKinds, WhenTheDefinitionGoesWhileAnObjectIsOnItsWay_AM385_NothingIsLeftBehind) {
  define({version("v1", true, schema("{}"))}, "Cluster");
  const std::string key = *object_key(
      stored_resource("apiextensions.k8s.io", "customresourcedefinitions"), "lc", "", "cogs.ex.io");
  const auto make = [&] {
    return server.send("POST", "/apis/ex.io/v1/cogs", cog("v1", "x", "{}"));
  };
  server.store().meanwhile([&] { testing::mark_deleted(server.store(), key); });
  Exchange late = make();
  EXPECT_EQ(late.status(), 403) << late.body();
  server.settle();
  server.store().meanwhile([&] {
    ASSERT_TRUE(server.store().commit_wait({{store::EventType::kDelete, key, "", {}, {}}}));
  });
  Exchange later = make();
  EXPECT_EQ(later.status(), 404);
  EXPECT_EQ(later.json().text({"message"}), "the server could not find the requested resource");
  const auto left = server.store().count({collection_prefix("cogs.ex.io", "lc", ""), "", 0});
  EXPECT_EQ(left.value_or(9), 0U);
}

TEST_F(CustomKinds, WhenClusterScopedOrNamespaced_AM402_AM403_OnlyTheRightPathsExist) {
  define({version("v1", true, schema("{}"))}, "Cluster");
  EXPECT_EQ(server.send("POST", "/apis/ex.io/v1/cogs", cog("v1", "x", "{}")).status(), 201);
  EXPECT_EQ(get("/apis/ex.io/v1/cogs/x").status(), 200);
  EXPECT_EQ(get(path("v1", "x")).status(), 404);
  EXPECT_EQ(get(path("v1")).status(), 404);
}

TEST_F(CustomKinds, WhenNamespaced_AM403_CreateNeedsANamespace) {
  define({version("v1", true, schema("{}"))});
  const int status = server.send("POST", "/apis/ex.io/v1/cogs", cog("v1", "x", "{}")).status();
  EXPECT_TRUE(status == 404 || status == 405) << status;
  EXPECT_EQ(get("/apis/ex.io/v1/cogs").status(), 200);
}

TEST_F(CustomKinds, WhenFieldsAreSelectable_AM258_AM259_AbsentIsEmptyAndOthersAreJsonText) {
  Json v1 = version("v1", true, schema(R"({"color":{"type":"string"},"on":{"type":"boolean"},
                                           "size":{"type":"integer"},"free":{"type":"string"}})"));
  v1["selectableFields"] =
      parse(R"([{"jsonPath":".spec.color"},{"jsonPath":".spec.on"},{"jsonPath":".spec.size"}])");
  define({v1});
  ASSERT_EQ(create("v1", "a", R"({"color":"red","on":true,"size":7})").status(), 201);
  ASSERT_EQ(create("v1", "b", "{}").status(), 201);
  const auto names = [&](const std::string& selector) {
    Exchange listed = get(path("v1") + "?fieldSelector=" + selector);
    const Json list = listed.json();
    std::string out;
    if (const Json* items = list.find("items")) {
      for (const Json& item : items->items()) {
        out += item.text({"metadata", "name"});
      }
    }
    return listed.status() == 200 ? out : std::string(list.text({"message"}));
  };
  EXPECT_EQ(names("spec.color=red"), "a");
  EXPECT_EQ(names("spec.color="), "b");
  EXPECT_EQ(names("spec.color!=red"), "b");
  EXPECT_EQ(names("spec.on=true"), "a");
  EXPECT_EQ(names("spec.size=7"), "a");
  EXPECT_EQ(names("spec.free=x"), "field label not supported: spec.free");
}

TEST_F(CustomKinds, WhenStatusIsWritten_OnlyItsOwnSchemaSpeaksOfPlacesInIt) {
  Json v1 = version(
      "v1", true, schema(R"({"a":{"type":"string"}})", R"({"n":{"type":"integer","maximum":9}})"));
  v1.make({"subresources", "status"}) = Json::object();
  define({v1});
  ASSERT_EQ(create("v1", "x", "{}").status(), 201);
  Exchange refused =
      server.send("PATCH", path("v1", "x") + "/status", std::string_view(R"({"status":{"n":50}})"),
                  {{"content-type", kMerge}});
  EXPECT_EQ(
      refused.json().text({"message"}),
      "Cog.ex.io \"x\" is invalid: status.n: Invalid value: 50: n in body should be less than "
      "or equal to 9");
}

}  // namespace
}  // namespace kintsugi::apiserver
