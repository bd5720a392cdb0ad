#include <array>
#include <optional>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

/// Seconds east of UTC: "UTC", "", "+02:00", "-0700" is not taken; names of places are unknown.
std::optional<std::int64_t> zone_offset(std::string_view zone) {
  if (zone == "UTC" || zone.empty()) {
    return 0;
  }
  const std::size_t colon = zone.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const bool negative = zone[0] == '-';
  const std::string_view hours =
      zone[0] == '-' || zone[0] == '+' ? zone.substr(1, colon - 1) : zone.substr(0, colon);
  const auto hour = parse_decimal<std::int64_t>(hours);
  const auto minute = parse_decimal<std::int64_t>(zone.substr(colon + 1));
  if (!hour || !minute || *minute > 59 || *hour > 24) {
    return std::nullopt;
  }
  const std::int64_t offset = *hour * 3600 + *minute * 60;
  return negative ? -offset : offset;
}

using Part = std::int64_t (*)(const CivilTime& time, std::int32_t nanos);

template <Part kPart>
Value of_timestamp(const Args& args) {
  std::int64_t offset = 0;
  if (args.count == 2) {
    const auto parsed = zone_offset(args[1].text());
    if (!parsed) {
      return Value::error("unknown time zone " + std::string(args[1].text()));
    }
    offset = *parsed;
  }
  return Value::integer(kPart(civil_time(args[0].integer() + offset), args[0].nanos()));
}

template <std::int64_t kUnit>
Value of_duration(const Args& args) {
  return Value::integer(args[0].integer() / kUnit);
}

constexpr std::int64_t year(const CivilTime& time, std::int32_t /*nanos*/) { return time.year; }
constexpr std::int64_t month(const CivilTime& time, std::int32_t /*nanos*/) {
  return time.month - 1;
}
constexpr std::int64_t date(const CivilTime& time, std::int32_t /*nanos*/) { return time.day; }
constexpr std::int64_t day(const CivilTime& time, std::int32_t /*nanos*/) { return time.day - 1; }
constexpr std::int64_t week_day(const CivilTime& time, std::int32_t /*nanos*/) {
  return time.week_day;
}
constexpr std::int64_t year_day(const CivilTime& time, std::int32_t /*nanos*/) {
  return time.year_day;
}
constexpr std::int64_t hour(const CivilTime& time, std::int32_t /*nanos*/) { return time.hour; }
constexpr std::int64_t minute(const CivilTime& time, std::int32_t /*nanos*/) { return time.minute; }
constexpr std::int64_t second(const CivilTime& time, std::int32_t /*nanos*/) { return time.second; }
constexpr std::int64_t milliseconds(const CivilTime& /*time*/, std::int32_t nanos) {
  return nanos / 1'000'000;
}

#define KIN_GETTER(name, id, part)                                                                \
  OverloadRow{name, "timestamp_to_" id, "timestamp.() -> int", of_timestamp<part>}, OverloadRow { \
    name, "timestamp_to_" id "_with_tz", "timestamp.(string) -> int", of_timestamp<part>          \
  }

constexpr auto kRows = std::array{
    KIN_GETTER("getFullYear", "year", year),
    KIN_GETTER("getMonth", "month", month),
    KIN_GETTER("getDayOfYear", "day_of_year", year_day),
    KIN_GETTER("getDate", "day_of_month_1_based", date),
    KIN_GETTER("getDayOfMonth", "day_of_month", day),
    KIN_GETTER("getDayOfWeek", "day_of_week", week_day),
    KIN_GETTER("getHours", "hours", hour),
    KIN_GETTER("getMinutes", "minutes", minute),
    KIN_GETTER("getSeconds", "seconds", second),
    KIN_GETTER("getMilliseconds", "milliseconds", milliseconds),
    OverloadRow{"getHours", "duration_to_hours", "duration.() -> int",
                of_duration<3'600'000'000'000>},
    OverloadRow{"getMinutes", "duration_to_minutes", "duration.() -> int",
                of_duration<60'000'000'000>},
    OverloadRow{"getSeconds", "duration_to_seconds", "duration.() -> int",
                of_duration<1'000'000'000>},
    OverloadRow{"getMilliseconds", "duration_to_milliseconds", "duration.() -> int",
                of_duration<1'000'000>},
};
#undef KIN_GETTER

}  // namespace

std::span<const OverloadRow> time_rows() { return kRows; }

}  // namespace kintsugi::cel
