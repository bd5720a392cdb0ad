#pragma once

#include "cel/access.h"
#include "cel/internal/value.h"

namespace kintsugi::cel {

/// The variable `authorizer`. @param oracle outlives the value.
[[nodiscard]] Value authorizer_value(AccessOracle& oracle);
/// The variable `authorizer.requestResource`. @param question without a verb.
[[nodiscard]] Value resource_check_value(AccessOracle& oracle, AccessQuestion question);

}  // namespace kintsugi::cel
