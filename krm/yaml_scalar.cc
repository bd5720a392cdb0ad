#include "krm/internal/yaml_scalar.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

#include "base/strings.h"

namespace kintsugi::krm {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// One of the three spellings: all lower, Capital, ALL UPPER.
bool spelled(std::string_view text, std::string_view lower) {
  if (!equals_ignore_case(text, lower)) {
    return false;
  }
  std::string upper;
  for (const char c : lower) {
    upper.push_back(static_cast<char>(c - 'a' + 'A'));
  }
  return text == lower || text == upper ||
         (text.front() == upper.front() && text.substr(1) == lower.substr(1));
}

/// ^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$
bool is_decimal(std::string_view text) {
  std::size_t i = text.empty() || (text[0] != '-' && text[0] != '+') ? 0 : 1;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) {
      ++i;
    }
    return i > start;
  };
  const bool whole = digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits() && !whole) {
      return false;
    }
  } else if (!whole) {
    return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) {
      ++i;
    }
    if (!digits()) {
      return false;
    }
  }
  return i == text.size();
}

/// strconv.ParseInt(text, 0, 64): 0x, 0o, 0b and leading-zero octal.
std::optional<Json> to_integer(std::string_view text) {
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') {
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = text[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    text.remove_prefix(base != 8 || mark == 'o' || mark == 'O' ? 2 : 1);
  }
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!negative) {
    return Json(value);
  }
  if (value > kMost + 1) {
    return std::nullopt;
  }
  return Json(value == kMost + 1 ? std::numeric_limits<std::int64_t>::min()
                                 : -static_cast<std::int64_t>(value));
}

std::optional<Json> to_number(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '_') {
      plain.push_back(c);
    }
  }
  if (plain.empty()) {
    return std::nullopt;
  }
  if (std::optional<Json> integer = to_integer(plain)) {
    return integer;
  }
  if (!is_decimal(plain)) {
    return std::nullopt;
  }
  std::string_view decimal = plain;
  if (decimal.front() == '+') {
    decimal.remove_prefix(1);
  }
  double value = 0;
  const auto result = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
  return result.ec == std::errc() ? std::optional<Json>(Json(value)) : std::nullopt;
}

}  // namespace

std::optional<Json> resolve_yaml_scalar(std::string_view text) {
  if (text.empty() || text == "~" || spelled(text, "null")) {
    return Json();
  }
  for (const std::string_view word : {"y", "yes", "true", "on"}) {
    if (spelled(text, word)) {
      return Json(true);
    }
  }
  for (const std::string_view word : {"n", "no", "false", "off"}) {
    if (spelled(text, word)) {
      return Json(false);
    }
  }
  const char first = text.front();
  if (!is_digit(first) && first != '-' && first != '+' && first != '.') {
    return Json(text);
  }
  std::string_view unsigned_text = text;
  if (first == '-' || first == '+') {
    unsigned_text.remove_prefix(1);
  }
  if (unsigned_text == ".inf" || unsigned_text == ".Inf" || unsigned_text == ".INF" ||
      text == ".nan" || text == ".NaN" || text == ".NAN") {
    return std::nullopt;
  }
  std::optional<Json> number = to_number(text);
  return number ? std::move(number) : std::optional<Json>(Json(text));
}

}  // namespace kintsugi::krm
