#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "auth/user.h"

/// Whose rights count where: identities that hold in some logical clusters only, global names of
/// ServiceAccounts, and warrants.
namespace kintsugi::auth {

/// Values: JSON {"user", "uid", "groups", "extra"} of another identity whose rights count as well.
inline constexpr std::string_view kExtraWarrant = "authorization.kcp.io/warrant";
inline constexpr std::string_view kGroupLogicalClusterAdmin = "system:kcp:logical-cluster-admin";
inline constexpr std::string_view kGroupBootstrapper = "system:kcp:tenancy:workspace-bootstrapper";

/// Whether the user is himself in this logical cluster: every value of extra
/// authentication.kcp.io/scopes (comma lists of "cluster:<name>", unknown forms match nothing)
/// names it, and a ServiceAccount with extra cluster-name is of it. Source: KK-318.
[[nodiscard]] bool in_scope(const UserInfo& user, std::string_view cluster);

/// Narrows the user to one logical cluster more ("": to none). Source: KK-323.
void add_scope(UserInfo& user, std::string_view cluster);

/// Identities whose rights count for `user` in `cluster`; one is enough. The first is the user, or
/// out of scope system:anonymous with what he is everywhere (system:authenticated,
/// system:cluster:<x>); a ServiceAccount with one cluster-name adds its global name; warrants add
/// theirs, without system:masters and the groups that administer logical clusters. Shape: 1 to 32.
/// Source: KK-319, KK-325.
[[nodiscard]] std::vector<UserInfo> effective_users(const UserInfo& user, std::string_view cluster);

/// Whether effective_users() may be anything but the user alone. Cost: linear in the extras.
[[nodiscard]] bool has_bounds(const UserInfo& user) noexcept;

/// Whether `test` holds for an effective user. Copies nothing for users without such extras.
template <class Test>
[[nodiscard]] bool any_effective_user(const UserInfo& user, std::string_view cluster,
                                      const Test& test) {
  if (!has_bounds(user)) {
    return test(user);
  }
  for (const UserInfo& one : effective_users(user, cluster)) {
    if (test(one)) {
      return true;
    }
  }
  return false;
}

}  // namespace kintsugi::auth
