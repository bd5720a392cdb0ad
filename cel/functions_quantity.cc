#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

__extension__ using Wide = __int128;

constexpr Wide kUnit = 1'000'000'000;  ///< a quantity counts in units of 10^-9, as Kubernetes does
constexpr Wide kMax = Wide{std::numeric_limits<std::int64_t>::max()} * kUnit;

struct Quantity final : Opaque {
  explicit Quantity(Wide value) : Opaque("kubernetes.Quantity"), nano(value) {}
  [[nodiscard]] bool equals(const Opaque& other) const override {
    return nano == static_cast<const Quantity&>(other).nano;
  }
  Wide nano;
};

Wide nano(const Value& value) { return static_cast<const Quantity&>(*value.opaque()).nano; }
Value make(Wide value) { return Value::opaque(std::make_shared<const Quantity>(value)); }

struct Suffix {
  std::string_view text;
  int base, exponent;
};
constexpr std::array kSuffixes = {
    Suffix{"n", 10, -9}, Suffix{"u", 10, -6}, Suffix{"m", 10, -3}, Suffix{"", 10, 0},
    Suffix{"k", 10, 3},  Suffix{"M", 10, 6},  Suffix{"G", 10, 9},  Suffix{"T", 10, 12},
    Suffix{"P", 10, 15}, Suffix{"E", 10, 18}, Suffix{"Ki", 2, 10}, Suffix{"Mi", 2, 20},
    Suffix{"Gi", 2, 30}, Suffix{"Ti", 2, 40}, Suffix{"Pi", 2, 50}, Suffix{"Ei", 2, 60},
};

std::optional<Suffix> parse_suffix(std::string_view text) {
  for (const Suffix& each : kSuffixes) {
    if (each.text == text) {
      return each;
    }
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) {
    return std::nullopt;
  }
  bool negative = false;
  std::size_t at = 1;
  if (text[1] == '-' || text[1] == '+') {
    negative = text[1] == '-';
    at = 2;
  }
  int exponent = 0;
  if (at == text.size() || text.size() - at > 9) {
    return std::nullopt;
  }
  for (; at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9') {
      return std::nullopt;
    }
    exponent = exponent * 10 + (text[at] - '0');
  }
  return Suffix{"e", 10, negative ? -exponent : exponent};
}

/// Digits with a decimal point and a suffix; no digits at all are 0. Values are rounded up to 10^-9
/// and capped at 2^63-1.
std::optional<Wide> parse(std::string_view text) {
  if (text.empty()) {
    return std::nullopt;
  }
  bool negative = false;
  if (text[0] == '-' || text[0] == '+') {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  std::string digits;
  int exponent = 0;
  std::size_t at = 0;
  bool point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') {
      break;
    }
    if (!digits.empty() || text[at] != '0') {
      digits += text[at];
    }
    exponent -= point ? 1 : 0;
  }
  const auto suffix = parse_suffix(text.substr(at));
  if (!suffix) {
    return std::nullopt;
  }
  const auto signed_value = [&](Wide value) { return negative ? -value : value; };
  if (digits.empty()) {
    return Wide{0};
  }
  exponent += 9 + (suffix->base == 10 ? suffix->exponent : 0);
  // The leading 20 digits decide: more are above the cap or below the unit.
  Wide value = 0;
  bool rest = false;
  std::size_t used = 0;
  for (; used < digits.size() && used < 20; ++used) {
    value = value * 10 + (digits[used] - '0');
  }
  for (std::size_t i = used; i < digits.size(); ++i) {
    rest = rest || digits[i] != '0';
  }
  exponent += static_cast<int>(digits.size() - used);
  if (suffix->base == 2) {
    const Wide factor = Wide{1} << suffix->exponent;
    if (value > (Wide{1} << 66) && suffix->exponent > 50 && exponent >= 0) {
      return signed_value(kMax);
    }
    // Dividing by ten first would lose digits, multiplying may overflow: whichever fits.
    while (exponent < 0 && value > (Wide{1} << 126) / factor) {
      rest = rest || value % 10 != 0;
      value /= 10;
      ++exponent;
    }
    value = value > (Wide{1} << 126) / factor ? kMax + 1 : value * factor;
  }
  for (; exponent > 0 && value <= kMax; --exponent) {
    value *= 10;
  }
  for (; exponent < 0 && value > 0; ++exponent) {
    rest = rest || value % 10 != 0;
    value /= 10;
  }
  value += rest ? 1 : 0;
  return signed_value(value > kMax ? kMax : value);
}

Value quantity(const Args& args) {
  const auto value = parse(args[0].text());
  return value ? make(*value)
               : Value::error(
                     "quantities must match the regular expression "
                     "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
}
Value is_quantity(const Args& args) { return Value::boolean(parse(args[0].text()).has_value()); }
Value sign(const Args& args) {
  const Wide value = nano(args[0]);
  return Value::integer(value > 0 ? 1 : value < 0 ? -1 : 0);
}
Value is_integer(const Args& args) { return Value::boolean(nano(args[0]) % kUnit == 0); }
Value as_integer(const Args& args) {
  const Wide value = nano(args[0]);
  return value % kUnit == 0 ? Value::integer(static_cast<std::int64_t>(value / kUnit))
                            : Value::error("cannot convert value to integer");
}
Value as_float(const Args& args) {
  const Wide value = nano(args[0]);
  return Value::real(value % kUnit == 0 ? static_cast<double>(value / kUnit)
                                        : static_cast<double>(value) / 1e9);
}
Value compare(const Args& args) {
  const Wide a = nano(args[0]);
  const Wide b = nano(args[1]);
  return Value::integer(a < b ? -1 : a == b ? 0 : 1);
}
Value greater(const Args& args) { return Value::boolean(nano(args[0]) > nano(args[1])); }
Value less(const Args& args) { return Value::boolean(nano(args[0]) < nano(args[1])); }

Wide operand(const Value& value) {
  return value.is(Kind::kInt) ? Wide{value.integer()} * kUnit : nano(value);
}
/// Sums stay far from the ends of 128 bits: an expression's length limits how often it adds.
Value add(const Args& args) { return make(nano(args[0]) + operand(args[1])); }
Value subtract(const Args& args) { return make(nano(args[0]) - operand(args[1])); }

constexpr auto kRows = std::array{
    OverloadRow{"quantity", "string_to_quantity", "(string) -> quantity", quantity},
    OverloadRow{"isQuantity", "is_quantity_string", "(string) -> bool", is_quantity},
    OverloadRow{"sign", "quantity_sign", "(quantity) -> int", sign},
    OverloadRow{"isGreaterThan", "quantity_is_greater_than", "quantity.(quantity) -> bool",
                greater},
    OverloadRow{"isLessThan", "quantity_is_less_than", "quantity.(quantity) -> bool", less},
    OverloadRow{"compareTo", "quantity_compare_to", "quantity.(quantity) -> int", compare},
    OverloadRow{"asApproximateFloat", "quantity_get_float", "quantity.() -> double", as_float},
    OverloadRow{"asInteger", "quantity_get_int", "quantity.() -> int", as_integer},
    OverloadRow{"isInteger", "quantity_is_integer", "quantity.() -> bool", is_integer},
    OverloadRow{"add", "quantity_add", "quantity.(quantity) -> quantity", add},
    OverloadRow{"add", "quantity_add_int", "quantity.(int) -> quantity", add},
    OverloadRow{"sub", "quantity_sub", "quantity.(quantity) -> quantity", subtract},
    OverloadRow{"sub", "quantity_sub_int", "quantity.(int) -> quantity", subtract},
};

}  // namespace

std::span<const OverloadRow> quantity_rows() { return kRows; }

}  // namespace kintsugi::cel
