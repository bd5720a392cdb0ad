#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

/// A part of validate_structural_schema: defaults must fit their schema and have no unknown fields
/// (AM-369). Defaults in top-level metadata are not looked at.
void check_schema_defaults(const Json& schema, const std::string& path, std::vector<Cause>& causes);

}  // namespace kintsugi::krm
