#include <gtest/gtest.h>

#include <algorithm>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/structural.h"

/// Bodies and patches as clients send them: AM rows that crud_test.cc leaves out.
namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kMap = "/api/v1/namespaces/t1/configmaps/a";
constexpr const char* kAccounts = "/api/v1/namespaces/t1/serviceaccounts";
constexpr const char* kWidgets = "/apis/ex.io/v1/namespaces/t1/widgets";
constexpr const char* kLeases = "/apis/coordination.k8s.io/v1/namespaces/t1/leases";

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(testing::widget_kind());
  auto blob = std::make_shared<ResourceDef>(*testing::widget_kind());
  blob->plural = "blobs";
  blob->singular = "blob";
  blob->kind = "Blob";
  blob->list_kind = "BlobList";
  blob->short_names.clear();
  blob->versions[0].schema = krm::structural_schema(
      krm::Json::object({{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}),
      true);
  all.push_back(std::move(blob));
  return all;
}

class WriteRows : public ::testing::Test {
 protected:
  WriteRows() : server(kinds(), "lc") {
    EXPECT_EQ(create("/api/v1/namespaces", R"({"metadata":{"name":"t1"}})").status(), 201);
  }
  Exchange create(const std::string& target, std::string_view body) {
    return server.send("POST", target, body);
  }
  Exchange merge(const std::string& target, std::string_view body) {
    return server.send("PATCH", target, body, {{"content-type", "application/merge-patch+json"}});
  }
  Exchange strategic(const std::string& target, std::string_view body) {
    return server.send("PATCH", target, body,
                       {{"content-type", "application/strategic-merge-patch+json"}});
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }
  /// A member of the answer as text, "" when absent.
  static std::string part(const Exchange& exchange, std::initializer_list<std::string_view> path) {
    const krm::Json json = exchange.json();
    const krm::Json* found = json.at(path);
    return found == nullptr ? "" : found->dump();
  }

  FakeServer server;
};

TEST_F(WriteRows, WhenTypeIsLeftOut_AM137_IsThatOfThePath) {
  Exchange made = create(kMaps, R"({"metadata":{"name":"a"},"data":{"x":"1"}})");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().text({"kind"}), "ConfigMap");
  EXPECT_EQ(made.json().text({"apiVersion"}), "v1");
}

TEST_F(WriteRows, WhenKeysAreRepeated_AM145_TheLastOneWins) {
  Exchange made =
      create(std::string(kMaps) + "?fieldValidation=Ignore",
             R"({"metadata":{"name":"z","name":"a"},"data":{"x":"1"},"data":{"x":"2"}})");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().text({"metadata", "name"}), "a");
  EXPECT_EQ(part(made, {"data"}), R"({"x":"2"})");
  EXPECT_EQ(made.header("warning"), "");
}

TEST_F(WriteRows, WhenPatchIsStrict_AM151_UnknownFieldsAreRefused) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a", {{"x", "1"}})).status(), 201);
  const std::string strict = std::string(kMap) + "?fieldValidation=Strict";
  EXPECT_EQ(message(strategic(strict, R"({"data":{"y":null,"z":"1"},"bar":1})")),
            " \"\" is invalid: patch: Invalid value: \"map[bar:1 data:map[y:<nil> z:1]]\": strict "
            "decoding error: unknown field \"bar\"");
  Exchange twice = strategic(strict, R"({"data":{"y":"1","y":"2"}})");
  EXPECT_EQ(twice.status(), 422);
  EXPECT_NE(message(twice).find("duplicate field \"data.y\""), std::string::npos);
  Exchange warned = strategic(kMap, R"({"bar":1})");
  EXPECT_EQ(warned.status(), 200);
  EXPECT_EQ(warned.header("warning"), "299 - \"unknown field \\\"bar\\\"\"");
}

TEST_F(WriteRows, WhenOwnersAreRepeated_OneStaysAndAWarningSaysSo) {
  const std::string owner = R"({"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"})";
  Exchange made =
      create(kMaps, R"({"metadata":{"name":"a","ownerReferences":[)" + owner + "," + owner + "]}}");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(part(made, {"metadata", "ownerReferences"}), "[" + owner + "]");
  EXPECT_NE(made.header("warning").find("duplicate UID(s) observed: 1\""), std::string_view::npos);
}

TEST_F(WriteRows, WhenPatchIsEmpty_AM197_NothingChanges) {
  Exchange made = server.send("POST", kMaps, config_map("a", {{"x", "1"}}));
  for (const auto& [type, body] : {std::pair("application/json-patch+json", "[]"),
                                   std::pair("application/merge-patch+json", "{}"),
                                   std::pair("application/strategic-merge-patch+json", "null")}) {
    Exchange same = server.send("PATCH", kMap, std::string_view(body), {{"content-type", type}});
    EXPECT_EQ(same.status(), 200) << type;
    EXPECT_EQ(same.json(), made.json()) << type;
  }
}

TEST_F(WriteRows, WhenCustomObjectIsPatchedAtItsParts_AM206_OnlyThesePartsChange) {
  ASSERT_EQ(create(kWidgets, R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},)"
                             R"("spec":{"replicas":1,"color":"red"}})")
                .status(),
            201);
  const std::string item = std::string(kWidgets) + "/w";
  Exchange status =
      merge(item + "/status", R"({"spec":{"color":"green"},"status":{"phase":"ready"}})");
  EXPECT_EQ(status.status(), 200);
  EXPECT_EQ(status.json().text({"spec", "color"}), "red");
  EXPECT_EQ(status.json().text({"status", "phase"}), "ready");
  Exchange scale = merge(item + "/scale", R"({"spec":{"replicas":4}})");
  EXPECT_EQ(scale.json().text({"kind"}), "Scale");
  Exchange read = server.send("GET", item);
  EXPECT_EQ(part(read, {"spec"}), R"({"color":"red","replicas":4,"size":3})");
  Exchange refused = strategic(item, "{}");
  EXPECT_EQ(refused.status(), 415);
  EXPECT_EQ(message(refused),
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml, application/apply-patch+yaml");
}

TEST_F(WriteRows, WhenStrategicPatchesAreSent_AM207To211_ListsAndMapsMerge) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a", {{"x", "1"}, {"y", "2"}})).status(), 201);
  EXPECT_EQ(part(strategic(kMap, R"({"kind":"Secret","data":{"x":null,"z":"3"}})"), {"data"}),
            R"({"y":"2","z":"3"})");
  strategic(kMap, R"({"metadata":{"finalizers":["x.y/a"]}})");
  EXPECT_EQ(
      part(strategic(kMap, R"({"metadata":{"finalizers":["x.y/b"]}})"), {"metadata", "finalizers"}),
      R"(["x.y/b","x.y/a"])");
  EXPECT_EQ(
      part(strategic(kMap, R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["x.y/b"]}})"),
           {"metadata", "finalizers"}),
      R"(["x.y/a"])");
  EXPECT_EQ(part(strategic(kMap, R"({"data":{"$patch":"replace","only":"1"}})"), {"data"}),
            R"({"only":"1"})");
  EXPECT_EQ(part(strategic(kMap, R"({"data":{"$patch":"delete"}})"), {"data"}), "");
}

TEST_F(WriteRows, WhenStrategicPatchesAreSent_AM212To214_FollowKeysOfTheKind) {
  ASSERT_EQ(create(kAccounts, R"({"metadata":{"name":"s"},"secrets":[{"name":"a"},{"name":"b",)"
                              R"("namespace":"dropped"}],"imagePullSecrets":[{"name":"p"}]})")
                .status(),
            201);
  const std::string item = std::string(kAccounts) + "/s";
  EXPECT_EQ(part(strategic(item, R"({"secrets":[{"name":"c"}],"$setElementOrder/secrets":)"
                                 R"([{"name":"b"},{"name":"c"},{"name":"a"}]})"),
                 {"secrets"}),
            R"([{"name":"b"},{"name":"c"},{"name":"a"}])");
  EXPECT_EQ(part(strategic(item, R"({"imagePullSecrets":[{"name":"q"}]})"), {"imagePullSecrets"}),
            R"([{"name":"q"}])");
}

TEST_F(WriteRows, WhenPartOfANamespaceIsPatched_AM212To214_ConditionsMergeByType) {
  const std::string status = "/api/v1/namespaces/t1/status";
  const auto types = [](const Exchange& exchange) {
    std::string out;
    const krm::Json json = exchange.json();
    if (const krm::Json* found = json.at({"status", "conditions"})) {
      for (const krm::Json& each : found->items()) {
        out.append(each.text({"type"})).append("=").append(each.text({"status"})).append(" ");
      }
    }
    return out;
  };
  strategic(status, R"({"status":{"conditions":[{"type":"A","status":"True"}]}})");
  EXPECT_EQ(types(strategic(status, R"({"status":{"conditions":[{"type":"B","status":"True"},)"
                                    R"({"type":"A","status":"False"}]}})")),
            "B=True A=False ");
  EXPECT_EQ(
      types(strategic(status, R"({"status":{"conditions":[{"type":"A","$patch":"delete"}]}})")),
      "B=True ");
}

TEST_F(WriteRows, WhenOwnersRepeatInAPatch_WarnsOfTheTimeAfterAdmission) {
  ASSERT_EQ(create("/api/v1/namespaces/t1/configmaps", R"({"metadata":{"name":"o"}})").status(),
            201);
  const std::string owner = R"({"apiVersion":"v1","kind":"Node","name":"n","uid":"u"})";
  Exchange patched = server.send(
      "PATCH", "/api/v1/namespaces/t1/configmaps/o",
      *krm::Json::parse(R"({"metadata":{"ownerReferences":[)" + owner + "," + owner + "]}}"),
      {{"content-type", "application/merge-patch+json"}});
  EXPECT_EQ(patched.status(), 200) << patched.body();
  EXPECT_EQ(patched.json().at({"metadata", "ownerReferences"})->size(), 1U);
  EXPECT_NE(patched.header("warning").find(
                "contains duplicate entries after mutating admission happens; API server dedups"),
            std::string_view::npos)
      << patched.header("warning");
}

TEST_F(WriteRows, WhenEventIsPatchedThroughTheOtherGroup_AM326_ItsFieldsMerge) {
  ASSERT_EQ(create("/api/v1/namespaces/t1/events",
                   R"({"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p",)"
                   R"("namespace":"t1"},"message":"old","type":"Normal"})")
                .status(),
            201);
  constexpr const char* kOther = "/apis/events.k8s.io/v1/namespaces/t1/events/e";
  Exchange patched = strategic(
      kOther, R"({"regarding":{"kind":"Pod"},)"
              R"("series":{"count":2,"lastObservedTime":"2020-01-01T00:00:00.000000Z"}})");
  EXPECT_EQ(patched.status(), 200) << patched.body();
  EXPECT_EQ(patched.json().text({"note"}), "old");
  Exchange read = server.send("GET", "/api/v1/namespaces/t1/events/e");
  EXPECT_EQ(part(read, {"series"}),
            R"({"count":2,"lastObservedTime":"2020-01-01T00:00:00.000000Z"})");
  EXPECT_EQ(part(read, {"involvedObject"}), R"({"kind":"Pod","name":"p","namespace":"t1"})");
  Exchange refused = strategic(kOther, R"({"note":"new"})");
  EXPECT_EQ(refused.status(), 422) << refused.body();
  EXPECT_EQ(refused.json().text({"message"}),
            "Event \"e\" is invalid: message: Invalid value: \"new\": field is immutable");
}

TEST_F(WriteRows, WhenStrategicPatchIsBad_AM215And216_IsRefusedAsRecorded) {
  ASSERT_EQ(server.send("POST", kMaps, config_map("a", {{"x", "1"}})).status(), 201);
  Exchange unknown = strategic(kMap, R"({"data":{"$patch":"foo"}})");
  EXPECT_EQ(unknown.status(), 500);
  EXPECT_EQ(message(unknown), "unknown patch type: foo in map: map[$patch:foo]");
  EXPECT_EQ(strategic(kMap, "{").status(), 400);
  Exchange lists = strategic(kMap, R"({"metadata":{"finalizers":[["x"]]}})");
  EXPECT_EQ(lists.status(), 422);
  EXPECT_EQ(strategic(kMap, R"({"data":{"x":1}})").status(), 422);
}

TEST_F(WriteRows, WhenTwoClientsRenewOneLease_AM323_OneWins) {
  Exchange made = create(kLeases, R"({"metadata":{"name":"l"},"spec":{}})");
  ASSERT_EQ(made.status(), 201);
  krm::Json mine = made.json();
  krm::Json theirs = made.json();
  mine["spec"]["holderIdentity"] = "me";
  theirs["spec"]["holderIdentity"] = "they";
  const std::string item = std::string(kLeases) + "/l";
  EXPECT_EQ(server.send("PUT", item, mine).status(), 200);
  EXPECT_EQ(server.send("PUT", item, theirs).status(), 409);
  EXPECT_EQ(server.send("GET", item).json().text({"spec", "holderIdentity"}), "me");
}

TEST_F(WriteRows, WhenCustomNumbersAreHuge_AreRoundedAsKubernetesDoes) {
  Exchange made = create("/apis/ex.io/v1/namespaces/t1/blobs",
                         R"({"apiVersion":"ex.io/v1","kind":"Blob","metadata":{"name":"w"},)"
                         R"("free":[{"huge":18446744073709551616,"max":9223372036854775807}]})");
  ASSERT_EQ(made.status(), 201) << made.body();
  EXPECT_EQ(part(made, {"free"}), R"([{"huge":18446744073709552000,"max":9223372036854775807}])");
}

TEST_F(WriteRows, WhenTheStatusIsWritten_AM177_SomeKindsTakeTheirMetadataToo) {
  const std::string body = R"({"metadata":{"labels":{"l":"1"},"finalizers":["ex.io/f"]},)"
                           R"("spec":{"finalizers":["ex.io/g"]}})";
  Exchange ns = merge("/api/v1/namespaces/t1/status?fieldManager=m", body);
  ASSERT_EQ(ns.status(), 200);
  EXPECT_EQ(part(ns, {"metadata", "labels", "l"}), "\"1\"");
  EXPECT_EQ(part(ns, {"metadata", "finalizers"}), R"(["ex.io/f"])");
  EXPECT_EQ(part(ns, {"spec", "finalizers"}), R"(["kubernetes"])");
  const krm::Json entries = *ns.json().at({"metadata", "managedFields"});
  const auto entry =
      std::find_if(entries.items().begin(), entries.items().end(),
                   [](const krm::Json& each) { return each.text({"subresource"}) == "status"; });
  ASSERT_NE(entry, entries.items().end());
  EXPECT_NE(entry->at({"fieldsV1", "f:metadata", "f:labels", "f:l"}), nullptr);
  EXPECT_EQ(entry->at({"fieldsV1", "f:spec"}), nullptr);
  EXPECT_EQ(
      merge("/api/v1/namespaces/t1/status", R"({"metadata":{"labels":{"a b":"1"}}})").status(),
      422);
  EXPECT_EQ(part(merge("/api/v1/namespaces/t1/status", R"({"status":null})"), {"status", "phase"}),
            "\"Active\"");

  const std::string quotas = "/api/v1/namespaces/t1/resourcequotas";
  ASSERT_EQ(
      create(quotas, R"({"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"9"}}})").status(),
      201);
  EXPECT_EQ(part(merge(quotas + "/q/status", R"({"metadata":{"labels":{"l":"1"}}})"),
                 {"metadata", "labels", "l"}),
            "\"1\"");
  ASSERT_EQ(create(kWidgets, R"({"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"}})")
                .status(),
            201);
  EXPECT_EQ(part(merge(std::string(kWidgets) + "/w/status", R"({"metadata":{"labels":{"l":"1"}}})"),
                 {"metadata", "labels"}),
            "");
}

TEST_F(WriteRows, WhenAManagerIsTooLong_AM163_IsRefused) {
  const std::string entry = R"({"manager":")" + std::string(129, 'm') +
                            R"(","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",)"
                            R"("fieldsV1":{"f:data":{}}})";
  Exchange refused =
      create(kMaps, R"({"metadata":{"name":"long","managedFields":[)" + entry + R"(]}})");
  EXPECT_EQ(refused.status(), 422);
  EXPECT_EQ(
      message(refused),
      "ConfigMap \"long\" is invalid: metadata.managedFields[0].manager: Too long: may not be "
      "more than 128 bytes");
}

}  // namespace
}  // namespace kintsugi::apiserver
