#pragma once

#include "base/error.h"
#include "krm/internal/field_set.h"
#include "krm/json.h"
#include "krm/schema.h"

/// The steps of apply.h on values and field sets, as structured-merge-diff defines them.
namespace kintsugi::krm {

/// `live` with everything that `config` states: maps by key, list maps by item keys, sets as a
/// union, everything else replaced. Order of lists: as in `config` for what it lists, the others
/// stay where they are.
/// @param config checked by check_configuration().
/// @error kBadRequest  a live list item without keys.
[[nodiscard]] Expected<Json> merge_configuration(const Schema* schema, const Json& live,
                                                 const Json& config);

/// Without the members of `fields` and what is below them. A map or list that loses everything
/// becomes null.
[[nodiscard]] Json without_fields(const Schema* schema, const Json& value, const FieldSet& fields);

/// With the declared fields on the way to every member.
[[nodiscard]] FieldSet with_named_fields(const Schema* schema, const FieldSet& fields);

/// Adapts a set to a schema in which granular lists and maps have become atomic (AM-247).
[[nodiscard]] FieldSet reconciled(const Schema* schema, const FieldSet& fields);

}  // namespace kintsugi::krm
