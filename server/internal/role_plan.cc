#include "server/internal/role_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/digest.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "krm/yaml.h"
#include "krm/yaml_documents.h"
#include "server/internal/embedded_files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::string_view kExample = "example", kExampleFolder = "worker/";
constexpr std::string_view kRootRights = "worker/root-rbac.yaml";
constexpr std::string_view kLeaseRights = "worker/lease-rbac.yaml";
constexpr std::string_view kTargetFolder = "delivery/", kTargetRights = "delivery/rbac.yaml";
constexpr std::string_view kPool = "/pool.yaml";
constexpr std::string_view kUsersOfFiles[] = {"greeter", "concertmaster"};
constexpr const char* kWorkers = "workers";
constexpr const char* kSlice = "APIExportEndpointSlice";

Expected<std::vector<Json>> objects_of(const EmbeddedFile& file) {
  std::vector<Json> out;
  for (const std::string_view text : krm::yaml_documents(file.text)) {
    auto object = krm::parse_yaml(text);
    if (!object) {
      return fail(std::move(object.error()).at(file.name));
    }
    if (object->is_null()) {
      continue;
    }
    if (object->text({"kind"}).empty() || object->text({"metadata", "name"}).empty()) {
      return fail(Errc::kConfig, std::string(file.name) + ": an object has no kind or no name");
    }
    out.push_back(std::move(*object));
  }
  return out;
}

void give_to_group(Json& object, const RoleNames& names) {
  Json* const subjects = object.find("subjects");
  if (subjects == nullptr) {
    return;
  }
  for (Json& subject : subjects->edit_items()) {
    if (subject.text({"kind"}) == "User" &&
        std::find(std::begin(kUsersOfFiles), std::end(kUsersOfFiles), subject.text({"name"})) !=
            std::end(kUsersOfFiles)) {
      subject["kind"] = "Group";
      subject["name"] = names.group();
    }
  }
}

/// Roles share the workspace: each binds the rights under a name of its own.
void name_in_root(Json& object, const RoleNames& names) {
  if (object.text({"kind"}) == "ClusterRoleBinding") {
    Json& name = object.make({"metadata", "name"});
    name = std::string(name.as_string()) + "-" + names.role;
  }
}

Json slice_of(const RoleNames& names, std::string_view exported) {
  return Json::object(
      {{"apiVersion", "apis.kcp.io/v1alpha1"},
       {"kind", kSlice},
       {"metadata",
        Json::object({{"annotations", Json::object({{krm::kConsumersAnnotation, "ignored"},
                                                    {krm::kEndpointModeAnnotation, "proxied"}})},
                      {"name", kWorkers}})},
       {"spec",
        Json::object({{"export", Json::object({{"name", exported}, {"path", names.provider()}})},
                      {"partition", kWorkers}})}});
}

/// Schemas before what refers to them.
int rank_of(const Json& object) {
  const std::string_view kind = object.text({"kind"});
  return kind == "APIResourceSchema" ? 0 : kind == "APIExport" ? 2 : 1;
}

/// What a schema says never changes, so that another version of it has another name.
std::string versioned_name(const Json& schema) {
  constexpr std::size_t kDigits = 8;
  const std::string_view name = schema.text({"metadata", "name"});
  const Json* const spec = schema.find("spec");
  const std::string digest = sha256_hex(spec == nullptr ? std::string() : spec->dump());
  return "v" + digest.substr(0, kDigits) +
         std::string(name.substr(std::min(name.find('.'), name.size())));
}

void version_schemas(std::vector<Json>& objects) {
  std::map<std::string, std::string, std::less<>> names;
  for (Json& object : objects) {
    if (object.text({"kind"}) == "APIResourceSchema") {
      std::string versioned = versioned_name(object);
      Json& name = object.make({"metadata", "name"});
      names.emplace(name.as_string(), versioned);
      name = std::move(versioned);
    }
  }
  for (Json& object : objects) {
    Json* const resources = object.at({"spec", "resources"});
    if (object.text({"kind"}) != "APIExport" || resources == nullptr) {
      continue;
    }
    for (Json& resource : resources->edit_items()) {
      if (const auto found = names.find(resource.text({"schema"})); found != names.end()) {
        resource["schema"] = found->second;
      }
    }
  }
}

Expected<void> take(const EmbeddedFile& file, std::vector<Json>& into, const RoleNames& names) {
  auto objects = objects_of(file);
  if (!objects) {
    return fail(std::move(objects.error()));
  }
  for (Json& object : *objects) {
    give_to_group(object, names);
    into.push_back(std::move(object));
  }
  return {};
}

}  // namespace

Expected<RolePlan> plan_role(const std::string& role) {
  RolePlan plan{.names = {role},
                .in_root = {},
                .in_provider = {},
                .in_leases = {},
                .in_targets = {},
                .in_pools = {}};
  const std::string folder = role == kExample ? std::string(kExampleFolder) : role + "/";
  for (const EmbeddedFile& file : embedded_files()) {
    std::vector<Json>* const into = file.name == kRootRights                 ? &plan.in_root
                                    : file.name == kLeaseRights              ? &plan.in_leases
                                    : file.name == kTargetRights             ? &plan.in_targets
                                    : file.name == role + std::string(kPool) ? &plan.in_pools
                                    : file.name.starts_with(folder)          ? &plan.in_provider
                                                                             : nullptr;
    if (into != nullptr) {
      if (auto taken = take(file, *into, plan.names); !taken) {
        return fail(std::move(taken.error()));
      }
    }
  }
  for (Json& object : plan.in_root) {
    name_in_root(object, plan.names);
  }
  std::vector<Json>& objects = plan.in_provider;
  std::erase_if(objects, [](const Json& object) { return object.text({"kind"}) == kSlice; });
  std::stable_sort(objects.begin(), objects.end(), [](const Json& left, const Json& right) {
    return rank_of(left) < rank_of(right);
  });
  version_schemas(objects);
  if (folder != kTargetFolder) {
    plan.in_targets.clear();
  } else if (objects.empty()) {
    return plan;
  }
  if (objects.empty() || rank_of(objects.back()) != 2) {
    return fail(Errc::kConfig, "this program has no APIExport for workers of role " + role);
  }
  objects.push_back(slice_of(plan.names, objects.back().text({"metadata", "name"})));
  return plan;
}

Json partition_of_workers(const std::vector<std::string>& shards) {
  Json names = Json::array();
  for (const std::string& shard : shards) {
    names.push_back(shard);
  }
  Json demand = Json::object({{"key", "name"}, {"operator", "In"}, {"values", std::move(names)}});
  return Json::object(
      {{"apiVersion", "topology.kcp.io/v1alpha1"},
       {"kind", "Partition"},
       {"metadata", Json::object({{"name", kWorkers}})},
       {"spec", Json::object({{"selector", Json::object({{"matchExpressions",
                                                          Json::array({std::move(demand)})}})}})}});
}

Json workspace_named(const std::string& name) {
  return Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                       {"kind", "Workspace"},
                       {"metadata", Json::object({{"name", name}})}});
}

Json workspace_on(const std::string& name, const std::string& shard) {
  Json labels = Json::object({{"name", shard}});
  Json selector = Json::object({{"matchLabels", std::move(labels)}});
  return Json::object(
      {{"apiVersion", "tenancy.kcp.io/v1alpha1"},
       {"kind", "Workspace"},
       {"metadata", Json::object({{"name", name}})},
       {"spec", Json::object({{"location", Json::object({{"selector", std::move(selector)}})}})}});
}

std::string collection_target(std::string_view cluster, const Json& object) {
  const std::string_view version = object.text({"apiVersion"});
  std::string out = krm::cluster_root(cluster);
  out += version.find('/') == std::string_view::npos ? "/api/" : "/apis/";
  out += version;
  if (const std::string_view space = object.text({"metadata", "namespace"}); !space.empty()) {
    out.append("/namespaces/").append(space);
  }
  out += '/';
  for (const char c : object.text({"kind"})) {
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out + 's';
}

std::string object_target(std::string_view cluster, const Json& object) {
  return collection_target(cluster, object) + "/" + std::string(object.text({"metadata", "name"}));
}

WorkerConfig config_of_role(const Layout& layout, const RoleNames& names,
                            const std::vector<std::string>& shards) {
  WorkerRoleConfig role;
  role.name = names.role;
  role.slice_cluster = names.provider();
  role.slice = kWorkers;
  for (const std::string& shard : shards) {
    role.lease_clusters.push_back(names.provider() + ":" + RoleNames::leases(shard));
  }
  WorkerConfig config;
  config.kubeconfig = layout.worker_kubeconfig(names.role);
  config.data_dir = layout.worker(names.role) + "/data";
  config.metrics = {layout.worker_metrics(names.role), 0};
  config.health = {layout.worker_health(names.role), 0};
  config.admin_socket = layout.worker_admin_socket(names.role);
  config.roles = {std::move(role)};
  return config;
}

}  // namespace kintsugi::server
