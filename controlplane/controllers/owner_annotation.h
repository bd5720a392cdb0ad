#pragma once

#include <string>

#include "auth/user.h"

namespace kintsugi::controlplane {

/// Value of krm::kOwnerAnnotation for a user, without what must not outlive his request
/// (clean_owner): JSON with the keys username, uid, groups, extra in this order, empty ones but the
/// first left out (KK-040).
[[nodiscard]] std::string owner_annotation(const auth::UserInfo& user);

}  // namespace kintsugi::controlplane
