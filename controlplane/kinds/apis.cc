#include <string>
#include <utility>

#include "controlplane/catalog/bound_schema.h"
#include "controlplane/kinds/internal/apis_conversion.h"
#include "controlplane/kinds/internal/member_order.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kSchemaDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "apiresourceschemas.apis.kcp.io"},
"spec": {"group": "apis.kcp.io", "scope": "Cluster",
 "names": {"plural": "apiresourceschemas", "singular": "apiresourceschema", "kind": "APIResourceSchema",
  "listKind": "APIResourceSchemaList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["group", "names", "scope", "versions"], "x-kubernetes-validations": [
      {"rule": "size(self.versions) == 1 || (size(self.versions) > 1 && has(self.conversion))",
       "message": "Conversion must be specified when multiple versions exist"}], "properties": {
     "group": {"type": "string"}, "scope": {"type": "string", "enum": ["Cluster", "Namespaced"]},
     "nameValidation": {"type": "string", "default": "DNS1123Subdomain", "enum": ["DNS1123Subdomain", "PathSegmentName"]},
     "conversion": {"type": "object", "required": ["strategy"], "x-kubernetes-validations": [
       {"rule": "(self.strategy == 'None' && !has(self.webhook)) || (self.strategy == 'Webhook' && has(self.webhook))",
        "message": "Webhook must be specified if strategy=Webhook"}], "properties": {
      "strategy": {"type": "string", "enum": ["None", "Webhook"]},
      "webhook": {"type": "object", "required": ["conversionReviewVersions"], "properties": {
       "clientConfig": {"type": "object", "properties": {"url": {"type": "string", "format": "uri"},
        "caBundle": {"type": "string", "format": "byte"}}},
       "conversionReviewVersions": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}}}}},
     "names": {"type": "object", "required": ["kind", "plural"], "properties": {
      "categories": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
      "kind": {"type": "string"}, "listKind": {"type": "string"}, "plural": {"type": "string"},
      "shortNames": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
      "singular": {"type": "string"}}},
     "versions": {"type": "array", "minItems": 1, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
      "items": {"type": "object", "required": ["name", "schema", "served", "storage"], "properties": {
       "additionalPrinterColumns": {"type": "array", "items": {"type": "object", "required": ["jsonPath", "name", "type"],
        "properties": {"description": {"type": "string"}, "format": {"type": "string"}, "jsonPath": {"type": "string"},
         "name": {"type": "string"}, "priority": {"type": "integer", "format": "int32"}, "type": {"type": "string"}}}},
       "deprecated": {"type": "boolean"}, "deprecationWarning": {"type": "string"}, "name": {"type": "string", "minLength": 1, "pattern": "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"},
       "schema": {"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true},
       "served": {"type": "boolean", "default": true}, "storage": {"type": "boolean"},
       "selectableFields": {"type": "array", "items": {"type": "object", "properties": {"jsonPath": {"type": "string"}}}},
       "subresources": {"type": "object", "properties": {
        "scale": {"type": "object", "required": ["specReplicasPath", "statusReplicasPath"], "properties": {
         "labelSelectorPath": {"type": "string"}, "specReplicasPath": {"type": "string"}, "statusReplicasPath": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}}}}}}]}})json";

constexpr std::string_view kExportDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "apiexports.apis.kcp.io"},
"spec": {"group": "apis.kcp.io", "scope": "Cluster",
 "names": {"plural": "apiexports", "singular": "apiexport", "kind": "APIExport", "listKind": "APIExportList", "categories": ["kcp"]},
 "versions": [
 {"name": "v1alpha2", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "properties": {
     "resources": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "group"],
      "items": {"type": "object", "required": ["group", "name", "schema"], "properties": {
       "group": {"type": "string"}, "schema": {"type": "string"}, "name": {"type": "string"},
       "storage": {"type": "object", "default": {"crd": {}}, "oneOf": [{"required": ["crd"]}, {"required": ["virtual"]}],
        "x-kubernetes-validations": [{"rule": "has(self.crd) != has(self.virtual)", "message": "Exactly one of crd or virtual must be set"}],
        "properties": {"crd": {"type": "object"},
         "virtual": {"type": "object", "required": ["identityHash", "reference"], "properties": {"identityHash": {"type": "string"},
          "reference": {"type": "object", "required": ["kind", "name"], "x-kubernetes-map-type": "atomic",
           "properties": {"apiGroup": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}}}}}}}}}},
     "identity": {"type": "object", "properties": {"secretRef": {"type": "object", "x-kubernetes-map-type": "atomic",
      "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}}}},
     "maximalPermissionPolicy": {"type": "object", "oneOf": [{"required": ["local"]}], "properties": {"local": {"type": "object"}}},
     "permissionClaims": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["group", "resource"],
      "items": {"type": "object", "required": ["resource", "verbs"], "properties": {
       "group": {"type": "string", "default": "", "pattern": "^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"},
       "identityHash": {"type": "string", "default": ""},
       "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"},
       "defaultSelector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": "$selector"},
       "verbs": {"type": "array", "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}}}},
    "status": {"type": "object", "properties": {"identityHash": {"type": "string"},
     "virtualWorkspaces": {"type": "array", "items": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string", "minLength": 1}}}},
     "conditions": "$conditions"}}}}}},
 {"name": "v1alpha1", "served": true, "storage": false, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
   {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"VirtualWorkspaceURLsReady\")].status"}],
  "schema": {"openAPIV3Schema": {"type": "object", "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
    "metadata": {"type": "object"},
    "spec": {"type": "object", "properties": {
     "latestResourceSchemas": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
     "identity": {"type": "object", "properties": {"secretRef": {"type": "object", "x-kubernetes-map-type": "atomic",
      "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}}}},
     "maximalPermissionPolicy": {"type": "object", "oneOf": [{"required": ["local"]}], "properties": {"local": {"type": "object"}}},
     "permissionClaims": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["group", "resource"],
      "items": {"type": "object", "required": ["resource"], "x-kubernetes-validations": [
        {"rule": "(has(self.all) && self.all) != (has(self.resourceSelector) && size(self.resourceSelector) > 0)",
         "message": "either \"all\" or \"resourceSelector\" must be set"}], "properties": {
       "all": {"type": "boolean"}, "identityHash": {"type": "string"},
       "group": {"type": "string", "default": "", "pattern": "^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"},
       "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"},
       "resourceSelector": {"type": "array", "items": {"type": "object", "x-kubernetes-validations": [
         {"rule": "has(self.__namespace__) || has(self.name)", "message": "at least one field must be set"}], "properties": {
         "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^([a-z0-9][-a-z0-9_.]*)?[a-z0-9]$"},
         "namespace": {"type": "string", "minLength": 1}}}}}}}}},
    "status": {"type": "object", "properties": {"identityHash": {"type": "string"},
     "virtualWorkspaces": {"type": "array", "items": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string", "minLength": 1}}}},
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kBindingDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "apibindings.apis.kcp.io"},
"spec": {"group": "apis.kcp.io", "scope": "Cluster",
 "names": {"plural": "apibindings", "singular": "apibinding", "kind": "APIBinding", "listKind": "APIBindingList", "categories": ["kcp"]},
 "versions": [
 {"name": "v1alpha2", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
   {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["reference"], "properties": {
     "reference": {"type": "object", "x-kubernetes-validations": [
       {"rule": "self == oldSelf", "message": "APIExport reference must not be changed"}],
      "properties": {"export": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}}},
     "permissionClaims": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["group", "resource", "identityHash"],
      "items": {"type": "object", "required": ["resource", "selector", "state", "verbs"], "properties": {
       "group": {"type": "string", "default": "", "pattern": "^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"},
       "identityHash": {"type": "string", "default": ""},
       "defaultSelector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": "$selector"},
       "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"},
       "selector": {"type": "object", "x-kubernetes-validations": [
         {"rule": "self == oldSelf", "message": "Permission claim selector is immutable"}], "properties": "$selector"},
       "state": {"type": "string", "enum": ["Accepted", "Rejected"]},
       "verbs": {"type": "array", "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}}}},
    "status": {"type": "object", "properties": {
     "apiExportClusterName": {"type": "string"}, "apiExportUID": {"type": "string"}, "apiExportPolicy": {"type": "string"},
     "boundResources": "$bound",
     "exportPermissionClaims": {"type": "array", "items": {"type": "object", "required": ["resource", "verbs"], "properties": {
       "group": {"type": "string", "default": ""}, "identityHash": {"type": "string", "default": ""}, "resource": {"type": "string"},
       "defaultSelector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": "$selector"},
       "verbs": {"type": "array", "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}},
     "appliedPermissionClaims": {"type": "array", "items": {"type": "object", "required": ["resource", "selector", "verbs"], "properties": {
       "group": {"type": "string", "default": ""}, "identityHash": {"type": "string", "default": ""}, "resource": {"type": "string"},
       "defaultSelector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": "$selector"},
       "selector": {"type": "object", "properties": "$selector"},
       "verbs": {"type": "array", "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}},
     "phase": {"type": "string", "enum": ["", "Binding", "Bound"]}, "conditions": "$conditions"}}}}}},
 {"name": "v1alpha1", "served": true, "storage": false, "subresources": {"status": {}},
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
   {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["reference"], "properties": {
     "reference": {"type": "object", "oneOf": [{"required": ["export"]}], "x-kubernetes-validations": [
       {"rule": "self == oldSelf", "message": "APIExport reference must not be changed"}],
      "properties": {"export": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}}}},
     "permissionClaims": {"type": "array", "items": {"type": "object", "required": ["resource", "state"],
      "x-kubernetes-validations": [
        {"rule": "(has(self.all) && self.all) != (has(self.resourceSelector) && size(self.resourceSelector) > 0)",
         "message": "either \"all\" or \"resourceSelector\" must be set"}], "properties": {
       "all": {"type": "boolean"}, "group": {"type": "string", "default": "", "pattern": "^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"},
       "identityHash": {"type": "string"},
       "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"}, "resourceSelector": {"type": "array", "items": {"type": "object",
        "x-kubernetes-validations": [
         {"rule": "has(self.__namespace__) || has(self.name)", "message": "at least one field must be set"}], "properties": {
         "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^([a-z0-9][-a-z0-9_.]*)?[a-z0-9]$"},
         "namespace": {"type": "string", "minLength": 1}}}},
       "state": {"type": "string", "enum": ["Accepted", "Rejected"]}}}}}},
    "status": {"type": "object", "properties": {
     "apiExportClusterName": {"type": "string"}, "apiExportUID": {"type": "string"}, "apiExportPolicy": {"type": "string"},
     "boundResources": "$bound",
     "exportPermissionClaims": {"type": "array", "items": {"type": "object", "required": ["resource"], "properties": {
       "all": {"type": "boolean"}, "group": {"type": "string", "default": ""}, "identityHash": {"type": "string"},
       "resource": {"type": "string"}, "resourceSelector": {"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"}, "namespace": {"type": "string"}}}}}}},
     "appliedPermissionClaims": {"type": "array", "items": {"type": "object", "required": ["resource"], "properties": {
       "all": {"type": "boolean"}, "group": {"type": "string", "default": ""}, "identityHash": {"type": "string"},
       "resource": {"type": "string"}, "resourceSelector": {"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"}, "namespace": {"type": "string"}}}}}}},
     "phase": {"type": "string", "enum": ["", "Binding", "Bound"]}, "conditions": "$conditions"}}}}}}]}})json";

constexpr std::string_view kSliceDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "apiexportendpointslices.apis.kcp.io"},
"spec": {"group": "apis.kcp.io", "scope": "Cluster",
 "names": {"plural": "apiexportendpointslices", "singular": "apiexportendpointslice", "kind": "APIExportEndpointSlice",
  "listKind": "APIExportEndpointSliceList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Export", "type": "string", "jsonPath": ".spec.export.name"},
   {"name": "Partition", "type": "string", "jsonPath": ".spec.partition"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["export"], "properties": {
     "export": {"type": "object", "required": ["name"], "x-kubernetes-validations": [
       {"rule": "self == oldSelf", "message": "APIExport reference must not be changed"}], "properties": {
      "name": {"type": "string"},
      "path": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}}},
     "partition": {"type": "string"}}},
    "status": {"type": "object", "properties": {
     "endpoints": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["url"],
      "items": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string", "minLength": 1},
       "shards": {"type": "object", "x-kubernetes-validations": [
         {"rule": "!(has(self.matchAll) && self.matchAll && has(self.selector))", "message": "matchAll and selector are mutually exclusive"}],
        "properties": {"matchAll": {"type": "boolean"}, "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
         "x-kubernetes-preserve-unknown-fields": true}}}}}},
     "shardSelector": {"type": "string"},
     "conditions": "$conditions"}}}}}}]}})json";

/// A kind of two versions that are converted by our own functions. Objects are not stamped: their
/// versions differ in more than what the schemas drop.
apiserver::ResourcePtr converted_kind(std::string_view document, void (*from_storage)(Json&),
                                      void (*to_storage)(Json&)) {
  apiserver::ResourceDef def = resource_from_document(document);
  for (apiserver::ResourceVersion& version : def.versions) {
    version.schema_digest = 0;
    if (version.name == "v1alpha1") {
      version.from_storage = from_storage;
      version.to_storage = to_storage;
    }
  }
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

std::string version_text(const Json& version) {
  return in_order(version,
                  {"name", "served", "storage", "deprecated", "deprecationWarning", "schema",
                   "subresources", "additionalPrinterColumns"},
                  [](std::string_view key, const Json& value) {
                    if (key != "additionalPrinterColumns") {
                      return value.dump();
                    }
                    return list_of(value, [](const Json& column) {
                      return in_order(column, {"name", "type", "format", "description", "priority",
                                               "jsonPath"});
                    });
                  });
}

std::string schema_text(const Json& spec) {
  return in_order(spec, {"group", "names", "scope", "versions", "nameValidation", "conversion"},
                  [](std::string_view key, const Json& value) {
                    if (key == "names") {
                      return in_order(value, {"plural", "singular", "shortNames", "kind",
                                              "listKind", "categories"});
                    }
                    return key == "versions" ? list_of(value, version_text) : value.dump();
                  });
}

/// What is wrong with the list of versions shows it as it was sent.
std::string shown(const Cause& cause, const Json& schema) {
  constexpr std::string_view kStorage = "must have exactly one version marked as storage version";
  const Json* versions = schema.at({"spec", "versions"});
  return cause.field == "spec.versions" && cause.message.ends_with(kStorage) && versions != nullptr
             ? "Invalid value: " + list_of(*versions, version_text) + ": " + std::string(kStorage)
             : cause.message;
}

/// An APIResourceSchema never changes, and is what a definition may be under a name of its own
/// (AM-492, AM-493, KK-185 to KK-189). All faults at once.
void approve_schema(const apiserver::WriteContext& context, const Json* object, const Json* old,
                    const apiserver::Hooks::AdmitDone& done) {
  if (object == nullptr || context.verb == "delete") {
    done({});
    return;
  }
  std::string faults;
  if (old == nullptr) {
    for (const Cause& cause : new_schema_faults(*object)) {
      faults += (faults.empty() ? "" : " ") + cause.field + ": " + shown(cause, *object);
    }
  } else {
    const Json* now = object->find("spec");
    const Json* before = old->find("spec");
    if (now != nullptr && before != nullptr && !(*now == *before)) {
      faults = "spec: Invalid value: " + schema_text(*now) + ": is immutable";
    }
  }
  if (!faults.empty()) {
    done(fail(krm::forbidden("apis.kcp.io", "apiresourceschemas",
                             object->text({"metadata", "name"}), "[" + faults + "]")));
    return;
  }
  done({});
}

}  // namespace

apiserver::ResourcePtr api_resource_schema_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kSchemaDocument);
    def.hooks.approve = approve_schema;
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

apiserver::ResourcePtr api_export_kind() {
  static const apiserver::ResourcePtr kKind =
      converted_kind(kExportDocument, export_from_storage, export_to_storage);
  return kKind;
}

apiserver::ResourcePtr api_binding_kind() {
  static const apiserver::ResourcePtr kKind =
      converted_kind(kBindingDocument, binding_from_storage, binding_to_storage);
  return kKind;
}

apiserver::ResourcePtr api_export_endpoint_slice_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kSliceDocument);
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

}  // namespace kintsugi::controlplane
