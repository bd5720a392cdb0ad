#include "krm/quantity.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/strings.h"

namespace kintsugi::krm {

namespace {

constexpr std::size_t kMaxLength = 1'000;
constexpr WideInteger kLargest = std::numeric_limits<std::int64_t>::max();
constexpr WideInteger kBillion = 1'000'000'000;
constexpr std::string_view kWrongForm =
    "quantities must match the regular expression "
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
constexpr std::array<std::string_view, 10> kDecimalSuffixes = {"n", "u", "m", "",  "k",
                                                               "M", "G", "T", "P", "E"};
constexpr int kPlainSuffix = 3;  // in kDecimalSuffixes
constexpr std::array<std::string_view, 7> kBinarySuffixes = {"",   "Ki", "Mi", "Gi",
                                                             "Ti", "Pi", "Ei"};

template <std::size_t N>
std::optional<int> position(const std::array<std::string_view, N>& list, std::string_view suffix) {
  const auto found = std::find(list.begin(), list.end(), suffix);
  return found == list.end() ? std::nullopt
                             : std::optional<int>(static_cast<int>(found - list.begin()));
}

/// The number of a suffix like "e3" or "E-6".
std::optional<int> exponent_of(std::string_view suffix) {
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) {
    return std::nullopt;
  }
  suffix.remove_prefix(1);
  const bool negative = suffix.front() == '-';
  if (negative || suffix.front() == '+') {
    suffix.remove_prefix(1);
  }
  const auto number = parse_decimal<int>(suffix);
  if (!number || *number > 100'000) {
    return std::nullopt;
  }
  return negative ? -*number : *number;
}

/// Digits from `begin` (which may lie before or behind the text: zeros) to `begin` + `count`.
WideInteger digits_at(std::string_view digits, std::int64_t begin, int count) {
  WideInteger out = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const bool inside = i >= 0 && i < static_cast<std::int64_t>(digits.size());
    out = out * 10 + (inside ? digits[static_cast<std::size_t>(i)] - '0' : 0);
  }
  return out;
}

/// |number| in billionths. @param point digits before the decimal point; may lie outside.
WideInteger magnitude(std::string_view digits, std::int64_t point, int binary) {
  const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.remove_prefix(zeros);
  point -= static_cast<std::int64_t>(zeros);
  if (digits.empty()) {
    return 0;
  }
  constexpr int kWholeDigits = 19;
  constexpr int kFraction = 18;
  if (point > kWholeDigits) {
    return kLargest * kBillion;
  }
  const WideInteger factor = WideInteger{1} << (10 * binary);
  const WideInteger whole = digits_at(digits, point - kWholeDigits, kWholeDigits);
  if (whole > kLargest || whole * factor > kLargest) {
    return kLargest * kBillion;
  }
  const WideInteger fraction = digits_at(digits, point, kFraction) * factor;
  const std::int64_t seen = point + kFraction;
  bool rest = fraction % kBillion != 0;
  if (seen < static_cast<std::int64_t>(digits.size())) {
    const auto from = static_cast<std::size_t>(std::max<std::int64_t>(seen, 0));
    rest = rest || digits.substr(from).find_first_not_of('0') != std::string_view::npos;
  }
  const WideInteger nanos = whole * factor * kBillion + fraction / kBillion + (rest ? 1 : 0);
  return std::min(nanos, kLargest * kBillion);
}

std::string digits_of(WideInteger value) {
  std::string out;
  const bool negative = value < 0;
  do {
    const int digit = static_cast<int>(value % 10);
    out.insert(out.begin(), static_cast<char>('0' + (negative ? -digit : digit)));
    value /= 10;
  } while (value != 0);
  return negative ? "-" + out : out;
}

}  // namespace

Expected<Quantity> Quantity::parse(std::string_view text) {
  const auto wrong = [](std::string_view why) { return fail(Errc::kBadRequest, std::string(why)); };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) {
    rest.remove_prefix(1);
  }
  const std::size_t length = std::min(rest.find_first_not_of("0123456789."), rest.size());
  const std::string_view number = rest.substr(0, length);
  const std::string_view suffix = rest.substr(length);
  if (text.size() > kMaxLength || number.empty() ||
      suffix.find_first_not_of("eEinumkKMGTP+-0123456789") != std::string_view::npos) {
    return wrong(kWrongForm);
  }
  const std::size_t point = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, point));
  if (point < number.size()) {
    digits += number.substr(point + 1);
  }
  if (digits.empty() || digits.find('.') != std::string::npos) {
    return wrong(kWrongForm);
  }
  Quantity out;
  int shift = 0;
  int binary = 0;
  if (const auto decimal = position(kDecimalSuffixes, suffix)) {
    shift = 3 * (*decimal - kPlainSuffix);
  } else if (const auto found = position(kBinarySuffixes, suffix)) {
    binary = *found;
    out.family_ = Family::kBinary;
  } else if (const auto exponent = exponent_of(suffix)) {
    shift = *exponent;
    out.family_ = Family::kExponent;
  } else {
    return wrong("unable to parse quantity's suffix");
  }
  const WideInteger size = magnitude(digits, static_cast<std::int64_t>(point) + shift, binary);
  out.nanos_ = negative ? -size : size;
  return out;
}

std::string Quantity::to_string() const {
  WideInteger value = nanos_;
  if (value == 0) {
    return "0";
  }
  // Small binary numbers are shown as decimal ones: they would have to be rounded.
  if (family_ == Family::kBinary && (value >= 1024 * kNanos || value <= -1024 * kNanos)) {
    const WideInteger part = value % kNanos;
    value = value / kNanos + (part > 0 ? 1 : part < 0 ? -1 : 0);
    std::size_t power = 0;
    while (value % 1024 == 0 && power + 1 < kBinarySuffixes.size()) {
      value /= 1024;
      ++power;
    }
    return digits_of(value).append(kBinarySuffixes[power]);
  }
  std::size_t power = 0;
  while (value % 1000 == 0 && power + 1 < kDecimalSuffixes.size()) {
    value /= 1000;
    ++power;
  }
  std::string out = digits_of(value);
  if (family_ != Family::kExponent) {
    return out.append(kDecimalSuffixes[power]);
  }
  const int exponent = 3 * (static_cast<int>(power) - kPlainSuffix);
  return exponent == 0 ? out : out + "e" + std::to_string(exponent);
}

std::int64_t Quantity::ceiling() const noexcept {
  return static_cast<std::int64_t>(nanos_ / kNanos + (nanos_ % kNanos > 0 ? 1 : 0));
}

}  // namespace kintsugi::krm
