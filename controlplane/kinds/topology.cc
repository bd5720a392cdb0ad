#include <re2/re2.h>

#include "controlplane/kinds/kcp_kinds.h"
#include "krm/selector.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kPartitionDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "partitions.topology.kcp.io"},
"spec": {"group": "topology.kcp.io", "scope": "Cluster",
 "names": {"plural": "partitions", "singular": "partition", "kind": "Partition", "listKind": "PartitionList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "additionalPrinterColumns": [
   {"name": "Owner", "type": "string", "jsonPath": ".metadata.ownerReferences[0].name"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "properties": {
     "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
      "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
       "required": ["key", "operator"], "properties": {"key": {"type": "string"}, "operator": {"type": "string"},
       "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}}},
      "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}}}}]}})json";

constexpr std::string_view kNoteDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "partitionnotes.topology.kcp.io"},
"spec": {"group": "topology.kcp.io", "scope": "Cluster",
 "names": {"plural": "partitionnotes", "singular": "partitionnote", "kind": "PartitionNote", "listKind": "PartitionNoteList"},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["partition", "source"], "properties": {
     "partition": {"type": "string", "minLength": 1, "maxLength": 253},
     "source": {"type": "string", "minLength": 1, "maxLength": 64},
     "gone": {"type": "boolean"},
     "selector": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})json";

constexpr std::string_view kPartitionSetDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "partitionsets.topology.kcp.io"},
"spec": {"group": "topology.kcp.io", "scope": "Cluster",
 "names": {"plural": "partitionsets", "singular": "partitionset", "kind": "PartitionSet", "listKind": "PartitionSetList",
  "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Count", "type": "string", "jsonPath": ".status.count"},
   {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "properties": {
     "dimensions": {"type": "array", "items": {"type": "string"}},
     "shardSelector": {"type": "object", "properties": {
      "matchExpressions": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "atomic", "items": {"type": "object",
       "x-kubernetes-validations": [
        {"rule": "self.operator in ['In', 'NotIn'] ? size(self.values) > 0 : !has(self.values)",
        "message": "There should be at least one value for In and NotIn operators. There should not be any value for Exists and DoesNotExist operators."}],
       "required": ["key", "operator"], "properties": {
        "key": {"type": "string", "maxLength": 317, "x-kubernetes-validations": [
         {"rule": "self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",
         "message": "Label key prefixes are optional and limited to 253 characters. They should match \"^[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?$\". Names are limited to 63 characters and should match \"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$\". \"/\" is used as separator."}]},
        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
        "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string", "maxLength": 63,
         "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"}}}}},
      "matchLabels": {"type": "object", "maxProperties": 10, "x-kubernetes-validations": [
       {"rule": "self.all(key, key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && key.indexOf('/') <= 253)",
       "message": "Label key prefixes are optional and limited to 253 characters. They should match \"^[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?$\". Names are limited to 63 characters and should match \"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$\". \"/\" is used as separator."},
       {"rule": "self.all(key, self[key].matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
       "message": "Label values are limited to 63 characters and should match \"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$\"."}],
       "additionalProperties": {"type": "string", "maxLength": 380}}}}}},
    "status": {"type": "object", "properties": {
     "count": {"type": "integer"},
     "conditions": "$conditions"}}}}}}]}})json";

constexpr std::size_t kMaxPrefix = 253;

/// Dots are allowed in prefixes (T-08).
bool is_label_key(std::string_view key) {
  static const re2::RE2 kPrefix("[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
  static const re2::RE2 kName("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?");
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) {
    return re2::RE2::FullMatch(re2::StringPiece(key.data(), key.size()), kName);
  }
  const std::string_view prefix = key.substr(0, slash);
  const std::string_view name = key.substr(slash + 1);
  return prefix.size() <= kMaxPrefix &&
         re2::RE2::FullMatch(re2::StringPiece(prefix.data(), prefix.size()), kPrefix) &&
         re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()), kName);
}

/// Says which dimensions no shard can have. The selector is checked by rules of the schema.
void validate_partition_set(const apiserver::WriteContext& context, const Json& set,
                            const Json* /*old*/, std::vector<Cause>& /*causes*/) {
  if (!context.subresource.empty()) {
    return;
  }
  if (const Json* dimensions = set.at({"spec", "dimensions"})) {
    for (const Json& dimension : dimensions->items()) {
      if (!is_label_key(dimension.as_string())) {
        context.warnings.push_back("spec.dimensions: no shard can carry the label \"" +
                                   std::string(dimension.as_string()) + "\"");
      }
    }
  }
}

void validate_partition(const apiserver::WriteContext& context, const Json& partition,
                        const Json* /*old*/, std::vector<Cause>& /*causes*/) {
  const Json* selector = partition.at({"spec", "selector"});
  if (selector == nullptr || selector->is_null()) {
    context.warnings.emplace_back("spec.selector is not set: the Partition selects all shards");
    return;
  }
  const auto parsed = krm::Selector::from_json(*selector);
  if (!parsed) {
    context.warnings.push_back("spec.selector: " + std::string(parsed.error().message()));
  }
}

}  // namespace

apiserver::ResourcePtr partition_note_kind() {
  static const auto& kind = *new apiserver::ResourcePtr([] {
    auto def = std::make_shared<apiserver::ResourceDef>(resource_from_document(kNoteDocument));
    def->verbs = {"create"};
    def->virtual_create_only = true;
    return def;
  }());
  return kind;
}

apiserver::ResourcePtr partition_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kPartitionDocument);
    def.hooks.validate = validate_partition;
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

apiserver::ResourcePtr partition_set_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    apiserver::ResourceDef def = resource_from_document(kPartitionSetDocument);
    def.hooks.validate = validate_partition_set;
    return std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }();
  return kKind;
}

}  // namespace kintsugi::controlplane
