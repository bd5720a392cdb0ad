#include <cstdlib>
#include <string>

#include "base/log.h"
#include "controlplane/kinds/internal/kind_texts.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::controlplane {

const char* const kConditionsSchema = R"json({"type": "array", "items": {"type": "object",
  "required": ["lastTransitionTime", "status", "type"], "properties": {
  "lastTransitionTime": {"type": "string", "format": "date-time"}, "message": {"type": "string"},
  "reason": {"type": "string"}, "severity": {"type": "string"}, "status": {"type": "string"},
  "type": {"type": "string"}}}})json";

namespace {

const char* const kRulesSchema = R"json({"type": "array", "items": {"type": "object",
  "required": ["verbs"], "properties": {
  "apiGroups": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
  "nonResourceURLs": {"type": "array", "x-kubernetes-list-type": "atomic",
   "items": {"type": "string"}},
  "resourceNames": {"type": "array", "x-kubernetes-list-type": "atomic",
   "items": {"type": "string"}},
  "resources": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
  "verbs": {"type": "array", "x-kubernetes-list-type": "atomic",
   "items": {"type": "string"}}}}})json";

/// Names of workspaces and their types.
const char* const kNameSchema = R"json({"type": "object", "properties": {"name": {"type": "string",
  "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}})json";

/// Initializers and terminators. The anchors bind to one alternative each (KK-021).
const char* const kLifecycleSchema = R"json({"type": "array", "items": {"type": "string", "pattern":
  "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[a-z0-9][a-z0-9]([-a-z0-9]*[a-z0-9])?))|(system:.+)$"
  }})json";

/// Members of the selector of a permission claim.
const char* const kSelectorSchema = R"json({"matchAll": {"type": "boolean"},
  "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
   "required": ["key", "operator"], "properties": {"key": {"type": "string"},
   "operator": {"type": "string"}, "values": {"type": "array", "x-kubernetes-list-type": "atomic",
    "items": {"type": "string"}}}}},
  "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}})json";

/// What a binding brings, in its status.
const char* const kBoundSchema = R"json({"type": "array", "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["group", "resource"], "items": {"type": "object",
  "required": ["group", "resource", "schema"], "properties": {
  "group": {"type": "string"}, "resource": {"type": "string"},
  "schema": {"type": "object", "required": ["UID", "identityHash", "name"], "properties": {
   "UID": {"type": "string", "minLength": 1}, "identityHash": {"type": "string", "minLength": 1},
   "name": {"type": "string", "minLength": 1}}},
  "storageVersions": {"type": "array", "x-kubernetes-list-type": "set",
   "items": {"type": "string"}}}}})json";

/// Schemas that documents share by a marker, so that they are written once.
struct Shared {
  std::string_view marker, schema;
};

}  // namespace

apiserver::ResourceDef resource_from_document(std::string_view crd_json) {
  const Shared shared[] = {{"\"$conditions\"", kConditionsSchema},
                           {"\"$rules\"", kRulesSchema},
                           {"\"$bound\"", kBoundSchema},
                           {"\"$selector\"", kSelectorSchema},
                           {"\"$name\"", kNameSchema},
                           {"\"$lifecycle\"", kLifecycleSchema}};
  std::string text(crd_json);
  for (const Shared& one : shared) {
    for (std::size_t at = text.find(one.marker); at != std::string::npos;
         at = text.find(one.marker)) {
      text.replace(at, one.marker.size(), one.schema);
    }
  }
  auto crd = krm::Json::parse(text);
  if (!crd) {
    log_error("kind document cannot be read", {{"error", crd.error().to_string()}});
    std::abort();
  }
  describe_document(*crd);
  return *kinds::resource_from_crd(*crd);
}

}  // namespace kintsugi::controlplane
