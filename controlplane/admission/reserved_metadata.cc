#include "controlplane/admission/reserved_metadata.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/go_text.h"
#include "krm/labels.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using enum MetaPart;
using enum OnForeign;

struct KindName {
  KindSet kind;
  std::string_view group, plural;
};
constexpr KindName kKindNames[] = {
    {kOfLogicalCluster, "core.kcp.io", "logicalclusters"},
    {kOfShard, "core.kcp.io", "shards"},
    {kOfWorkspace, "tenancy.kcp.io", "workspaces"},
    {kOfWorkspaceType, "tenancy.kcp.io", "workspacetypes"},
    {kOfAuthentication, "tenancy.kcp.io", "workspaceauthenticationconfigurations"},
    {kOfPartition, "topology.kcp.io", "partitions"},
    {kOfPartitionSet, "topology.kcp.io", "partitionsets"},
    {kOfEndpointSlice, "apis.kcp.io", "apiexportendpointslices"},
    {kOfExport, "apis.kcp.io", "apiexports"},
    {kOfBinding, "apis.kcp.io", "apibindings"},
    {kOfSchema, "apis.kcp.io", "apiresourceschemas"},
    {kOfConversion, "apis.kcp.io", "apiconversions"},
    {kOfCachedResource, "cache.kcp.io", "clustercachedresources"},
};

constexpr Privileges kServer = kSystem;  // its controllers write as that
constexpr Privileges kLimits = kExempt | kAdmin;
constexpr Privileges kTypeWriters = kSystem | kClusterAdmin | kBootstrapper;
constexpr KindSet kClusterAndWorkspace = kOfLogicalCluster | kOfWorkspace;

constexpr ReservedKey kKeys[] = {
    // Free although their domains are kcp's.
    {"internal.kcp.io/e2e-test", kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {"extra.apis.kcp.io/*", kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {krm::kSkipEndpointSliceAnnotation, kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {"apis.v1alpha2.kcp.io/*", kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {"preserve.conversion.apis.kcp.io/*", kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {"bootstrap.kcp.io/*", kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    {krm::kMountAnnotation, kBoth, kOfAll, kEverybody, kEverybody, kRefuse, kRefuse},
    // On everything.
    {krm::kClusterAnnotation, kAnnotation, kOfAll, 0, 0, kKept, kKept},
    {"kcp.io/shard", kAnnotation, kOfAll, 0, 0, kDrop, kDrop},
    {krm::kPathAnnotation, kAnnotation, kOfLogicalCluster, kExempt, kServer, kRefuse, kRefuse},
    {krm::kPathAnnotation, kAnnotation, kOfAll, 0, 0, kPath, kPath},
    {"claimed.internal.apis.kcp.io/*", kLabel, kOfAll, 0, 0, kKept, kKept},
    {"internal.kcp.io/replicate", kBoth, kOfAll, kServer, kServer, kRefuse, kRefuse},
    // Logical clusters and workspaces.
    {krm::kShardAnnotation, kAnnotation, kClusterAndWorkspace, kServer, kServer, kRefuse, kRefuse},
    {krm::kPlacedClusterAnnotation, kAnnotation, kOfWorkspace, kServer, kServer, kRefuse, kRefuse},
    {krm::kPlacedShardAnnotation, kAnnotation, kOfWorkspace, kServer, kServer, kRefuse, kRefuse},
    {krm::kTypeAnnotation, kAnnotation, kOfLogicalCluster, kTypeWriters, kServer, kRefuse, kRefuse},
    {krm::kOwnerAnnotation, kAnnotation, kOfWorkspace, kServer, kServer, kOverwrite, kRefuse},
    {krm::kOwnerAnnotation, kAnnotation, kOfLogicalCluster, kExempt, kExempt, kRefuse, kRefuse},
    {krm::kRequiredGroupsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kRequiredGroupsAnnotation, kAnnotation, kOfWorkspace, kServer, kSystem | kAdmin,
     kOverwrite, kRefuse},
    {krm::kInactiveAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse, kRefuse},
    {krm::kFormerInactiveAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxObjectsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxBytesAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse, kRefuse},
    {krm::kMaxDefinitionsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxExportsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxBindingsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxNamespacesAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxServiceAccountsAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kMaxChildrenAnnotation, kAnnotation, kOfLogicalCluster, kLimits, kLimits, kRefuse,
     kRefuse},
    {krm::kResourceBindingsAnnotation, kAnnotation, kOfLogicalCluster, kServer, kServer, kRefuse,
     kRefuse},
    {krm::kPhaseLabel, kLabel, kClusterAndWorkspace, kServer, kServer, kRefuse, kRefuse},
    {"initializer.internal.kcp.io/*", kLabel, kClusterAndWorkspace, kServer, kServer, kRefuse,
     kRefuse},
    {"terminator.internal.kcp.io/*", kLabel, kClusterAndWorkspace, kServer, kServer, kRefuse,
     kRefuse},
    // Others of kcp's kinds.
    {krm::kExportLabel, kLabel, kOfBinding, kServer, kServer, kOverwrite, kRefuse},
    {krm::kUnschedulableAnnotation, kBoth, kOfShard, kSystem | kAdmin, kSystem | kAdmin, kRefuse,
     kRefuse},
    // Whatever else lies in kcp's own domains.
    {"kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"core.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"authorization.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"tenancy.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"internal.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"*.internal.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"internal.tenancy.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"internal.apis.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
    {"*.internal.apis.kcp.io/*", kBoth, kOfKcp, kServer, kServer, kRefuse, kRefuse},
};

bool matches(std::string_view pattern, std::string_view key) noexcept {
  const std::size_t slash = key.find('/');
  const std::size_t border = pattern.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  const std::string_view domain = key.substr(0, slash);
  const std::string_view wanted = pattern.substr(0, border);
  const bool below = wanted.starts_with("*.");
  if (below ? !domain.ends_with(wanted.substr(1)) : domain != wanted) {
    return false;
  }
  const std::string_view name = pattern.substr(border + 1);
  return name == "*" || name == key.substr(slash + 1);
}

/// The labels or the annotations of one object that is being written.
class Part {
 public:
  Part(MetaPart part, KindSet kind, Privileges user, Json& object, const Json* old)
      : part_(part), kind_(kind), user_(user), creates_(old == nullptr), object_(object) {
    const Json* before = old == nullptr ? nullptr : old->at({"metadata", member()});
    before_ = before != nullptr && before->is_object() ? before : nullptr;
  }

  /// @returns the first key whose change is refused.
  std::optional<std::string> settle(const std::string& path) {
    std::vector<std::string> keys = keys_of(now());
    for (std::string& key : keys_of(before_)) {
      if (now() == nullptr || now()->find(key) == nullptr) {
        keys.push_back(std::move(key));
      }
    }
    std::optional<std::string> refused;
    for (const std::string& key : keys) {
      if (!settle_key(key, path) && !refused) {
        refused = key;
      }
    }
    if (const Json* left = now(); left != nullptr && !keys.empty() && left->size() == 0) {
      object_["metadata"].erase(member());
    }
    return refused;
  }

 private:
  [[nodiscard]] std::string_view member() const noexcept {
    return part_ == kLabel ? "labels" : "annotations";
  }
  [[nodiscard]] Json* now() {
    Json* found = object_.at({"metadata", member()});
    return found != nullptr && found->is_object() ? found : nullptr;
  }
  static std::vector<std::string> keys_of(const Json* map) {
    std::vector<std::string> keys;
    if (map != nullptr) {
      for (const krm::JsonMember& one : map->members()) {
        keys.emplace_back(std::string_view(one.key));
      }
    }
    return keys;
  }

  void put(const std::string& key, const Json* value) {
    if (value != nullptr) {
      object_.make({"metadata", member(), key}) = *value;
    } else if (Json* map = now()) {
      map->erase(key);
    }
  }

  /// False: the change is refused.
  bool settle_key(const std::string& key, const std::string& path) {
    const ReservedKey* rule = reserved_key(kind_, part_, key);
    if (rule == nullptr) {
      return true;
    }
    const Json* value = now() == nullptr ? nullptr : now()->find(key);
    const Json* before = before_ == nullptr ? nullptr : before_->find(key);
    const OnForeign action = creates_ ? rule->on_create : rule->on_update;
    if (action == kKept) {
      return true;
    }
    if (action == kDrop) {
      put(key, nullptr);
      return true;
    }
    if (action == kPath) {
      const Json own(path);
      if (value != nullptr) {
        put(key, path.empty() ? nullptr : &own);
      }
      return true;
    }
    const bool same =
        (value == nullptr) == (before == nullptr) && (value == nullptr || *value == *before);
    if (same || (user_ & (creates_ ? rule->creators : rule->writers)) != 0) {
      return true;
    }
    if (action == kOverwrite) {
      const std::optional<Json> kept = before == nullptr ? std::nullopt : std::optional(*before);
      put(key, kept ? &*kept : nullptr);
      return true;
    }
    return false;
  }

  MetaPart part_;
  KindSet kind_;
  Privileges user_;
  bool creates_;
  Json& object_;
  const Json* before_;
};

}  // namespace

KindSet kind_of(const apiserver::ResourceDef& def) noexcept {
  const auto found = std::find_if(
      std::begin(kKindNames), std::end(kKindNames),
      [&](const KindName& one) { return one.plural == def.plural && one.group == def.group; });
  return found == std::end(kKindNames) ? kOfAnythingElse : found->kind;
}

std::span<const ReservedKey> reserved_keys() noexcept { return kKeys; }

const ReservedKey* reserved_key(KindSet kind, MetaPart part, std::string_view key) noexcept {
  const auto found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const ReservedKey& rule) {
    return (rule.kinds & kind) != 0 && (rule.part == kBoth || rule.part == part) &&
           matches(rule.pattern, key);
  });
  return found == std::end(kKeys) ? nullptr : &*found;
}

Expected<void> receive_metadata(const PathOf& path_of, const apiserver::WriteContext& context,
                                const apiserver::ResourceDef& def, Json& object, const Json* old) {
  if (context.cluster.empty()) {
    return {};
  }
  const KindSet kind = kind_of(def);
  const Privileges user = privileges_of(context.user);
  const bool whole = context.subresource.empty();
  const bool has_path = object.at({"metadata", "annotations", krm::kPathAnnotation}) != nullptr;
  const bool wants_path = has_path || (whole && (kind & kWithPath) != 0);
  const std::string path = path_of && wants_path ? path_of(context.cluster) : std::string();
  for (const auto& [part, shown] :
       {std::pair<MetaPart, std::string_view>{kAnnotation, "annotation"},
        std::pair<MetaPart, std::string_view>{kLabel, "label"}}) {
    if (const std::optional<std::string> key = Part(part, kind, user, object, old).settle(path)) {
      return fail(krm::forbidden(
          def.group, def.plural, object.text({"metadata", "name"}),
          "modification of reserved " + std::string(shown) + ": " + krm::go_quote(*key)));
    }
  }
  if (whole && (kind & kWithPath) != 0 && !path.empty()) {
    object.make({"metadata", "annotations", krm::kPathAnnotation}) = path;
  }
  return {};
}

namespace {

class ReservedMetadata final : public apiserver::AdmissionStep {
 public:
  explicit ReservedMetadata(PathOf path_of) : path_of_(std::move(path_of)) {}
  Expected<void> receive(const apiserver::WriteContext& context, const apiserver::ResourceDef& def,
                         krm::Json& object, const krm::Json* old) override {
    return receive_metadata(path_of_, context, def, object, old);
  }

 private:
  const PathOf path_of_;
};

}  // namespace

std::unique_ptr<apiserver::AdmissionStep> reserved_metadata_step(PathOf path_of) {
  return std::make_unique<ReservedMetadata>(std::move(path_of));
}

}  // namespace kintsugi::controlplane
