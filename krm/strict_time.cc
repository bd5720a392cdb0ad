#include "krm/strict_time.h"

#include <cstdio>

#include "krm/go_text.h"

namespace kintsugi::krm {

namespace {

bool digits(std::string_view text, std::size_t at, std::size_t count, int& out) {
  if (at + count > text.size()) {
    return false;
  }
  out = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') {
      return false;
    }
    out = out * 10 + (text[i] - '0');
  }
  return true;
}

bool is_leap(std::int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : kDays[month - 1];
}

// Days since 1970-01-01 in the proleptic Gregorian calendar, and back.
std::int64_t days_from_civil(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

struct Civil {
  std::int64_t year;
  int month, day;
};

Civil civil_from_days(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (of_era - of_era / 1'460 + of_era / 36'524 - of_era / 146'096) / 365;
  const std::int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted = (5 * of_year + 2) / 153;
  const int day = static_cast<int>(of_year - (153 * shifted + 2) / 5 + 1);
  const int month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day};
}

std::string date_and_time(std::int64_t seconds) {
  std::int64_t days = seconds / 86'400;
  std::int64_t rest = seconds % 86'400;
  if (rest < 0) {
    rest += 86'400;
    --days;
  }
  const Civil civil = civil_from_days(days);
  char buffer[64];
  const int length =
      std::snprintf(buffer, sizeof buffer, "%04lld-%02d-%02dT%02lld:%02lld:%02lld",
                    static_cast<long long>(civil.year), civil.month, civil.day,
                    static_cast<long long>(rest / 3600), static_cast<long long>(rest / 60 % 60),
                    static_cast<long long>(rest % 60));
  return std::string(buffer, static_cast<std::size_t>(length));
}

}  // namespace

std::optional<Instant> parse_rfc3339(std::string_view text, bool micro) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!digits(text, 0, 4, year) || !digits(text, 5, 2, month) || !digits(text, 8, 2, day) ||
      !digits(text, 11, 2, hour) || !digits(text, 14, 2, minute) || !digits(text, 17, 2, second) ||
      text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
      minute > 59 || second > 59) {
    return std::nullopt;
  }
  std::size_t at = 19;
  Instant out;
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    std::int32_t scale = 100'000'000;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      out.nanos += (text[at] - '0') * scale;
      scale /= 10;
      ++at;
      ++fraction;
    }
    if (fraction == 0) {
      return std::nullopt;
    }
  }
  if (micro && fraction != 6) {
    return std::nullopt;
  }
  std::int64_t offset = 0;
  if (at + 1 == text.size() && text[at] == 'Z') {
    // UTC
  } else if (at + 6 == text.size() && (text[at] == '+' || text[at] == '-') && text[at + 3] == ':') {
    int hours = 0, minutes = 0;
    if (!digits(text, at + 1, 2, hours) || !digits(text, at + 4, 2, minutes) || hours > 24 ||
        minutes > 60) {
      return std::nullopt;
    }
    offset = (hours * 60 + minutes) * (text[at] == '-' ? -60 : 60);
  } else {
    return std::nullopt;
  }
  out.seconds = days_from_civil(year, month, day) * 86'400 + hour * 3600 + minute * 60 + second;
  out.seconds -= offset;
  return out;
}

std::string go_time_error(std::string_view text, bool micro) {
  struct Element {
    std::string_view layout;
    std::size_t digits;  ///< 0: a literal
    int least, most;
    std::string_view name;
  };
  constexpr int kAnyYear = 9999;
  const Element elements[] = {{"2006", 4, 0, kAnyYear, "year"}, {"-", 0, 0, 0, {}},
                              {"01", 2, 1, 12, "month"},        {"-", 0, 0, 0, {}},
                              {"02", 2, 1, 31, "day"},          {"T", 0, 0, 0, {}},
                              {"15", 2, 0, 23, "hour"},         {":", 0, 0, 0, {}},
                              {"04", 2, 0, 59, "minute"},       {":", 0, 0, 0, {}},
                              {"05", 2, 0, 59, "second"}};
  const std::string begin = "parsing time " + go_quote(text);
  const auto cannot = [&](std::string_view rest, std::string_view layout) {
    return begin + " as \"2006-01-02T15:04:05" + (micro ? ".000000" : "") +
           "Z07:00\": cannot parse " + go_quote(rest) + " as " + go_quote(layout);
  };
  std::string_view rest = text;
  for (const Element& element : elements) {
    int number = 0;
    if (element.digits == 0 ? !rest.starts_with(element.layout)
                            : !digits(rest, 0, element.digits, number)) {
      return cannot(rest, element.layout);
    }
    if (element.digits != 0 && (number < element.least || number > element.most)) {
      return begin + ": " + std::string(element.name) + " out of range";
    }
    rest.remove_prefix(element.digits == 0 ? 1 : element.digits);
  }
  int number = 0;
  if (micro) {
    constexpr std::size_t kDigits = 6;
    if (!rest.starts_with('.') || !digits(rest, 1, kDigits, number)) {
      return cannot(rest, ".000000");
    }
    rest.remove_prefix(kDigits + 1);
  } else if (rest.size() > 1 && rest.front() == '.' && digits(rest, 1, 1, number)) {
    const std::size_t end = rest.find_first_not_of("0123456789", 1);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
  }
  const bool zone = rest.size() >= 6 && (rest.front() == '+' || rest.front() == '-') &&
                    digits(rest, 1, 2, number) && rest[3] == ':' && digits(rest, 4, 2, number);
  if (!rest.starts_with('Z') && !zone) {
    return cannot(rest, "Z07:00");
  }
  rest.remove_prefix(zone ? 6 : 1);
  return begin +
         (rest.empty() ? std::string(": day out of range") : ": extra text: " + go_quote(rest));
}

std::string format_time(const Instant& instant) { return date_and_time(instant.seconds) + "Z"; }

std::string format_micro_time(const Instant& instant) {
  char buffer[16];
  const int length = std::snprintf(buffer, sizeof buffer, ".%06dZ", instant.nanos / 1000);
  return date_and_time(instant.seconds) + std::string(buffer, static_cast<std::size_t>(length));
}

}  // namespace kintsugi::krm
