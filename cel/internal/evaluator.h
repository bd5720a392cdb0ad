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
  std::uint64_t steps = 0;  ///< of work, see call_work.h
  bool exceeded = false;    ///< stopped at the limit; the value says so
};

/// What so many steps are charged.
[[nodiscard]] std::uint64_t charge_of(std::uint64_t steps) noexcept;

/// Evaluates a checked expression.
/// @param slots  the variables, then empty places up to Checked::slots.
/// @param limit   of the cost; bounds time and memory too.
/// @param budget  what is left of the one that it shares with others [charge]: what would take more
///                work is stopped, and its charge is more than that.
[[nodiscard]] Evaluation evaluate(const Expr& root, std::vector<Value> slots, std::uint64_t limit,
                                  std::uint64_t budget = UINT64_MAX);

}  // namespace kintsugi::cel
