#include "store/etcd/internal/version.h"

#include "base/strings.h"

namespace kintsugi::store::etcd {

std::optional<Version> Version::parse(std::string_view text) {
  const auto parts = split(text.substr(0, text.find_first_of("-+")), '.');
  if (parts.size() != 3) {
    return std::nullopt;
  }
  const auto major = parse_decimal<int>(parts[0]);
  const auto minor = parse_decimal<int>(parts[1]);
  const auto patch = parse_decimal<int>(parts[2]);
  if (!major || !minor || !patch) {
    return std::nullopt;
  }
  return Version{*major, *minor, *patch};
}

bool Version::is_supported() const noexcept {
  if (major != 3) {
    return false;
  }
  return (minor == 4 && patch >= 22) || (minor == 5 && patch >= 3) || minor >= 6;
}

bool Version::tells_progress() const noexcept {
  return (minor == 4 && patch >= 31) || (minor == 5 && patch >= 13) || minor >= 6;
}

}  // namespace kintsugi::store::etcd
