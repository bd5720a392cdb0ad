#include "krm/version_order.h"

#include <cstdint>
#include <optional>
#include <tuple>

#include "base/strings.h"

namespace kintsugi::krm {
namespace {

struct Parsed {
  int stability = 0;  ///< 2: GA, 1: beta, 0: alpha
  std::uint64_t major = 0, minor = 0;
};

/// v<major>[alpha<minor>|beta<minor>] without leading zeros.
std::optional<Parsed> parse(std::string_view text) noexcept {
  if (text.size() < 2 || text.front() != 'v') {
    return std::nullopt;
  }
  text.remove_prefix(1);
  const std::size_t digits = text.find_first_not_of("0123456789");
  const auto major = parse_decimal(text.substr(0, digits));
  if (!major) {
    return std::nullopt;
  }
  if (digits == std::string_view::npos) {
    return Parsed{2, *major, 0};
  }
  const std::string_view rest = text.substr(digits);
  const bool beta = rest.starts_with("beta");
  if (!beta && !rest.starts_with("alpha")) {
    return std::nullopt;
  }
  const auto minor = parse_decimal(rest.substr(beta ? 4 : 5));
  if (!minor) {
    return std::nullopt;
  }
  return Parsed{beta ? 1 : 0, *major, *minor};
}

}  // namespace

bool is_preferred_version(std::string_view a, std::string_view b) noexcept {
  const std::optional<Parsed> left = parse(a);
  const std::optional<Parsed> right = parse(b);
  if (!left || !right) {
    return left.has_value() != right.has_value() ? left.has_value() : a < b;
  }
  return std::tie(left->stability, left->major, left->minor) >
         std::tie(right->stability, right->major, right->minor);
}

}  // namespace kintsugi::krm
