#pragma once

#include <functional>

#include "apiserver/resource.h"
#include "auth/authorizer.h"

namespace kintsugi::kinds {

/// Who names parameters must be able to read them: an admission policy with a paramKind
/// needs `get` on all of its objects, a binding with a paramRef `get` of the object, or `list`.
/// Members of system:masters need nothing. Other kinds are returned as they are.
/// @param registry  asked at each write; what it gives and the authorizer outlive the kind.
[[nodiscard]] apiserver::ResourcePtr with_param_check(
    apiserver::ResourcePtr kind, auth::Authorizer& authorizer,
    std::function<const apiserver::Registry&()> registry);

}  // namespace kintsugi::kinds
