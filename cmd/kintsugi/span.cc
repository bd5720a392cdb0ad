#include "cmd/kintsugi/span.h"

#include <string>

#include "base/strings.h"

namespace kintsugi::cmd {
namespace {

constexpr std::int64_t kLongest = std::int64_t{3650} * 86'400;

std::int64_t seconds_in(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3'600;
    case 'd':
      return 86'400;
    default:
      return 0;
  }
}

}  // namespace

std::function<Expected<void>(std::string_view)> into_span(std::int64_t& target) {
  return [&target](std::string_view text) -> Expected<void> {
    const std::int64_t unit = text.empty() ? 0 : seconds_in(text.back());
    const auto count = parse_decimal<std::int64_t>(text.substr(0, text.size() - (unit != 0)));
    if (unit == 0 || !count || *count > kLongest / unit) {
      return fail(Errc::kConfig, "\"" + std::string(text) +
                                     "\" is no length of time, as 90s, 10m, 1h or 366d are");
    }
    target = *count * unit;
    return {};
  };
}

}  // namespace kintsugi::cmd
