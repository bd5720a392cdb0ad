#include <array>

#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

Value of(const Args& args) { return Value::optional(args[0]); }
Value of_non_zero(const Args& args) {
  return args[0].is_zero() ? Value::none() : Value::optional(args[0]);
}
Value none(const Args& /*args*/) { return Value::none(); }

Value value(const Args& args) {
  const Value* boxed = args[0].boxed();
  return boxed == nullptr ? Value::error("optional.none() dereference") : *boxed;
}

Value has_value(const Args& args) { return Value::boolean(args[0].boxed() != nullptr); }

Value unwrap(const Args& args) {
  std::vector<Value> out;
  for (const Value& each : args[0].items()) {
    if (!each.is(Kind::kOptional)) {
      return each.is_error() ? each : Value::error("value " + each.print() + " is not optional");
    }
    if (each.boxed() != nullptr) {
      out.push_back(*each.boxed());
    }
  }
  return Value::list(std::move(out));
}

constexpr auto kRows = std::array{
    OverloadRow{"optional.of", "optional_of", "(V) -> optional(V)", of},
    OverloadRow{"optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)",
                of_non_zero},
    OverloadRow{"optional.none", "optional_none", "() -> optional(V)", none},
    OverloadRow{"value", "optional_value", "optional(V).() -> V", value},
    OverloadRow{"hasValue", "optional_hasValue", "optional(V).() -> bool", has_value},
    OverloadRow{"or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)", nullptr},
    OverloadRow{"orValue", "optional_orValue_value", "optional(V).(V) -> V", nullptr},
    OverloadRow{"optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", unwrap},
    OverloadRow{"unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap},
};

}  // namespace

std::span<const OverloadRow> optional_rows() { return kRows; }

}  // namespace kintsugi::cel
