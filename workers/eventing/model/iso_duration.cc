#include "workers/eventing/model/iso_duration.h"

#include <cstddef>
#include <iterator>
#include <utility>

namespace kintsugi::workers {
namespace {

constexpr double kMost = 9007199254740992.0;  // 2^53

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Designators in the order in which they may come, with their milliseconds.
constexpr std::pair<char, double> kDates[] = {{'W', 604'800'000.0}, {'D', 86'400'000.0}};
constexpr std::pair<char, double> kTimes[] = {{'H', 3'600'000.0}, {'M', 60'000.0}, {'S', 1'000.0}};

}  // namespace

std::optional<std::uint64_t> parse_iso_duration(std::string_view text) noexcept {
  if (text.size() < 3 || text.front() != 'P') {
    return std::nullopt;
  }
  text.remove_prefix(1);
  double sum = 0;
  bool in_time = false, any = false, fraction = false;
  std::size_t next = 0;  // of the table
  while (!text.empty()) {
    if (!in_time && text.front() == 'T') {
      in_time = true;
      any = false;
      next = 0;
      text.remove_prefix(1);
      continue;
    }
    if (fraction || !is_digit(text.front())) {
      return std::nullopt;
    }
    double value = 0, scale = 1;
    while (!text.empty() && is_digit(text.front())) {
      value = value * 10 + (text.front() - '0');
      text.remove_prefix(1);
    }
    if (!text.empty() && (text.front() == '.' || text.front() == ',')) {
      fraction = true;
      text.remove_prefix(1);
      if (text.empty() || !is_digit(text.front())) {
        return std::nullopt;
      }
      while (!text.empty() && is_digit(text.front())) {
        scale /= 10;
        value += scale * (text.front() - '0');
        text.remove_prefix(1);
      }
    }
    const std::size_t size = in_time ? std::size(kTimes) : std::size(kDates);
    const auto* const table = in_time ? kTimes : kDates;
    while (next < size && (text.empty() || table[next].first != text.front())) {
      ++next;
    }
    if (next == size) {
      return std::nullopt;
    }
    sum += value * table[next++].second;
    any = true;
    text.remove_prefix(1);
  }
  // A hair more: 0.3 is not exactly there.
  return any && sum < kMost ? std::optional(static_cast<std::uint64_t>(sum + 1e-6)) : std::nullopt;
}

}  // namespace kintsugi::workers
