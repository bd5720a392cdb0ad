#pragma once

#include <cstdint>

#include "cel/internal/ast.h"
#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

/// The most that a checked expression can cost with values that fit the schema, saturating
/// (AM-418). `self` and `oldSelf` have the declaration `root`.
[[nodiscard]] std::uint64_t estimate_cost(const Expr& expr, const Declaration& root);

}  // namespace kintsugi::cel
