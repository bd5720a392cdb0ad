#include <memory>
#include <string_view>

#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kMigrationDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "logicalclustermigrations.migration.kcp.io"},
"spec": {"group": "migration.kcp.io", "scope": "Cluster",
 "names": {"plural": "logicalclustermigrations", "singular": "logicalclustermigration", "kind": "LogicalClusterMigration",
  "listKind": "LogicalClusterMigrationList"},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
  "additionalPrinterColumns": [
   {"name": "Logical Cluster", "type": "string", "jsonPath": ".spec.logicalCluster"},
   {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
   {"name": "Destination", "type": "string", "jsonPath": ".spec.destinationShard"},
   {"name": "Entries Copied", "type": "integer", "jsonPath": ".status.entriesCopied"}],
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"],
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["destinationShard", "logicalCluster"],
     "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}], "properties": {
     "logicalCluster": {"type": "string", "minLength": 1},
     "destinationShard": {"type": "string", "minLength": 1}}},
    "status": {"type": "object", "properties": {
     "phase": {"type": "string", "default": "Preparing",
      "enum": ["Preparing", "Migrating", "OriginCleanup", "DestinationFinalize", "Completed", "Failed"]},
     "originShard": {"type": "string"},
     "entriesCopied": {"type": "integer", "format": "int64"},
     "dumpContinue": {"type": "string"},
     "attempts": {"type": "integer", "format": "int64"},
     "conditions": "$conditions"}}}}}}]}})json";

/// Never stored: what shards say to each other while a logical cluster moves.
constexpr std::string_view kDumpDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "logicalclusterdumps.migration.kcp.io"},
"spec": {"group": "migration.kcp.io", "scope": "Cluster",
 "names": {"plural": "logicalclusterdumps", "singular": "logicalclusterdump", "kind": "LogicalClusterDump",
  "listKind": "LogicalClusterDumpList"},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "schema": {"openAPIV3Schema": {"type": "object",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})json";

}  // namespace

apiserver::ResourcePtr migration_kind() {
  static const auto& kind = *new apiserver::ResourcePtr(
      std::make_shared<const apiserver::ResourceDef>(resource_from_document(kMigrationDocument)));
  return kind;
}

apiserver::ResourcePtr cluster_dump_kind() {
  static const auto& kind = *new apiserver::ResourcePtr([] {
    auto def = std::make_shared<apiserver::ResourceDef>(resource_from_document(kDumpDocument));
    def->verbs = {"create"};
    def->virtual_create_only = true;
    return def;
  }());
  return kind;
}

}  // namespace kintsugi::controlplane
