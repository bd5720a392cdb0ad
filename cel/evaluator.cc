#include "cel/internal/evaluator.h"

#include <array>
#include <utility>

#include "cel/internal/call_cost.h"
#include "cel/internal/fold_builder.h"
#include "cel/internal/functions.h"

namespace kintsugi::cel {
namespace {

/// Work per unit of cost: nodes, 64 bytes of text looked at. Only what is cheaper than it costs
/// (the size of a long string) could ever get there.
constexpr std::uint64_t kStepsPerCost = 16;
constexpr std::uint64_t kStepsPerItem = 4;     ///< of lists that are walked through
constexpr std::uint64_t kPatternSteps = 1000;  ///< compiling a pattern that is no literal

Value not_iterable(const Value& range, bool two) {
  const std::string type(range.inner_type_name());
  return Value::error(two ? "unsupported comprehension range type: " + type
                          : "got '" + type + "', expected iterable type");
}

class Evaluator {
 public:
  Evaluator(std::vector<Value> slots, std::uint64_t limit)
      : slots_(std::move(slots)), limit_(limit), steps_((limit + 1000) * kStepsPerCost) {}

  Evaluation run(const Expr& root) {
    Evaluation out;
    out.value = eval(root);
    out.cost = cost_;
    out.exceeded = exceeded_;
    if (exceeded_) {
      out.value = Value::error("operation cancelled: actual cost limit exceeded");
    }
    return out;
  }

 private:
  bool spend(std::uint64_t amount) {
    cost_ = amount > kUnlimited - cost_ ? kUnlimited : cost_ + amount;
    exceeded_ = exceeded_ || cost_ > limit_;
    return !exceeded_;
  }

  bool work(std::uint64_t amount) {
    exceeded_ = exceeded_ || steps_ < amount;
    steps_ -= exceeded_ ? 0 : amount;
    return !exceeded_;
  }

  Value eval(const Expr& expr) {
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
        break;
    }
    return Value::error("unsupported expression");
  }

  /// The value without a copy if it is stored somewhere; else it is put into `room`. Good until
  /// the next element of a loop around the expression.
  const Value& look(const Expr& expr, Value& room) {
    if (expr.constant || expr.kind == ExprKind::kLiteral) {
      return work(1) ? expr.literal : nothing_;
    }
    if (expr.kind == ExprKind::kIdent) {
      return work(1) ? identifier(expr) : nothing_;
    }
    room = eval(expr);
    return room;
  }

  /// The operand of a selection. What is no chain starts one.
  const Value& look_target(const Expr& target, Value& room) {
    const Value& out = look(target, room);
    if (!is_chain(target)) {
      spend(1);
    }
    return out;
  }

  /// A branch of a choice: the name that a chain begins with is free there.
  Value branch(const Expr& expr) {
    const Expr* head = chain_head(expr);
    free_ = head->kind == ExprKind::kIdent && !head->constant ? head : nullptr;
    return eval(expr);
  }

  const Value& identifier(const Expr& expr) {
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

  Value select(const Expr& expr) {
    Value room;
    return index(look_target(*expr.target, room), Value::string_view(expr.name), false, true);
  }

  /// target[key], on optional values and with `optional` as an optional value. A literal key costs
  /// one step of the chain, unless it is absent from an optional value; another only itself.
  Value index(const Value& target, const Value& key, bool optional, bool literal) {
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

  Value presence(const Expr& expr) {
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

  Value call(const Expr& expr) {
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

  Value choice(const Expr& expr) {
    Value room;
    const Value& condition = look(*expr.args[0], room);
    if (!condition.is(Kind::kBool)) {
      return condition.is_error() ? condition : Value::no_overload();
    }
    return branch(*expr.args[condition.is_true() ? 1 : 2]);
  }

  /// target[by], target[?by], target.?by.
  Value element(const Expr& expr, bool optional) {
    Value room;
    const Value& target = look_target(*expr.args[0], room);
    if (target.is_error()) {
      return target;
    }
    const Expr& by = *expr.args[1];
    const bool literal = by.constant || by.kind == ExprKind::kLiteral;
    Value key_room;
    const Value& key = literal ? by.literal : look(by, key_room);
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

  /// a.or(b), a.orValue(b)
  Value first_of(const Expr& expr, bool unbox) {
    Value first = eval(*expr.target);
    if (!first.is(Kind::kOptional)) {
      return first.is_error() ? first : Value::no_overload();
    }
    if (first.boxed() == nullptr) {
      return eval(*expr.args[0]);
    }
    return unbox ? *first.boxed() : first;
  }

  /// `x in ['a', 'b']` with literals is free.
  bool constant_member(const Expr& expr, Value& out) {
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

  Value equality(const Expr& expr, bool negated) {
    std::array<Value, 2> rooms;
    const Value& left = look(*expr.args[0], rooms[0]);
    return compared(left, look(*expr.args[1], rooms[1]), negated);
  }

  /// Costs go by the sizes of the two alone, whatever is inside.
  bool work_on_parts(const Value& left, const Value& right) {
    const std::size_t size = left.size();
    return size != right.size() || (work(size * kStepsPerItem) &&
                                    work(left.parts(steps_ / kStepsPerItem + 1) * kStepsPerItem));
  }

  Value compared(const Value& left, const Value& right, bool negated) {
    if (left.has_parts() && left.kind() == right.kind() && !work_on_parts(left, right)) {
      return Value();
    }
    Value out = left.equals(right);
    if (negated && !left.is_error() && !right.is_error()) {
      out = Value::boolean(!out.is_true());
    }
    spend(equality_cost(left, right, negated));
    return out;
  }

  Value logical(const Expr& expr, bool decisive) {
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

  Value function(const Expr& expr) {
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

  template <std::size_t kMost>
  Value function(const Expr& expr) {
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
    std::uint64_t amount = expr.op == Op::kPattern && expr.regex == nullptr ? kPatternSteps : 0;
    for (std::size_t i = 0; i < count; ++i) {
      amount += args[i].text().size() / 64;
      amount += args[i].is(Kind::kList) ? args[i].size() * kStepsPerItem : 0;
    }
    if (amount > 0 && !work(amount)) {
      return Value();
    }
    Value out = apply_overloads(Args{args.data(), count, &expr}, expr);
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

  Value list(const Expr& expr) {
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

  Value map(const Expr& expr) {
    auto data = std::make_shared<MapData>();
    Value failed;
    for (std::size_t i = 0; i + 1 < expr.args.size() && !failed.is_error(); i += 2) {
      Value key = eval(*expr.args[i]);
      Value value = key.is_error() ? key : eval(*expr.args[i + 1]);
      std::string identity;
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

  Value& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }

  /// Sets the loop variables for one element after the other; stops when `body` says so.
  template <class Body>
  Value loop(const Expr& expr, const Value& range, Body body) {
    const bool two = expr.slot2 >= 0;
    if (range.is(Kind::kList)) {
      const std::size_t count = range.size();
      for (std::size_t i = 0; i < count && !exceeded_; ++i) {
        slot(two ? expr.slot2 : expr.slot) = range.at(i);
        if (two) {
          slot(expr.slot) = Value::integer(static_cast<std::int64_t>(i));
        }
        if (!body()) {
          break;
        }
      }
      return Value();
    }
    if (range.is(Kind::kMap)) {
      range.each_key([&](Value key) {
        if (two) {
          range.find(key, slot(expr.slot2));
        }
        slot(expr.slot) = std::move(key);
        return body() && !exceeded_;
      });
      return Value();
    }
    return range;
  }

  /// A variable for one expression; its value is made when it is first read.
  Value binding(const Expr& expr) {
    const auto place = static_cast<std::size_t>(expr.accumulator_slot);
    bound_.resize(slots_.size());
    const Expr* outer = std::exchange(bound_[place], expr.args[1].get());
    Value out = eval(*expr.args[4]);
    bound_[place] = outer;
    return out;
  }

  Value fold(const Expr& expr) {
    if (expr.variable == "#unused") {
      return binding(expr);
    }
    const Value range = eval(*expr.args[0]);
    if (!range.is(Kind::kList) && !range.is(Kind::kMap)) {
      return range.is_error() ? range : not_iterable(range, expr.slot2 >= 0);
    }
    if (const Builder builder = builder_of(expr); builder.insertion != nullptr) {
      return build(expr, range, builder);
    }
    slot(expr.accumulator_slot) = eval(*expr.args[1]);
    const Value failed = loop(expr, range, [&] {
      Value room;
      if (look(*expr.args[2], room).is_false()) {
        return false;
      }
      Value next = eval(*expr.args[3]);
      slot(expr.accumulator_slot) = std::move(next);
      return true;
    });
    return failed.is_error() ? failed : eval(*expr.args[4]);
  }

  /// map, filter, transformList, transformMap without copying what was collected so far.
  Value build(const Expr& expr, const Value& range, const Builder& builder) {
    const Expr& insertion = *builder.insertion;
    const bool is_list = insertion.name == "_+_";
    std::vector<Value> items;
    auto data = std::make_shared<MapData>();
    Value failed;
    eval(*expr.args[1]);
    const auto insert = [&](const Value& key, const Value& value) {
      std::string identity;
      if (!data->new_key(key, identity)) {
        failed = Value::error("unsupported key type");
      } else if (!data->entries.emplace(std::move(identity), std::pair(key, value)).second) {
        failed = Value::error("insert failed: key " + key.print() + " already exists");
      }
    };
    const Value broken = loop(expr, range, [&] {
      if (builder.filter != nullptr) {
        const Value take = eval(*builder.filter);
        if (!take.is_true()) {
          if (!take.is(Kind::kBool)) {
            failed = take.is_error() ? take : Value::no_overload();
          }
          return true;
        }
      }
      spend(1);
      const bool whole = insertion.args.size() == 3;
      if (failed.is_error() && whole) {
        return true;
      }
      if (is_list) {
        const Value made = eval(*insertion.args[1]);
        spend(1);
        if (failed.is_error() || made.is_error()) {
          failed = failed.is_error() ? failed : made;
        } else if (!exceeded_) {
          items.push_back(made.at(0));
        }
        return true;
      }
      const Value first = eval(*insertion.args[1]);
      if (first.is_error() && whole) {
        failed = first;
        return true;
      }
      const Value second = whole ? eval(*insertion.args[2]) : Value();
      spend(1);
      if (failed.is_error()) {
        return true;
      }
      if (first.is_error() || second.is_error()) {
        failed = first.is_error() ? first : second;
      } else if (whole) {
        insert(first, second);
      } else if (first.is(Kind::kMap)) {
        for (const Value& key : first.keys()) {
          Value value;
          first.find(key, value);
          insert(key, value);
        }
      } else {
        failed = Value::no_overload();
      }
      return true;
    });
    spend(1);
    if (broken.is_error() || failed.is_error()) {
      return broken.is_error() ? broken : failed;
    }
    return is_list ? Value::list(std::move(items)) : Value::map(std::move(data));
  }

  const Value nothing_{};
  std::vector<Value> slots_;
  std::uint64_t limit_;
  std::uint64_t steps_;
  std::uint64_t cost_ = 0;
  bool exceeded_ = false;
  const Expr* free_ = nullptr;      ///< a name that does not count where it stands
  std::vector<const Expr*> bound_;  ///< by slot: values of bindings that nobody has read yet
};

}  // namespace

Evaluation evaluate(const Expr& root, std::vector<Value> slots, std::uint64_t limit) {
  return Evaluator(std::move(slots), limit).run(root);
}

}  // namespace kintsugi::cel
