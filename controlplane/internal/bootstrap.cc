#include "controlplane/internal/bootstrap.h"

#include <optional>

#include "base/log.h"
#include "controlplane/internal/names.h"
#include "kinds/rbac/rbac.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kExports[] = {"tenancy.kcp.io", "topology.kcp.io", "shards.core.kcp.io",
                                         "migration.kcp.io"};

Json object_of(std::string_view api_version, std::string_view kind, std::string_view name) {
  Json object = Json::object({{"apiVersion", api_version}, {"kind", kind}});
  object.make({"metadata", "name"}) = name;
  return object;
}

Json type_reference(std::string_view name) {
  return Json::object({{"name", name}, {"path", kRootCluster}});
}

Json types_only(std::string_view name) {
  return Json::object({{"types", Json::array({type_reference(name)})}});
}

Json none() { return Json::object({{"none", true}}); }

Json export_reference(std::string_view name) {
  return Json::object({{"path", kRootCluster}, {"export", name}});
}

Json workspace_type(std::string_view name) {
  Json type = object_of("tenancy.kcp.io/v1alpha1", "WorkspaceType", name);
  Json& spec = type["spec"];
  spec["defaultChildWorkspaceType"] = type_reference("universal");
  const Json extend = Json::object({{"with", Json::array({type_reference("universal")})}});
  if (name == "universal") {
    spec["initializer"] = true;
    spec["defaultAPIBindings"] =
        Json::array({export_reference("tenancy.kcp.io"), export_reference("topology.kcp.io")});
    spec["defaultAPIBindingLifecycle"] = "Maintain";
  } else if (name != "root") {
    spec["extend"] = extend;
  }
  if (name == "root" || name == "home") {
    spec["limitAllowedParents"] = none();
  } else if (name == "organization") {
    spec["limitAllowedParents"] = types_only("root");
  } else if (name == "team") {
    spec["limitAllowedParents"] = Json::object(
        {{"types", Json::array({type_reference("organization"), type_reference("team")})}});
  }
  return type;
}

apiserver::ObjectKey key_in_root(std::string_view group, std::string_view resource,
                                 const Json& object) {
  return {std::string(kRootCluster), std::string(group), std::string(resource), "",
          std::string(object.text({"metadata", "name"}))};
}

bool is_stale(const BootstrapObject& wanted, const Json& stored) {
  if (wanted.restored.empty() ||
      stored.text({"metadata", "annotations", krm::kAutoUpdateAnnotation}) != "true") {
    return false;
  }
  const Json* now = stored.find(wanted.restored);
  return now == nullptr || *now != *wanted.object.find(wanted.restored);
}

}  // namespace

std::vector<BootstrapObject> bootstrap_objects(const std::string& shard_name) {
  std::vector<BootstrapObject> objects;
  Json root = object_of("core.kcp.io/v1alpha1", "LogicalCluster", kClusterName);
  Json& annotations = root.make({"metadata", "annotations"});
  annotations[krm::kPathAnnotation] = kRootCluster;
  annotations[krm::kTypeAnnotation] = "root:root";
  annotations[krm::kShardAnnotation] = shard_name;
  annotations[krm::kResourceBindingsAnnotation] = "{}";
  root.make({"metadata", "finalizers"}).push_back(Json(krm::kLogicalClusterFinalizer));
  root.make({"spec", "directlyDeletable"}) = false;
  objects.push_back({key_in_root(kCoreGroup, kLogicalClusters, root), root});
  for (const std::string_view name : kExports) {
    Json one = object_of("apis.kcp.io/v1alpha2", "APIExport", name);
    one.make({"spec", "resources"}) = Json::array();
    objects.push_back({key_in_root(kApisGroup, kApiExports, one), one});
  }
  for (const char* name : {"root", "universal", "organization", "team", "home"}) {
    Json type = workspace_type(name);
    objects.push_back({key_in_root(kTenancyGroup, kWorkspaceTypes, type), std::move(type)});
  }
  return objects;
}

std::vector<BootstrapObject> bootstrap_policy() {
  std::vector<BootstrapObject> objects;
  for (Json& object : kinds::bootstrap_policy_objects()) {
    const bool is_role = object.text({"kind"}) == "ClusterRole";
    objects.push_back({{std::string(kLocalAdminCluster), "rbac.authorization.k8s.io",
                        is_role ? "clusterroles" : "clusterrolebindings", "",
                        std::string(object.text({"metadata", "name"}))},
                       std::move(object),
                       is_role ? "rules" : "subjects"});
  }
  return objects;
}

Bootstrap::Bootstrap(const apiserver::ControllerContext& context,
                     std::vector<BootstrapObject> objects, std::function<void()> done)
    : apiserver::ControllerBase(context, "kintsugi-bootstrap", 1),
      objects_(std::move(objects)),
      done_(std::move(done)) {}

void Bootstrap::start() { queue_.add("next"); }

void Bootstrap::process(const std::string& key, Finished finished) {
  std::optional<Json> found;
  for (; next_ < objects_.size(); ++next_) {
    found = get(objects_[next_].key);
    if (!found || is_stale(objects_[next_], *found)) {
      break;
    }
  }
  if (complete()) {
    finished(true);
    done_();
    return;
  }
  const BootstrapObject& wanted = objects_[next_];
  const auto done = [this, key, finished](const Expected<Json>& result) {
    wrote(key, result, finished);
  };
  if (found) {
    (*found)[wanted.restored] = *wanted.object.find(wanted.restored);
    update(wanted.key, {}, *std::move(found), done);
  } else {
    create(wanted.key, wanted.object, done);
  }
}

void Bootstrap::wrote(const std::string& key, const Expected<Json>& result,
                      const Finished& finished) {
  if (!result && result.error().code() != Errc::kAlreadyExists) {
    log_warn("bootstrap object cannot be made",
             {{"name", objects_[next_].key.name}, {"error", result.error().to_string()}});
    finished(false);
    return;
  }
  queue_.add(key);
  finished(true);
}

}  // namespace kintsugi::controlplane
