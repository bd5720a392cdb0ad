#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::cel {

/// Code points of valid UTF-8.
[[nodiscard]] std::size_t rune_count(std::string_view text) noexcept;
[[nodiscard]] std::vector<char32_t> runes(std::string_view text);
void append_rune(std::string& out, char32_t rune);
[[nodiscard]] std::string to_utf8(const std::vector<char32_t>& runes, std::size_t begin,
                                  std::size_t end);

/// fmt's %v: shortest digits, with an exponent below -4 and from 6 on.
[[nodiscard]] std::string go_double(double value);
/// "1.5s": what string(duration) gives.
[[nodiscard]] std::string duration_seconds(std::int64_t nanoseconds);
/// "1m30s": Go's Duration.String.
[[nodiscard]] std::string go_duration(std::int64_t nanoseconds);
/// Go's time.ParseDuration; nullopt when malformed or out of range.
[[nodiscard]] std::optional<std::int64_t> parse_duration(std::string_view text);

/// Civil date and time of an instant.
struct CivilTime {
  std::int64_t year = 1970;
  int month = 1, day = 1, hour = 0, minute = 0, second = 0;
  int week_day = 4;  ///< Sunday is 0
  int year_day = 0;  ///< January 1st is 0
};
[[nodiscard]] CivilTime civil_time(std::int64_t seconds);
[[nodiscard]] std::int64_t unix_time(const CivilTime& time);
/// RFC 3339 as Go's time.Parse takes it; nullopt when malformed.
struct ParsedTime {
  std::int64_t seconds;
  std::int32_t nanos;
};
[[nodiscard]] std::optional<ParsedTime> parse_timestamp(std::string_view text);
/// RFC 3339 in UTC with as many fractional digits as needed.
[[nodiscard]] std::string format_timestamp(std::int64_t seconds, std::int32_t nanos);

inline constexpr std::int64_t kMinTimestamp = -62'135'596'800;  ///< year 1
inline constexpr std::int64_t kMaxTimestamp = 253'402'300'799;  ///< end of year 9999

}  // namespace kintsugi::cel
