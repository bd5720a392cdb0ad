#include <memory>
#include <string_view>

#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "apiconversions.apis.kcp.io"},
"spec": {"group": "apis.kcp.io", "scope": "Cluster",
 "names": {"plural": "apiconversions", "singular": "apiconversion", "kind": "APIConversion", "listKind": "APIConversionList",
  "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["conversions"], "properties": {
     "conversions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["from", "to"],
      "items": {"type": "object", "required": ["from", "rules", "to"], "properties": {
       "from": {"type": "string", "minLength": 1, "pattern": "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"},
       "to": {"type": "string", "minLength": 1, "pattern": "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"},
       "preserve": {"type": "array", "items": {"type": "string"}},
       "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["destination"],
        "items": {"type": "object", "required": ["destination", "field"], "properties": {
         "destination": {"type": "string", "minLength": 1}, "field": {"type": "string", "minLength": 1},
         "transformation": {"type": "string"}}}}}}}}}}}}}]}})json";

}  // namespace

apiserver::ResourcePtr api_conversion_kind() {
  static const apiserver::ResourcePtr kKind =
      std::make_shared<const apiserver::ResourceDef>(resource_from_document(kDocument));
  return kKind;
}

}  // namespace kintsugi::controlplane
