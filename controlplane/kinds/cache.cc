#include <memory>
#include <string_view>

#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kCachedResourceDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "clustercachedresources.cache.kcp.io"},
"spec": {"group": "cache.kcp.io", "scope": "Cluster",
 "names": {"plural": "clustercachedresources", "singular": "clustercachedresource", "kind": "ClusterCachedResource",
  "listKind": "ClusterCachedResourceList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Resource", "type": "string", "jsonPath": ".spec.resource", "description": "Resource that is offered to other workspaces"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["resource"], "properties": {
     "group": {"type": "string", "pattern": "^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"},
     "version": {"type": "string"},
     "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"},
     "labelSelector": {"type": "object", "x-kubernetes-map-type": "atomic",
      "properties": {
      "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
       "required": ["key", "operator"], "properties": {"key": {"type": "string"}, "operator": {"type": "string"},
       "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}}},
      "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}},
     "identity": {"type": "object", "properties": {
      "secretRef": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
       "name": {"type": "string"}, "namespace": {"type": "string"}}}}}}},
    "status": {"type": "object", "properties": {
     "identityHash": {"type": "string"},
     "phase": {"type": "string", "default": "Initializing", "enum": ["Scheduling", "Initializing", "Ready", "Deleting", "Deleted"]},
     "resourceCounts": {"type": "object", "required": ["cache", "local"], "properties": {
      "cache": {"type": "integer"},
      "local": {"type": "integer"}}},
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kCachedSliceDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "clustercachedresourceendpointslices.cache.kcp.io"},
"spec": {"group": "cache.kcp.io", "scope": "Cluster",
 "names": {"plural": "clustercachedresourceendpointslices", "singular": "clustercachedresourceendpointslice",
  "kind": "ClusterCachedResourceEndpointSlice", "listKind": "ClusterCachedResourceEndpointSliceList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "ClusterCachedResource", "type": "string", "jsonPath": ".spec.clusterCachedResource.name"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["clusterCachedResource", "export"], "properties": {
     "clusterCachedResource": {"type": "object", "required": ["name"], "properties": {
       "name": {"type": "string"},
       "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}},
      "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "ClusterCachedResource reference must not be changed"}]},
     "export": {"type": "object", "required": ["name"], "properties": {
       "name": {"type": "string"},
       "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}},
      "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "APIExport reference must not be changed"}]},
     "partition": {"type": "string"}}},
    "status": {"type": "object", "properties": {
     "conditions": "$conditions",
     "shardSelector": {"type": "string"},
     "endpoints": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["url"],
      "items": {"type": "object", "required": ["url"], "properties": {
       "url": {"type": "string", "minLength": 1},
       "shards": {"type": "object", "properties": {"matchAll": {"type": "boolean"},
         "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
          "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
           "required": ["key", "operator"], "properties": {"key": {"type": "string"}, "operator": {"type": "string"},
           "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}}},
          "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}}},
        "x-kubernetes-validations": [{"rule": "!(has(self.matchAll) && self.matchAll && has(self.selector))",
         "message": "matchAll and selector are mutually exclusive"}]}}}}}}}}}}]}})json";

apiserver::ResourcePtr cache_kind(std::string_view document) {
  return std::make_shared<const apiserver::ResourceDef>(resource_from_document(document));
}

}  // namespace

apiserver::ResourcePtr cached_resource_kind() {
  static const auto& kind = *new apiserver::ResourcePtr(cache_kind(kCachedResourceDocument));
  return kind;
}

apiserver::ResourcePtr cached_slice_kind() {
  static const auto& kind = *new apiserver::ResourcePtr(cache_kind(kCachedSliceDocument));
  return kind;
}

}  // namespace kintsugi::controlplane
