#pragma once

#include <string_view>
#include <vector>

#include "krm/schema.h"

/// The builtin kinds as schemas: read once from the tables in this folder, shared, never freed.
/// Source: the types and generated.proto of Kubernetes 1.36. Threads: any.
namespace kintsugi::krm {

/// Schema of a whole builtin object ("v1", "ConfigMap"), null when the kind is not builtin.
/// DeleteOptions is known under every apiVersion.
[[nodiscard]] SchemaPtr builtin_schema(std::string_view api_version, std::string_view kind);

/// Schema of a type inside objects: "ObjectMeta", "ListMeta", "LabelSelector", "PolicyRule"; types
/// of events.k8s.io are called "events.Event". Null when unknown.
[[nodiscard]] SchemaPtr builtin_type(std::string_view name);

/// builtin_type("ObjectMeta").
[[nodiscard]] const SchemaPtr& object_meta_schema();

}  // namespace kintsugi::krm
