#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/structural.h"

namespace kintsugi::cel {

/// Estimated cost that one rule and all rules of a schema may have (AM-418).
inline constexpr std::uint64_t kRuleEstimateLimit = 10'000'000;
inline constexpr std::uint64_t kSchemaEstimateLimit = 100'000'000;

/// Checks the x-kubernetes-validations of an openAPIV3Schema in a definition (AM-412 to AM-420).
/// @param path      "spec.versions[0].schema.openAPIV3Schema" or the like.
/// @param compile   false: only the texts, as the schema itself has faults.
/// @param old       the same version's schema in the stored definition; null on create. When rules
///                  and schema are the same, nothing is checked.
void check_definition_rules(const krm::Json& schema, std::string_view path, bool compile,
                            const krm::Json* old, std::vector<Cause>& causes);

/// The rules of a schema on its own defaults, for krm::validate_structural_schema (AM-369): as on
/// an update that changes nothing, and then as on a create. All of them share kObjectLimit.
/// Compiles when first called.
/// @param schema  outlives what is returned.
[[nodiscard]] krm::DefaultRules default_rules(const krm::Json& schema);

}  // namespace kintsugi::cel
