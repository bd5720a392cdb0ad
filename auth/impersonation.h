#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authorizer.h"
#include "auth/user.h"
#include "base/error.h"
#include "http/headers.h"

namespace kintsugi::auth {

/// What Impersonate-* headers ask for (specs/api-machinery.md AM-435, AM-436).
struct Impersonation {
  UserInfo user;                   ///< the effective identity if every check is allowed
  std::vector<Attributes> checks;  ///< in the order in which they are asked, all must be allowed
};

/// Reads the headers; nullopt without any.
/// @param requester who really asks.
/// @param cluster logical cluster for the checks.
/// @error kBadRequest group, uid or extra without a user.
/// @error kForbidden a special group of kcp that the requester is not in (specs/front-proxy.md
///        17.3, FP-078).
[[nodiscard]] Expected<std::optional<Impersonation>> parse_impersonation(
    const http::HeaderList& headers, const UserInfo& requester, std::string_view cluster);

/// The whole step: parses, asks `authorizer` check by check, gives the effective identity (the
/// requester's own without headers). `done` is called once, at once or when the authorizer answers.
/// @error as parse_impersonation, the 403 of the first check that is denied, the authorizer's own.
void impersonate(const http::HeaderList& headers, const UserInfo& requester,
                 std::string_view cluster, Authorizer& authorizer,
                 std::function<void(Expected<UserInfo>)> done);

}  // namespace kintsugi::auth
