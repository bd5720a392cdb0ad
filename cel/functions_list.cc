#include <algorithm>
#include <array>
#include <numeric>

#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

using Values = std::vector<Value>;

Value is_sorted(const Args& args) {
  const Values items = args[0].items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value order = (i == 0 ? items[0] : items[i - 1]).compare(items[i]);
    if (order.is_error()) {
      return order;
    }
    if (order.integer() > 0) {
      return Value::boolean(false);
    }
  }
  return Value::boolean(true);
}

template <Kind kKind>
Value sum(const Args& args) {
  Value total = kKind == Kind::kInt      ? Value::integer(0)
                : kKind == Kind::kUint   ? Value::unsigned_integer(0)
                : kKind == Kind::kDouble ? Value::real(0)
                                         : Value::duration(0);
  static const Function add = [] {
    for (const OverloadRow& row : operator_rows()) {
      if (row.id == "add_int64") {
        return row.call;
      }
    }
    return Function(nullptr);
  }();
  for (const Value& each : args[0].items()) {
    if (each.is_error()) {
      return each;
    }
    const std::array<Value, 2> pair = {total, each};
    total = add(Args{pair.data(), 2, nullptr});
    if (total.is_error()) {
      return total;
    }
  }
  return total;
}

template <int kWanted>
Value extreme(const Args& args) {
  const Values items = args[0].items();
  if (items.empty()) {
    return Value::error(kWanted < 0 ? "min called on empty list" : "max called on empty list");
  }
  Value best = items[0];
  for (const Value& each : items) {
    const Value order = each.compare(best);
    if (order.is_error()) {
      return order;
    }
    if (order.integer() == kWanted) {
      best = each;
    }
  }
  return best;
}

Value index_of(const Args& args) {
  const Values items = args[0].items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].equals(args[1]).is_true()) {
      return Value::integer(static_cast<std::int64_t>(i));
    }
  }
  return Value::integer(-1);
}

Value last_index_of(const Args& args) {
  const Values items = args[0].items();
  for (std::size_t i = items.size(); i-- > 0;) {
    if (items[i].equals(args[1]).is_true()) {
      return Value::integer(static_cast<std::int64_t>(i));
    }
  }
  return Value::integer(-1);
}

Value slice(const Args& args) {
  const std::int64_t begin = args[1].integer();
  const std::int64_t end = args[2].integer();
  const std::string call =
      "cannot slice(" + std::to_string(begin) + ", " + std::to_string(end) + "), ";
  if (begin < 0 || end < 0) {
    return Value::error(call + "negative indexes not supported");
  }
  if (begin > end) {
    return Value::error(call + "start index must be less than or equal to end index");
  }
  const Values items = args[0].items();
  if (static_cast<std::int64_t>(items.size()) < end) {
    return Value::error(call + "list is length " + std::to_string(items.size()));
  }
  return Value::list(Values(items.begin() + begin, items.begin() + end));
}

void flatten_into(const Value& list, std::int64_t depth, Values& out) {
  for (const Value& each : list.items()) {
    if (each.is(Kind::kList) && depth > 0) {
      flatten_into(each, depth - 1, out);
    } else {
      out.push_back(each);
    }
  }
}

Value flatten(const Args& args) {
  const std::int64_t depth = args.count == 2 ? args[1].integer() : 1;
  if (depth < 0) {
    return Value::error("level must be non-negative");
  }
  Values out;
  flatten_into(args[0], depth, out);
  return Value::list(std::move(out));
}

bool comparable(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kDouble:
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kDuration:
    case Kind::kTimestamp:
      return true;
    default:
      return false;
  }
}

Value sort_by(const Value& list, const Value& by) {
  const Values items = list.items();
  const Values keys = by.items();
  if (items.size() != keys.size()) {
    return Value::error(
        "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but "
        "got " +
        std::to_string(items.size()) + " and " + std::to_string(keys.size()) +
        " elements respectively");
  }
  if (items.empty()) {
    return list;
  }
  if (!comparable(keys[0])) {
    return Value::error("list elements must be comparable");
  }
  for (const Value& key : keys) {
    if (key.kind() != keys[0].kind()) {
      return Value::error("list elements must have the same type");
    }
  }
  std::vector<std::size_t> places(items.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    const Value order = keys[a].compare(keys[b]);
    return !order.is_error() && order.integer() < 0;
  });
  Values out;
  for (const std::size_t place : places) {
    out.push_back(items[place]);
  }
  return Value::list(std::move(out));
}

Value sort(const Args& args) { return sort_by(args[0], args[0]); }
Value sort_by_keys(const Args& args) { return sort_by(args[0], args[1]); }

Value range(const Args& args) {
  constexpr std::int64_t kMaxRange = 1'000'000;
  const std::int64_t count = args[0].integer();
  if (count < 0) {
    return Value::error("lists.range: size must be non-negative, got " + std::to_string(count));
  }
  if (count > kMaxRange) {
    return Value::error("lists.range: size " + std::to_string(count) +
                        " exceeds maximum allowed (" + std::to_string(kMaxRange) + ")");
  }
  Values out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(Value::integer(i));
  }
  return Value::list(std::move(out));
}

Value reverse(const Args& args) {
  Values items = args[0].items();
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value distinct(const Args& args) {
  Values out;
  for (const Value& each : args[0].items()) {
    if (std::none_of(out.begin(), out.end(),
                     [&](const Value& known) { return each.equals(known).is_true(); })) {
      out.push_back(each);
    }
  }
  return Value::list(std::move(out));
}

Value contains(const Value& list, const Value& wanted) {
  const std::array<Value, 2> pair = {wanted, list};
  static const Function in = [] {
    for (const OverloadRow& row : operator_rows()) {
      if (row.id == "in_list") {
        return row.call;
      }
    }
    return Function(nullptr);
  }();
  return in(Args{pair.data(), 2, nullptr});
}

Value contains_all(const Value& list, const Value& part) {
  for (const Value& each : part.items()) {
    if (Value there = contains(list, each); !there.is_true()) {
      return there;
    }
  }
  return Value::boolean(true);
}

Value sets_contains(const Args& args) { return contains_all(args[0], args[1]); }

Value sets_equivalent(const Args& args) {
  const Value forward = contains_all(args[0], args[1]);
  return forward.is_true() ? contains_all(args[1], args[0]) : forward;
}

Value sets_intersects(const Args& args) {
  for (const Value& each : args[0].items()) {
    if (contains(args[1], each).is_true()) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

Value first(const Args& args) {
  return args[0].size() == 0 ? Value::none() : Value::optional(args[0].at(0));
}

Value last(const Args& args) {
  return args[0].size() == 0 ? Value::none() : Value::optional(args[0].at(args[0].size() - 1));
}

constexpr auto kRows = std::array{
#define KIN_COMPARABLE(name, prefix, suffix, result_open, result_close, call)                      \
  OverloadRow{name, prefix "int" suffix, "list(int).() -> " result_open "int" result_close, call}, \
      OverloadRow{name, prefix "uint" suffix, "list(uint).() -> " result_open "uint" result_close, \
                  call},                                                                           \
      OverloadRow{name, prefix "double" suffix,                                                    \
                  "list(double).() -> " result_open "double" result_close, call},                  \
      OverloadRow{name, prefix "bool" suffix, "list(bool).() -> " result_open "bool" result_close, \
                  call},                                                                           \
      OverloadRow{name, prefix "duration" suffix,                                                  \
                  "list(duration).() -> " result_open "duration" result_close, call},              \
      OverloadRow{name, prefix "timestamp" suffix,                                                 \
                  "list(timestamp).() -> " result_open "timestamp" result_close, call},            \
      OverloadRow{name, prefix "string" suffix,                                                    \
                  "list(string).() -> " result_open "string" result_close, call},                  \
      OverloadRow{name, prefix "bytes" suffix,                                                     \
                  "list(bytes).() -> " result_open "bytes" result_close, call}
    KIN_COMPARABLE("min", "list_min_", "", "", "", extreme<-1>),
    KIN_COMPARABLE("max", "list_max_", "", "", "", extreme<1>),
    KIN_COMPARABLE("sort", "list_", "_sort", "list(", ")", sort),
#undef KIN_COMPARABLE
#define KIN_COMPARABLE(name, prefix, suffix, before, after, call)                         \
  OverloadRow{name, prefix "int" suffix, before "list(int)" after, call},                 \
      OverloadRow{name, prefix "uint" suffix, before "list(uint)" after, call},           \
      OverloadRow{name, prefix "double" suffix, before "list(double)" after, call},       \
      OverloadRow{name, prefix "bool" suffix, before "list(bool)" after, call},           \
      OverloadRow{name, prefix "duration" suffix, before "list(duration)" after, call},   \
      OverloadRow{name, prefix "timestamp" suffix, before "list(timestamp)" after, call}, \
      OverloadRow{name, prefix "string" suffix, before "list(string)" after, call},       \
      OverloadRow{name, prefix "bytes" suffix, before "list(bytes)" after, call}
    KIN_COMPARABLE("isSorted", "list_", "_is_sorted_bool", "", ".() -> bool", is_sorted),
    KIN_COMPARABLE("@sortByAssociatedKeys", "list_", "_sortByAssociatedKeys", "list(T).(",
                   ") -> list(T)", sort_by_keys),
#undef KIN_COMPARABLE
    OverloadRow{"sum", "list_int_sum_int", "list(int).() -> int", sum<Kind::kInt>},
    OverloadRow{"sum", "list_uint_sum_uint", "list(uint).() -> uint", sum<Kind::kUint>},
    OverloadRow{"sum", "list_double_sum_double", "list(double).() -> double", sum<Kind::kDouble>},
    OverloadRow{"sum", "list_duration_sum_duration", "list(duration).() -> duration",
                sum<Kind::kDuration>},
    OverloadRow{"indexOf", "list_a_index_of_int", "list(A).(A) -> int", index_of},
    OverloadRow{"lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", last_index_of},
    OverloadRow{"slice", "list_slice", "list(T).(int, int) -> list(T)", slice},
    OverloadRow{"flatten", "list_flatten", "list(list(T)).() -> list(T)", flatten},
    OverloadRow{"flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", flatten},
    OverloadRow{"lists.range", "lists_range", "(int) -> list(int)", range},
    OverloadRow{"reverse", "list_reverse", "list(T).() -> list(T)", reverse},
    OverloadRow{"distinct", "list_distinct", "list(T).() -> list(T)", distinct},
    OverloadRow{"sets.contains", "list_sets_contains_list", "(list(T), list(T)) -> bool",
                sets_contains},
    OverloadRow{"sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) -> bool",
                sets_equivalent},
    OverloadRow{"sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) -> bool",
                sets_intersects},
    OverloadRow{"first", "list_first", "list(V).() -> optional(V)", first},
    OverloadRow{"last", "list_last", "list(V).() -> optional(V)", last},
};

}  // namespace

std::span<const OverloadRow> list_rows() { return kRows; }

}  // namespace kintsugi::cel
