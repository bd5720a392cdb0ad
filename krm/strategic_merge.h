#pragma once

#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// Reads a strategic merge patch: an object, or null for no change.
/// @param report duplicate fields, for strict field validation; may be null.
/// @error kBadRequest in the words of encoding/json (AM-216).
[[nodiscard]] Expected<Json> parse_strategic_merge(std::string_view body,
                                                   Json::ParseReport* report = nullptr);

/// Applies a strategic merge patch: maps are merged and null deletes; a list is merged where the
/// schema has a merge key or merges scalars (`patch_merge_key`, `patch_merge_primitive`), else
/// replaced; `$patch`, `$retainKeys`, `$setElementOrder/<list>` and
/// `$deleteFromPrimitiveList/<list>` are followed. Where the reference depends on the order of a Go
/// map, directives with a list's name come first, then members by name.
/// @param schema of the whole builtin object (krm/types/builtin_types.h).
/// @param patch  from parse_strategic_merge; consumed directives and nulls are removed from it,
/// which
///               is what Kubernetes shows of a patch whose result it refuses.
/// @error kBadRequest malformed values of directives; kInternal (unclassified()): unknown
///                    directives, lists that do not fit; in Kubernetes' words (AM-215).
/// @error kInvalid    lists of lists: krm::invalid_patch().
/// @error kRequestEntityTooLarge more than 100,000 elements in one merge of lists.
/// Source: AM-207 to AM-216, k8s.io/apimachinery/pkg/util/strategicpatch.
/// Cost: O(n log n) of both values' sizes.
[[nodiscard]] Expected<Json> apply_strategic_merge(const Schema& schema, Json target, Json& patch);

}  // namespace kintsugi::krm
