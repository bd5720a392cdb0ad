#include "auth/user.h"

#include <algorithm>

#include "krm/names.h"

namespace kintsugi::auth {

bool UserInfo::in_group(std::string_view group) const noexcept {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

const std::vector<std::string>* UserInfo::extra_values(std::string_view key) const noexcept {
  for (const auto& [name_of_extra, values] : extra) {
    if (name_of_extra == key) {
      return &values;
    }
  }
  return nullptr;
}

UserInfo anonymous_user() {
  UserInfo user;
  user.name = kAnonymous;
  user.groups = {std::string(kGroupUnauthenticated)};
  return user;
}

bool is_within_bounds(const UserInfo& user) noexcept {
  // The group that every identity gains is brought by none.
  if (user.groups.size() > kMostGroups &&
      !(user.groups.size() == kMostGroups + 1 && user.in_group(kGroupAuthenticated))) {
    return false;
  }
  std::size_t bytes = 0;
  for (const auto& [key, values] : user.extra) {
    bytes += key.size();
    for (const std::string& value : values) {
      bytes += value.size();
    }
  }
  return bytes <= kMostExtraBytes;
}

void add_authenticated_group(UserInfo& user) {
  if (user.name == kAnonymous || user.in_group(kGroupAuthenticated) ||
      user.in_group(kGroupUnauthenticated)) {
    return;
  }
  user.groups.emplace_back(kGroupAuthenticated);
}

std::optional<ServiceAccountName> parse_service_account_user(std::string_view user) {
  constexpr std::string_view kPrefix = "system:serviceaccount:";
  if (!user.starts_with(kPrefix)) {
    return std::nullopt;
  }
  user.remove_prefix(kPrefix.size());
  const std::size_t colon = user.find(':');
  if (colon == std::string_view::npos || !krm::check_dns1123_label(user.substr(0, colon)).empty() ||
      !krm::check_dns1123_subdomain(user.substr(colon + 1)).empty()) {
    return std::nullopt;
  }
  return ServiceAccountName{std::string(user.substr(0, colon)),
                            std::string(user.substr(colon + 1))};
}

std::string service_account_user(std::string_view ns, std::string_view name) {
  return "system:serviceaccount:" + std::string(ns) + ":" + std::string(name);
}

std::vector<std::string> service_account_groups(std::string_view ns) {
  return {"system:serviceaccounts", "system:serviceaccounts:" + std::string(ns)};
}

}  // namespace kintsugi::auth
