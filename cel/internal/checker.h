#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cel/internal/ast.h"
#include "cel/internal/type.h"

namespace kintsugi::cel {

/// What an expression may refer to; slot i of an evaluation is variable i.
using Variables = std::vector<std::pair<std::string, TypePtr>>;

struct Checked {
  TypePtr type;            ///< of the result
  std::size_t slots = 0;   ///< that an evaluation needs, variables included
  std::vector<bool> used;  ///< by variable
};

/// Resolves names, picks overloads and sets Expr::type, folds constants and compiles literal
/// patterns. Reports in cel-go's words. Cost: linear in the nodes.
/// @param constructs  Object{…}, Object.spec{…}, JSONPatch{…} and jsonpatch.escapeKey() are known
[[nodiscard]] Checked check(Expr& root, const Variables& variables,
                            std::vector<SourceError>& errors, bool constructs = false);

/// Literal arguments that can never work: patterns, durations, timestamps, formats, lists of
/// several types. For expressions that check() took.
void check_literals(const Expr& root, std::vector<SourceError>& errors);

}  // namespace kintsugi::cel
