#include "controlplane/admission/logical_cluster_admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controlplane/internal/names.h"
#include "controlplane/testing/write.h"
#include "krm/finalizers.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::member;
using testing::TestWrite;
using testing::text_of;

constexpr const char* kPrefix = "logicalclusters.core.kcp.io \"cluster\" is forbidden: ";
const char* const kExemptGroups[] = {"system:masters", "system:kcp:logical-cluster-admin",
                                     "system:kcp:external-logical-cluster-admin",
                                     "system:kcp:tenancy:workspace-bootstrapper"};
const char* const kBoundGroups[] = {"system:kcp:admin", "system:authenticated"};

Json parse(const char* text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

Json cluster(const char* phase = "Ready") {
  Json object = parse(R"({"metadata": {"name": "cluster",
      "finalizers": ["core.kcp.io/logicalcluster-deletion"]},
      "spec": {"createdBy": {"username": "ann", "groups": ["a"]}, "initializers": ["a:b", "a:c"],
               "terminators": ["a:t"], "directlyDeletable": false,
               "owner": {"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces",
                         "name": "w", "cluster": "root", "uid": "u"}}})");
  object.make({"status", "phase"}) = phase;
  return object;
}

std::string approve(const char* group, const Json* now, const Json* old,
                    const char* subresource = "") {
  const TestWrite write(member({group}), subresource);
  std::string text = "no answer";
  approve_logical_cluster(write.context, now, old,
                          [&](Expected<void> result) { text = text_of(result); });
  return text;
}

TEST(LogicalClusterAdmission, WhenMadeOrDeleted_KK092_KK093_TheSystemDoesIt) {
  const Json object = cluster();
  Json deletable = cluster();
  deletable.make({"spec", "directlyDeletable"}) = true;
  for (const char* group : kExemptGroups) {
    EXPECT_EQ(approve(group, &object, nullptr), "") << group;
    EXPECT_EQ(approve(group, nullptr, &object), "") << group;
  }
  for (const char* group : kBoundGroups) {
    EXPECT_EQ(approve(group, &object, nullptr),
              kPrefix + std::string("LogicalCluster cannot be created"));
    EXPECT_EQ(approve(group, nullptr, &object),
              kPrefix + std::string("LogicalCluster cannot be deleted"));
    EXPECT_EQ(approve(group, nullptr, &deletable), "");
  }
}

TEST(LogicalClusterAdmission, WhenSpecChanges_KK100_OnlyExemptGroupsMay) {
  const Json old = cluster();
  const std::pair<const char*, const char*> changes[] = {
      {R"({"createdBy": {"username": "eve"}})",
       R"(spec.createdBy: Invalid value: {"username":"eve"}: field is immutable)"},
      {R"({"createdBy": null})", "spec.createdBy: Invalid value: null: field is immutable"},
      {R"({"initializers": ["a:b"]})", "spec.initializers is immutable"},
      {R"({"initializers": null})", "spec.initializers is immutable"},
      {R"({"terminators": null})", "spec.terminators: Invalid value: null: field is immutable"},
      {R"({"terminators": []})", "spec.terminators: Invalid value: []: field is immutable"},
      {R"({"directlyDeletable": true})",
       "spec.directlyDeletable: Invalid value: true: field is immutable"},
      {R"({"owner": {"name": "x"}})",
       R"(spec.owner: Invalid value: {"name":"x"}: field is immutable)"},
      {R"({"owner": null})", "spec.owner: Invalid value: null: field is immutable"},
      {R"({"more": 1})", "spec.more: Invalid value: 1: field is immutable"}};
  for (const auto& [change, text] : changes) {
    Json now = old;
    const Json parsed = parse(change);
    for (const krm::JsonMember& one : parsed.members()) {
      if (one.value.is_null()) {
        now["spec"].erase(std::string_view(one.key));
      } else {
        now.make({"spec", std::string_view(one.key)}) = one.value;
      }
    }
    for (const char* group : kBoundGroups) {
      EXPECT_EQ(approve(group, &now, &old), std::string(kPrefix) + text) << change;
    }
    for (const char* group : kExemptGroups) {
      EXPECT_EQ(approve(group, &now, &old), "") << change;
    }
  }
}

TEST(LogicalClusterAdmission, WhenSpecMeansTheSame_KK009_MayBeSent) {
  const Json old = cluster();
  Json now = old;
  now["spec"].erase("directlyDeletable");
  now.make({"spec", "initializers"}) = parse(R"(["a:c", "a:b"])");
  EXPECT_EQ(approve("system:authenticated", &now, &old), "");
}

TEST(LogicalClusterAdmission, WhenStatusIsWritten_KK096_KK097_OnlyGoesForward) {
  Json old = cluster("Initializing");
  old["status"] =
      parse(R"({"phase": "Initializing", "initializers": ["a:b", "a:c"], "terminators": ["a:t"]})");
  const auto verdict = [&](const char* status) {
    Json now = old;
    now["status"] = parse(status);
    return cluster_status_fault(now, old);
  };
  EXPECT_EQ(
      verdict(R"({"phase": "Initializing", "initializers": ["a:c"], "terminators": ["a:t"]})"), "");
  EXPECT_EQ(verdict(R"({"phase": "Ready"})"), "");
  EXPECT_EQ(verdict(R"({"phase": "Initializing", "initializers": ["a:b", "a:d"]})"),
            "status.initializers must not grow");
  EXPECT_EQ(verdict(R"({"phase": "Initializing", "terminators": ["a:t", "a:u"]})"), "")
      << "whom it waits for is not looked at";
  EXPECT_EQ(verdict(R"({"phase": "Ready", "initializers": ["a:b"]})"),
            "status.initializers is not empty");
  EXPECT_EQ(verdict(R"({"phase": "Scheduling"})"),
            R"(cannot transition from "Initializing" to "Scheduling")");
  for (const char* phase : {"Unavailable", "Inactive", "Terminating", "Deleting"}) {
    const std::string status = R"({"phase": ")" + std::string(phase) + R"("})";
    EXPECT_EQ(verdict(status.c_str()),
              R"(cannot transition from "Initializing" to ")" + std::string(phase) + "\"");
  }
  old["status"] = parse(R"({"phase": "Ready", "terminators": ["a:t"]})");
  EXPECT_EQ(verdict(R"({"phase": "Ready", "initializers": ["a:b"]})"),
            "status.initializers is immutable after initialization");
  EXPECT_EQ(verdict(R"({"phase": "Ready"})"), "") << "an administrator may take terminators away";
  EXPECT_EQ(verdict(R"({"phase": "Initializing", "initializers": ["a:x"]})"),
            R"(cannot transition from "Ready" to "Initializing")")
      << "before the lists are compared";
  old["status"] = parse(R"({"phase": "Scheduling"})");
  EXPECT_EQ(verdict(R"({"phase": "Initializing", "initializers": ["a:b"]})"),
            "status.initializers do not equal spec.initializers");
  EXPECT_EQ(verdict(R"({"phase": "Initializing", "initializers": ["a:c", "a:b"],
                        "terminators": ["a:t"]})"),
            "");
}

TEST(LogicalClusterAdmission, WhenStatusGoesBack_KK091_AdministratorsAreNotExempt) {
  const Json old = cluster("Ready");
  const Json now = cluster("Initializing");
  EXPECT_EQ(approve("system:kcp:admin", &now, &old, "status"),
            kPrefix + std::string(R"(cannot transition from "Ready" to "Initializing")"));
  EXPECT_EQ(approve("system:masters", &now, &old, "status"), "");
}

TEST(LogicalClusterAdmission, WhenMarkedInactive_KK098_IsReady) {
  for (const char* key : {"core.kcp.io/inactive", "internal.kcp.io/inactive"}) {
    const Json old = cluster("Initializing");
    Json now = old;
    now.make({"metadata", "annotations", key}) = "true";
    EXPECT_EQ(approve("system:kcp:admin", &now, &old),
              kPrefix + std::string("LogicalCluster can only be marked inactive in phase "
                                    "\"Ready\", but is in phase \"Initializing\""));
    EXPECT_EQ(approve("system:masters", &now, &old), "");
    const Json ready = cluster("Ready");
    now["status"] = *ready.find("status");
    EXPECT_EQ(approve("system:kcp:admin", &now, &ready), "");
  }
}

std::string receive(const char* group, const Json& now, const Json& old) {
  const TestWrite write(member({group}));
  apiserver::ResourceDef def;
  def.group = kCoreGroup;
  def.plural = kLogicalClusters;
  return text_of(receive_logical_cluster(write.context, def, now, &old));
}

TEST(LogicalClusterAdmission, WhenFinalizersChange_KK102_OnlyAdministratorsMay) {
  const std::string own(krm::kLogicalClusterFinalizer);
  Json old = cluster();
  old.make({"metadata", "finalizers"}).push_back(Json("x/held"));
  Json without = old;
  without.make({"metadata", "finalizers"}) = Json::array({Json("x/held")});
  Json added = old;
  added.make({"metadata", "finalizers"}).push_back(Json("x/y"));
  Json freed = old;
  freed.make({"metadata", "finalizers"}) = Json::array({Json(own)});
  Json none = old;
  none["metadata"].erase("finalizers");
  const std::string other =
      kPrefix + std::string("metadata.finalizers: Forbidden: only administrators may change them");
  const std::string required = kPrefix + ("finalizer " + own + " is required");
  EXPECT_EQ(receive("system:authenticated", old, old), "");
  EXPECT_EQ(receive("system:authenticated", without, old), required);
  EXPECT_EQ(receive("system:authenticated", none, old), required);
  EXPECT_EQ(receive("system:authenticated", added, old), other);
  EXPECT_EQ(receive("system:authenticated", freed, old), other);
  old.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  const std::string removing = kPrefix + ("removing the finalizer " + own + " is forbidden");
  EXPECT_EQ(receive("system:authenticated", without, old), removing);
  EXPECT_EQ(receive("system:kcp:admin", without, old), "");
  EXPECT_EQ(approve("system:kcp:admin", &without, &old), removing);
  EXPECT_EQ(approve("system:kcp:external-logical-cluster-admin", &without, &old), removing);
  EXPECT_EQ(approve("system:masters", &without, &old), "");
}

TEST(LogicalClusterAdmission, WhenItIsThere_KK090_TheFinalizerComesBack) {
  const Json old = cluster();
  Json now = old;
  now["metadata"].erase("finalizers");
  prepare_logical_cluster(now, &old);
  EXPECT_EQ(now.at({"metadata", "finalizers"})->dump(),
            "[\"" + std::string(krm::kLogicalClusterFinalizer) + "\"]");
  Json going = old;
  going["metadata"].erase("finalizers");
  going.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  prepare_logical_cluster(going, &old);
  EXPECT_EQ(going.at({"metadata", "finalizers"}), nullptr);
}

}  // namespace
}  // namespace kintsugi::controlplane
