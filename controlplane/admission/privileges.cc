#include "controlplane/admission/privileges.h"

#include <string>
#include <utility>

#include "auth/own_roles.h"

namespace kintsugi::controlplane {

Privileges privileges_of(const auth::UserInfo& user) noexcept {
  constexpr std::pair<std::string_view, Privileges> kGroups[] = {
      {auth::kGroupMasters, kSystem},
      {auth::kGroupOwnShard, kSystem},  // of what its role lets through (own_rights.h)
      {kGroupLogicalClusterAdmin, kClusterAdmin},
      {auth::kGroupExternalLogicalClusterAdmin, kExternalClusterAdmin},
      {kGroupBootstrapper, kBootstrapper},
      {auth::kGroupKcpAdmin, kAdmin},
  };
  Privileges found = kEverybody;
  for (const std::string& group : user.groups) {
    for (const auto& [name, privilege] : kGroups) {
      found |= group == name ? privilege : 0U;
    }
  }
  return found;
}

}  // namespace kintsugi::controlplane
