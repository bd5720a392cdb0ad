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
constexpr std::uint64_t kPatternSteps = 1000;  ///< compiling a pattern that is no literal

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
        return expr.test_only ? presence(expr) : select(eval_target(*expr.target), expr.name);
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

  /// Names, selections and choices between them are one chain, which costs as one.
  static bool is_chain(const Expr& expr) {
    return !expr.constant &&
           (expr.kind == ExprKind::kIdent || expr.kind == ExprKind::kSelect ||
            (expr.kind == ExprKind::kCall && (expr.name == "_[_]" || expr.name == "_[?_]" ||
                                              expr.name == "_?._" || expr.name == "_?_:_")));
  }

  /// The operand of a selection. What is no chain starts one.
  Value eval_target(const Expr& target) {
    Value out = eval(target);
    if (!is_chain(target)) {
      spend(1);
    }
    return out;
  }

  /// A branch of a choice: the name that a chain begins with is free there.
  Value branch(const Expr& expr) {
    const Expr* head = &expr;
    while (is_chain(*head) && head->kind != ExprKind::kIdent && head->name != "_?_:_" &&
           !head->test_only) {
      head = head->kind == ExprKind::kSelect ? head->target.get() : head->args[0].get();
    }
    free_ = head->kind == ExprKind::kIdent && !head->constant ? head : nullptr;
    return eval(expr);
  }

  Value identifier(const Expr& expr) {
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

  static Value missing(const Value& key) { return Value::error("no such key: " + key.print()); }

  Value select(const Value& target, std::string_view field) {
    return index(target, Value::string_view(field), false, true);
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
        return optional ? Value::none() : missing(key);
      }
    } else if (base->is(Kind::kList)) {
      std::int64_t at = key.integer();
      if (key.is(Kind::kDouble)) {
        at = static_cast<std::int64_t>(key.real());
        if (static_cast<double>(at) != key.real()) {
          return Value::error("unsupported index value " + key.print() + " in list");
        }
      } else if (!key.is(Kind::kInt) && !key.is(Kind::kUint)) {
        return Value::error("unsupported index type '" + std::string(key.type_name()) +
                            "' in list");
      }
      if (at < 0 || static_cast<std::uint64_t>(at) >= base->size()) {
        return optional ? Value::none() : Value::error("index out of bounds: " + key.print());
      }
      out = base->at(static_cast<std::size_t>(at));
    } else {
      return optional ? Value::none() : missing(key);
    }
    spend(literal && optional ? 1 : 0);
    return optional && !out.is_error() ? Value::optional(std::move(out)) : out;
  }

  Value presence(const Expr& expr) {
    const Value target = eval_target(*expr.target);
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
    const std::string& name = expr.name;
    if (name[0] == '_') {
      if (name == "_&&_" || name == "_||_") {
        return logical(expr, name == "_||_");
      }
      if (name == "_?_:_") {
        const Value condition = eval(*expr.args[0]);
        if (!condition.is(Kind::kBool)) {
          return condition.is_error() ? condition : Value::no_overload();
        }
        return branch(*expr.args[condition.is_true() ? 1 : 2]);
      }
      if (name == "_[_]" || name == "_[?_]" || name == "_?._") {
        const Value target = eval_target(*expr.args[0]);
        if (target.is_error()) {
          return target;
        }
        const Expr& by = *expr.args[1];
        const bool literal = by.constant || by.kind == ExprKind::kLiteral;
        const Value key = literal ? by.literal : eval(by);
        Value out = index(target, key, name != "_[_]", literal);
        // The chain that a key is counts once it has found something; a choice is no such chain.
        const bool absent = name != "_[_]" &&
                            (out.is_error() || (out.is(Kind::kOptional) && out.boxed() == nullptr));
        const bool chain = is_chain(by) && by.name != "_?_:_";
        if (!literal && !chain && !absent) {
          spend(1);
        } else if (!literal && chain && absent) {
          cost_ -= 1;
        }
        return out;
      }
      if (name == "_==_" || name == "_!=_") {
        return equality(expr);
      }
    }
    if (name == "@not_strictly_false") {
      const Value value = eval(*expr.args[0]);
      spend(1);
      return Value::boolean(!value.is_false());
    }
    if (!expr.overloads.empty() && expr.overloads[0]->call == nullptr &&
        (name == "or" || name == "orValue")) {
      Value first = eval(*expr.target);
      if (!first.is(Kind::kOptional)) {
        return first.is_error() ? first : Value::no_overload();
      }
      if (first.boxed() == nullptr) {
        return eval(*expr.args[0]);
      }
      return name == "or" ? first : *first.boxed();
    }
    if (name == "@in" && expr.overloads.size() == 1 && expr.args[1]->constant &&
        expr.args[1]->literal.is(Kind::kList)) {
      bool member = false;
      if (Value out; constant_member(expr, out, member)) {
        return out;
      }
    }
    return function(expr);
  }

  /// `x in ['a', 'b']` with literals is free.
  bool constant_member(const Expr& expr, Value& out, bool& member) {
    const std::vector<Value> items = expr.args[1]->literal.items();
    for (const Value& each : items) {
      if (each.is(Kind::kBytes) || each.is(Kind::kDuration) || each.is(Kind::kTimestamp) ||
          (each.sized() && !each.is(Kind::kString)) || each.is(Kind::kType)) {
        return false;
      }
    }
    if (items.empty()) {
      out = Value::boolean(false);
      return true;
    }
    const Value value = eval(*expr.args[0]);
    for (const Value& each : items) {
      member = member || value.equals(each).is_true();
    }
    out = value.is_error() ? value : Value::boolean(member);
    return true;
  }

  Value equality(const Expr& expr) {
    const std::array<Value, 2> args = {eval(*expr.args[0]), eval(*expr.args[1])};
    Value out = args[0].equals(args[1]);
    if (expr.name == "_!=_" && !args[0].is_error() && !args[1].is_error()) {
      out = Value::boolean(!out.is_true());
    }
    spend(call_cost(expr.name, expr.name == "_!=_" ? "not_equals" : "equals", args.data(), 2, out));
    return out;
  }

  Value logical(const Expr& expr, bool decisive) {
    Value failed;
    for (const ExprPtr& arg : expr.args) {
      Value value = eval(*arg);
      if (value.is(Kind::kBool)) {
        if (value.is_true() == decisive) {
          return value;
        }
      } else if (!failed.is_error()) {
        failed = value.is_error() ? std::move(value) : Value::no_overload();
      }
    }
    return failed.is_error() ? failed : Value::boolean(!decisive);
  }

  Value function(const Expr& expr) {
    std::array<Value, 5> args;
    std::size_t count = 0;
    const std::size_t wanted = expr.args.size() + (expr.target ? 1 : 0);
    if (wanted > args.size()) {
      return Value::no_overload();
    }
    if (expr.target) {
      args[count++] = eval(*expr.target);
    }
    for (const ExprPtr& arg : expr.args) {
      if ((wanted > 2 || expr.regex) && count > 0 && args[count - 1].is_error()) {
        return args[count - 1];  // and costs nothing itself
      }
      args[count++] = eval(*arg);
    }
    std::uint64_t amount = 0;
    for (std::size_t i = 0; i < count; ++i) {
      amount += args[i].text().size() / 64;
    }
    const bool pattern = expr.name == "matches" || expr.name == "find" || expr.name == "findAll";
    if (!work(amount + (pattern && expr.regex == nullptr ? kPatternSteps : 0))) {
      return Value();
    }
    Value out = apply(expr, args.data(), count);
    const std::string_view overload =
        expr.overloads.size() == 1 ? expr.overloads[0]->id : std::string_view();
    spend(call_cost(expr.name, overload, args.data(), count, out));
    return out;
  }

  static Value apply(const Expr& expr, const Value* args, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (args[i].is_error()) {
        return args[i];
      }
    }
    const Overload* any = nullptr;
    for (const Overload* overload : expr.overloads) {
      bool fits = overload->call != nullptr;
      for (std::size_t i = 0; fits && i < count; ++i) {
        fits = accepts(*overload->params[i], args[i]);
      }
      if (fits) {
        return overload->call(Args{args, count, &expr});
      }
      any = overload->call != nullptr ? overload : any;
    }
    const char first = expr.name[0];
    const bool is_operator = first == '_' || first == '!' || first == '-' || first == '@';
    if (expr.name == "matches" || expr.name == "contains" || expr.name == "startsWith" ||
        expr.name == "endsWith" || expr.name == "sort" || expr.name == "find" ||
        expr.name == "findAll") {
      return Value::no_overload();
    }
    if (any != nullptr && (is_operator || expr.name == "size")) {
      return any->call(Args{args, count, &expr});  // says what it does not take
    }
    std::string given;
    for (std::size_t i = 0; i < count; ++i) {
      given += (i == 0 ? "" : ", ") + std::string(args[i].type_name());
    }
    return Value::error("no such overload: " + expr.name + '(' + given + ')');
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

  static Value not_iterable(const Value& range, bool two) {
    const std::string type(range.inner_type_name());
    return Value::error(two ? "unsupported comprehension range type: " + type
                            : "got '" + type + "', expected iterable type");
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
      if (eval(*expr.args[2]).is_false()) {
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
