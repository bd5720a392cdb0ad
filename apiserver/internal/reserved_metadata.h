#pragma once

#include <optional>
#include <string>

#include "auth/user.h"
#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::apiserver::internal {

/// Labels and annotations below `internal.*kcp.io/` and `*.core.kcp.io/` belong to the system:
/// users other than its administrators may not add, change or remove them (AM-482).
/// @param old null on create. @returns what the refusal says, nullopt when all is well.
[[nodiscard]] std::optional<std::string> reserved_metadata_change(const auth::UserInfo& user,
                                                                  const krm::Json& object,
                                                                  const krm::Json* old);

}  // namespace kintsugi::apiserver::internal
