#pragma once

#include <cstdint>
#include <string_view>

#include "cel/internal/ast.h"
#include "cel/internal/functions.h"

namespace kintsugi::cel {

inline constexpr double kTraversalFactor = 0.1;             ///< per code point
inline constexpr double kPatternFactor = 0.25;              ///< per code point of a pattern
inline constexpr std::uint64_t kListCost = 10;              ///< making a list
inline constexpr std::uint64_t kMapCost = 30;               ///< making a map
inline constexpr std::uint64_t kAccessCheckCost = 350'000;  ///< so that an expression has two
inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

/// A call that was evaluated. The arguments may be error values.
struct CostedCall {
  std::string_view overload;
  const Value* args;
  std::size_t count;
  const Value& result;

  [[nodiscard]] std::uint64_t size(std::size_t index) const {
    return index < count ? args[index].size() : 1;
  }
};

/// How Kubernetes counts what evaluating a call has cost besides its arguments. Never null.
/// @param overload  the one that the static types allow, "" when they allow several.
[[nodiscard]] CostFunction cost_function(std::string_view function, std::string_view overload);
/// The same of `==` and `!=`.
[[nodiscard]] std::uint64_t equality_cost(const Value& left, const Value& right, bool negated);

}  // namespace kintsugi::cel
