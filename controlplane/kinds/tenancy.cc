#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kWorkspaceDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "workspaces.tenancy.kcp.io"},
"spec": {"group": "tenancy.kcp.io", "scope": "Cluster",
 "names": {"plural": "workspaces", "singular": "workspace", "kind": "Workspace", "listKind": "WorkspaceList",
  "shortNames": ["ws"], "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Type", "type": "string", "jsonPath": ".spec.type.name", "description": "Type of the workspace"},
   {"name": "Region", "type": "string", "jsonPath": ".metadata.labels['region']", "description": "Region this workspace is in"},
   {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "The current phase (e.g. Scheduling, Initializing, Ready, Deleting)"},
   {"name": "URL", "type": "string", "jsonPath": ".spec.URL", "description": "URL to access the workspace"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": "$name",
    "spec": {"type": "object", "default": {}, "x-kubernetes-validations": [
      {"rule": "!has(oldSelf.URL) || has(self.URL)", "message": "URL cannot be unset"},
      {"rule": "!has(oldSelf.cluster) || has(self.cluster)", "message": "cluster cannot be unset"}], "properties": {
     "URL": {"type": "string"},
     "cluster": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "cluster is immutable"}]},
     "type": {"type": "object", "required": ["name"], "x-kubernetes-validations": [
       {"rule": "self.name == oldSelf.name", "message": "name is immutable"},
       {"rule": "has(oldSelf.path) == has(self.path)", "message": "path is immutable"},
       {"rule": "!has(oldSelf.path) || !has(self.path) || self.path == oldSelf.path", "message": "path is immutable"}],
      "properties": {
      "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}},
     "location": {"type": "object", "properties": {"selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
      "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
       "required": ["key", "operator"], "properties": {"key": {"type": "string"}, "operator": {"type": "string"},
       "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}}},
      "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}}}},
     "mount": {"type": "object", "required": ["ref"], "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "mount is immutable"}],
      "properties": {"ref": {"type": "object", "required": ["apiVersion", "kind", "name"], "properties": {
      "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "namespace": {"type": "string"}}}}}}},
    "status": {"type": "object", "default": {}, "properties": {
     "phase": {"type": "string", "default": "Scheduling", "enum": ["Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting"]},
     "initializers": "$lifecycle", "terminators": "$lifecycle",
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kWorkspaceTypeDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "workspacetypes.tenancy.kcp.io"},
"spec": {"group": "tenancy.kcp.io", "scope": "Cluster",
 "names": {"plural": "workspacetypes", "singular": "workspacetype", "kind": "WorkspaceType", "listKind": "WorkspaceTypeList",
  "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": "$name",
    "spec": {"type": "object", "properties": {
     "initializer": {"type": "boolean"}, "terminator": {"type": "boolean"},
     "initializerPermissions": "$rules", "terminatorPermissions": "$rules",
     "additionalWorkspaceLabels": {"type": "object", "additionalProperties": {"type": "string"}},
     "defaultAPIBindingLifecycle": {"type": "string", "enum": ["InitializeOnly", "Maintain"]},
     "defaultAPIBindings": {"type": "array", "x-kubernetes-list-type": "atomic",
      "items": {"type": "object", "required": ["export"], "properties": {"export": {"type": "string"},
       "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}},
     "defaultChildWorkspaceType": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}},
     "extend": {"type": "object", "properties": {"with": {"type": "array", "items": {"type": "object", "required": ["name"],
      "properties": {
      "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}}}},
     "limitAllowedChildren": {"type": "object", "oneOf": [{"required": ["none"]}, {"required": ["types"]}], "properties": {
      "none": {"type": "boolean"},
      "types": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name"], "properties": {
       "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
       "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}}}},
     "limitAllowedParents": {"type": "object", "oneOf": [{"required": ["none"]}, {"required": ["types"]}], "properties": {
      "none": {"type": "boolean"},
      "types": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name"], "properties": {
       "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
       "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}}}},
     "authenticationConfigurations": {"type": "array", "items": {"type": "object", "required": ["name"],
      "properties": {"name": {"type": "string"}}}}}},
    "status": {"type": "object", "properties": {
     "virtualWorkspaces": {"type": "array", "items": {"type": "object", "required": ["url"], "properties": {
      "url": {"type": "string", "minLength": 1}, "type": {"type": "string", "enum": ["initializing", "terminating"]}}}},
     "conditions": "$conditions"}}}}}}]}})json";

}  // namespace

apiserver::ResourcePtr workspace_kind() {
  static const apiserver::ResourcePtr kKind =
      std::make_shared<const apiserver::ResourceDef>(resource_from_document(kWorkspaceDocument));
  return kKind;
}

apiserver::ResourcePtr workspace_type_kind() {
  static const apiserver::ResourcePtr kKind = std::make_shared<const apiserver::ResourceDef>(
      resource_from_document(kWorkspaceTypeDocument));
  return kKind;
}

}  // namespace kintsugi::controlplane
