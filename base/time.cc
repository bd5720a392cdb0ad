#include "base/time.h"

#include <array>
#include <chrono>
#include <cstdio>

namespace kintsugi {
namespace {

void put_two(char* at, unsigned value) noexcept {
  at[0] = static_cast<char>('0' + value / 10);
  at[1] = static_cast<char>('0' + value % 10);
}

/// "2006-01-02T15:04:05"; of years from 0 to 9999.
std::string date_time(std::int64_t seconds_since_epoch) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds_since_epoch)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  const auto rest = static_cast<unsigned>((time - day).count());
  std::string out = "0000-00-00T00:00:00";
  put_two(&out[0], year / 100 % 100);
  put_two(&out[2], year % 100);
  put_two(&out[5], static_cast<unsigned>(date.month()));
  put_two(&out[8], static_cast<unsigned>(date.day()));
  put_two(&out[11], rest / 3'600);
  put_two(&out[14], rest / 60 % 60);
  put_two(&out[17], rest % 60);
  return out;
}

}  // namespace

std::int64_t unix_seconds() { return unix_microseconds() / 1'000'000; }

std::int64_t unix_microseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::string rfc3339(std::int64_t seconds_since_epoch) {
  return date_time(seconds_since_epoch) + "Z";
}

std::string rfc3339_micro(std::int64_t microseconds_since_epoch) {
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ",
                static_cast<int>(microseconds_since_epoch % 1'000'000));
  return date_time(microseconds_since_epoch / 1'000'000) + fraction.data();
}

}  // namespace kintsugi
