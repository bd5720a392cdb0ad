#pragma once

#include <string_view>

#include "apiserver/internal/openapi_schemas.h"
#include "apiserver/resource.h"
#include "krm/json.h"

namespace kintsugi::apiserver::internal {

/// Adds the paths of one resource version to `paths`, one operation per verb that is served
/// (AM-131). The deprecated /watch/ forms are served but not shown.
/// Schemas that the operations mention are added to `schemas`.
void add_openapi_paths(const ResourceDef& def, const ResourceVersion& version,
                       OpenApiSchemas& schemas, krm::Json& paths);

/// A path of discovery with its one operation: "/apis/ex.io/" and "getIoExAPIGroup".
void add_openapi_discovery_path(std::string_view path, std::string_view operation_id,
                                std::string_view description, krm::Json& paths);

}  // namespace kintsugi::apiserver::internal
