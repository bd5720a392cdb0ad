#include "krm/formats.h"

#include <arpa/inet.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/strings.h"
#include "krm/names.h"

namespace kintsugi::krm {

namespace {

using Check = bool (*)(std::string_view text);

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

/// A pattern compiled at its first use; the pattern is the template's own.
template <const char* const& kPattern>
bool fits(std::string_view text) {
  static const re2::RE2& compiled = *new re2::RE2(kPattern);
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), compiled);
}

constexpr const char* kUuid =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
constexpr const char* kUuid3 =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
constexpr const char* kUuid4 =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
constexpr const char* kUuid5 =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
constexpr const char* kCreditCard =
    "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-"
    "9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|"
    "(?:2131|1800|35\\d{3})\\d{11}|6[27][0-9]{14})$";
constexpr const char* kSsn = "^\\d{3}[- ]\\d{2}[- ]\\d{4}$";
constexpr const char* kHexColor = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
constexpr const char* kRgbColor =
    "^rgb\\(\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*,\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|"
    "25[0-5])\\s*,\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*\\)$";
constexpr const char* kByte =
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
constexpr const char* kTimeOfDay =
    "(?i)^([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";
constexpr const char* kGoDuration =
    "^[-+]?(?:0|(?:(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:ns|us|\xC2\xB5s|\xCE\xBCs|ms|s|m|h))+)$";
constexpr const char* kWordedPart = "(\\d+)\\s*([A-Za-z\xC2\xB5]+)";

struct TimeUnit {
  std::string_view name;
  bool whole;  ///< not only the beginning of a word
  std::uint64_t nanoseconds;
};
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr TimeUnit kTimeUnits[] = {
    {"ns", true, 1},
    {"nano", false, 1},
    {"us", true, 1'000},
    {"\xC2\xB5s", true, 1'000},
    {"micro", false, 1'000},
    {"ms", true, 1'000'000},
    {"milli", false, 1'000'000},
    {"s", true, kSecond},
    {"sec", false, kSecond},
    {"m", true, 60 * kSecond},
    {"min", false, 60 * kSecond},
    {"h", true, 3600 * kSecond},
    {"hr", true, 3600 * kSecond},
    {"hour", false, 3600 * kSecond},
    {"d", true, 24 * 3600 * kSecond},
    {"day", false, 24 * 3600 * kSecond},
    {"w", true, 7 * 24 * 3600 * kSecond},
    {"wk", true, 7 * 24 * 3600 * kSecond},
    {"week", false, 7 * 24 * 3600 * kSecond},
};

bool is_address(int family, std::string_view text) {
  unsigned char bytes[16];
  return text.size() < 64 && inet_pton(family, std::string(text).c_str(), bytes) == 1;
}

bool is_any_address(std::string_view text) {
  return is_address(AF_INET, text) || is_address(AF_INET6, text);
}

bool is_ipv4(std::string_view text) {
  return text.find('.') != std::string_view::npos && is_any_address(text);
}

bool is_ipv6(std::string_view text) {
  return text.find(':') != std::string_view::npos && is_any_address(text);
}

bool is_cidr(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  const std::string_view address = text.substr(0, slash);
  const std::string_view bits = text.substr(slash + 1);
  const bool digits = !bits.empty() && std::all_of(bits.begin(), bits.end(), is_digit);
  const auto count = digits ? parse_decimal<std::uint16_t>(bits) : std::nullopt;
  return count && ((*count <= 32 && is_address(AF_INET, address)) ||
                   (*count <= 128 && is_address(AF_INET6, address)));
}

/// Groups of `width` hex digits with one kind of separator, 6, 8 or 20 octets.
bool is_mac(std::string_view text) {
  if (text.size() < 14) {
    return false;
  }
  const bool dotted = text[4] == '.';
  const char separator = dotted ? '.' : text[2];
  const std::size_t width = dotted ? 4 : 2;
  if ((separator != ':' && separator != '-' && separator != '.') || (separator == '.') != dotted ||
      (text.size() + 1) % (width + 1) != 0) {
    return false;
  }
  const std::size_t octets = (text.size() + 1) / (width + 1) * width / 2;
  if (octets != 6 && octets != 8 && octets != 20) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i % (width + 1) == width;
    if (between ? text[i] != separator : !is_hex(text[i])) {
      return false;
    }
  }
  return true;
}

std::string digits_of_isbn(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '-' && c != ' ' && !(c >= '\t' && c <= '\r')) {
      out += c;
    }
  }
  return out;
}

bool is_isbn10(std::string_view text) {
  const std::string digits = digits_of_isbn(text);
  if (digits.size() != 10 || !std::all_of(digits.begin(), digits.end() - 1, is_digit) ||
      (!is_digit(digits[9]) && digits[9] != 'X')) {
    return false;
  }
  int sum = digits[9] == 'X' ? 100 : 10 * (digits[9] - '0');
  for (int i = 0; i < 9; ++i) {
    sum += (i + 1) * (digits[static_cast<std::size_t>(i)] - '0');
  }
  return sum % 11 == 0;
}

bool is_isbn13(std::string_view text) {
  const std::string digits = digits_of_isbn(text);
  if (digits.size() != 13 || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    return false;
  }
  int sum = 0;
  for (std::size_t i = 0; i < 13; ++i) {
    sum += (i % 2 == 0 ? 1 : 3) * (digits[i] - '0');
  }
  return sum % 10 == 0;
}

bool is_isbn(std::string_view text) { return is_isbn10(text) || is_isbn13(text); }

bool is_credit_card(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), is_digit);
  if (!fits<kCreditCard>(digits)) {
    return false;
  }
  int sum = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const int digit = digits[digits.size() - 1 - i] - '0';
    const int doubled = 2 * digit;
    sum += i % 2 == 0 ? digit : doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 == 0;
}

/// The last label of a name with dots: at least two characters, single dashes inside only.
bool is_last_label(std::string_view label) {
  const auto letters = std::count(label.begin(), label.end(), 'a');
  return letters >= 2 && letters <= 63 && label.front() == 'a' && label.back() == 'a' &&
         label.find("--") == std::string_view::npos;
}

bool is_inner_label(std::string_view label) {
  return !label.empty() && label.size() <= 63 && label.front() == 'a' && label.back() == 'a';
}

/// Without dots only the second character may be a dash.
bool is_only_label(std::string_view label) {
  return !label.empty() && label.size() <= 64 && label.front() == 'a' &&
         label.find('-', 2) == std::string_view::npos;
}

/// Letters, digits and symbols of any script, dashes and dots.
bool is_hostname(std::string_view text) {
  const auto labels = split(text, '.');
  if (text.size() > 255 || std::any_of(labels.begin(), labels.end(),
                                       [](std::string_view label) { return label.size() > 63; })) {
    return false;
  }
  static const re2::RE2& letter = *new re2::RE2("[a-zA-Z0-9\\p{S}\\p{L}]");
  std::string shape(text);
  re2::RE2::GlobalReplace(&shape, letter, "a");
  if (shape.find_first_not_of("a-.") != std::string::npos) {
    return false;
  }
  const auto shapes = split(std::string_view(shape), '.');
  if (shapes.size() == 1) {
    return is_only_label(shapes.front());
  }
  return is_last_label(shapes.back()) &&
         std::all_of(shapes.begin(), shapes.end() - 1, is_inner_label);
}

bool is_object_id(std::string_view text) {
  return text.size() == 24 && std::all_of(text.begin(), text.end(), is_hex);
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return false;
  }
  const auto year = parse_decimal<std::uint16_t>(text.substr(0, 4));
  const auto month = parse_decimal<std::uint16_t>(text.substr(5, 2));
  const auto day = parse_decimal<std::uint16_t>(text.substr(8, 2));
  if (!year || !month || !day || *month < 1 || *month > 12 || *day < 1) {
    return false;
  }
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (*year % 4 == 0 && *year % 100 != 0) || *year % 400 == 0;
  return *day <= kDays[*month - 1] + (*month == 2 && leap ? 1 : 0);
}

bool is_date_time(std::string_view text) {
  return text.size() > 11 && (text[10] == 'T' || text[10] == 't') && is_date(text.substr(0, 10)) &&
         fits<kTimeOfDay>(text.substr(11));
}

bool is_duration(std::string_view text) {
  return fits<kGoDuration>(text) || worded_duration(text).has_value();
}

/// An address as in a mail header: `a@b` or `Name <a@b>`.
class Mailbox {
 public:
  explicit Mailbox(std::string_view text) : text_(text) {}

  bool parse() {
    skip_space();
    const std::size_t start = at_;
    if (address()) {
      skip_space();
      if (at_ == text_.size()) {
        return true;
      }
    }
    at_ = start;
    while (at_ < text_.size() && text_[at_] != '<') {
      if (!(text_[at_] == '"' ? quoted() : atom(true))) {
        return false;
      }
      skip_space();
    }
    if (at_ == text_.size()) {
      return false;
    }
    ++at_;
    skip_space();
    if (!address() || at_ == text_.size() || text_[at_] != '>') {
      return false;
    }
    ++at_;
    skip_space();
    return at_ == text_.size();
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  static bool is_atom_char(char c) {
    return static_cast<unsigned char>(c) >= 0x80 || is_digit(c) ||
           ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           std::string_view("!#$%&'*+-/=?^_`{|}~").find(c) != std::string_view::npos;
  }
  bool quoted() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') {
      const auto c = static_cast<unsigned char>(text_[end]);
      if ((c < 0x20 && c != '\t') || c == 0x7F) {
        return false;
      }
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) {
      return false;
    }
    at_ = end + 1;
    return true;
  }
  /// @param loose dots anywhere, as display names have them.
  bool atom(bool loose) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_atom_char(text_[at_]) || text_[at_] == '.')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    return !word.empty() && (loose || (word.front() != '.' && word.back() != '.' &&
                                       word.find("..") == std::string_view::npos));
  }
  bool address() {
    if (at_ == text_.size() || !(text_[at_] == '"' ? quoted() : atom(false)) ||
        at_ == text_.size() || text_[at_] != '@') {
      return false;
    }
    ++at_;
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      const std::size_t end = text_.find(']', at_);
      if (end == std::string_view::npos || !is_any_address(text_.substr(at_ + 1, end - at_ - 1))) {
        return false;
      }
      at_ = end + 1;
      return true;
    }
    return at_ < text_.size() && atom(false);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_email(std::string_view text) { return Mailbox(text).parse(); }

struct Format {
  std::string_view name;  ///< without dashes
  Check check;
};

constexpr Format kFormats[] = {
    {"bsonobjectid", is_object_id},
    {"uri", is_request_uri},
    {"email", is_email},
    {"hostname", is_hostname},
    {"ipv4", is_ipv4},
    {"ipv6", is_ipv6},
    {"cidr", is_cidr},
    {"mac", is_mac},
    {"uuid", fits<kUuid>},
    {"uuid3", fits<kUuid3>},
    {"uuid4", fits<kUuid4>},
    {"uuid5", fits<kUuid5>},
    {"isbn", is_isbn},
    {"isbn10", is_isbn10},
    {"isbn13", is_isbn13},
    {"creditcard", is_credit_card},
    {"ssn", fits<kSsn>},
    {"hexcolor", fits<kHexColor>},
    {"rgbcolor", fits<kRgbColor>},
    {"byte", fits<kByte>},
    {"password", [](std::string_view) { return true; }},
    {"date", is_date},
    {"duration", is_duration},
    {"datetime", is_date_time},
    {"k8sshortname", [](std::string_view text) { return check_dns1123_label(text).empty(); }},
    {"k8slongname", [](std::string_view text) { return check_dns1123_subdomain(text).empty(); }},
};

const Format* find_format(std::string_view name) {
  std::string plain(name);
  std::erase(plain, '-');
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const Format& format) { return format.name == plain; });
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace

std::optional<std::int64_t> worded_duration(std::string_view text) {
  static const re2::RE2& part = *new re2::RE2(kWordedPart);
  re2::StringPiece rest(text.data(), text.size());
  re2::StringPiece digits;
  re2::StringPiece word;
  std::uint64_t total = 0;
  bool known = false;
  while (re2::RE2::FindAndConsume(&rest, part, &digits, &word)) {
    const auto count = parse_decimal<std::int64_t>({digits.data(), digits.size()});
    if (!count) {
      return std::nullopt;
    }
    const std::string unit = to_lower({word.data(), word.size()});
    for (const TimeUnit& each : kTimeUnits) {
      if (each.whole ? unit == each.name : unit.starts_with(each.name)) {
        known = true;
        total += static_cast<std::uint64_t>(*count) * each.nanoseconds;  // wraps, as it does in Go
      }
    }
  }
  return known ? std::optional(static_cast<std::int64_t>(total)) : std::nullopt;
}

bool is_known_format(std::string_view format) { return find_format(format) != nullptr; }

bool matches_format(std::string_view format, std::string_view text) {
  const Format* known = find_format(format);
  return known == nullptr || known->check(text);
}

bool is_request_uri(std::string_view text) {
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (text.empty() || std::any_of(text.begin(), text.end(), is_bad)) {
    return false;
  }
  if (text.front() == '/') {
    return true;
  }
  const std::size_t colon = text.find(':');
  const auto is_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '-' || c == '.';
  };
  if (colon == std::string_view::npos || colon == 0 ||
      !((text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z') ||
      !std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), is_scheme)) {
    return false;
  }
  const std::string_view rest = text.substr(colon + 1);
  if (!rest.starts_with("//")) {
    return true;
  }
  const std::string_view host = rest.substr(2, rest.find_first_of("/?#", 2) - 2);
  return host.find_first_of(" <>\"\\^`{|}") == std::string_view::npos;
}

}  // namespace kintsugi::krm
