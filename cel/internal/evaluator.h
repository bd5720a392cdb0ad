#pragma once

#include <cstdint>
#include <vector>

#include "cel/internal/ast.h"

namespace kintsugi::cel {

struct Evaluation {
  Value value;  ///< may be an error value
  std::uint64_t cost = 0;
  /// What it takes of a budget that several share: its cost, or more where its work is out of all
  /// proportion to that [cost units].
  std::uint64_t charge = 0;
  bool exceeded = false;  ///< stopped at the limit; the value says so
};

/// Evaluates a checked expression.
/// @param slots  the variables, then empty places up to Checked::slots.
/// @param limit  of the cost; bounds time and memory too.
[[nodiscard]] Evaluation evaluate(const Expr& root, std::vector<Value> slots, std::uint64_t limit);

}  // namespace kintsugi::cel
