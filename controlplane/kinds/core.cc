#include "controlplane/kinds/kcp_kinds.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kShardDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "shards.core.kcp.io"},
"spec": {"group": "core.kcp.io", "scope": "Cluster",
 "names": {"plural": "shards", "singular": "shard", "kind": "Shard", "listKind": "ShardList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Region", "type": "string", "jsonPath": ".metadata.labels['region']", "description": "Region this workspace is in"},
   {"name": "URL", "type": "string", "jsonPath": ".spec.baseURL", "description": "Type URL to directly connect to the shard"},
   {"name": "External URL", "type": "string", "jsonPath": ".spec.externalURL",
    "description": "The URL exposed in workspaces created on that shard"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["baseURL"], "properties": {
     "baseURL": {"type": "string", "format": "uri", "minLength": 1},
     "externalURL": {"type": "string", "format": "uri"},
     "virtualWorkspaceURL": {"type": "string", "format": "uri"}}},
    "status": {"type": "object", "properties": {
     "capacity": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kLogicalClusterDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "logicalclusters.core.kcp.io"},
"spec": {"group": "core.kcp.io", "scope": "Cluster",
 "names": {"plural": "logicalclusters", "singular": "logicalcluster", "kind": "LogicalCluster", "listKind": "LogicalClusterList",
  "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "The current phase (e.g. Scheduling, Initializing, Ready)"},
   {"name": "URL", "type": "string", "jsonPath": ".status.URL", "description": "URL to access the logical cluster"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "default": {}, "properties": {
     "createdBy": {"type": "object", "properties": {"username": {"type": "string"}, "uid": {"type": "string"},
      "groups": {"type": "array", "items": {"type": "string"}},
      "extra": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}}},
     "directlyDeletable": {"type": "boolean", "default": false},
     "initializers": "$lifecycle", "terminators": "$lifecycle",
     "owner": {"type": "object", "required": ["apiVersion", "cluster", "name", "resource", "uid"], "properties": {
      "apiVersion": {"type": "string", "pattern": "^([^/]+/)?[^/]+$"}, "cluster": {"type": "string", "minLength": 1},
      "name": {"type": "string", "minLength": 1}, "namespace": {"type": "string"}, "resource": {"type": "string", "minLength": 1},
      "uid": {"type": "string"}}}}},
    "status": {"type": "object", "properties": {
     "URL": {"type": "string"}, "phase": {"type": "string", "default": "Scheduling",
      "enum": ["Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting"]},
     "initializers": "$lifecycle", "terminators": "$lifecycle",
     "conditions": "$conditions"}}}}}}]}})json";

/// externalURL and virtualWorkspaceURL default to baseURL, on create and on update (TP-056).
void default_shard_urls(const apiserver::WriteContext& context, Json& shard, const Json* /*old*/) {
  if (!context.subresource.empty()) {
    return;
  }
  const std::string base(shard.text({"spec", "baseURL"}));
  if (base.empty()) {
    return;
  }
  for (const std::string_view field : {"externalURL", "virtualWorkspaceURL"}) {
    if (shard.text({"spec", field}).empty()) {
      shard.make({"spec", field}) = base;
    }
  }
}

/// Before the schema has its say, in the words of kcp's admission.
void admit_shard(const apiserver::WriteContext& context, const Json* shard, const Json* /*old*/,
                 apiserver::Hooks::AdmitDone done) {
  if (shard != nullptr && context.subresource.empty() && shard->text({"spec", "baseURL"}).empty()) {
    done(fail(krm::invalid("core.kcp.io", "Shard", shard->text({"metadata", "name"}),
                           {krm::field_required("spec.baseURL", "spec.baseURL is required")})));
    return;
  }
  done({});
}

void validate_logical_cluster(const apiserver::WriteContext& /*context*/, const Json& cluster,
                              const Json* /*old*/, std::vector<Cause>& causes) {
  const std::string_view name = cluster.text({"metadata", "name"});
  if (name != "cluster") {
    causes.push_back(krm::field_not_supported("metadata.name", name, {"cluster"}));
  }
}

}  // namespace

apiserver::ResourcePtr shard_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kShardDocument);
    def.hooks.prepare = default_shard_urls;
    def.hooks.admit = admit_shard;
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

apiserver::ResourcePtr logical_cluster_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kLogicalClusterDocument);
    def.hooks.validate = validate_logical_cluster;
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

}  // namespace kintsugi::controlplane
