#include "controlplane/controllers/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controlplane/internal/names.h"
#include "krm/labels.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Lifecycle kInit = Lifecycle::kInitializing;
constexpr Lifecycle kTerm = Lifecycle::kTerminating;

Json parse(const char* text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

std::vector<std::string> label_keys(const Json& object) {
  std::vector<std::string> keys;
  if (const Json* labels = object.at({"metadata", "labels"})) {
    for (const krm::JsonMember& member : labels->members()) {
      keys.push_back(member.key);
    }
  }
  return keys;
}

std::string finalizers(const Json& object) {
  const Json* list = object.at({"metadata", "finalizers"});
  return list == nullptr ? "" : list->dump();
}

TEST(Lifecycle, WhenNamed_KK110_GivesKcpsLabels) {
  const LifecycleLabel first = lifecycle_label(kInit, "root:starting");
  EXPECT_EQ(first.key, "initializer.internal.kcp.io/313d1478a3a4c07ae7f05db6b834cf3d2a3");
  EXPECT_EQ(first.value, "313d1478a3a4c07ae7f05db6b834cf3d2a3127ae5ef7fdccdb36ce73");
  EXPECT_EQ(lifecycle_label(kTerm, "root:starting").key,
            "terminator.internal.kcp.io/313d1478a3a4c07ae7f05db6b834cf3d2a31");
}

TEST(Lifecycle, WhenPhaseDiffers_DoesNotWait) {
  Json cluster = parse(R"({"status": {"phase": "Initializing", "initializers": ["a:b"],
                                      "terminators": ["a:t"]}})");
  EXPECT_TRUE(waits_for(cluster, kInit, "a:b"));
  EXPECT_FALSE(waits_for(cluster, kInit, "a:c"));
  EXPECT_FALSE(waits_for(cluster, kTerm, "a:t"));
  cluster.make({"status", "phase"}) = "Terminating";
  EXPECT_FALSE(waits_for(cluster, kInit, "a:b"));
  EXPECT_TRUE(waits_for(cluster, kTerm, "a:t"));
  EXPECT_THAT(waiting_names(cluster, kTerm), ElementsAre("a:t"));
  EXPECT_THAT(waiting_names(parse("{}"), kTerm), IsEmpty());
}

TEST(Lifecycle, WhenKept_LabelsFollowTheStatus) {
  Json cluster = parse(R"({"metadata": {"labels": {"mine": "x"}},
                           "status": {"phase": "Initializing", "initializers": ["root:starting"]}})");
  keep_lifecycle(cluster);
  const std::string key = lifecycle_label(kInit, "root:starting").key;
  EXPECT_THAT(label_keys(cluster), ElementsAre(key, "mine", "tenancy.kcp.io/phase"));
  EXPECT_EQ(cluster.text({"metadata", "labels", krm::kPhaseLabel}), "Initializing");
  cluster.at({"metadata", "labels"})->erase(key);
  keep_lifecycle(cluster);
  EXPECT_THAT(label_keys(cluster), ElementsAre(key, "mine", "tenancy.kcp.io/phase"))
      << "nobody takes it away";
  cluster.make({"status", "initializers"}) = Json::array();
  cluster.make({"status", "phase"}) = "Ready";
  keep_lifecycle(cluster);
  EXPECT_THAT(label_keys(cluster), ElementsAre("mine", "tenancy.kcp.io/phase"));
  EXPECT_EQ(finalizers(cluster), "");
}

TEST(Lifecycle, WhenNew_HasNoLabelsYet) {
  Json cluster = parse(R"({"metadata": {"name": "cluster"}, "spec": {"initializers": ["a:b"]}})");
  const Json before = cluster;
  keep_lifecycle(cluster);
  EXPECT_EQ(cluster, before);
}

TEST(Lifecycle, WhenDeleted_KK108_PhaseFollowsTheTerminators) {
  Json cluster = parse(R"({"metadata": {"finalizers": ["core.kcp.io/logicalcluster-deletion"]},
                           "status": {"phase": "Ready", "terminators": ["a:t"]}})");
  keep_lifecycle(cluster);
  EXPECT_EQ(finalizers(cluster),
            R"(["core.kcp.io/logicalcluster-deletion","kcp.io/has-terminators"])");
  cluster.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  keep_lifecycle(cluster);
  EXPECT_EQ(cluster.text({"status", "phase"}), "Terminating");
  EXPECT_EQ(cluster.text({"metadata", "labels", krm::kPhaseLabel}), "Terminating");
  cluster.at({"status"})->erase("terminators");
  keep_lifecycle(cluster);
  EXPECT_EQ(cluster.text({"status", "phase"}), "Deleting");
  EXPECT_EQ(finalizers(cluster), R"(["core.kcp.io/logicalcluster-deletion"])");
}

TEST(Lifecycle, WhenViewWrites_TP073_OnlyRemovesItsName) {
  const Json old = parse(R"({"status": {"phase": "Initializing", "initializers": ["a:b", "a:c"],
                                        "URL": "https://x"}})");
  const auto allowed = [&](const char* status) {
    Json now = old;
    now["status"] = parse(status);
    return check_only_removes(now, old, kInit, "a:b").has_value();
  };
  EXPECT_TRUE(allowed(R"({"phase": "Initializing", "initializers": ["a:c"], "URL": "https://x"})"));
  EXPECT_TRUE(allowed(R"({"phase": "Initializing", "initializers": ["a:c"], "URL": "https://x",
                          "conditions": [{"type": "Mine", "status": "True"}]})"));
  EXPECT_FALSE(
      allowed(R"({"phase": "Initializing", "initializers": ["a:b"], "URL": "https://x"})"));
  EXPECT_FALSE(allowed(R"({"phase": "Initializing", "initializers": [], "URL": "https://x"})"));
  EXPECT_FALSE(
      allowed(R"({"phase": "Initializing", "initializers": ["a:d"], "URL": "https://x"})"));
  EXPECT_FALSE(
      allowed(R"({"phase": "Initializing", "initializers": ["a:c"], "URL": "https://y"})"));
  EXPECT_FALSE(allowed(R"({"phase": "Ready", "initializers": ["a:c"], "URL": "https://x"})"));
  EXPECT_TRUE(allowed(R"({"phase": "Initializing", "initializers": ["a:b", "a:c"],
                          "URL": "https://x"})"));
  EXPECT_TRUE(allowed(R"({"phase": "Initializing", "initializers": ["a:b", "a:c"],
                          "URL": "https://x", "conditions": [{"type": "Mine"}]})"));
  // KK-350: another's entry swapped, one added, one twice, the order, the phase, the URL.
  for (const char* list : {R"(["a:b", "a:d"])", R"(["a:d", "a:c"])", R"(["a:b", "a:c", "a:d"])",
                           R"(["a:b", "a:b"])", R"(["a:c", "a:b"])", R"(["a:c", "a:c"])"}) {
    const std::string status = std::string(R"({"phase": "Initializing", "URL": "https://x",)") +
                               R"("initializers": )" + list + "}";
    EXPECT_FALSE(allowed(status.c_str())) << list;
  }
  EXPECT_FALSE(allowed(R"({"phase": "Ready", "initializers": ["a:b", "a:c"],
                           "URL": "https://x"})"));
  EXPECT_FALSE(allowed(R"({"phase": "Initializing", "initializers": ["a:b", "a:c"]})"));
  EXPECT_FALSE(allowed(R"({"phase": "Initializing", "initializers": ["a:c"], "URL": "https://x",
                           "terminators": ["a:b"]})"));
}

TEST(Lifecycle, WhenTheLastTerminatorGoes_TP075_ThePhaseMayFollow) {
  const Json old = parse(R"({"status": {"phase": "Terminating", "terminators": ["a:t"]}})");
  EXPECT_TRUE(check_only_removes(parse(R"({"status": {"phase": "Deleting"}})"), old, kTerm, "a:t"));
  const Expected<void> refused = check_only_removes(
      parse(R"({"status": {"phase": "Terminating", "terminators": ["w:w"]}})"), old, kTerm, "a:t");
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message(),
      R"(LogicalCluster.core.kcp.io "cluster" is invalid: status.terminators: Invalid value: )"
      R"(["w:w"]: only removing the "a:t" terminator is supported)");
}

TEST(Lifecycle, WhenInitializing_ConditionTellsWhoIsLeft) {
  Json cluster = parse(R"({"status": {"phase": "Initializing", "initializers": ["a:b", "a:c"]}})");
  set_initialized_condition(cluster);
  const Json& condition = cluster.at({"status", "conditions"})->items()[0];
  EXPECT_EQ(condition.text({"status"}), "False");
  EXPECT_EQ(condition.text({"message"}), "Initializers still exist: [a:b a:c]");
  cluster.make({"status", "phase"}) = "Ready";
  set_initialized_condition(cluster);
  EXPECT_EQ(cluster.at({"status", "conditions"})->items()[0].text({"status"}), "True");
}

}  // namespace
}  // namespace kintsugi::controlplane
