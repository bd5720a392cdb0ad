#include <memory>
#include <string>
#include <utility>

#include "cel/internal/call_work.h"
#include "cel/internal/expression_run.h"

namespace kintsugi::cel {

namespace {

Value not_iterable(const Value& range, bool two) {
  const std::string type(range.inner_type_name());
  return Value::error(two ? "unsupported comprehension range type: " + type
                          : "got '" + type + "', expected iterable type");
}

}  // namespace

template <class Body>
Value ExpressionRun::loop(const Expr& expr, const Value& range, Body body) {
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

Value ExpressionRun::binding(const Expr& expr) {
  const auto place = static_cast<std::size_t>(expr.accumulator_slot);
  bound_.resize(slots_.size());
  const Expr* outer = std::exchange(bound_[place], expr.args[1].get());
  Value out = eval(*expr.args[4]);
  bound_[place] = outer;
  return out;
}

Value ExpressionRun::fold(const Expr& expr) {
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

Value ExpressionRun::build(const Expr& expr, const Value& range, const Builder& builder) {
  const Expr& insertion = *builder.insertion;
  const bool is_list = insertion.name == "_+_";
  std::vector<Value> items;
  auto data = std::make_shared<MapData>();
  Value failed;
  eval(*expr.args[1]);
  const auto insert = [&](const Value& key, const Value& value) {
    std::string identity;
    if (!work(kStepsPerItem + key.text().size() / kKeyBytesPerStep)) {
      return;
    }
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

}  // namespace kintsugi::cel
