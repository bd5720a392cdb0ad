#include "cel/internal/text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace kintsugi::cel {

namespace {
constexpr std::uint64_t kLowBits = 0x0101010101010101;
}

std::size_t rune_count(std::string_view text) noexcept {
  // Eight bytes at once: those that go on begin with the bits 10.
  std::size_t more = 0;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    more += static_cast<std::size_t>(std::popcount((word >> 7U) & ~(word >> 6U) & kLowBits));
  }
  for (; i < text.size(); ++i) {
    more += (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U ? 1U : 0U;
  }
  return text.size() - more;
}

std::vector<char32_t> runes(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + length > text.size()) {
      out.push_back(0xFFFD);
      ++i;
      continue;
    }
    char32_t rune = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    bool valid = true;
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      valid = valid && (next & 0xC0U) == 0x80U;
      rune = (rune << 6U) | (next & 0x3FU);
    }
    out.push_back(valid ? rune : 0xFFFD);
    i += valid ? length : 1;
  }
  return out;
}

void append_rune(std::string& out, char32_t rune) {
  if (rune > 0x10FFFF || (rune >= 0xD800 && rune < 0xE000)) {
    rune = 0xFFFD;
  }
  if (rune < 0x80) {
    out += static_cast<char>(rune);
  } else if (rune < 0x800) {
    out += static_cast<char>(0xC0U | (rune >> 6U));
    out += static_cast<char>(0x80U | (rune & 0x3FU));
  } else if (rune < 0x10000) {
    out += static_cast<char>(0xE0U | (rune >> 12U));
    out += static_cast<char>(0x80U | ((rune >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (rune & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | (rune >> 18U));
    out += static_cast<char>(0x80U | ((rune >> 12U) & 0x3FU));
    out += static_cast<char>(0x80U | ((rune >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (rune & 0x3FU));
  }
}

std::string to_utf8(const std::vector<char32_t>& runes, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t i = begin; i < end; ++i) {
    append_rune(out, runes[i]);
  }
  return out;
}

constexpr int kExponentFrom = 6;  // shortest digits: as with %g

std::string go_double(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-Inf" : "+Inf";
  }
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + mark + 1;
  std::from_chars(*digits == '+' ? digits + 1 : digits, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= kExponentFrom) {
    return std::string(text);
  }
  char fixed[400];
  const auto stop = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed);
  return std::string(fixed, stop.ptr);
}

std::string duration_seconds(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds / 1'000'000'000) +
                         static_cast<double>(nanoseconds % 1'000'000'000) / 1e9;
  char fixed[400];
  const auto stop = std::to_chars(fixed, fixed + sizeof(fixed), seconds, std::chars_format::fixed);
  return std::string(fixed, stop.ptr) + 's';
}

std::string go_duration(std::int64_t nanoseconds) {
  if (nanoseconds == 0) {
    return "0s";
  }
  const bool negative = nanoseconds < 0;
  std::uint64_t left = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(nanoseconds)
                                : static_cast<std::uint64_t>(nanoseconds);
  const auto fraction = [](std::uint64_t value, std::uint64_t unit) {
    std::string out = std::to_string(value / unit);
    std::string rest = std::to_string(unit + value % unit).substr(1);
    while (!rest.empty() && rest.back() == '0') {
      rest.pop_back();
    }
    return rest.empty() ? out : out + '.' + rest;
  };
  std::string out = negative ? "-" : "";
  if (left < 1000) {
    return out + std::to_string(left) + "ns";
  }
  if (left < 1'000'000) {
    return out + fraction(left, 1000) + "\u00b5s";
  }
  if (left < 1'000'000'000) {
    return out + fraction(left, 1'000'000) + "ms";
  }
  const std::uint64_t hours = left / 3'600'000'000'000U;
  const std::uint64_t minutes = left / 60'000'000'000U % 60;
  left %= 60'000'000'000U;
  if (hours != 0) {
    out += std::to_string(hours) + 'h';
  }
  if (hours != 0 || minutes != 0) {
    out += std::to_string(minutes) + 'm';
  }
  return out + fraction(left, 1'000'000'000) + 's';
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0") {
    return 0;
  }
  if (text.empty()) {
    return std::nullopt;
  }
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63U;
  std::uint64_t total = 0;
  while (!text.empty()) {
    std::uint64_t whole = 0;
    std::size_t used = 0;
    while (used < text.size() && text[used] >= '0' && text[used] <= '9') {
      if (whole > kLimit / 10) {
        return std::nullopt;
      }
      whole = whole * 10 + static_cast<std::uint64_t>(text[used] - '0');
      if (whole > kLimit) {
        return std::nullopt;
      }
      ++used;
    }
    bool digits = used > 0;
    text.remove_prefix(used);
    double fraction = 0;
    double scale = 1;
    if (!text.empty() && text[0] == '.') {
      text.remove_prefix(1);
      while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
        digits = true;
        if (scale < 1e17) {
          fraction = fraction * 10 + (text[0] - '0');
          scale *= 10;
        }
        text.remove_prefix(1);
      }
    }
    if (!digits) {
      return std::nullopt;
    }
    std::size_t length = 0;
    while (length < text.size() && text[length] != '.' &&
           (text[length] < '0' || text[length] > '9')) {
      ++length;
    }
    const std::string_view unit = text.substr(0, length);
    std::uint64_t size = 0;
    if (unit == "ns") {
      size = 1;
    } else if (unit == "us" || unit == "\u00b5s" || unit == "\u03bcs") {
      size = 1000;
    } else if (unit == "ms") {
      size = 1'000'000;
    } else if (unit == "s") {
      size = 1'000'000'000;
    } else if (unit == "m") {
      size = 60'000'000'000U;
    } else if (unit == "h") {
      size = 3'600'000'000'000U;
    } else {
      return std::nullopt;
    }
    text.remove_prefix(length);
    if (whole > kLimit / size) {
      return std::nullopt;
    }
    whole *= size;
    if (fraction > 0) {
      whole += static_cast<std::uint64_t>(fraction * (static_cast<double>(size) / scale));
    }
    if (whole > kLimit || total > kLimit - whole) {
      return std::nullopt;
    }
    total += whole;
  }
  if (negative) {
    return static_cast<std::int64_t>(std::uint64_t{0} - total);
  }
  if (total > kLimit - 1) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(total);
}

CivilTime civil_time(std::int64_t seconds) {
  std::int64_t days = seconds / 86400;
  std::int64_t rest = seconds % 86400;
  if (rest < 0) {
    rest += 86400;
    --days;
  }
  CivilTime out;
  out.hour = static_cast<int>(rest / 3600);
  out.minute = static_cast<int>(rest / 60 % 60);
  out.second = static_cast<int>(rest % 60);
  out.week_day = static_cast<int>(((days % 7) + 11) % 7);
  const std::int64_t shifted = days + 719468;
  const std::int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const std::int64_t day_of_era = shifted - era * 146097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month = (5 * day_of_year + 2) / 153;
  out.day = static_cast<int>(day_of_year - (153 * month + 2) / 5 + 1);
  out.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
  out.year = year_of_era + era * 400 + (out.month <= 2 ? 1 : 0);
  CivilTime first;
  first.year = out.year;
  out.year_day = static_cast<int>((days * 86400 - unix_time(first)) / 86400);
  return out;
}

std::int64_t unix_time(const CivilTime& time) {
  const std::int64_t year = time.month <= 2 ? time.year - 1 : time.year;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year =
      (153 * (time.month > 2 ? time.month - 3 : time.month + 9) + 2) / 5 + time.day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  const std::int64_t days = era * 146097 + day_of_era - 719468;
  return days * 86400 + time.hour * 3600 + time.minute * 60 + time.second;
}

std::optional<ParsedTime> parse_timestamp(std::string_view text) {
  const auto digits = [&](std::size_t from, std::size_t count) -> int {
    int value = 0;
    for (std::size_t i = from; i < from + count; ++i) {
      if (i >= text.size() || text[i] < '0' || text[i] > '9') {
        return -1;
      }
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return std::nullopt;
  }
  CivilTime time;
  time.year = digits(0, 4);
  time.month = digits(5, 2);
  time.day = digits(8, 2);
  time.hour = digits(11, 2);
  time.minute = digits(14, 2);
  time.second = digits(17, 2);
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (time.year < 0 || time.month < 1 || time.month > 12 || time.day < 1 || time.hour < 0 ||
      time.hour > 23 || time.minute < 0 || time.minute > 59 || time.second < 0 ||
      time.second > 59) {
    return std::nullopt;
  }
  const bool leap = (time.year % 4 == 0 && time.year % 100 != 0) || time.year % 400 == 0;
  if (time.day > kDays[time.month - 1] + (time.month == 2 && leap ? 1 : 0)) {
    return std::nullopt;
  }
  std::size_t at = 19;
  std::int32_t nanos = 0;
  if (text[at] == '.' || text[at] == ',') {
    ++at;
    const std::size_t first = at;
    std::int32_t unit = 100'000'000;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      nanos += (text[at] - '0') * unit;
      unit /= 10;
      ++at;
    }
    if (at == first) {
      return std::nullopt;
    }
  }
  std::int64_t offset = 0;
  const std::string_view zone = text.substr(at);
  if (zone != "Z") {
    if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') {
      return std::nullopt;
    }
    const int hours = digits(at + 1, 2);
    const int minutes = digits(at + 4, 2);
    if (hours < 0 || hours > 24 || minutes < 0 || minutes > 60) {
      return std::nullopt;
    }
    offset = (zone[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  }
  return ParsedTime{unix_time(time) - offset, nanos};
}

std::string format_timestamp(std::int64_t seconds, std::int32_t nanos) {
  const CivilTime time = civil_time(seconds);
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%04lld-%02d-%02dT%02d:%02d:%02d",
                static_cast<long long>(time.year), time.month, time.day, time.hour, time.minute,
                time.second);
  std::string out = buffer;
  if (nanos != 0) {
    std::snprintf(buffer, sizeof(buffer), ".%09d", nanos);
    out += buffer;
    while (out.back() == '0') {
      out.pop_back();
    }
  }
  return out + 'Z';
}

}  // namespace kintsugi::cel
