#include <string>
#include <utility>

#include "cel/internal/call_work.h"
#include "cel/internal/expression_run.h"

namespace kintsugi::cel {

const Value& ExpressionRun::identifier(const Expr& expr) {
  if (free_ == &expr) {
    free_ = nullptr;
  } else {
    spend(1);
  }
  const auto place = static_cast<std::size_t>(expr.slot);
  if (place < bound_.size() && bound_[place] != nullptr) {
    const Expr* value = std::exchange(bound_[place], nullptr);
    std::vector<Value> kept(slots_.begin() + expr.slot, slots_.end());
    Value made = eval(*value);
    std::move(kept.begin(), kept.end(), slots_.begin() + expr.slot);
    slots_[place] = std::move(made);
  }
  return slots_[place];
}

Value ExpressionRun::branch(const Expr& expr) {
  const Expr* head = chain_head(expr);
  free_ = head->kind == ExprKind::kIdent && !head->constant ? head : nullptr;
  return eval(expr);
}

const Value& ExpressionRun::look_target(const Expr& target, Value& room) {
  const Value& out = look(target, room);
  if (!is_chain(target)) {
    spend(1);
  }
  return out;
}

Value ExpressionRun::select(const Expr& expr) {
  Value room;
  return index(look_target(*expr.target, room), Value::string_view(expr.name), false, true);
}

Value ExpressionRun::index(const Value& target, const Value& key, bool optional, bool literal) {
  if (target.is_error()) {
    return target;
  }
  if (key.is_error()) {
    return key;
  }
  const Value* base = &target;
  if (target.is(Kind::kOptional)) {
    optional = true;
    base = target.boxed();
    if (base == nullptr) {
      return target;
    }
  }
  if (!work(key.text().size() / kKeyBytesPerStep)) {
    return Value();
  }
  if (!key.is_index()) {
    return Value::error("invalid qualifier type: " + std::string(key.inner_type_name()));
  }
  Value out;
  spend(literal && !optional ? 1 : 0);
  if (base->is(Kind::kMap)) {
    if (!base->find(key, out)) {
      return optional ? Value::none() : Value::missing(key);
    }
  } else if (base->is(Kind::kList)) {
    if (!base->element(key, out)) {
      return optional ? Value::none() : Value::error("index out of bounds: " + key.print());
    }
    if (out.is_error()) {
      return out;
    }
  } else {
    return optional ? Value::none() : Value::missing(key);
  }
  spend(literal && optional ? 1 : 0);
  return optional && !out.is_error() ? Value::optional(std::move(out)) : out;
}

Value ExpressionRun::presence(const Expr& expr) {
  Value room;
  const Value& target = look_target(*expr.target, room);
  if (target.is_error()) {
    return target;
  }
  const Value* base = target.is(Kind::kOptional) ? target.boxed() : &target;
  if (base == nullptr) {
    return Value::boolean(false);
  }
  Value out;
  return Value::boolean(base->is(Kind::kMap) && base->find(Value::string_view(expr.name), out));
}

Value ExpressionRun::element(const Expr& expr, bool optional) {
  Value room;
  const Value& target = look_target(*expr.args[0], room);
  if (target.is_error()) {
    return target;
  }
  const Expr& by = *expr.args[1];
  const bool literal = by.constant || by.kind == ExprKind::kLiteral;
  Value key_room;
  const Value& key = literal ? by.literal : look(by, key_room);
  work(kStepsPerElement);
  Value out = index(target, key, optional, literal);
  // The chain that a key is counts once it has found something; a choice is no such chain.
  const bool absent =
      optional && (out.is_error() || (out.is(Kind::kOptional) && out.boxed() == nullptr));
  const bool chain = is_chain(by) && by.op != Op::kChoice;
  if (!literal && !chain && !absent) {
    spend(1);
  } else if (!literal && chain && absent) {
    cost_ -= 1;
  }
  return out;
}

Value ExpressionRun::first_of(const Expr& expr, bool unbox) {
  Value first = eval(*expr.target);
  if (!first.is(Kind::kOptional)) {
    return first.is_error() ? first : Value::no_overload();
  }
  if (first.boxed() == nullptr) {
    return eval(*expr.args[0]);
  }
  return unbox ? *first.boxed() : first;
}

}  // namespace kintsugi::cel
