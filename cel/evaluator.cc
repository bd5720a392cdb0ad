#include "cel/internal/evaluator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cel/internal/call_cost.h"
#include "cel/internal/call_work.h"
#include "cel/internal/constructed.h"
#include "cel/internal/expression_run.h"
#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

/// Work per unit of cost. Only what is cheaper than it costs (the size of a long string) could ever
/// get there.
constexpr std::uint64_t kStepsPerCost = 4;
/// What shares a budget of 10,000,000 units may do 30,000,000 steps together, as much as rules that
/// cost that much do when they walk through lists.
constexpr std::uint64_t kStepsPerCharge = 3;

/// A little more than a budget pays for, so that who uses them up has used up that too.
std::uint64_t steps_of(std::uint64_t budget) noexcept {
  return std::min(budget, UINT64_MAX / 4) * kStepsPerCharge + kRunSteps;
}

}  // namespace

ExpressionRun::ExpressionRun(std::vector<Value> slots, std::uint64_t limit, std::uint64_t budget)
    : slots_(std::move(slots)),
      limit_(limit),
      allowed_(std::min((limit + 1000) * kStepsPerCost, steps_of(budget))),
      steps_(allowed_ - kRunSteps) {}

Evaluation ExpressionRun::run(const Expr& root) {
  Evaluation out;
  out.value = eval(root);
  out.cost = cost_;
  out.steps = allowed_ - (exceeded_ && cost_ <= limit_ ? 0 : steps_);
  out.charge = std::max(cost_, charge_of(out.steps));
  out.exceeded = exceeded_;
  if (exceeded_) {
    out.value = Value::error("operation cancelled: actual cost limit exceeded");
  }
  return out;
}

Value ExpressionRun::eval(const Expr& expr) {
  if (!work(1)) {
    return Value();
  }
  if (expr.constant) {
    return expr.literal;
  }
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.literal;
    case ExprKind::kIdent:
      return identifier(expr);
    case ExprKind::kSelect:
      return expr.test_only ? presence(expr) : select(expr);
    case ExprKind::kCall:
      return call(expr);
    case ExprKind::kList:
      return list(expr);
    case ExprKind::kMap:
      return map(expr);
    case ExprKind::kFold:
      return fold(expr);
    case ExprKind::kStruct:
      return construct(expr);
  }
  return Value::error("unsupported expression");
}

const Value& ExpressionRun::look(const Expr& expr, Value& room) {
  if (expr.constant || expr.kind == ExprKind::kLiteral) {
    return work(1) ? expr.literal : nothing_;
  }
  if (expr.kind == ExprKind::kIdent) {
    return work(1) ? identifier(expr) : nothing_;
  }
  room = eval(expr);
  return room;
}

Value ExpressionRun::call(const Expr& expr) {
  switch (expr.op) {
    case Op::kAnd:
    case Op::kOr:
      return logical(expr, expr.op == Op::kOr);
    case Op::kChoice:
      return choice(expr);
    case Op::kIndex:
    case Op::kOptionalIndex:
    case Op::kOptionalSelect:
      return element(expr, expr.op != Op::kIndex);
    case Op::kEqual:
    case Op::kNotEqual:
      return equality(expr, expr.op == Op::kNotEqual);
    case Op::kNotStrictlyFalse: {
      Value room;
      const bool is_false = look(*expr.args[0], room).is_false();
      spend(1);
      return Value::boolean(!is_false);
    }
    case Op::kOptionalOr:
    case Op::kOptionalOrValue:
      if (!expr.overloads.empty() && expr.overloads[0]->call == nullptr) {
        return first_of(expr, expr.op == Op::kOptionalOrValue);
      }
      return function(expr);
    case Op::kIn:
      if (Value out; expr.overloads.size() == 1 && constant_member(expr, out)) {
        return out;
      }
      return function(expr);
    case Op::kPattern:
    case Op::kNone:
      break;
  }
  return function(expr);
}

Value ExpressionRun::choice(const Expr& expr) {
  Value room;
  const Value& condition = look(*expr.args[0], room);
  if (!condition.is(Kind::kBool)) {
    return condition.is_error() ? condition : Value::no_overload();
  }
  return branch(*expr.args[condition.is_true() ? 1 : 2]);
}

bool ExpressionRun::constant_member(const Expr& expr, Value& out) {
  const Expr& list = *expr.args[1];
  const std::vector<Value>* items = list.constant ? list.literal.own_items() : nullptr;
  if (items == nullptr) {
    return false;
  }
  for (const Value& each : *items) {
    if (each.is(Kind::kBytes) || each.is(Kind::kDuration) || each.is(Kind::kTimestamp) ||
        (each.sized() && !each.is(Kind::kString)) || each.is(Kind::kType)) {
      return false;
    }
  }
  if (items->empty()) {
    out = Value::boolean(false);
    return true;
  }
  Value room;
  const Value& value = look(*expr.args[0], room);
  if (value.is_error() || !work(items->size() * kStepsPerItem)) {
    out = value;
    return true;
  }
  bool member = false;
  for (std::size_t i = 0; i < items->size() && !member; ++i) {
    member = value.equals((*items)[i]).is_true();
  }
  out = Value::boolean(member);
  return true;
}

Value ExpressionRun::equality(const Expr& expr, bool negated) {
  std::array<Value, 2> rooms;
  const Value& left = look(*expr.args[0], rooms[0]);
  return compared(left, look(*expr.args[1], rooms[1]), negated);
}

Value ExpressionRun::compared(const Value& left, const Value& right, bool negated) {
  // Costs go by the sizes of the two alone, whatever is inside.
  if (left.has_parts() && left.kind() == right.kind() &&
      !work(equality_work(left, right, steps_))) {
    return Value();
  }
  Value out = left.equals(right);
  if (negated && !left.is_error() && !right.is_error()) {
    out = Value::boolean(!out.is_true());
  }
  spend(equality_cost(left, right, negated));
  return out;
}

Value ExpressionRun::logical(const Expr& expr, bool decisive) {
  Value failed;
  Value room;
  for (const ExprPtr& arg : expr.args) {
    const Value& value = look(*arg, room);
    if (value.is(Kind::kBool)) {
      if (value.is_true() == decisive) {
        return value;
      }
    } else if (!failed.is_error()) {
      failed = value.is_error() ? value : Value::no_overload();
    }
  }
  return failed.is_error() ? failed : Value::boolean(!decisive);
}

template <std::size_t kMost>
Value ExpressionRun::function(const Expr& expr) {
  std::array<Value, kMost> args;
  std::size_t count = 0;
  if (expr.target) {
    args[count++] = eval(*expr.target);
  }
  for (const ExprPtr& arg : expr.args) {
    if ((kMost > 2 || expr.regex) && count > 0 && args[count - 1].is_error()) {
      return args[count - 1];  // and costs nothing itself
    }
    args[count++] = eval(*arg);
  }
  const WorkFunction amount =
      expr.overloads.empty() ? work_function(expr.name) : expr.overloads[0]->work;
  const bool compiles = expr.op == Op::kPattern && expr.regex == nullptr;
  if (!work((compiles ? kPatternSteps : 0) + amount(args.data(), count, steps_))) {
    return Value();
  }
  std::uint64_t more = 0;
  Value out = apply_overloads(Args{args.data(), count, &expr, &more}, expr);
  work(more + out.text().size() / kMadeBytesPerStep);
  if (const std::vector<Value>* made = out.is(Kind::kList) ? out.own_items() : nullptr) {
    work(made->size() * kStepsPerResult);
  }
  std::string_view id;
  CostFunction cost = nullptr;
  if (expr.overloads.size() == 1) {
    id = expr.overloads[0]->id;
    cost = expr.overloads[0]->cost;
  } else {
    cost = expr.overloads.empty() ? cost_function(expr.name, {}) : expr.overloads[0]->any_cost;
  }
  spend(cost(CostedCall{id, args.data(), count, out}));
  return out;
}

Value ExpressionRun::function(const Expr& expr) {
  switch (expr.args.size() + (expr.target ? 1 : 0)) {
    case 0:
    case 1:
      return function<1>(expr);
    case 2:
      return function<2>(expr);
    case 3:
      return function<3>(expr);
    case 4:
    case 5:
      return function<5>(expr);
    default:
      return Value::no_overload();
  }
}

Value ExpressionRun::list(const Expr& expr) {
  std::vector<Value> items;
  Value failed;
  for (std::size_t i = 0; i < expr.args.size() && !failed.is_error(); ++i) {
    Value item = eval(*expr.args[i]);
    if (item.is_error()) {
      failed = std::move(item);
    } else if (!expr.optional_entries[i]) {
      items.push_back(std::move(item));
    } else if (!item.is(Kind::kOptional)) {
      failed = Value::error("cannot initialize optional list element from non-optional value " +
                            item.print());
    } else if (item.boxed() != nullptr) {
      items.push_back(*item.boxed());
    }
  }
  spend(kListCost);
  return failed.is_error() ? failed : Value::list(std::move(items));
}

Value ExpressionRun::map(const Expr& expr) {
  auto data = std::make_shared<MapData>();
  Value failed;
  for (std::size_t i = 0; i + 1 < expr.args.size() && !failed.is_error(); i += 2) {
    Value key = eval(*expr.args[i]);
    Value value = key.is_error() ? key : eval(*expr.args[i + 1]);
    std::string identity;
    work(kStepsPerItem + key.text().size() / kKeyBytesPerStep);
    if (value.is_error()) {
      failed = std::move(value);
    } else if (!data->new_key(key, identity)) {
      failed = Value::error("unsupported key type: " + std::string(key.type_name()));
    } else if (expr.optional_entries[i / 2]) {
      if (!value.is(Kind::kOptional)) {
        failed = Value::error("cannot initialize optional entry '" + key.print() +
                              "' from non-optional value " + value.print());
      } else if (value.boxed() != nullptr) {
        Value held = *value.boxed();
        data->entries.insert_or_assign(std::move(identity),
                                       std::pair(std::move(key), std::move(held)));
      } else {
        data->entries.erase(identity);
      }
    } else {
      data->entries.insert_or_assign(std::move(identity),
                                     std::pair(std::move(key), std::move(value)));
    }
  }
  spend(kMapCost);
  return failed.is_error() ? failed : Value::map(std::move(data));
}

Value ExpressionRun::construct(const Expr& expr) {
  Members members;
  Value failed;
  for (std::size_t i = 0; i + 1 < expr.args.size() && !failed.is_error(); i += 2) {
    const std::string_view name = expr.args[i]->literal.text();
    Value value = eval(*expr.args[i + 1]);
    work(kStepsPerItem + name.size() / kKeyBytesPerStep);
    if (value.is_error()) {
      failed = std::move(value);
    } else if (!expr.optional_entries[i / 2]) {
      members.insert_or_assign(std::string(name), std::move(value));
    } else if (!value.is(Kind::kOptional)) {
      failed = Value::error("cannot initialize optional entry '" + std::string(name) +
                            "' from non-optional value " + value.print());
    } else if (value.boxed() != nullptr) {
      members.insert_or_assign(std::string(name), *value.boxed());
    }
  }
  spend(kStructCost);
  return failed.is_error() ? failed : constructed(expr.name, std::move(members));
}

std::uint64_t charge_of(std::uint64_t steps) noexcept { return steps / kStepsPerCharge; }

Evaluation evaluate(const Expr& root, std::vector<Value> slots, std::uint64_t limit,
                    std::uint64_t budget) {
  return ExpressionRun(std::move(slots), limit, budget).run(root);
}

}  // namespace kintsugi::cel
