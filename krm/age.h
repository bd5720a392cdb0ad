#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::krm {

/// An age as Tables show it (AM-316): "5s", "3m11s", "27m", "3h10m", "10h", "3d4h", "45d", "2y45d".
/// Two units below 10 minutes, 8 hours, 8 days and 8 years. Times up to a second in the future are
/// "0s", later ones "<invalid>".
[[nodiscard]] inline std::string age_text(std::int64_t seconds) {
  if (seconds < -1) {
    return "<invalid>";
  }
  if (seconds < 0) {
    return "0s";
  }
  const auto pair = [](std::int64_t big, char big_unit, std::int64_t small, char small_unit) {
    std::string text = std::to_string(big) + big_unit;
    return small == 0 ? text : text + std::to_string(small) + small_unit;
  };
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  const std::int64_t days = hours / 24;
  const std::int64_t years = days / 365;
  if (seconds < 120) {
    return std::to_string(seconds) + "s";
  }
  if (minutes < 10) {
    return pair(minutes, 'm', seconds % 60, 's');
  }
  if (minutes < 180) {
    return std::to_string(minutes) + "m";
  }
  if (hours < 8) {
    return pair(hours, 'h', minutes % 60, 'm');
  }
  if (hours < 48) {
    return std::to_string(hours) + "h";
  }
  if (hours < 192) {
    return pair(days, 'd', hours % 24, 'h');
  }
  if (days < 730) {
    return std::to_string(days) + "d";
  }
  if (days < 2920) {
    return pair(years, 'y', days % 365, 'd');
  }
  return std::to_string(years) + "y";
}

}  // namespace kintsugi::krm
