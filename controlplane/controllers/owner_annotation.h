#pragma once

#include <string>

#include "auth/user.h"

namespace kintsugi::controlplane {

/// The user without what must not outlive his request: groups system:masters and system:kcp:*, and
/// extras whose key's domain is kcp.io or below (warrants, scopes, cluster names). KK-057.
[[nodiscard]] auth::UserInfo lasting_user(const auth::UserInfo& user);

/// Value of annotation experimental.tenancy.kcp.io/owner for lasting_user(user): JSON with the keys
/// username, uid, groups, extra in this order, empty ones left out (KK-040).
[[nodiscard]] std::string owner_annotation(const auth::UserInfo& user);

}  // namespace kintsugi::controlplane
