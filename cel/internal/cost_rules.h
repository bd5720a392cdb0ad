#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cel/internal/ast.h"
#include "cel/internal/call_cost.h"
#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

/// A size or a cost between two bounds; arithmetic saturates.
struct Range {
  std::uint64_t min = 0, max = 0;

  static std::uint64_t add(std::uint64_t a, std::uint64_t b) {
    return a > kUnlimited - b ? kUnlimited : a + b;
  }
  static std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
    return b != 0 && a > kUnlimited / b ? kUnlimited : a * b;
  }
  static std::uint64_t scale(std::uint64_t value, double factor) {
    const double scaled = std::ceil(static_cast<double>(value) * factor);
    return scaled >= 18446744073709551616.0 ? kUnlimited : static_cast<std::uint64_t>(scaled);
  }
  Range operator+(const Range& other) const { return {add(min, other.min), add(max, other.max)}; }
  Range operator*(const Range& other) const {
    return {multiply(min, other.min), multiply(max, other.max)};
  }
  [[nodiscard]] Range scaled(double factor) const {
    return {scale(min, factor), scale(max, factor)};
  }
  [[nodiscard]] Range join(const Range& other) const {
    return {std::min(min, other.min), std::max(max, other.max)};
  }
};
[[nodiscard]] inline Range fixed(std::uint64_t value) { return {value, value}; }
[[nodiscard]] inline Range unknown() { return {0, kUnlimited}; }

/// The way to a value from a variable: "self", "spec", "@items".
using Path = std::vector<std::string>;

/// Sizes that the schema allows.
class SchemaSizes {
 public:
  explicit SchemaSizes(const Declaration& root) : root_(root) {}
  [[nodiscard]] std::optional<Range> at(const Path& path) const;

 private:
  const Declaration& root_;
};

/// An argument as the rules see it.
struct CostNode {
  Path path;
  const Type* type = nullptr;
  const Expr* expr = nullptr;
  std::optional<Range> size;
};

struct CallEstimate {
  Range cost;
  std::optional<Range> result;  ///< its size
};

/// Cost of one overload without its arguments.
[[nodiscard]] CallEstimate estimate_call(const SchemaSizes& sizes, std::string_view function,
                                         std::string_view overload,
                                         const std::optional<CostNode>& target,
                                         const std::vector<CostNode>& args);

/// Values of the type have size 1.
[[nodiscard]] bool is_scalar(const Type& type) noexcept;

}  // namespace kintsugi::cel
