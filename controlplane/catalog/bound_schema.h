#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "krm/json.h"

/// What APIResourceSchemas mean: nearly CustomResourceDefinitions, whose names and versions they
/// carry. Source: AM-354 to AM-405, AM-492 to AM-509.
namespace kintsugi::controlplane {

/// Where the schemas that bindings of this shard use are kept: rows of their own, named by UID, so
/// that bound APIs are served while the shard of the export is away and after a restart. The group
/// has no dot, so nobody can define a resource in it.
inline constexpr std::string_view kBoundGroup = "bound";
inline constexpr std::string_view kBoundCluster = "system:bound";

/// The CustomResourceDefinition that serves the schema.
[[nodiscard]] krm::Json definition_of(const krm::Json& schema);
/// What is wrong with it as a definition; empty: it can be served.
[[nodiscard]] std::vector<Cause> schema_faults(const krm::Json& schema);
/// What a new one is refused for: its name (KK-185), its group (KK-186), and what a definition
/// would be, with the fields of a schema (KK-187, KK-188).
[[nodiscard]] std::vector<Cause> new_schema_faults(const krm::Json& schema);
/// The resource under an identity. Null when the schema cannot be served.
/// @param leaving  nothing is created any more.
[[nodiscard]] apiserver::ResourcePtr bound_resource(const krm::Json& schema,
                                                    std::string_view identity,
                                                    bool leaving = false);
/// Version in which objects are stored, "" when there is none.
[[nodiscard]] std::string stored_version(const krm::Json& schema);

/// SHA-224 in base 62, as kcp writes references to exports in labels: the value of label
/// internal.apis.kcp.io/export for "<cluster>:<name>".
[[nodiscard]] std::string base62_sha224(std::string_view text);

}  // namespace kintsugi::controlplane
