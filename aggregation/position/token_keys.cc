#include "aggregation/position/token_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMostKeys = 8;
constexpr std::size_t kLeastSecret = 16;
constexpr std::size_t kMostSecret = 1'024;

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return static_cast<unsigned>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<unsigned>(c - 'a' + 10);
  }
  if (c >= 'A' && c <= 'F') {
    return static_cast<unsigned>(c - 'A' + 10);
  }
  return std::nullopt;
}

std::optional<Secret> secret_of(std::string_view hex) {
  if (hex.size() % 2 != 0 || hex.size() < 2 * kLeastSecret || hex.size() > 2 * kMostSecret) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(hex.size() / 2);  // grown, it would leave a part behind
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto high = hex_digit(hex[i]);
    const auto low = hex_digit(hex[i + 1]);
    if (!high || !low) {
      wipe(out);
      return std::nullopt;
    }
    out += static_cast<char>(*high << 4 | *low);
  }
  return Secret(std::move(out));
}

}  // namespace

Expected<TokenKeys> parse_token_keys(std::string_view text) {
  TokenKeys keys;
  std::size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const auto wrong = [number](std::string_view why) {
      return fail(Errc::kConfig, "line " + std::to_string(number) + ": " + std::string(why));
    };
    const std::size_t space = line.find(' ');
    const auto id = parse_decimal<std::uint8_t>(line.substr(0, space));
    const auto secret =
        secret_of(space == std::string_view::npos ? std::string_view() : trim(line.substr(space)));
    if (!id || !secret) {
      return wrong("must be an id from 0 to 255 and 16 bytes or more in hex");
    }
    if (std::any_of(keys.begin(), keys.end(), [&](const TokenKey& one) { return one.id == *id; })) {
      return wrong("the id is that of another key");
    }
    if (keys.size() == kMostKeys) {
      return wrong("more than " + std::to_string(kMostKeys) + " keys");
    }
    keys.emplace_back(*id, *secret);
  }
  if (keys.empty()) {
    return fail(Errc::kConfig, "there is no key");
  }
  return keys;
}

}  // namespace kintsugi::aggregation
