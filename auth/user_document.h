#pragma once

#include "auth/user.h"
#include "krm/json.h"

namespace kintsugi::auth {

/// A user as the API shows one (UserInfo of authentication.k8s.io): username, and uid, groups and
/// extra where there are any.
[[nodiscard]] krm::Json user_document(const UserInfo& user);

}  // namespace kintsugi::auth
