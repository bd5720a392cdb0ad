#pragma once

#include <string>
#include <vector>

#include "krm/json.h"
#include "krm/status.h"

namespace kintsugi::krm {

/// Adds what keeps a definition's schema from being structural (AM-390 to AM-405):
/// types, what must not stand below allOf, anyOf, oneOf and not, and what only stands there.
void check_structural_invariants(const Json& schema, const std::string& path,
                                 std::vector<Cause>& causes);

}  // namespace kintsugi::krm
