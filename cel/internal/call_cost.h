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

/// What evaluating a call has cost besides its arguments, as Kubernetes counts it. The arguments
/// may be error values.
/// @param overload  the one that the static types allow, "" when they allow several.
[[nodiscard]] std::uint64_t call_cost(std::string_view function, std::string_view overload,
                                      const Value* args, std::size_t count, const Value& result);

}  // namespace kintsugi::cel
