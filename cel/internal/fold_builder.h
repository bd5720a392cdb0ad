#pragma once

#include "cel/internal/ast.h"

namespace kintsugi::cel {

/// A fold that only appends to a list or inserts into a map: its parts.
struct Builder {
  const Expr* filter = nullptr;
  const Expr* insertion = nullptr;  ///< accumulator + [element], or an insertion into the map
};

/// Null `insertion`: the fold is another.
[[nodiscard]] Builder builder_of(const Expr& fold);

}  // namespace kintsugi::cel
