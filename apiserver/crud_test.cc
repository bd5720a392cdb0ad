#include <gtest/gtest.h>

#include "apiserver/keys.h"
#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kWidgets = "/apis/ex.io/v1/namespaces/t1/widgets";

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(testing::widget_kind());
  return all;
}

krm::Json named(std::string_view api_version, std::string_view kind, std::string_view name) {
  krm::Json object = krm::Json::object({{"apiVersion", api_version}, {"kind", kind}});
  object["metadata"]["name"] = name;
  return object;
}

krm::Json widget(std::string_view name) { return named("ex.io/v1", "Widget", name); }

class Crud : public ::testing::Test {
 protected:
  Crud() : server(kinds(), "lc") {
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", named("v1", "Namespace", "t1")).status(),
              201);
  }
  Exchange patch(const std::string& target, std::string_view body,
                 const char* type = "application/merge-patch+json") {
    return server.send("PATCH", target, body, {{"content-type", type}});
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }

  FakeServer server;
};

TEST_F(Crud, WhenAM155ObjectIsCreated_ComesBackWithSystemFields) {
  Exchange made =
      server.send("POST", kMaps, config_map("a", {{"x", "1"}}), {{"user-agent", "u/1"}});
  EXPECT_EQ(made.status(), 201);
  const krm::Json object = made.json();
  EXPECT_EQ(object.text({"kind"}), "ConfigMap");
  EXPECT_EQ(object.text({"metadata", "namespace"}), "t1");
  EXPECT_EQ(object.text({"metadata", "uid"}).size(), 36U);
  EXPECT_EQ(object.text({"metadata", "creationTimestamp"}).size(), 20U);
  EXPECT_EQ(object.text({"metadata", "annotations", "kcp.io/cluster"}), "lc");
  EXPECT_EQ(object.text({"metadata", "resourceVersion"}), std::to_string(server.store().current()));
  EXPECT_EQ(object.at({"metadata", "managedFields"})->items()[0].text({"manager"}), "u");
  EXPECT_EQ(object.at({"metadata", "generation"}), nullptr);
  Exchange read = server.send("GET", std::string(kMaps) + "/a");
  EXPECT_EQ(read.status(), 200);
  EXPECT_EQ(read.json(), object);
  EXPECT_EQ(read.header("cache-control"), "no-cache, private");
  EXPECT_EQ(read.header("audit-id").size(), 36U);
}

TEST_F(Crud, WhenAM004NameIsTaken_IsConflict) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  Exchange again = server.send("POST", kMaps, config_map("a"));
  EXPECT_EQ(again.status(), 409);
  EXPECT_EQ(message(again), "configmaps \"a\" already exists");
  EXPECT_EQ(again.json().text({"details", "kind"}), "configmaps");
}

TEST_F(Crud, WhenAM156To158NamesAreOdd_GeneratesOrRefuses) {
  Exchange none =
      server.send("POST", kMaps, krm::Json::object({{"metadata", krm::Json::object()}}));
  EXPECT_EQ(none.status(), 422);
  EXPECT_EQ(message(none),
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is "
            "required");
  krm::Json faulty = krm::Json::object();
  faulty.make({"data", "."}) = "v";
  EXPECT_EQ(message(server.send("POST", kMaps, faulty)),
            "ConfigMap \"\" is invalid: [metadata.name: Required value: name or generateName is "
            "required, data[.]: Invalid value: \".\": must not be '.']");
  krm::Json generated = krm::Json::object();
  generated.make({"metadata", "generateName"}) = std::string(70, 'a');
  Exchange made = server.send("POST", kMaps, generated);
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().text({"metadata", "name"}).size(), 63U);
  EXPECT_EQ(made.json().text({"metadata", "generateName"}).size(), 70U);
  krm::Json versioned = config_map("v");
  versioned["metadata"]["resourceVersion"] = "5";
  Exchange refused = server.send("POST", kMaps, versioned);
  EXPECT_EQ(refused.status(), 500);
  EXPECT_EQ(message(refused), "resourceVersion should not be set on objects to be created");
}

TEST_F(Crud, WhenAM159NamespaceIsAbsent_IsNotFound) {
  Exchange made = server.send("POST", "/api/v1/namespaces/nons/configmaps", config_map("a"));
  EXPECT_EQ(made.status(), 404);
  EXPECT_EQ(message(made), "namespaces \"nons\" not found");
}

TEST_F(Crud, WhenAM160NamespaceTerminates_RefusesNewContent) {
  Exchange deleted = server.send("DELETE", "/api/v1/namespaces/t1");
  EXPECT_EQ(deleted.status(), 200);
  EXPECT_EQ(deleted.json().text({"status", "phase"}), "Terminating");
  EXPECT_EQ(deleted.json().at({"metadata", "deletionGracePeriodSeconds"}), nullptr);
  Exchange made = server.send("POST", kMaps, config_map("a"));
  EXPECT_EQ(made.status(), 403);
  EXPECT_EQ(message(made),
            "configmaps \"a\" is forbidden: unable to create new content in namespace t1 because "
            "it is being terminated");
  EXPECT_EQ(made.json().at({"details", "causes"})->items()[0].text({"reason"}),
            "NamespaceTerminating");
}

TEST_F(Crud, WhenAM160TheNamespaceGoesWhileAnObjectIsOnItsWay_ItIsRefusedAndNotStored) {
  const std::string key = *object_key("namespaces", "lc", "", "t1");
  server.store().meanwhile([&] { testing::mark_deleted(server.store(), key); });
  Exchange late = server.send("POST", kMaps, config_map("a"));
  EXPECT_EQ(late.status(), 403);
  EXPECT_EQ(late.json().at({"details", "causes"})->items()[0].text({"reason"}),
            "NamespaceTerminating");
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a").status(), 404);
}

TEST_F(Crud, WhenAM159TheNamespaceIsGoneBeforeTheObjectIsStored_IsNotFound) {
  const std::string key = *object_key("namespaces", "lc", "", "t1");
  server.store().meanwhile([&] {
    ASSERT_TRUE(server.store().commit_wait({{store::EventType::kDelete, key, "", {}, {}}}));
  });
  Exchange late = server.send("POST", kMaps, config_map("a"));
  EXPECT_EQ(late.status(), 404);
  EXPECT_EQ(message(late), "namespaces \"t1\" not found");
}

TEST_F(Crud, WhenTheNamespaceOnlyChangesMeanwhile_TheObjectIsStored) {
  const std::string key = *object_key("namespaces", "lc", "", "t1");
  server.store().meanwhile([&] {
    const std::string value(server.store().get(key)->value.view());
    ASSERT_TRUE(server.store().commit_wait({{store::EventType::kPut, key, value, {}, {}}}));
  });
  EXPECT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
}

TEST_F(Crud, WhenAM339FinalizeEmptiesATerminatingNamespace_ItGoes) {
  ASSERT_EQ(server.send("DELETE", "/api/v1/namespaces/t1").status(), 200);
  krm::Json object = named("v1", "Namespace", "t1");
  object.make({"spec", "finalizers"}) = krm::Json::array();
  EXPECT_EQ(server.send("PUT", "/api/v1/namespaces/t1/finalize", object).status(), 200);
  EXPECT_EQ(server.send("GET", "/api/v1/namespaces/t1").status(), 404);
}

TEST_F(Crud, WhenAM161DryRunIsAsked_NothingIsStored) {
  const store::Revision before = server.store().current();
  Exchange made = server.send("POST", std::string(kMaps) + "?dryRun=All", config_map("a"));
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().at({"metadata", "resourceVersion"}), nullptr);
  EXPECT_EQ(server.store().current(), before);
}

TEST_F(Crud, WhenAM166SystemFieldsAreSent_AreDropped) {
  krm::Json object = config_map("a");
  object["metadata"]["uid"] = "mine";
  object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z";
  object["metadata"]["selfLink"] = "/x";
  Exchange made = server.send("POST", kMaps, object);
  EXPECT_EQ(made.status(), 201);
  EXPECT_NE(made.json().text({"metadata", "uid"}), "mine");
  EXPECT_FALSE(made.json().text({"metadata", "creationTimestamp"}).starts_with("2001"));
  EXPECT_EQ(made.json().at({"metadata", "selfLink"}), nullptr);
}

TEST_F(Crud, WhenAM138To144BodiesDoNotFitThePath_AreBadRequests) {
  Exchange kind = server.send("POST", kMaps, named("v1", "Secret", "a"));
  EXPECT_EQ(kind.status(), 400);
  EXPECT_TRUE(
      message(kind).starts_with("Secret in version \"v1\" cannot be handled as a ConfigMap: "));
  krm::Json other = config_map("a");
  other["metadata"]["namespace"] = "other";
  EXPECT_EQ(
      message(server.send("POST", kMaps, other)),
      "the namespace of the provided object does not match the namespace sent on the request");
  EXPECT_EQ(message(server.send("POST", kMaps, std::string_view("[]"))).substr(0, 62),
            "the object provided is unrecognized (must be of type ConfigMap");
  Exchange empty = server.send("POST", kMaps, std::string_view("{"));
  EXPECT_EQ(empty.status(), 400);
  ASSERT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  const std::string item = std::string(kMaps) + "/a";
  EXPECT_EQ(message(server.send("PUT", item, config_map("zz"))),
            "the name of the object (zz) does not match the name on the URL (a)");
  EXPECT_EQ(message(server.send("PUT", item, krm::Json::object())),
            "the name of the object (a based on URL) was undeterminable: name must be provided");
  EXPECT_EQ(message(server.send("POST", kWidgets, named("", "Widget", "w"))),
            "the API version in the data () does not match the expected API version (ex.io/v1)");
  EXPECT_EQ(server.send("POST", kWidgets, named("ex.io/v1", "Gizmo", "w")).status(), 422);
}

TEST_F(Crud, WhenAM146To149FieldsAreUnknown_WarnsRefusesOrIsSilent) {
  krm::Json object = config_map("a");
  object["metadata"]["foo"] = 1;
  object["bar"] = 1;
  Exchange warned = server.send("POST", std::string(kMaps) + "?dryRun=All", object);
  EXPECT_EQ(warned.status(), 201);
  EXPECT_EQ(warned.json().find("bar"), nullptr);
  EXPECT_TRUE(warned.stream().headers.contains("warning"));
  Exchange ignored =
      server.send("POST", std::string(kMaps) + "?dryRun=All&fieldValidation=Ignore", object);
  EXPECT_EQ(ignored.status(), 201);
  EXPECT_FALSE(ignored.stream().headers.contains("warning"));
  Exchange strict =
      server.send("POST", std::string(kMaps) + "?dryRun=All&fieldValidation=Strict", object);
  EXPECT_EQ(strict.status(), 400);
  EXPECT_TRUE(message(strict).starts_with(
      "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: "));
}

TEST_F(Crud, WhenAM167To171VersionsAreSent_AreHeldAgainstTheStore) {
  Exchange made = server.send("POST", kMaps, config_map("a", {{"x", "1"}}));
  krm::Json object = made.json();
  object["data"]["x"] = "2";
  const std::string item = std::string(kMaps) + "/a";
  Exchange updated = server.send("PUT", item, object);
  EXPECT_EQ(updated.status(), 200);
  EXPECT_NE(updated.json().text({"metadata", "resourceVersion"}),
            object.text({"metadata", "resourceVersion"}));
  Exchange stale = server.send("PUT", item, object);
  EXPECT_EQ(stale.status(), 409);
  EXPECT_EQ(message(stale),
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; "
            "please apply your changes to the latest version and try again");
  EXPECT_EQ(server.send("PUT", item, config_map("a", {{"x", "3"}})).status(), 200);
  object["metadata"]["resourceVersion"] = "garbage";
  EXPECT_EQ(server.send("PUT", item, object).status(), 500);
  krm::Json foreign = config_map("a");
  foreign["metadata"]["uid"] = "foo";
  Exchange wrong = server.send("PUT", item, foreign);
  EXPECT_EQ(wrong.status(), 409);
  EXPECT_NE(
      message(wrong).find("Precondition failed: UID in precondition: foo, UID in object meta"),
      std::string::npos);
  ASSERT_EQ(server.send("POST", kWidgets, widget("w")).status(), 201);
  Exchange bare = server.send("PUT", std::string(kWidgets) + "/w", widget("w"));
  EXPECT_EQ(bare.status(), 422);
  EXPECT_EQ(message(bare),
            "widgets.ex.io \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be "
            "specified for an update");
}

TEST_F(Crud, WhenAM172ObjectIsAbsent_PutIsNotFoundOrCreates) {
  EXPECT_EQ(server.send("PUT", std::string(kMaps) + "/none", config_map("none")).status(), 404);
  const char* lease = "/apis/coordination.k8s.io/v1/namespaces/t1/leases/l";
  EXPECT_EQ(server.send("PUT", lease, named("coordination.k8s.io/v1", "Lease", "l")).status(), 201);
}

TEST_F(Crud, WhenAM173NothingChanges_TheVersionStays) {
  Exchange made = server.send("POST", kMaps, config_map("a", {{"x", "1"}}));
  const store::Revision before = server.store().current();
  Exchange same = server.send("PUT", std::string(kMaps) + "/a", made.json());
  EXPECT_EQ(same.status(), 200);
  EXPECT_EQ(same.json(), made.json());
  EXPECT_EQ(patch(std::string(kMaps) + "/a", "{}").status(), 200);
  EXPECT_EQ(server.store().current(), before);
}

TEST_F(Crud, WhenEverythingIsTakenAway_NobodyOwnsTheClusterAnnotation) {
  krm::Json object = config_map("a", {{"x", "1"}});
  object.make({"metadata", "annotations", "ex.io/a"}) = "1";
  ASSERT_EQ(server.send("POST", kMaps, object).status(), 201);
  Exchange bare = server.send("PUT", std::string(kMaps) + "/a", config_map("a"));
  EXPECT_EQ(bare.status(), 200);
  EXPECT_EQ(bare.json().at({"metadata", "managedFields"}), nullptr);
  EXPECT_EQ(bare.json().find("metadata")->find("annotations")->dump(),
            R"({"kcp.io/cluster":"lc"})");
}

TEST_F(Crud, WhenAM174And175PatchesTouchSystemFields_AreRefusedOrIgnored) {
  Exchange made = server.send("POST", kMaps, config_map("a"));
  const std::string item = std::string(kMaps) + "/a";
  EXPECT_EQ(patch(item, R"({"metadata":{"uid":"x"}})").status(), 422);
  Exchange deletion = patch(item, R"({"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}})");
  EXPECT_EQ(message(deletion),
            "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: "
            "\"2001-01-01T00:00:00Z\": field is immutable");
  Exchange ignored = patch(
      item,
      R"({"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z","generation":7,"uid":null}})");
  EXPECT_EQ(ignored.status(), 200);
  EXPECT_EQ(ignored.json(), made.json());
}

TEST_F(Crud, WhenAM177To179WidgetsAreWritten_StatusAndSpecStayApart) {
  krm::Json object = widget("w");
  object.make({"spec", "color"}) = "red";
  object.make({"status", "phase"}) = "ignored";
  Exchange made = server.send("POST", kWidgets, object);
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().find("status"), nullptr);
  EXPECT_EQ(made.json().at({"metadata", "generation"})->as_integer(), 1);
  EXPECT_EQ(made.json().at({"spec", "size"})->as_integer(), 3);
  const std::string item = std::string(kWidgets) + "/w";
  Exchange status = patch(item + "/status", R"({"status":{"phase":"Up"},"spec":{"color":"blue"},
                                               "metadata":{"labels":{"a":"b"}}})");
  EXPECT_EQ(status.status(), 200);
  EXPECT_EQ(status.json().text({"status", "phase"}), "Up");
  EXPECT_EQ(status.json().text({"spec", "color"}), "red");
  EXPECT_EQ(status.json().at({"metadata", "labels"}), nullptr);
  EXPECT_EQ(status.json().at({"metadata", "generation"})->as_integer(), 1);
  Exchange spec = patch(item, R"({"spec":{"color":"green"},"status":{"phase":"no"}})");
  EXPECT_EQ(spec.json().at({"metadata", "generation"})->as_integer(), 2);
  EXPECT_EQ(spec.json().text({"status", "phase"}), "Up");
  Exchange label = patch(item, R"({"metadata":{"labels":{"a":"b"}}})");
  EXPECT_EQ(label.json().at({"metadata", "generation"})->as_integer(), 2);
}

TEST_F(Crud, WhenAM180And181ScaleIsUsed_OnlyReplicasChange) {
  krm::Json object = widget("w");
  object.make({"spec", "replicas"}) = 2;
  ASSERT_EQ(server.send("POST", kWidgets, object).status(), 201);
  const std::string scale = std::string(kWidgets) + "/w/scale";
  Exchange read = server.send("GET", scale);
  EXPECT_EQ(read.json().text({"kind"}), "Scale");
  EXPECT_EQ(read.json().at({"spec", "replicas"})->as_integer(), 2);
  Exchange patched = patch(scale, R"({"spec":{"replicas":5}})");
  EXPECT_EQ(patched.status(), 200);
  EXPECT_EQ(patched.json().at({"spec", "replicas"})->as_integer(), 5);
  Exchange negative = patch(scale, R"({"spec":{"replicas":-1}})");
  EXPECT_EQ(negative.status(), 422);
  EXPECT_EQ(message(negative),
            "Widget.ex.io \"w\" is invalid: .spec.replicas: Invalid value: -1: should be a "
            "non-negative integer");
  ASSERT_EQ(server.send("POST", kWidgets, widget("bare")).status(), 201);
  Exchange absent = server.send("GET", std::string(kWidgets) + "/bare/scale");
  EXPECT_EQ(absent.status(), 500);
  Exchange nothing = patch(std::string(kWidgets) + "/bare/scale", R"({"status":{"replicas":3}})");
  EXPECT_EQ(nothing.status(), 400);
  EXPECT_EQ(message(nothing), "the spec replicas field \".spec.replicas\" cannot be empty");
  Exchange first = patch(std::string(kWidgets) + "/bare/scale", R"({"spec":{"replicas":3}})");
  EXPECT_EQ(first.status(), 200);
  EXPECT_EQ(first.json().at({"spec", "replicas"})->as_integer(), 3);
}

TEST_F(Crud, WhenAM182ObjectIsDeleted_AnswersSuccess) {
  Exchange made = server.send("POST", kMaps, config_map("a"));
  Exchange gone = server.send("DELETE", std::string(kMaps) + "/a");
  EXPECT_EQ(gone.status(), 200);
  EXPECT_EQ(gone.json().text({"status"}), "Success");
  EXPECT_EQ(gone.json().text({"details", "uid"}), made.json().text({"metadata", "uid"}));
  EXPECT_EQ(gone.json().text({"details", "kind"}), "configmaps");
  EXPECT_EQ(server.send("DELETE", std::string(kMaps) + "/a").status(), 404);
}

TEST_F(Crud, WhenAM183To185FinalizersHold_TheObjectStaysUntilTheyAreGone) {
  krm::Json object = config_map("a");
  object["metadata"]["finalizers"] = krm::Json::array({"a.b/c"});
  ASSERT_EQ(server.send("POST", kMaps, object).status(), 201);
  const std::string item = std::string(kMaps) + "/a";
  Exchange first = server.send("DELETE", item);
  EXPECT_NE(first.json().at({"metadata", "deletionTimestamp"}), nullptr);
  EXPECT_EQ(first.json().at({"metadata", "deletionGracePeriodSeconds"})->as_integer(), 0);
  EXPECT_EQ(server.send("DELETE", item).json(), first.json());
  EXPECT_EQ(message(server.send("POST", kMaps, config_map("a"))),
            "object is being deleted: configmaps \"a\" already exists");
  Exchange more = patch(item, R"({"metadata":{"finalizers":["a.b/c","d.e/f"]}})");
  EXPECT_EQ(message(more),
            "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be "
            "added if the object is being deleted, found new finalizers []string{\"d.e/f\"}");
  Exchange last = patch(item, R"({"metadata":{"finalizers":null}})");
  EXPECT_EQ(last.status(), 200);
  EXPECT_EQ(last.json().text({"metadata", "resourceVersion"}),
            first.json().text({"metadata", "resourceVersion"}));
  EXPECT_EQ(server.send("GET", item).status(), 404);
}

TEST_F(Crud, WhenAM186PropagationIsAsked_ItsFinalizerHolds) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  Exchange orphan = server.send("DELETE", std::string(kMaps) + "/a?propagationPolicy=Orphan");
  EXPECT_EQ(orphan.json().at({"metadata", "finalizers"})->dump(), "[\"orphan\"]");
  ASSERT_EQ(server.send("POST", kMaps, config_map("b")).status(), 201);
  Exchange foreground = server.send("DELETE", std::string(kMaps) + "/b",
                                    std::string_view(R"({"propagationPolicy":"Foreground"})"));
  EXPECT_EQ(foreground.json().at({"metadata", "finalizers"})->dump(), "[\"foregroundDeletion\"]");
}

TEST_F(Crud, WhenAM008And009PreconditionsFail_SaysWhich) {
  Exchange made = server.send("POST", kMaps, config_map("a"));
  const std::string item = std::string(kMaps) + "/a";
  Exchange uid = server.send("DELETE", item, std::string_view(R"({"preconditions":{"uid":"zz"}})"));
  EXPECT_EQ(uid.status(), 409);
  EXPECT_EQ(message(uid),
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (zz) "
            "does not match the UID in record (" +
                std::string(made.json().text({"metadata", "uid"})) +
                "). The object might have been deleted and then recreated");
  Exchange version =
      server.send("DELETE", item, std::string_view(R"({"preconditions":{"resourceVersion":"1"}})"));
  EXPECT_EQ(version.status(), 409);
  EXPECT_EQ(server.send("GET", item).status(), 200);
}

TEST_F(Crud, WhenAM189To191DeleteBodiesAreBad_NothingIsDeleted) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  const std::string item = std::string(kMaps) + "/a";
  EXPECT_EQ(
      server.send("DELETE", item, std::string_view(R"({"kind":"Foo","apiVersion":"v1"})")).status(),
      400);
  EXPECT_EQ(server.send("DELETE", item, std::string_view("{bad")).status(), 400);
  EXPECT_EQ(server.send("DELETE", item, std::string_view("{}"), {{"content-type", "text/plain"}})
                .status(),
            415);
  EXPECT_EQ(server.send("DELETE", item + "?gracePeriodSeconds=abc").status(), 400);
  EXPECT_EQ(server.send("DELETE", item + "?dryRun=All").status(), 200);
  EXPECT_EQ(server.send("GET", item).status(), 200);
}

TEST_F(Crud, WhenAM192And193CollectionIsDeleted_OnlyMatchesGo) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(server.send("POST", kMaps, config_map(name, {}, {{"k", name[0] == 'c' ? "w" : "v"}}))
                  .status(),
              201);
  }
  ASSERT_EQ(patch(std::string(kMaps) + "/b", R"({"metadata":{"finalizers":["a.b/c"]}})").status(),
            200);
  Exchange gone = server.send("DELETE", std::string(kMaps) + "?labelSelector=k%3Dv");
  EXPECT_EQ(gone.status(), 200);
  EXPECT_EQ(gone.json().text({"kind"}), "ConfigMapList");
  EXPECT_EQ(gone.json().find("items")->size(), 2U);
  const krm::Json left = server.send("GET", kMaps).json();
  ASSERT_EQ(left.find("items")->size(), 2U);
  EXPECT_NE(left.find("items")->items()[0].at({"metadata", "deletionTimestamp"}), nullptr);
  EXPECT_EQ(left.find("items")->items()[1].text({"metadata", "name"}), "c");
}

TEST_F(Crud, WhenAM194To204PatchesAreSent_ApplyOrSayWhy) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a", {{"a", "1"}})).status(), 201);
  const std::string item = std::string(kMaps) + "/a";
  const char* json = "application/json-patch+json; charset=utf-8";
  EXPECT_EQ(patch(item, R"([{"op":"add","path":"/data/y","value":"2"}])", json)
                .json()
                .text({"data", "y"}),
            "2");
  Exchange test = patch(item, R"([{"op":"test","path":"/data/y","value":"no"}])", json);
  EXPECT_EQ(test.status(), 422);
  EXPECT_EQ(message(test), "the server rejected our request due to an error in our request");
  EXPECT_EQ(patch(item, "[{", json).status(), 400);
  EXPECT_EQ(patch(item, "[1]").status(), 400);
  EXPECT_EQ(patch(item, R"({"data":{"y":5}})").status(), 422);
  EXPECT_EQ(patch(item, R"({"kind":"Secret"})").status(), 422);
  EXPECT_EQ(patch(item, R"({"kind":null})").status(), 200);
  EXPECT_EQ(patch(item, R"({"metadata":{"name":"b"}})").status(), 400);
  EXPECT_EQ(patch(item, R"({"metadata":{"resourceVersion":"1"}})").status(), 409);
  Exchange merged = patch(item, R"({"data":{"y":null,"z":"1"}})");
  EXPECT_EQ(merged.json().find("data")->dump(), R"({"a":"1","z":"1"})");
  Exchange forced = patch(std::string(kMaps) + "/none?force=true", "{}");
  EXPECT_EQ(message(forced),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for "
            "non-apply patch");
  EXPECT_EQ(patch(std::string(kMaps) + "/none", "{}").status(), 404);
  EXPECT_EQ(patch(item, "{}", "application/json").status(), 415);
  EXPECT_EQ(patch(item, R"({"bogus":1})").json().find("bogus"), nullptr);
  EXPECT_EQ(patch(item + "?fieldValidation=Strict", R"({"bogus":1})").status(), 422);
}

TEST_F(Crud, WhenAM205ManyPatchesRunAtOnce_AllAreThere) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a", {{"a", "1"}})).status(), 201);
  std::vector<Exchange> running;
  for (int i = 0; i < 200; ++i) {
    http::RequestHead head;
    head.method = "PATCH";
    head.target = std::string(kMaps) + "/a";
    head.headers.add("content-type", "application/json-patch+json");
    running.emplace_back(
        server.server(), std::move(head),
        R"([{"op":"add","path":"/data/k)" + std::to_string(i) + R"(","value":"v"}])");
  }
  ASSERT_TRUE(server.run_until([&] {
    for (Exchange& exchange : running) {
      if (!exchange.stream().ended) {
        return false;
      }
    }
    return true;
  }));
  for (const Exchange& exchange : running) {
    EXPECT_EQ(exchange.status(), 200);
  }
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a").json().find("data")->size(), 201U);
}

TEST_F(Crud, WhenAM059ObjectIsTooLarge_Is413) {
  Exchange made = server.send("POST", kWidgets, [] {
    krm::Json object = widget("big");
    object.make({"spec", "color"}) = std::string(1'600'000, 'x');
    return object;
  }());
  EXPECT_EQ(made.status(), 413);
  EXPECT_EQ(message(made), "Request entity too large: limit is 1572864");
}

TEST_F(Crud, WhenAM025BodyIsTooLarge_IsRefusedEarly) {
  Exchange announced =
      server.send("POST", kMaps, std::string_view("{}"), {{"content-length", "9999999"}});
  EXPECT_EQ(announced.status(), 413);
  const std::string huge(3'200'000, ' ');
  Exchange sent = server.send("POST", kMaps, std::string_view(huge));
  EXPECT_EQ(sent.status(), 413);
  EXPECT_EQ(message(sent), "Request entity too large: limit is 3145728");
  EXPECT_EQ(server.send("POST", kMaps, config_map("a"), {{"content-encoding", "gzip"}}).status(),
            415);
}

TEST_F(Crud, WhenControllersWrite_RulesHoldAndChangesAreHeard) {
  std::vector<std::string> heard;
  const auto handle = server.server().on_change("", "configmaps", [&](const ApiServer::Change& c) {
    heard.push_back(c.cluster + "/" + c.ns + "/" + c.name +
                    (c.object == nullptr     ? " gone"
                     : c.previous == nullptr ? " new"
                                             : " changed"));
  });
  const auto write = [&](ApiServer::WriteRequest request) {
    std::optional<Expected<krm::Json>> result;
    server.server().write(std::move(request),
                          [&](Expected<krm::Json> r) { result = std::move(r); });
    EXPECT_FALSE(result);  // later, never at once
    EXPECT_TRUE(server.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  };
  ApiServer::WriteRequest request;
  request.cluster = "lc";
  request.resource = "configmaps";
  request.ns = "t1";
  request.name = "c";
  request.what = ApiServer::CreateObject{config_map("c", {{"x", "1"}})};
  request.manager = "tester";
  ASSERT_TRUE(write(request));
  const auto exists = write(request);
  ASSERT_FALSE(exists);
  EXPECT_EQ(exists.error().code(), Errc::kAlreadyExists);
  request.what = ApiServer::UpdateObject{config_map("c", {{"x", "2"}}), ""};
  const auto updated = write(request);
  ASSERT_TRUE(updated);
  EXPECT_EQ(updated->text({"data", "x"}), "2");
  EXPECT_EQ(server.server().reader().get("lc", "", "configmaps", "t1", "c")->text({"data", "x"}),
            "2");
  request.what = ApiServer::DeleteObject{"other"};
  EXPECT_FALSE(write(request));
  request.what = ApiServer::DeleteObject{std::string(updated->text({"metadata", "uid"}))};
  EXPECT_TRUE(write(request));
  server.settle();
  EXPECT_EQ(heard, (std::vector<std::string>{"lc/t1/c new", "lc/t1/c changed", "lc/t1/c gone"}));
}

TEST_F(Crud, WhenTheStreamGoesInTheMiddle_TheServerGoesOn) {
  http::RequestHead head;
  head.method = "POST";
  head.target = kMaps;
  {
    Exchange exchange(server.server(), std::move(head), config_map("a").dump());
  }  // closed before the commit came back
  server.settle();
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a").status(), 200);
  EXPECT_EQ(server.server().stats().requests_running, 0U);
}

}  // namespace
}  // namespace kintsugi::apiserver
