#pragma once

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// Checks an applied configuration against the schema: declared fields, types, unique items of sets
/// and list maps, item keys (AM-232, AM-233).
/// @param schema null: free form, everything is fine.
/// @error kBadRequest  ".data.a: expected string, got …"; several as "errors:\n  …".
[[nodiscard]] Expected<void> check_configuration(const Schema* schema, const Json& config);

}  // namespace kintsugi::krm
