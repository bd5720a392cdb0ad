#include "base/time.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace kintsugi {
namespace {

std::string date_time(std::int64_t seconds_since_epoch) {
  const std::time_t time = static_cast<std::time_t>(seconds_since_epoch);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return {text.data(), length};
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
