#include "topology/internal/source.h"

#include <algorithm>
#include <string>

#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/replica_urls.h"
#include "krm/request_info.h"

namespace kintsugi::topology {

using krm::Json;

namespace {
constexpr std::string_view kTenancy = "tenancy.kcp.io/";
}  // namespace

ShardSpec shard_from_json(const Json& object) {
  ShardSpec spec;
  spec.name = object.text({"metadata", "name"});
  spec.uid = object.text({"metadata", "uid"});
  if (const Json* labels = object.at({"metadata", "labels"}); labels != nullptr) {
    for (const auto& [key, value] : labels->members()) {
      spec.labels.emplace_back(key, value.as_string());
    }
  }
  spec.base_url = object.text({"spec", "baseURL"});
  spec.external_url = object.text({"spec", "externalURL"});
  spec.virtual_workspace_url = object.text({"spec", "virtualWorkspaceURL"});
  std::string_view urls = object.text({"metadata", "annotations", krm::kReplicaUrlsAnnotation});
  while (!urls.empty()) {
    const std::size_t end = std::min(urls.find(','), urls.size());
    spec.replica_urls.emplace_back(trim(urls.substr(0, end)));
    urls.remove_prefix(std::min(end + 1, urls.size()));
  }
  return spec;
}

ClusterReport cluster_from_json(std::string_view cluster, const Json& object) {
  ClusterReport report;
  report.cluster = cluster;
  report.path = object.text({"metadata", "annotations", krm::kPathAnnotation});
  report.type = object.text({"metadata", "annotations", krm::kTypeAnnotation});
  for (std::string_view key : {krm::kInactiveAnnotation, krm::kFormerInactiveAnnotation}) {
    report.inactive = report.inactive || object.text({"metadata", "annotations", key}) == "true";
  }
  const Json* owner = object.at({"spec", "owner"});
  if (owner == nullptr) {
    const std::string_view creator = object.text({"spec", "createdBy", "username"});
    report.is_home = !creator.empty() && krm::home_cluster_name(creator) == cluster;
  } else if (owner->text({"resource"}) == "workspaces" &&
             owner->text({"apiVersion"}).substr(0, kTenancy.size()) == kTenancy) {
    report.owner_cluster = owner->text({"cluster"});
    report.owner_name = owner->text({"name"});
    report.owner_uid = owner->text({"uid"});
  }
  return report;
}

WorkspaceReport workspace_from_json(std::string_view cluster, const Json& object) {
  WorkspaceReport report;
  report.cluster = cluster;
  report.name = object.text({"metadata", "name"});
  report.uid = object.text({"metadata", "uid"});
  report.phase = object.text({"status", "phase"});
  report.child = object.text({"spec", "cluster"});
  report.url = object.text({"spec", "URL"});
  const Json* mount = object.at({"spec", "mount"});
  report.mount = mount != nullptr && mount->is_object();
  return report;
}

ExportReport export_from_json(std::string_view cluster, const Json& object) {
  ExportReport report;
  report.cluster = cluster;
  report.name = object.text({"metadata", "name"});
  if (const Json* claims = object.at({"spec", "permissionClaims"}); claims != nullptr) {
    for (const Json& claim : claims->items()) {
      if (!claim.text({"identityHash"}).empty()) {
        report.foreign_claims.push_back(std::string(claim.text({"group"})) + '/' +
                                        std::string(claim.text({"resource"})));
      }
    }
  }
  return report;
}

BindingReport binding_from_json(std::string_view cluster, const Json& object) {
  BindingReport report;
  report.cluster = cluster;
  report.name = object.text({"metadata", "name"});
  report.export_cluster = object.text({"status", "apiExportClusterName"});
  report.export_path = object.text({"spec", "reference", "export", "path"});
  report.export_name = object.text({"spec", "reference", "export", "name"});
  return report;
}

void apply_static(Index& index, const std::vector<ShardSpec>& shards) {
  std::vector<std::string> gone;
  for (const auto& row : index.now().shards()) {
    const bool kept = std::any_of(shards.begin(), shards.end(), [&](const ShardSpec& spec) {
      return spec.name == row->spec.name;
    });
    if (!kept) {
      gone.push_back(row->spec.name);
    }
  }
  for (const std::string& name : gone) {
    index.delete_shard(name);
  }
  for (ShardSpec spec : shards) {
    spec.plain = true;
    const ShardId id = index.upsert_shard(spec).id;
    index.upsert_cluster(id, {spec.name, {}, {}, false});
    for (std::size_t i = 0; i < kResources; ++i) {
      index.set_synced(id, static_cast<Resource>(i), true);
    }
  }
  index.set_shards_listed();
}

}  // namespace kintsugi::topology
