#include <array>
#include <cmath>
#include <limits>

#include "cel/internal/functions.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

constexpr std::int64_t kNanos = 1'000'000'000;

Value overflow(Kind kind) {
  return Value::error(kind == Kind::kUint        ? "unsigned integer overflow"
                      : kind == Kind::kTimestamp ? "timestamp overflow"
                                                 : "integer overflow");
}

/// A timestamp `nanoseconds` later, within the years 1 to 9999.
Value shift(const Value& time, std::int64_t nanoseconds, bool back) {
  std::int64_t seconds = nanoseconds / kNanos;
  std::int64_t nanos = nanoseconds % kNanos;
  if (back) {
    seconds = -seconds;
    nanos = -nanos;
  }
  seconds += time.integer();
  nanos += time.nanos();
  if (nanos < 0) {
    nanos += kNanos;
    --seconds;
  } else if (nanos >= kNanos) {
    nanos -= kNanos;
    ++seconds;
  }
  return seconds < kMinTimestamp || seconds > kMaxTimestamp
             ? overflow(Kind::kTimestamp)
             : Value::timestamp(seconds, static_cast<std::int32_t>(nanos));
}

/// The operators' answer to values that they do not take.
Value mismatch(const Args& args, std::string_view name, std::initializer_list<Kind> takers) {
  for (const Kind kind : takers) {
    if (args[0].is(kind)) {
      return Value::no_overload();
    }
  }
  return Value::error("no such overload: " + std::string(name));
}

Value add(const Args& args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
    return shift(a, b.integer(), false);
  }
  if (a.is(Kind::kDuration) && b.is(Kind::kTimestamp)) {
    return shift(b, a.integer(), false);
  }
  if (a.kind() != b.kind()) {
    return mismatch(args, "_+_",
                    {Kind::kInt, Kind::kUint, Kind::kDouble, Kind::kString, Kind::kBytes,
                     Kind::kDuration, Kind::kTimestamp, Kind::kList});
  }
  switch (a.kind()) {
    case Kind::kInt:
    case Kind::kDuration: {
      std::int64_t sum = 0;
      if (__builtin_add_overflow(a.integer(), b.integer(), &sum)) {
        return overflow(a.kind());
      }
      return a.is(Kind::kInt) ? Value::integer(sum) : Value::duration(sum);
    }
    case Kind::kUint: {
      std::uint64_t sum = 0;
      return __builtin_add_overflow(a.unsigned_integer(), b.unsigned_integer(), &sum)
                 ? overflow(Kind::kUint)
                 : Value::unsigned_integer(sum);
    }
    case Kind::kDouble:
      return Value::real(a.real() + b.real());
    case Kind::kString:
      return Value::string(std::string(a.text()) + std::string(b.text()));
    case Kind::kBytes:
      return Value::bytes(std::string(a.text()) + std::string(b.text()));
    case Kind::kList:
      return add_lists(a, b);
    case Kind::kTimestamp:
      return Value::no_overload();
    default:
      return Value::error("no such overload: _+_");
  }
}

Value subtract(const Args& args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
    return shift(a, b.integer(), true);
  }
  if (a.kind() != b.kind()) {
    return mismatch(args, "_-_",
                    {Kind::kInt, Kind::kUint, Kind::kDouble, Kind::kDuration, Kind::kTimestamp});
  }
  switch (a.kind()) {
    case Kind::kInt:
    case Kind::kDuration: {
      std::int64_t left = 0;
      if (__builtin_sub_overflow(a.integer(), b.integer(), &left)) {
        return overflow(a.kind());
      }
      return a.is(Kind::kInt) ? Value::integer(left) : Value::duration(left);
    }
    case Kind::kUint: {
      std::uint64_t left = 0;
      return __builtin_sub_overflow(a.unsigned_integer(), b.unsigned_integer(), &left)
                 ? overflow(Kind::kUint)
                 : Value::unsigned_integer(left);
    }
    case Kind::kDouble:
      return Value::real(a.real() - b.real());
    case Kind::kTimestamp: {
      std::int64_t nanoseconds = 0;
      if (__builtin_mul_overflow(a.integer() - b.integer(), kNanos, &nanoseconds) ||
          __builtin_add_overflow(nanoseconds, std::int64_t{a.nanos()} - b.nanos(), &nanoseconds)) {
        return overflow(Kind::kDuration);
      }
      return Value::duration(nanoseconds);
    }
    default:
      return Value::error("no such overload: _-_");
  }
}

Value multiply(const Args& args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.kind() != b.kind()) {
    return mismatch(args, "_*_", {Kind::kInt, Kind::kUint, Kind::kDouble});
  }
  if (a.is(Kind::kInt)) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(a.integer(), b.integer(), &product) ? overflow(Kind::kInt)
                                                                      : Value::integer(product);
  }
  if (a.is(Kind::kUint)) {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a.unsigned_integer(), b.unsigned_integer(), &product)
               ? overflow(Kind::kUint)
               : Value::unsigned_integer(product);
  }
  return a.is(Kind::kDouble) ? Value::real(a.real() * b.real())
                             : Value::error("no such overload: _*_");
}

template <bool kModulo>
Value divide(const Args& args) {
  const Value& a = args[0];
  const Value& b = args[1];
  constexpr std::string_view kName = kModulo ? "_%_" : "_/_";
  if (a.kind() != b.kind()) {
    return a.is(Kind::kDouble) && kModulo
               ? Value::error("no such overload: _%_")
               : mismatch(args, kName, {Kind::kInt, Kind::kUint, Kind::kDouble});
  }
  if (a.is(Kind::kDouble) && !kModulo) {
    return Value::real(a.real() / b.real());
  }
  if (!a.is(Kind::kInt) && !a.is(Kind::kUint)) {
    return Value::error("no such overload: " + std::string(kName));
  }
  if (b.integer() == 0) {
    return Value::error(kModulo ? "modulus by zero" : "division by zero");
  }
  if (a.is(Kind::kUint)) {
    return Value::unsigned_integer(kModulo ? a.unsigned_integer() % b.unsigned_integer()
                                           : a.unsigned_integer() / b.unsigned_integer());
  }
  if (a.integer() == std::numeric_limits<std::int64_t>::min() && b.integer() == -1) {
    return overflow(Kind::kInt);
  }
  return Value::integer(kModulo ? a.integer() % b.integer() : a.integer() / b.integer());
}

Value negate(const Args& args) {
  if (args[0].is(Kind::kDouble)) {
    return Value::real(-args[0].real());
  }
  if (!args[0].is(Kind::kInt)) {
    return Value::no_overload();
  }
  return args[0].integer() == std::numeric_limits<std::int64_t>::min()
             ? overflow(Kind::kInt)
             : Value::integer(-args[0].integer());
}

Value logical_not(const Args& args) {
  return args[0].is(Kind::kBool) ? Value::boolean(args[0].is_false()) : Value::no_overload();
}

Value compared(const Args& args, std::string_view name, bool (*holds)(std::int64_t)) {
  const Value order = args[0].compare(args[1]);
  if (order.is_error()) {
    switch (args[0].kind()) {
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kUint:
      case Kind::kDouble:
      case Kind::kString:
      case Kind::kBytes:
      case Kind::kDuration:
      case Kind::kTimestamp:
        return order;
      default:
        return Value::error("no such overload: " + std::string(name));
    }
  }
  return Value::boolean(holds(order.integer()));
}

Value less(const Args& args) {
  return compared(args, "_<_", [](std::int64_t order) { return order < 0; });
}
Value less_equal(const Args& args) {
  return compared(args, "_<=_", [](std::int64_t order) { return order <= 0; });
}
Value greater(const Args& args) {
  return compared(args, "_>_", [](std::int64_t order) { return order > 0; });
}
Value greater_equal(const Args& args) {
  return compared(args, "_>=_", [](std::int64_t order) { return order >= 0; });
}

Value in(const Args& args) {
  const Value& item = args[0];
  const Value& container = args[1];
  if (container.is(Kind::kMap)) {
    Value found;
    const bool there = container.find(item, found);
    return there && found.is_error() ? found : Value::boolean(there);
  }
  if (!container.is(Kind::kList)) {
    return Value::no_overload();
  }
  Value failed;
  for (const Value& each : container.items()) {
    Value same = each.equals(item);
    if (same.is_true()) {
      return same;
    }
    if (same.is_error() && !failed.is_error()) {
      failed = std::move(same);
    }
  }
  return failed.is_error() ? failed : Value::boolean(false);
}

Value size(const Args& args) {
  return args[0].sized() ? Value::integer(static_cast<std::int64_t>(args[0].size()))
                         : Value::error("no such overload: size");
}

Value map_insert(const Args& args) {
  auto data = std::make_shared<MapData>();
  for (Value& key : args[0].keys()) {
    std::string text;
    Value value;
    data->new_key(key, text);
    args[0].find(key, value);
    data->entries.emplace(std::move(text), std::pair(std::move(key), std::move(value)));
  }
  const auto insert = [&](const Value& key, const Value& value) {
    std::string text;
    if (Value known; args[0].find(key, known)) {
      return Value::error("insert failed: key " + key.print() + " already exists");
    }
    if (!data->new_key(key, text)) {
      return Value::error("unsupported key type");
    }
    if (!data->entries.emplace(std::move(text), std::pair(key, value)).second) {
      return Value::error("insert failed: key " + key.print() + " already exists");
    }
    return Value();
  };
  if (args.count == 3) {
    if (Value done = insert(args[1], args[2]); done.is_error()) {
      return done;
    }
  } else {
    for (const Value& key : args[1].keys()) {
      Value value;
      args[1].find(key, value);
      if (Value done = insert(key, value); done.is_error()) {
        return done;
      }
    }
  }
  return Value::map(std::move(data));
}

#define KIN_COMPARISON(function, name, call)                                            \
  OverloadRow{function, name "_bool", "(bool, bool) -> bool", call},                    \
      OverloadRow{function, name "_int64", "(int, int) -> bool", call},                 \
      OverloadRow{function, name "_int64_double", "(int, double) -> bool", call},       \
      OverloadRow{function, name "_int64_uint64", "(int, uint) -> bool", call},         \
      OverloadRow{function, name "_uint64", "(uint, uint) -> bool", call},              \
      OverloadRow{function, name "_uint64_double", "(uint, double) -> bool", call},     \
      OverloadRow{function, name "_uint64_int64", "(uint, int) -> bool", call},         \
      OverloadRow{function, name "_double", "(double, double) -> bool", call},          \
      OverloadRow{function, name "_double_int64", "(double, int) -> bool", call},       \
      OverloadRow{function, name "_double_uint64", "(double, uint) -> bool", call},     \
      OverloadRow{function, name "_string", "(string, string) -> bool", call},          \
      OverloadRow{function, name "_bytes", "(bytes, bytes) -> bool", call},             \
      OverloadRow{function, name "_timestamp", "(timestamp, timestamp) -> bool", call}, \
      OverloadRow {                                                                     \
    function, name "_duration", "(duration, duration) -> bool", call                    \
  }

const auto kRows = std::array{
    OverloadRow{"_?_:_", "conditional", "(bool, A, A) -> A", nullptr},
    OverloadRow{"_&&_", "logical_and", "(bool, bool) -> bool", nullptr},
    OverloadRow{"_||_", "logical_or", "(bool, bool) -> bool", nullptr},
    OverloadRow{"!_", "logical_not", "(bool) -> bool", logical_not},
    OverloadRow{"@not_strictly_false", "not_strictly_false", "(bool) -> bool", nullptr},
    OverloadRow{"_==_", "equals", "(A, A) -> bool", nullptr},
    OverloadRow{"_!=_", "not_equals", "(A, A) -> bool", nullptr},
    OverloadRow{"_+_", "add_bytes", "(bytes, bytes) -> bytes", add},
    OverloadRow{"_+_", "add_double", "(double, double) -> double", add},
    OverloadRow{"_+_", "add_duration_duration", "(duration, duration) -> duration", add},
    OverloadRow{"_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp", add},
    OverloadRow{"_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp", add},
    OverloadRow{"_+_", "add_int64", "(int, int) -> int", add},
    OverloadRow{"_+_", "add_list", "(list(A), list(A)) -> list(A)", add},
    OverloadRow{"_+_", "add_string", "(string, string) -> string", add},
    OverloadRow{"_+_", "add_uint64", "(uint, uint) -> uint", add},
    OverloadRow{"_-_", "subtract_double", "(double, double) -> double", subtract},
    OverloadRow{"_-_", "subtract_duration_duration", "(duration, duration) -> duration", subtract},
    OverloadRow{"_-_", "subtract_int64", "(int, int) -> int", subtract},
    OverloadRow{"_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp",
                subtract},
    OverloadRow{"_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration",
                subtract},
    OverloadRow{"_-_", "subtract_uint64", "(uint, uint) -> uint", subtract},
    OverloadRow{"_*_", "multiply_double", "(double, double) -> double", multiply},
    OverloadRow{"_*_", "multiply_int64", "(int, int) -> int", multiply},
    OverloadRow{"_*_", "multiply_uint64", "(uint, uint) -> uint", multiply},
    OverloadRow{"_/_", "divide_double", "(double, double) -> double", divide<false>},
    OverloadRow{"_/_", "divide_int64", "(int, int) -> int", divide<false>},
    OverloadRow{"_/_", "divide_uint64", "(uint, uint) -> uint", divide<false>},
    OverloadRow{"_%_", "modulo_int64", "(int, int) -> int", divide<true>},
    OverloadRow{"_%_", "modulo_uint64", "(uint, uint) -> uint", divide<true>},
    OverloadRow{"-_", "negate_double", "(double) -> double", negate},
    OverloadRow{"-_", "negate_int64", "(int) -> int", negate},
    KIN_COMPARISON("_<_", "less", less),
    KIN_COMPARISON("_<=_", "less_equals", less_equal),
    KIN_COMPARISON("_>_", "greater", greater),
    KIN_COMPARISON("_>=_", "greater_equals", greater_equal),
    OverloadRow{"_[_]", "index_list", "(list(A), int) -> A", nullptr},
    OverloadRow{"_[_]", "index_map", "(map(A, B), A) -> B", nullptr},
    OverloadRow{"_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)",
                nullptr},
    OverloadRow{"_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)",
                nullptr},
    OverloadRow{"_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)", nullptr},
    OverloadRow{"_[?_]", "optional_list_optindex_optional_int",
                "(optional(list(V)), int) -> optional(V)", nullptr},
    OverloadRow{"_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)", nullptr},
    OverloadRow{"_[?_]", "optional_map_optindex_optional_value",
                "(optional(map(K, V)), K) -> optional(V)", nullptr},
    OverloadRow{"@in", "in_list", "(A, list(A)) -> bool", in},
    OverloadRow{"@in", "in_map", "(A, map(A, B)) -> bool", in},
    OverloadRow{"size", "size_bytes", "(bytes) -> int", size},
    OverloadRow{"size", "bytes_size", "bytes.() -> int", size},
    OverloadRow{"size", "size_list", "(list(A)) -> int", size},
    OverloadRow{"size", "list_size", "list(A).() -> int", size},
    OverloadRow{"size", "size_map", "(map(A, B)) -> int", size},
    OverloadRow{"size", "map_size", "map(A, B).() -> int", size},
    OverloadRow{"size", "size_string", "(string) -> int", size},
    OverloadRow{"size", "string_size", "string.() -> int", size},
    OverloadRow{"cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)",
                map_insert},
    OverloadRow{"cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)",
                map_insert},
};
#undef KIN_COMPARISON

}  // namespace

std::span<const OverloadRow> operator_rows() { return kRows; }

}  // namespace kintsugi::cel
