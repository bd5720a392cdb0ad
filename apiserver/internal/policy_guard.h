#pragma once

#include <functional>

#include "apiserver/internal/write_op.h"
#include "krm/json.h"

namespace kintsugi::apiserver::internal {

/// Asks the ValidatingAdmissionPolicies of the write's logical cluster, once it was found valid:
/// `next` when none refuses it, else the operation is finished with their answer. Warnings and
/// audit annotations are left in the operation. Policies and their bindings themselves are exempt.
/// @param object  as Hooks::validate sees it; null on delete.
/// @param old     null on create.
/// Cost: two look-ups in a cluster without policies.
void guard_write(const WriteOpPtr& op, const krm::Json* object, const krm::Json* old,
                 std::function<void()> next);

/// The same for a subresource that answers creates itself (serviceaccounts/token).
/// @param body of `extra`'s kind.
void guard_subresource(const WriteOpPtr& op, const ResourceDef::ExtraSubresource& extra,
                       const krm::Json& body, std::function<void()> next);

}  // namespace kintsugi::apiserver::internal
