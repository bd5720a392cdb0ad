#include "cel/internal/program.h"

#include <re2/re2.h>

#include <utility>

#include "cel/internal/checker.h"
#include "cel/internal/cost_estimate.h"

namespace kintsugi::cel {

const Value* broken_constant(const Expr& expr, Value& broken) {
  if (expr.constant) {
    return expr.literal.is_error() ? &expr.literal : nullptr;
  }
  if (expr.regex && !expr.regex->ok()) {
    broken = Value::error("error parsing regexp");
    return &broken;
  }
  if (expr.kind == ExprKind::kCall && (expr.name == "_[_]" || expr.name == "_[?_]")) {
    const Expr& key = *expr.args[1];
    if ((key.constant || key.kind == ExprKind::kLiteral) && !key.literal.is_index() &&
        !key.literal.is_error()) {
      broken =
          Value::error("invalid qualifier type: " + std::string(key.literal.inner_type_name()));
      return &broken;
    }
  }
  if (expr.target) {
    if (const Value* found = broken_constant(*expr.target, broken)) {
      return found;
    }
  }
  for (const ExprPtr& arg : expr.args) {
    if (const Value* found = broken_constant(*arg, broken)) {
      return found;
    }
  }
  return nullptr;
}

Evaluation Program::run(const Value& self, const std::optional<Value>& old_self,
                        std::uint64_t limit, std::uint64_t budget) const {
  std::vector<Value> values(slots);
  values[0] = self;
  values[1] = old_self ? *old_self : Value::error("no such attribute(s): oldSelf");
  return evaluate(*root, std::move(values), limit, budget);
}

Compilation compile(std::string_view source, const Declaration& self, bool optional,
                    TypeKind wanted) {
  Compilation out;
  std::vector<SourceError> errors;
  ExprPtr root = parse(source, errors);
  const auto refuse = [&](std::string text) {
    out.error = std::move(text);
    return out;
  };
  const std::string failed =
      wanted == TypeKind::kBool ? "compilation failed: " : "messageExpression compilation failed: ";
  if (root == nullptr) {
    return refuse(failed + format_errors(source, std::move(errors)));
  }
  const Variables variables = {{"self", self.type},
                               {"oldSelf", optional ? optional_type(self.type) : self.type}};
  Checked checked = check(*root, variables, errors);
  if (errors.empty()) {
    check_literals(*root, errors);
  }
  if (!errors.empty()) {
    return refuse(failed + format_errors(source, std::move(errors)));
  }
  if (checked.type->kind != wanted) {
    return refuse(wanted == TypeKind::kBool ? "cel expression must evaluate to a bool"
                                            : "messageExpression must evaluate to a string");
  }
  Value fault;
  if (const Value* broken = broken_constant(*root, fault)) {
    return refuse((wanted == TypeKind::kBool ? "program instantiation failed: "
                                             : "messageExpression instantiation failed: ") +
                  std::string(broken->text()));
  }
  Program program;
  program.max_cost = estimate_cost(*root, self);
  program.root = std::move(root);
  program.slots = checked.slots;
  program.uses_old_self = checked.used[1];
  program.type = std::move(checked.type);
  out.program = std::move(program);
  return out;
}

}  // namespace kintsugi::cel
