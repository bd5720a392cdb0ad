#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/structural.h"

namespace kintsugi::krm {

/// A part of validate_structural_schema: defaults must fit their schema, its rules and ObjectMeta,
/// and have no unknown fields (AM-369).
void check_schema_defaults(const Json& schema, const std::string& path, const DefaultRules& rules,
                           std::vector<Cause>& causes);

/// A part of validate_object: apiVersion, kind and metadata of embedded resources, of the value
/// itself too when its schema says that it is one.
void check_embedded_resources(const Schema& schema, const Json& value, const std::string& path,
                              std::vector<Cause>& causes);

}  // namespace kintsugi::krm
