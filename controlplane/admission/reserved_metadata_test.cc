#include "controlplane/admission/reserved_metadata.h"

#include <gtest/gtest.h>

#include "controlplane/internal/names.h"
#include "controlplane/testing/write.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::member;
using testing::TestWrite;
using testing::text_of;

constexpr const char* kTenantGroups = "system:authenticated";

apiserver::ResourceDef def_of(std::string_view group, std::string_view plural) {
  apiserver::ResourceDef def;
  def.group = group;
  def.plural = plural;
  return def;
}
apiserver::ResourceDef def_of(KindSet kind) {
  const std::pair<KindSet, std::pair<const char*, const char*>> names[] = {
      {kOfLogicalCluster, {"core.kcp.io", "logicalclusters"}},
      {kOfShard, {"core.kcp.io", "shards"}},
      {kOfWorkspace, {"tenancy.kcp.io", "workspaces"}},
      {kOfWorkspaceType, {"tenancy.kcp.io", "workspacetypes"}},
      {kOfExport, {"apis.kcp.io", "apiexports"}},
      {kOfBinding, {"apis.kcp.io", "apibindings"}},
      {kOfSchema, {"apis.kcp.io", "apiresourceschemas"}},
      {kOfPartition, {"topology.kcp.io", "partitions"}},
  };
  for (const auto& [bit, name] : names) {
    if (bit == kind) {
      return def_of(name.first, name.second);
    }
  }
  return def_of("", "configmaps");
}

/// A key that the pattern means.
std::string example(std::string_view pattern) {
  std::string key(pattern);
  if (key.starts_with("*.")) {
    key.replace(0, 1, "any");
  }
  if (key.ends_with("*")) {
    key.replace(key.size() - 1, 1, "x");
  }
  return key;
}

struct Outcome {
  std::string text;
  std::string value;  ///< afterwards, "" when it is not there
};

class ReservedMetadataTest : public ::testing::Test {
 protected:
  static std::string_view map_of(MetaPart part) {
    return part == MetaPart::kLabel ? "labels" : "annotations";
  }
  static Json object_with(MetaPart part, const std::string& key, const char* value) {
    Json object = Json::object();
    object.make({"metadata", "name"}) = "one";
    if (value != nullptr) {
      object.make({"metadata", map_of(part), key}) = value;
    }
    return object;
  }
  /// @param now null: the key is not there.
  static Outcome write(const auth::UserInfo& user, KindSet kind, MetaPart part,
                       const std::string& key, const char* now, bool update,
                       const char* before = nullptr, std::string subresource = {}) {
    const TestWrite one(user, std::move(subresource));
    Json object = object_with(part, key, now);
    const Json old = object_with(part, key, before);
    const Expected<void> result =
        receive_metadata([](std::string_view) { return std::string("root:own"); }, one.context,
                         def_of(kind), object, update ? &old : nullptr);
    return {text_of(result), std::string(object.text({"metadata", map_of(part), key}))};
  }
  static std::string refusal(KindSet kind, MetaPart part, const std::string& key) {
    const apiserver::ResourceDef def = def_of(kind);
    return def.qualified_name() + " \"one\" is forbidden: modification of reserved " +
           (part == MetaPart::kLabel ? "label" : "annotation") + ": \"" + key + "\"";
  }

  const auth::UserInfo tenant_ = member({kTenantGroups});
};

TEST_F(ReservedMetadataTest, WhenTenantsWrite_KK027_EveryRowOfTheTableHolds) {
  for (const ReservedKey& row : reserved_keys()) {
    const std::string key = example(row.pattern);
    for (const KindSet kind : {kOfLogicalCluster, kOfShard, kOfWorkspace, kOfWorkspaceType,
                               kOfExport, kOfBinding, kOfSchema, kOfPartition, kOfAnythingElse}) {
      for (const MetaPart part : {MetaPart::kAnnotation, MetaPart::kLabel}) {
        if (reserved_key(kind, part, key) != &row) {
          continue;
        }
        SCOPED_TRACE(key + " on " + def_of(kind).qualified_name());
        const Outcome made = write(tenant_, kind, part, key, "forged", false);
        const Outcome set = write(tenant_, kind, part, key, "forged", true);
        const Outcome changed = write(tenant_, kind, part, key, "forged", true, "right");
        const Outcome removed = write(tenant_, kind, part, key, nullptr, true, "right");
        EXPECT_EQ(write(tenant_, kind, part, key, "right", true, "right").text, "");
        if ((row.writers & kEverybody) != 0) {
          EXPECT_EQ(made.value + set.value + changed.value, "forgedforgedforged");
          EXPECT_EQ(made.text + set.text + changed.text + removed.text, "");
          continue;
        }
        const std::string refused = refusal(kind, part, key);
        const std::string on_update = row.on_update == OnForeign::kRefuse ? refused : "";
        EXPECT_EQ(made.text, row.on_create == OnForeign::kRefuse ? refused : "");
        EXPECT_EQ(set.text, on_update);
        EXPECT_EQ(changed.text, on_update);
        EXPECT_EQ(removed.text, on_update);
        const bool thrown_away =
            row.on_create == OnForeign::kOverwrite || row.on_create == OnForeign::kDrop;
        if (thrown_away) {
          EXPECT_EQ(made.value, "");
        }
        if (row.on_create == OnForeign::kPath) {
          EXPECT_EQ(made.value + changed.value, "root:ownroot:own");
        }
      }
    }
  }
}

TEST_F(ReservedMetadataTest, WhenPrivilegedUsersWrite_KK027_OnlyTheirRowsAreOpen) {
  const std::pair<const char*, Privileges> groups[] = {
      {"system:masters", kSystem},
      {"system:kcp:logical-cluster-admin", kClusterAdmin},
      {"system:kcp:external-logical-cluster-admin", kExternalClusterAdmin},
      {"system:kcp:tenancy:workspace-bootstrapper", kBootstrapper},
      {"system:kcp:admin", kAdmin}};
  for (const ReservedKey& row : reserved_keys()) {
    if (row.on_update != OnForeign::kRefuse || (row.kinds & kOfLogicalCluster) == 0) {
      continue;
    }
    const std::string key = example(row.pattern);
    const MetaPart part = row.part == MetaPart::kLabel ? row.part : MetaPart::kAnnotation;
    if (reserved_key(kOfLogicalCluster, part, key) != &row) {
      continue;
    }
    for (const auto& [group, privilege] : groups) {
      const bool made =
          write(member({group}), kOfLogicalCluster, part, key, "v", false).text.empty();
      const bool changed =
          write(member({group}), kOfLogicalCluster, part, key, "v", true, "w").text.empty();
      const Privileges has = privilege | kEverybody;
      EXPECT_EQ(made, (row.creators & has) != 0) << key << " " << group;
      EXPECT_EQ(changed, (row.writers & has) != 0) << key << " " << group;
    }
  }
}

/// The rows that the issue names, so that a changed table is noticed.
TEST_F(ReservedMetadataTest, WhenTheTableIsRead_KK027_TheKeysOfTheTakeoversAreInIt) {
  const std::pair<KindSet, const char*> keys[] = {
      {kOfWorkspace, "internal.tenancy.kcp.io/cluster"},
      {kOfWorkspace, "core.kcp.io/shard"},
      {kOfWorkspace, "experimental.tenancy.kcp.io/owner"},
      {kOfWorkspace, "authorization.kcp.io/required-groups"},
      {kOfLogicalCluster, "kcp.io/path"},
      {kOfLogicalCluster, "core.kcp.io/shard"},
      {kOfLogicalCluster, "experimental.tenancy.kcp.io/owner"},
      {kOfLogicalCluster, "internal.tenancy.kcp.io/type"},
      {kOfLogicalCluster, "core.kcp.io/inactive"},
      {kOfLogicalCluster, "internal.kcp.io/inactive"},
      {kOfLogicalCluster, "core.kcp.io/max-total-objects"},
      {kOfLogicalCluster, "internal.apis.kcp.io/resource-bindings"},
      {kOfLogicalCluster, "internal.kcp.io/replicate"},
      {kOfAnythingElse, "internal.kcp.io/replicate"},
      {kOfExport, "internal.kcp.io/x"}};
  for (const auto& [kind, key] : keys) {
    EXPECT_EQ(write(tenant_, kind, MetaPart::kAnnotation, key, "x", true, "y").text,
              refusal(kind, MetaPart::kAnnotation, key));
  }
  const auth::UserInfo admin = member({"system:kcp:admin"});
  EXPECT_NE(write(admin, kOfWorkspace, MetaPart::kAnnotation, "internal.tenancy.kcp.io/cluster",
                  "root", true)
                .text,
            "");
  EXPECT_NE(
      write(admin, kOfLogicalCluster, MetaPart::kAnnotation, "kcp.io/path", "root", true).text, "");
}

TEST_F(ReservedMetadataTest, WhenKeysAreNotKcps_KKT014_TheyAreFree) {
  for (const char* key : {"syncagent.kcp.io/x", "workspace.kcp.io/x", "example.com/x",
                          "notkcp.io/x", "kcp.io.example.com/x", "internal.kcp.io", "kcp.io",
                          "internal.kcp.io/e2e-test", "extra.apis.kcp.io/y", "x"}) {
    for (const KindSet kind : {kOfLogicalCluster, kOfWorkspace, kOfExport, kOfAnythingElse}) {
      const Outcome made = write(tenant_, kind, MetaPart::kAnnotation, key, "1", false);
      EXPECT_EQ(made.text, "") << key;
      EXPECT_EQ(made.value, "1") << key;
      EXPECT_EQ(write(tenant_, kind, MetaPart::kLabel, key, "1", true, "2").text, "") << key;
    }
  }
  for (const char* key : {"core.kcp.io/inactive", "internal.tenancy.kcp.io/cluster",
                          "authorization.kcp.io/required-groups", "tenancy.kcp.io/phase"}) {
    const Outcome made = write(tenant_, kOfAnythingElse, MetaPart::kAnnotation, key, "1", false);
    EXPECT_EQ(made.text + made.value, "1") << key << " means nothing on a ConfigMap";
  }
}

TEST_F(ReservedMetadataTest, WhenTheShardIsNamed_KK025_NobodysValueIsKept) {
  for (const char* group : {"system:masters", "system:kcp:admin", kTenantGroups}) {
    for (const KindSet kind : {kOfSchema, kOfAnythingElse, kOfLogicalCluster}) {
      const Outcome made =
          write(member({group}), kind, MetaPart::kAnnotation, "kcp.io/shard", "x", false);
      EXPECT_EQ(made.text + made.value, "") << group;
    }
  }
}

TEST_F(ReservedMetadataTest, WhenAPathIsSent_KK142_TheOwnOneIsStored) {
  for (const KindSet kind : {kOfExport, kOfBinding, kOfWorkspaceType}) {
    for (const char* sent : {static_cast<const char*>(nullptr), "root:other"}) {
      const Outcome made = write(member({"system:masters"}), kind, MetaPart::kAnnotation,
                                 "kcp.io/path", sent, false);
      EXPECT_EQ(made.value, "root:own");
      EXPECT_EQ(
          write(tenant_, kind, MetaPart::kAnnotation, "kcp.io/path", sent, true, "root:own").value,
          "root:own");
    }
  }
  EXPECT_EQ(write(tenant_, kOfAnythingElse, MetaPart::kAnnotation, "kcp.io/path", "x", false).value,
            "root:own");
  EXPECT_EQ(
      write(tenant_, kOfAnythingElse, MetaPart::kAnnotation, "kcp.io/path", nullptr, false).value,
      "");
  const Outcome status = write(tenant_, kOfExport, MetaPart::kAnnotation, "kcp.io/path", nullptr,
                               true, nullptr, "status");
  EXPECT_EQ(status.value, "") << "a status has no annotations";
}

TEST_F(ReservedMetadataTest, WhenNobodyKnowsPaths_TheyAreDropped) {
  const TestWrite one(tenant_);
  Json object = object_with(MetaPart::kAnnotation, "kcp.io/path", "root:other");
  EXPECT_TRUE(receive_metadata({}, one.context, def_of(kOfPartition), object, nullptr));
  EXPECT_EQ(object.at({"metadata", "annotations"}), nullptr);
}

TEST_F(ReservedMetadataTest, WhenThereIsNoLogicalCluster_NothingIsReserved) {
  const TestWrite one(tenant_, "", "");
  Json object = object_with(MetaPart::kAnnotation, "internal.kcp.io/replicate", "x");
  EXPECT_TRUE(receive_metadata({}, one.context, def_of(kOfAnythingElse), object, nullptr));
}

}  // namespace
}  // namespace kintsugi::controlplane
