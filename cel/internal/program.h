#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cel/internal/ast.h"
#include "cel/internal/evaluator.h"
#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

/// An expression over `self` and `oldSelf`, ready to run. Immutable. Threads: any.
struct Program {
  ExprPtr root;
  std::size_t slots = 0;
  bool uses_old_self = false;
  TypePtr type;
  std::uint64_t max_cost = 0;  ///< for values that fit the schema

  /// @param old_self  none where there is no old value; reading it is then an error value.
  [[nodiscard]] Evaluation run(const Value& self, const std::optional<Value>& old_self,
                               std::uint64_t limit, std::uint64_t budget = UINT64_MAX) const;
};

/// The first constant of a checked expression that could not be made ("int('x')") or cannot stand
/// where it does; null: none. @param broken holds what is returned where the tree does not.
[[nodiscard]] const Value* broken_constant(const Expr& expr, Value& broken);

struct Compilation {
  std::optional<Program> program;
  std::string error;  ///< "compilation failed: ERROR: <input>:1:1: …", "must evaluate to a bool"
};

/// Parses, checks and estimates.
/// @param self      declaration of self and oldSelf; outlives the program.
/// @param optional  oldSelf is an optional value.
/// @param wanted    kBool or kString.
[[nodiscard]] Compilation compile(std::string_view source, const Declaration& self, bool optional,
                                  TypeKind wanted);

}  // namespace kintsugi::cel
