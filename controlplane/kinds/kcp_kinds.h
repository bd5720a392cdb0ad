#pragma once

#include <string_view>
#include <vector>

#include "apiserver/resource.h"

/// The kcp kinds: each a CustomResourceDefinition document (schema, columns, names) plus the rules
/// that a schema cannot say. Source: docs/spec/topology.md,
/// docs/spec/kcp-kinds.md. Made once, shared by all loops.
namespace kintsugi::controlplane {

[[nodiscard]] apiserver::ResourcePtr shard_kind();  ///< core.kcp.io/v1alpha1 shards
[[nodiscard]] apiserver::ResourcePtr
logical_cluster_kind();                                 ///< core.kcp.io/v1alpha1 logicalclusters
[[nodiscard]] apiserver::ResourcePtr workspace_kind();  ///< tenancy.kcp.io/v1alpha1 workspaces
[[nodiscard]] apiserver::ResourcePtr
workspace_type_kind();  ///< tenancy.kcp.io/v1alpha1 workspacetypes
/// tenancy.kcp.io/v1alpha1 workspaceauthenticationconfigurations
[[nodiscard]] apiserver::ResourcePtr workspace_authentication_kind();
[[nodiscard]] apiserver::ResourcePtr
api_export_kind();  ///< apis.kcp.io/v1alpha2 and v1alpha1 apiexports
[[nodiscard]] apiserver::ResourcePtr
api_resource_schema_kind();  ///< apis.kcp.io/v1alpha1 apiresourceschemas
/// apis.kcp.io/v1alpha1 apiconversions (catalog/conversion_rules.h)
[[nodiscard]] apiserver::ResourcePtr api_conversion_kind();
[[nodiscard]] apiserver::ResourcePtr
api_binding_kind();  ///< apis.kcp.io/v1alpha2 and v1alpha1 apibindings
[[nodiscard]] apiserver::ResourcePtr
api_export_endpoint_slice_kind();  ///< apis.kcp.io/v1alpha1 apiexportendpointslices
[[nodiscard]] apiserver::ResourcePtr
cached_resource_kind();  ///< cache.kcp.io/v1alpha1 clustercachedresources
/// cache.kcp.io/v1alpha1 clustercachedresourceendpointslices
[[nodiscard]] apiserver::ResourcePtr cached_slice_kind();
/// migration.kcp.io/v1alpha1 logicalclustermigrations, and what shards ask each other
[[nodiscard]] apiserver::ResourcePtr migration_kind();
[[nodiscard]] apiserver::ResourcePtr cluster_dump_kind();
/// topology.kcp.io/v1alpha1 partitionnotes: what a proxy tells a shard (views/partition_view.h).
/// Answered, never stored; no registry has it.
[[nodiscard]] apiserver::ResourcePtr partition_note_kind();
[[nodiscard]] apiserver::ResourcePtr partition_kind();  ///< topology.kcp.io/v1alpha1 partitions
[[nodiscard]] apiserver::ResourcePtr
partition_set_kind();  ///< topology.kcp.io/v1alpha1 partitionsets

/// A resource from the text of a CustomResourceDefinition (JSON). Ends the process when the text is
/// wrong: it is ours.
[[nodiscard]] apiserver::ResourceDef resource_from_document(std::string_view crd_json);
/// The conditions list that every kcp kind has in its status, as schema text.
extern const char* const kConditionsSchema;

}  // namespace kintsugi::controlplane
