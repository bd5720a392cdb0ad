#include "controlplane/views/claim_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controlplane/testing/export.h"

namespace kintsugi::controlplane {
namespace {

using apiserver::testing::Exchange;
using krm::Json;

constexpr const char* kGrant =
    R"([{"group":"","resource":"configmaps","verbs":["get"],"state":"Accepted",
         "selector":{"matchAll":true}}])";

class ClaimLabelsTest : public ExportTest {
 protected:
  std::string label_of(const std::string& target) {
    return std::string(server.send("GET", target).json().text({"metadata", "labels", key}));
  }
  Exchange put(const std::string& name, const std::string& labels, const char* user = "bob") {
    const std::string body = R"({"metadata":{"name":")" + name + R"(","labels":)" + labels + "}}";
    return server.send("PUT", at("c1", kMaps) + "/" + name, std::string_view(body),
                       {{"x-user", user}});
  }
  const std::string key = claim_label_key({"prov", "widgets"});
  const Json granted = *Json::parse(kGrant);
  const std::string value = claim_label_value(parse_claims(&granted).at(0));
};

TEST(RefuseClaimLabelsTest, KK229_WhenNoClaimReachesTheServer_NobodyAddsOne) {
  apiserver::ResourceDef def;
  def.group = "topology.kcp.io";
  def.plural = "partitions";
  const auto partition = [](const std::string& labels) {
    return *Json::parse(R"({"metadata":{"name":"p","labels":)" + labels + "}}");
  };
  const Json without = partition(R"({"a":"b"})");
  const Json with = partition(R"({"claimed.internal.apis.kcp.io/x":"y"})");
  EXPECT_TRUE(refuse_claim_labels(def, without, nullptr));
  EXPECT_TRUE(refuse_claim_labels(def, with, &with)) << "what is there may be sent back";
  for (const Json* old : {static_cast<const Json*>(nullptr), &without}) {
    const Expected<void> refused = refuse_claim_labels(def, with, old);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              "partitions.topology.kcp.io \"p\" is forbidden: "
              "metadata.labels[claimed.internal.apis.kcp.io/x]: Forbidden: must not be set");
  }
}

TEST_F(ClaimLabelsTest, WhenClaimIsAccepted_AM508_ObjectsOldAndNewAreLabelled) {
  bind("c1");
  add_map("c1", "old");
  grant("c1", kGrant);
  settle();
  add_map("c1", "new");
  EXPECT_EQ(label_of(at("c1", kMaps) + "/old"), value);
  EXPECT_EQ(label_of(at("c1", kMaps) + "/new"), value);
  add_map("c2", "other");
  EXPECT_EQ(label_of(at("c2", kMaps) + "/other"), "");
  grant("c1", "[]");
  settle();
  EXPECT_EQ(label_of(at("c1", kMaps) + "/old"), "");
  EXPECT_EQ(server.send("GET", at("c1", kMaps) + "/old").json().at({"metadata", "labels"}),
            nullptr);
}

TEST_F(ClaimLabelsTest, WhenUsersWrite_AM508_TheyCanNeitherSetNorDropIt) {
  bind("c1");
  const std::string labels = "{\"" + key + "\":\"" + value + "\"}";
  const std::string body = R"({"metadata":{"name":"a","labels":)" + labels + "}}";
  Exchange forged = server.send("POST", at("c1", kMaps) + "?dryRun=All", std::string_view(body),
                                {{"x-user", "bob"}});
  EXPECT_EQ(forged.status(), 201) << forged.body();
  EXPECT_EQ(forged.json().at({"metadata", "labels"}), nullptr) << "KK-229: dropped";
  grant("c1", kGrant);
  settle();
  add_map("c1", "a");
  EXPECT_EQ(put("a", R"({"mine":"1"})").status(), 200);
  EXPECT_EQ(label_of(at("c1", kMaps) + "/a"), value);
  EXPECT_EQ(put("a", "{\"" + key + "\":\"wrong\"}").status(), 200);
  EXPECT_EQ(label_of(at("c1", kMaps) + "/a"), value);
  const std::string version(
      server.send("GET", at("c1", kMaps) + "/a").json().text({"metadata", "resourceVersion"}));
  EXPECT_EQ(put("a", "{}").json().text({"metadata", "resourceVersion"}), version);
}

TEST_F(ClaimLabelsTest, WhenSelectorMatchesNoMore_TP067_LabelGoesWithTheWrite) {
  bind("c1");
  grant("c1", R"([{"group":"","resource":"configmaps","verbs":["get"],"state":"Accepted",
                   "selector":{"matchLabels":{"pick":"me"}}}])");
  settle();
  add_map("c1", "a", R"({"pick":"me"})");
  EXPECT_EQ(label_of(at("c1", kMaps) + "/a"), value);
  EXPECT_EQ(put("a", R"({"pick":"other","x":"y"})").status(), 200);
  EXPECT_EQ(label_of(at("c1", kMaps) + "/a"), "");
}

TEST_F(ClaimLabelsTest, WhenBindingIsMade_AM510_ItIsLabelledWithItsExport) {
  const apiserver::testing::Fields bob = {{"x-user", "bob"}};
  const std::string list = at("c1", "/apis/apis.kcp.io/v1alpha2/apibindings");
  Exchange made = server.send(
      "POST", list,
      std::string_view(
          R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBinding","metadata":{"name":"wb"},"spec":{"reference":
                                  {"export":{"path":"prov","name":"widgets"}}}})"),
      bob);
  EXPECT_EQ(made.status(), 201) << made.body();
  EXPECT_EQ(made.json().text({"metadata", "labels", "internal.apis.kcp.io/export"}),
            export_label_value({"prov", "widgets"}));
  Exchange later = server.send(
      "POST", list,
      std::string_view(
          R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBinding","metadata":{"name":"later"},"spec":{"reference":
                                  {"export":{"path":"prov","name":"gears"}}}})"),
      bob);
  EXPECT_EQ(later.json().at({"metadata", "labels"}), nullptr);
  add_export("prov", "gears", "idg", "[]");
  settle();
  EXPECT_EQ(server.send("GET", list + "/later")
                .json()
                .text({"metadata", "labels", "internal.apis.kcp.io/export"}),
            export_label_value({"prov", "gears"}));
}

TEST_F(ClaimLabelsTest, WhenBindingGoes_AM516_LabelsGo) {
  bind("c1");
  grant("c1", kGrant);
  settle();
  add_map("c1", "a");
  must("DELETE", at("c1", "/apis/apis.kcp.io/v1alpha2/apibindings/wb"), "");
  settle();
  EXPECT_EQ(label_of(at("c1", kMaps) + "/a"), "");
}

}  // namespace
}  // namespace kintsugi::controlplane
