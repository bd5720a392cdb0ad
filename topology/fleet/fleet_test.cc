#include "topology/fleet/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "krm/yaml.h"

namespace kintsugi::topology {
namespace {

using krm::Json;
using Kind = FleetAction::Kind;

constexpr const char* kProviders =
    "{providers: [{name: cloud, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: "
    "/bin/cloud, provideClusterInfo: true}}]}";

Json profile(const std::string& name, const std::string& uid = {}, const std::string& server = {},
             const std::string& provider = "cloud", const std::string& ns = "fleet") {
  const std::string url = server.empty() ? "https://" + name + ".example" : server;
  return *krm::parse_yaml(
      "{metadata: {name: " + name + ", namespace: " + ns +
      ", uid: " + (uid.empty() ? "u-" + ns + "-" + name : uid) +
      "}, spec: {clusterManager: {name: m}}, status: {accessProviders: [{name: " + provider +
      ", cluster: {server: '" + url + "'}}]}}");
}

std::string kubeconfig(const std::string& token, const std::string& server = "https://s.example") {
  return "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: "
         "[{name: k, cluster: {server: '" +
         server + "'}}], users: [{name: u, user: {token: " + token + "}}]}";
}

Json secret(const std::string& name, const std::string& text, const std::string& uid = "u-s") {
  return Json::object(
      {{"metadata", Json::object({{"name", name}, {"namespace", "fleet"}, {"uid", uid}})},
       {"data", Json::object({{"value", base64_encode(text)}})}});
}

Json capi(const std::string& cluster, const std::string& token,
          const std::string& secret_uid = "s1") {
  Json out = secret(cluster + "-kubeconfig", kubeconfig(token), secret_uid);
  out["type"] = "cluster.x-k8s.io/secret";
  out.make({"metadata", "labels"}) = Json::object({{kClusterNameLabel, cluster}});
  out.make({"metadata", "ownerReferences"}) =
      Json::array({Json::object({{"kind", "Cluster"},
                                 {"apiVersion", "cluster.x-k8s.io/v1beta1"},
                                 {"name", cluster},
                                 {"uid", "owner-" + cluster}})});
  return out;
}

class FleetTest : public ::testing::Test {
 protected:
  [[nodiscard]] Fleet::Now now() const { return {at_, unix_}; }
  void pass(Duration time) {
    at_ += time;
    unix_ += time / seconds(1);
  }
  std::vector<FleetAction> actions() { return fleet->take_actions(now()); }
  /// Does all that is to be done, as servers and programs would that are well.
  void serve(std::int64_t life = 0) {
    for (int round = 0; round < 10; ++round) {
      for (const FleetAction& action : actions()) {
        perform(action, life);
      }
    }
  }
  void perform(const FleetAction& action, std::int64_t life = 0) {
    if (action.kind == Kind::kAsk) {
      ++asked;
      FleetCredential said;
      said.token = Secret::copy_of("token-" + std::to_string(serial));
      said.ends = life == 0 ? 0 : unix_ + life;
      fleet->told(action.key, action.turn, std::move(said), now());
    } else if (action.kind == Kind::kProbe) {
      probed.push_back(action.access->server);
      fleet->probed(action.key, action.turn, {200, ""}, now());
    } else {
      ++relists;
    }
  }
  [[nodiscard]] std::string shards() const {
    std::string out;
    for (const FleetShard& shard : fleet->shards()) {
      out += (out.empty() ? "" : " ") + shard.spec.name + "=" + shard.spec.base_url;
    }
    return out;
  }
  [[nodiscard]] FleetRow row(const std::string& object) const {
    for (FleetRow& one : fleet->rows()) {
      if (one.object == object) {
        return one;
      }
    }
    return {};
  }
  [[nodiscard]] std::string reason(const std::string& object) const {
    return std::string(fleet_reason_name(row(object).fault.reason));
  }
  void make(const FleetOptions& options = {}) {
    fleet =
        std::make_unique<Fleet>(options, *read_fleet_providers(kProviders, "p", "/"),
                                [this](const std::string& uid) { return known.count(uid) != 0; });
  }
  void SetUp() override { make(); }

  std::unique_ptr<Fleet> fleet;
  std::set<std::string> known;
  std::vector<std::string> probed;
  int asked = 0, relists = 0, serial = 1;
  TimePoint at_ = TimePoint() + seconds(1'000);
  std::int64_t unix_ = 1'700'000'000;
};

TEST_F(FleetTest, GR_703_AProfile_JoinsWhenItsServerHasAnswered) {
  fleet->put_profile(profile("berlin"), now());
  fleet->listed(FleetList::kProfiles, now());
  EXPECT_FALSE(fleet->is_settled());
  auto todo = actions();
  ASSERT_EQ(todo.size(), 1U);
  ASSERT_EQ(todo[0].kind, Kind::kAsk);
  EXPECT_EQ(todo[0].exec.command, "/bin/cloud");
  EXPECT_EQ(todo[0].exec.cluster, R"({"server":"https://berlin.example"})");
  perform(todo[0]);
  todo = actions();
  ASSERT_EQ(todo.size(), 1U);
  ASSERT_EQ(todo[0].kind, Kind::kProbe);
  EXPECT_EQ(todo[0].access->token.view(), "token-1");
  EXPECT_EQ(shards(), "");
  perform(todo[0]);
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  EXPECT_TRUE(fleet->take_changed());
  EXPECT_TRUE(fleet->is_settled());
  const FleetShard shard = fleet->shards().front();
  EXPECT_TRUE(shard.spec.plain && shard.spec.impersonate);
  EXPECT_EQ(shard.spec.uid, "u-fleet-berlin");
  EXPECT_EQ(*shard.spec.label("x-k8s.io/cluster-manager"), "m");
  EXPECT_TRUE(actions().empty());
  EXPECT_EQ(fleet->due(), TimePoint::max());
}

TEST_F(FleetTest, GR_703_AnotherServerOfTheSameUid_IsProbedAndThenTaken) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  const std::uint64_t before = fleet->shards().front().spec.access;
  fleet->put_profile(profile("berlin", "", "https://new.example"), now());
  serial = 2;
  for (const FleetAction& action : actions()) {  // another question
    perform(action);
  }
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  serve();
  EXPECT_EQ(shards(), "berlin=https://new.example");
  EXPECT_NE(fleet->shards().front().spec.access, before);
}

TEST_F(FleetTest, GR_703_ANewServerThatDoesNotAnswer_LeavesTheOldOne) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  fleet->put_profile(profile("berlin", "", "https://new.example"), now());
  for (const FleetAction& action : actions()) {
    perform(action);
  }
  int probes = 0;
  for (int i = 0; i < 200; ++i, pass(seconds(1))) {
    for (const FleetAction& action : actions()) {
      ++probes;
      fleet->probed(action.key, action.turn, {0, "refused"}, now());
    }
  }
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "Unreachable");
  EXPECT_EQ(row("ClusterProfile fleet/berlin").fault.message, "https://new.example: refused");
  EXPECT_GE(probes, 7);  // 1, 2, 4, … 60 s
  EXPECT_LE(probes, 10);
  pass(seconds(60));
  serve();
  EXPECT_EQ(shards(), "berlin=https://new.example");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "");
}

TEST_F(FleetTest, GR_703_Credentials_AreRenewedAtFourFifthsOfTheirLife) {
  fleet->put_profile(profile("berlin"), now());
  serve(100);
  EXPECT_EQ(fleet->due(), at_ + seconds(80));
  pass(seconds(79));
  EXPECT_TRUE(actions().empty());
  pass(seconds(1));
  serial = 2;
  serve(100);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(fleet->shards().front().access->token.view(), "token-2");
}

TEST_F(FleetTest, GR_703_WhenARenewalFails_WhatThereIsStaysInUse) {
  fleet->put_profile(profile("berlin"), now());
  serve(100);
  pass(seconds(80));
  const auto todo = actions();
  ASSERT_EQ(todo.size(), 1U);
  fleet->told(todo[0].key, todo[0].turn,
              fault(FleetReason::kPluginFailed, "it ended with status 1"), now());
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "PluginFailed");
  EXPECT_TRUE(actions().empty());
  EXPECT_EQ(fleet->due(), at_ + seconds(1));
  pass(seconds(1));
  serial = 2;
  serve(100);
  EXPECT_EQ(fleet->shards().front().access->token.view(), "token-2");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "");
}

TEST_F(FleetTest, GR_703_A401_AsksForAnotherCredential) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  fleet->seen("berlin", 401, now());
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "Unauthorized");
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  int questions = 0;
  for (int i = 0; i < 300; ++i, pass(seconds(1))) {  // the same again and again
    for (const FleetAction& action : actions()) {
      ++questions;
      perform(action);
    }
    fleet->seen("berlin", 401, now());
  }
  EXPECT_GE(questions, 6);
  EXPECT_LE(questions, 12);  // 1, 2, 4, … 60 s
  serial = 2;
  pass(seconds(60));
  serve();
  fleet->seen("berlin", 200, now());
  EXPECT_EQ(fleet->shards().front().access->token.view(), "token-2");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "");
}

TEST_F(FleetTest, GR_703_ADeletedProfile_LeavesAfterItsGrace) {
  fleet->put_profile(profile("berlin"), now());
  fleet->put_profile(profile("ohio"), now());
  serve();
  fleet->drop_profile("fleet", "berlin", false, now());
  EXPECT_EQ(row("ClusterProfile fleet/berlin").state, "leaving");
  pass(seconds(29));
  serve();
  EXPECT_EQ(fleet->shards().size(), 2U);
  pass(seconds(1));
  serve();
  EXPECT_EQ(shards(), "ohio=https://ohio.example");
}

TEST_F(FleetTest, GR_703_AProfileThatIsBackInTime_Stays) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  fleet->drop_profile("fleet", "berlin", false, now());
  pass(seconds(20));
  fleet->put_profile(profile("berlin"), now());
  pass(seconds(60));
  serve();
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
}

TEST_F(FleetTest, GR_703_AnotherUid_IsAnotherShard) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  fleet->put_profile(profile("berlin", "u-2"), now());
  EXPECT_EQ(shards(), "");  // the other one is gone; this one has to be asked
  serve();
  ASSERT_EQ(fleet->shards().size(), 1U);
  EXPECT_EQ(fleet->shards().front().spec.uid, "u-2");
}

TEST_F(FleetTest, GR_704_AListThatLacksMuch_RemovesNothingBeforeASecondOne) {
  for (int i = 0; i < 10; ++i) {
    fleet->put_profile(profile("c" + std::to_string(i)), now());
  }
  serve();
  for (int i = 0; i < 5; ++i) {
    fleet->drop_profile("fleet", "c" + std::to_string(i), true, now());
  }
  fleet->listed(FleetList::kProfiles, now());
  EXPECT_EQ(row("ClusterProfile fleet/c0").state, "in doubt");
  pass(seconds(29));
  serve();
  EXPECT_EQ(relists, 0);
  pass(seconds(1));
  serve();
  EXPECT_EQ(relists, 1);
  fleet->put_profile(profile("c0"), now());
  fleet->listed(FleetList::kProfiles, now());
  EXPECT_EQ(row("ClusterProfile fleet/c0").state, "member");
  EXPECT_EQ(row("ClusterProfile fleet/c1").state, "leaving");
  EXPECT_EQ(fleet->shards().size(), 10U);
  pass(seconds(30));
  serve();
  EXPECT_EQ(fleet->shards().size(), 6U);
}

TEST_F(FleetTest, GR_704_WhatIsWrongWithOneCluster_IsToldAndDelaysNoOther) {
  fleet->put_profile(profile("plain", "", "http://plain.example"), now());
  fleet->put_profile(profile("near", "", "https://127.0.0.1:1"), now());
  fleet->put_profile(profile("foreign", "", "", "other"), now());
  fleet->put_profile(profile("nosecret", "", "", "kubeconfig-secret"), now());
  Json large = profile("large");
  for (int i = 0; i < 10'000; ++i) {
    Json& properties = large.make({"status", "properties"});
    properties.push_back(Json::object({{"name", "p" + std::to_string(i)}, {"value", "v"}}));
  }
  fleet->put_profile(large, now());
  Json fat = profile("fat");
  fat.make({"status", "accessProviders"})
      .edit_items()[0]
      .make({"cluster", "certificate-authority-data"}) = std::string(1'400'000, 'A');
  fleet->put_profile(fat, now());
  fleet->put_profile(profile(std::string(70, 'x')), now());
  fleet->put_profile(profile("right"), now());
  serve();
  EXPECT_EQ(shards(), "right=https://right.example");
  EXPECT_TRUE(fleet->is_settled());
  EXPECT_EQ(reason("ClusterProfile fleet/plain"), "BadServer");
  EXPECT_EQ(reason("ClusterProfile fleet/near"), "BadServer");
  EXPECT_EQ(reason("ClusterProfile fleet/foreign"), "NoProvider");
  EXPECT_EQ(row("ClusterProfile fleet/foreign").fault.message,
            "none of its providers is known here: other");
  EXPECT_EQ(reason("ClusterProfile fleet/nosecret"), "NoSecret");
  EXPECT_EQ(reason("ClusterProfile fleet/large"), "BadProfile");
  EXPECT_EQ(reason("ClusterProfile fleet/fat"), "BadCertificate");
  EXPECT_EQ(reason("ClusterProfile fleet/" + std::string(70, 'x')), "BadName");
  EXPECT_EQ(fleet->faults()[static_cast<std::size_t>(FleetReason::kBadServer)], 2U);
}

TEST_F(FleetTest, GR_704_AProfileThatBecomesBad_KeepsTheWayThatWorked) {
  fleet->put_profile(profile("berlin"), now());
  serve();
  fleet->put_profile(profile("berlin", "", "http://berlin.example"), now());
  serve();
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "BadServer");
  fleet->put_profile(profile("berlin"), now());
  serve();
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "");
}

TEST_F(FleetTest, GR_704_LabelsThatAreNone_AreLeftOutAndCounted) {
  FleetOptions options;
  options.properties = {"region", "zone"};
  make(options);
  Json one = profile("berlin");
  one.make({"metadata", "labels"}) =
      Json::object({{"tier", "gold"}, {"bad", std::string("a\0b", 3)}, {"a b", "x"}});
  one.make({"status", "properties"}) =
      Json::array({Json::object({{"name", "region"}, {"value", "eu"}}),
                   Json::object({{"name", "zone"}, {"value", "not a value!"}}),
                   Json::object({{"name", "other"}, {"value", "x"}})});
  fleet->put_profile(one, now());
  serve();
  const ShardSpec spec = fleet->shards().front().spec;
  EXPECT_EQ(spec.labels.size(), 3U);
  EXPECT_EQ(*spec.label("region"), "eu");
  EXPECT_EQ(*spec.label("tier"), "gold");
  EXPECT_EQ(row("ClusterProfile fleet/berlin").left_out, 3U);
}

TEST_F(FleetTest, GR_701_AtMostEightPrograms_RunAtATime) {
  for (int i = 0; i < 20; ++i) {
    fleet->put_profile(profile("c" + std::to_string(i)), now());
  }
  std::vector<FleetAction> running = actions();
  EXPECT_EQ(running.size(), 8U);
  EXPECT_TRUE(actions().empty());
  perform(running[0]);
  std::size_t asks = 0;
  for (const FleetAction& action : actions()) {
    asks += action.kind == Kind::kAsk ? 1 : 0;
  }
  EXPECT_EQ(asks, 1U);
}

TEST_F(FleetTest, GR_701_AProgramOfAProfileThatIsGone_FreesItsPlace) {
  for (int i = 0; i < 9; ++i) {
    fleet->put_profile(profile("c" + std::to_string(i)), now());
  }
  const auto running = actions();
  ASSERT_EQ(running.size(), 8U);
  for (int i = 0; i < 8; ++i) {
    fleet->drop_profile("fleet", "c" + std::to_string(i), false, now());
  }
  for (const FleetAction& action : running) {
    perform(action);
  }
  serve();
  EXPECT_EQ(shards(), "c8=https://c8.example");
}

TEST_F(FleetTest, GR_702_ASecretOfTheHub_IsTheWay) {
  Json one = profile("berlin", "", "", "kubeconfig-secret");
  one.make({"status", "accessProviders"}).edit_items()[0].make({"cluster"}) = Json::object(
      {{"server", ""},
       {"extensions",
        Json::array({Json::object(
            {{"name", kExecExtension},
             {"extension", Json::object({{"name", "berlin-way"}, {"key", "value"}})}})})}});
  fleet->put_profile(one, now());
  EXPECT_EQ(fleet->wanted_secrets(), (std::set<std::string>{"fleet/berlin-way"}));
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "NoSecret");
  fleet->put_secret(secret("berlin-way", kubeconfig("t1")), now());
  serve();
  EXPECT_EQ(shards(), "berlin=https://s.example");
  EXPECT_EQ(asked, 0);
  fleet->put_secret(secret("berlin-way", kubeconfig("t2")), now());
  serve();
  EXPECT_EQ(fleet->shards().front().access->token.view(), "t2");
  fleet->put_secret(secret("berlin-way", "exec: me"), now());
  serve();
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "BadKubeconfig");
  EXPECT_EQ(fleet->shards().front().access->token.view(), "t2");
  fleet->drop_secret("fleet", "berlin-way", false, now());
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "NoSecret");
  EXPECT_EQ(fleet->shards().size(), 1U);
}

/// Who may write profiles in one namespace does not get at the Secrets of another.
TEST_F(FleetTest, GR_702_ASecretOfAnotherNamespace_IsRefused) {
  Json one = profile("berlin", "", "", "kubeconfig-secret");
  one.make({"status", "accessProviders"}).edit_items()[0].make({"cluster", "extensions"}) =
      Json::array({Json::object(
          {{"name", kExecExtension},
           {"extension", Json::object({{"name", "x"}, {"namespace", "kube-system"}})}})});
  fleet->put_profile(one, now());
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "BadProfile");
  EXPECT_TRUE(fleet->wanted_secrets().empty());
}

TEST_F(FleetTest, GR_702_ClusterApi_MakesClustersOfItsSecrets) {
  FleetOptions options;
  options.cluster_api = true;
  make(options);
  fleet->put_cluster(
      *krm::parse_yaml("{metadata: {name: ohio, namespace: fleet, labels: {tier: gold}}}"), now());
  fleet->put_secret(capi("ohio", "t1"), now());
  fleet->put_secret(secret("ohio-other", kubeconfig("t1")), now());  // none of that type
  serve();
  ASSERT_EQ(shards(), "ohio=https://s.example");
  EXPECT_EQ(fleet->shards().front().spec.uid, "owner-ohio");
  EXPECT_EQ(*fleet->shards().front().spec.label("tier"), "gold");
  (void)fleet->take_changed();
  fleet->put_cluster(
      *krm::parse_yaml("{metadata: {name: ohio, namespace: fleet, labels: {tier: tin}}}"), now());
  EXPECT_TRUE(fleet->take_changed());
  EXPECT_EQ(*fleet->shards().front().spec.label("tier"), "tin");
  fleet->put_secret(capi("ohio", "t2", "s2"), now());  // made anew for the same Cluster
  EXPECT_EQ(fleet->shards().size(), 1U);
  serve();
  EXPECT_EQ(fleet->shards().front().access->token.view(), "t2");
  fleet->drop_secret("fleet", "ohio-kubeconfig", false, now());
  pass(seconds(30));
  serve();
  EXPECT_EQ(shards(), "");
}

TEST_F(FleetTest, GR_702_WithoutClusterApi_ItsSecretsAreNoClusters) {
  fleet->put_secret(capi("ohio", "t1"), now());
  serve();
  EXPECT_TRUE(fleet->rows().empty());
}

TEST_F(FleetTest, GR_703_ATakenName_IsQualified) {
  fleet->put_profile(profile("berlin"), now());
  fleet->put_profile(profile("berlin", "", "", "cloud", "other"), now());
  fleet->put_profile(profile("other-berlin", "", "", "cloud"), now());
  fleet->put_profile(profile("a.b"), now());
  serve();
  EXPECT_EQ(shards(),
            "a-b=https://a.b.example berlin=https://berlin.example "
            "fleet-other-berlin=https://other-berlin.example other-berlin=https://berlin.example");
  Json twin = profile("twin", "u-fleet-berlin");
  fleet->put_profile(twin, now());
  EXPECT_EQ(reason("ClusterProfile fleet/twin"), "NameTaken");
  fleet->drop_profile("fleet", "berlin", false, now());
  pass(seconds(30));
  serve();
  EXPECT_EQ(reason("ClusterProfile fleet/twin"), "");
}

TEST_F(FleetTest, GR_703_QualifiedNames_HaveTheNamespace) {
  FleetOptions options;
  options.qualified = true;
  make(options);
  fleet->put_profile(profile("berlin"), now());
  serve();
  EXPECT_EQ(shards(), "fleet-berlin=https://berlin.example");
}

/// After a restart a cluster that is down is down, and not gone: its slot stays.
TEST_F(FleetTest, GR_704_AMemberOfBefore_IsInTheTopologyWithoutAnAnswer) {
  known = {"u-fleet-berlin", "u-fleet-ohio"};
  fleet->put_profile(profile("berlin"), now());
  fleet->put_profile(profile("ohio"), now());
  fleet->put_profile(profile("new"), now());
  for (int round = 0; round < 3; ++round) {
    for (const FleetAction& action : actions()) {
      if (action.kind == Kind::kProbe) {
        fleet->probed(action.key, action.turn, {0, "refused"}, now());
      } else if (action.key == "profile fleet/ohio") {
        fleet->told(action.key, action.turn, fault(FleetReason::kPluginFailed, "no"), now());
      } else {
        perform(action);
      }
    }
  }
  EXPECT_TRUE(fleet->is_settled());
  EXPECT_EQ(shards(), "berlin=https://berlin.example ohio=");
  pass(seconds(2));
  serve();
  EXPECT_EQ(shards(),
            "berlin=https://berlin.example new=https://new.example ohio=https://ohio.example");
}

TEST_F(FleetTest, GR_701_TheFirstProviderOfTheFile_ThatTheProfileHas) {
  Json one = profile("berlin", "", "", "kubeconfig-secret");
  one.make({"status", "credentialProviders"}) = Json::array({Json::object(
      {{"name", "cloud"}, {"cluster", Json::object({{"server", "https://old.example"}})}})});
  fleet->put_profile(one, now());
  serve();
  EXPECT_EQ(shards(), "berlin=https://old.example");  // `cloud` is before what is built in
  EXPECT_EQ(row("ClusterProfile fleet/berlin").provider, "cloud");
}

TEST_F(FleetTest, GR_701_AnotherProviderFile_IsUsedAtOnce) {
  fleet->put_profile(profile("berlin", "", "", "late"), now());
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "NoProvider");
  fleet->set_providers(*read_fleet_providers("{providers: [{name: late, execConfig: {apiVersion: "
                                             "client.authentication.k8s.io/v1, command: l}}]}",
                                             "p", "/"),
                       now());
  serve();
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
}

TEST_F(FleetTest, GR_701_ACredentialThatHasEnded_IsNone) {
  fleet->put_profile(profile("berlin"), now());
  serve(-5);
  EXPECT_EQ(shards(), "");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "PluginFailed");
  EXPECT_EQ(asked, 1);
}

TEST_F(FleetTest, GR_704_AServerThatRefusesTheCredential_DoesNotJoin) {
  fleet->put_profile(profile("berlin"), now());
  for (int round = 0; round < 3; ++round) {
    for (const FleetAction& action : actions()) {
      if (action.kind == Kind::kProbe) {
        fleet->probed(action.key, action.turn, {401, ""}, now());
      } else {
        perform(action);
      }
    }
  }
  EXPECT_EQ(shards(), "");
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "Unauthorized");
  pass(seconds(2));
  serve();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(shards(), "berlin=https://berlin.example");
}

TEST_F(FleetTest, GR_704_CertificatesThatCannotBeUsed_AreThatClustersFault) {
  fleet->put_profile(profile("berlin"), now());
  for (const FleetAction& action : actions()) {
    perform(action);
  }
  const auto todo = actions();
  ASSERT_EQ(todo.size(), 1U);
  fleet->unusable(todo[0].key, todo[0].turn, "no start line", now());
  EXPECT_EQ(reason("ClusterProfile fleet/berlin"), "BadCertificate");
  EXPECT_TRUE(fleet->is_settled());
  EXPECT_TRUE(actions().empty());
}

}  // namespace
}  // namespace kintsugi::topology
