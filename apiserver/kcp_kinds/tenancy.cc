#include "apiserver/kcp_kinds/kcp_kinds.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

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
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "description": "Workspace defines a generic Kubernetes-cluster-like endpoint.",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "default": {}, "properties": {
     "URL": {"type": "string", "format": "uri"}, "cluster": {"type": "string"},
     "type": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?"}, "path": {"type": "string"}}},
     "location": {"type": "object", "properties": {"selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
      "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
       "required": ["key", "operator"], "properties": {"key": {"type": "string"}, "operator": {"type": "string"},
       "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}}},
      "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}}}},
     "mount": {"type": "object", "properties": {"ref": {"type": "object", "properties": {
      "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "namespace": {"type": "string"}}}}}}},
    "status": {"type": "object", "properties": {
     "phase": {"type": "string", "enum": ["Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting"]},
     "initializers": {"type": "array", "items": {"type": "string"}},
     "terminators": {"type": "array", "items": {"type": "string"}},
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kWorkspaceTypeDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "workspacetypes.tenancy.kcp.io"},
"spec": {"group": "tenancy.kcp.io", "scope": "Cluster",
 "names": {"plural": "workspacetypes", "singular": "workspacetype", "kind": "WorkspaceType", "listKind": "WorkspaceTypeList",
  "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "description": "WorkspaceType specifies behaviour of workspaces of this type.",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "properties": {
     "initializer": {"type": "boolean"}, "terminator": {"type": "boolean"},
     "additionalWorkspaceLabels": {"type": "object", "additionalProperties": {"type": "string"}},
     "defaultAPIBindingLifecycle": {"type": "string", "enum": ["InitializeOnly", "Maintain"]},
     "defaultAPIBindings": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["path", "export"],
      "items": {"type": "object", "required": ["export", "path"], "properties": {"export": {"type": "string"}, "path": {"type": "string"}}}},
     "defaultChildWorkspaceType": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "path": {"type": "string"}}},
     "extend": {"type": "object", "properties": {"with": {"type": "array", "items": {"type": "object", "required": ["name"],
      "properties": {"name": {"type": "string"}, "path": {"type": "string"}}}}}},
     "limitAllowedChildren": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
     "limitAllowedParents": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
     "authenticationConfigurations": {"type": "array", "items": {"type": "object", "required": ["name"],
      "properties": {"name": {"type": "string"}}}}}},
    "status": {"type": "object", "properties": {
     "virtualWorkspaces": {"type": "array", "items": {"type": "object", "required": ["url"], "properties": {
      "url": {"type": "string"}, "type": {"type": "string"}}}},
     "conditions": "$conditions"}}}}}}]}})json";

bool is_workspace_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 63 || !plain(name.front()) || !plain(name.back())) {
    return false;
  }
  for (const char c : name) {
    if (!plain(c) && c != '-') {
      return false;
    }
  }
  return true;
}

void check_unchanged(std::string_view field, const Json& object, const Json& old,
                     std::string_view message, std::vector<Cause>& causes) {
  const Json* now = object.at({"spec", field});
  const Json* before = old.at({"spec", field});
  if (before != nullptr && now != nullptr && !(*before == *now)) {
    const std::string path = "spec." + std::string(field);
    if (now->is_object()) {
      causes.push_back({"FieldValueInvalid", "Invalid value: " + std::string(message), path});
    } else {
      causes.push_back(krm::field_invalid(path, *now, message));
    }
  }
}

/// What kcp's validation rules say (specs/topology.md section 4, AM-486, AM-487).
void validate_workspace(const WriteContext& context, const Json& workspace, const Json* old,
                        std::vector<Cause>& causes) {
  if (old == nullptr) {
    const std::string_view name = workspace.text({"metadata", "name"});
    if (!is_workspace_name(name)) {
      causes.push_back(krm::field_invalid(
          "metadata.name", name,
          "metadata.name in body should match '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'"));
    }
    return;
  }
  if (!context.subresource.empty()) {
    return;
  }
  check_unchanged("cluster", workspace, *old, "cluster is immutable", causes);
  check_unchanged("type", workspace, *old, "type is immutable", causes);
  for (const std::string_view field : {"cluster", "URL"}) {
    const Json* before = old->at({"spec", field});
    if (before != nullptr && workspace.at({"spec", field}) == nullptr) {
      causes.push_back({"FieldValueInvalid",
                        "Invalid value: " + std::string(field) + " cannot be unset", "spec"});
    }
  }
}

}  // namespace

ResourcePtr workspace_kind() {
  static const ResourcePtr kKind = [] {
    ResourceDef def = resource_from_document(kWorkspaceDocument);
    def.hooks.validate = validate_workspace;
    return std::make_shared<const ResourceDef>(std::move(def));
  }();
  return kKind;
}

ResourcePtr workspace_type_kind() {
  static const ResourcePtr kKind =
      std::make_shared<const ResourceDef>(resource_from_document(kWorkspaceTypeDocument));
  return kKind;
}

}  // namespace kintsugi::apiserver
