#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::krm {

/// An instant: seconds since 1970 (negative before), 0 <= nanos < 1e9. UTC.
struct Instant {
  std::int64_t seconds = 0;
  std::int32_t nanos = 0;
  bool operator==(const Instant&) const = default;
};

/// Go's zero time, 0001-01-01T00:00:00Z, which Kubernetes writes as null.
inline constexpr std::int64_t kGoZeroSeconds = -62'135'596'800;

/// RFC 3339 with any number of fractional digits and an offset; nullopt when malformed.
/// @param micro  exactly six fractional digits are required (MicroTime).
[[nodiscard]] std::optional<Instant> parse_rfc3339(std::string_view text, bool micro = false);

/// Why parse_rfc3339() refuses a text, in the words of Go's time.Parse: `parsing time "x" as
/// "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`.
[[nodiscard]] std::string go_time_error(std::string_view text, bool micro);

/// "2026-01-02T03:04:05Z" and "2026-01-02T03:04:05.000006Z", also for years before 1970.
[[nodiscard]] std::string format_time(const Instant& instant);
[[nodiscard]] std::string format_micro_time(const Instant& instant);

}  // namespace kintsugi::krm
