#include "cel/internal/fold_builder.h"

namespace kintsugi::cel {

namespace {

bool is_ident(const Expr& expr, std::string_view name) {
  return expr.kind == ExprKind::kIdent && expr.name == name;
}

}  // namespace

Builder builder_of(const Expr& fold) {
  const Expr* step = fold.args[3].get();
  Builder out;
  if (step->kind == ExprKind::kCall && step->op == Op::kChoice && step->args.size() == 3 &&
      is_ident(*step->args[2], kAccumulator)) {
    out.filter = step->args[0].get();
    step = step->args[1].get();
  }
  if (step->kind != ExprKind::kCall || step->args.empty() ||
      !is_ident(*step->args[0], kAccumulator)) {
    return {};
  }
  const Expr& start = *fold.args[1];
  const bool list = step->name == "_+_" && start.kind == ExprKind::kList;
  const bool map = step->name == "cel.@mapInsert" && start.kind == ExprKind::kMap;
  out.insertion = list || map ? step : nullptr;
  return out;
}

}  // namespace kintsugi::cel
