#pragma once

#include <optional>
#include <string_view>

#include "apiserver/resource.h"
#include "base/error.h"
#include "kinds/rbac/rbac.h"

/// Nobody gives away rights that he does not have (AM-444 to AM-447).
namespace kintsugi::kinds {

/// A Role or ClusterRole about to be written. `old` null on create. Holders of system:masters and
/// of verb `escalate` pass; so do writes that leave the rules as they are.
/// @error kForbidden naming the missing rules.
[[nodiscard]] Expected<void> check_role_escalation(const RbacAuthorizer& rbac,
                                                   const apiserver::WriteContext& context,
                                                   std::string_view resource,
                                                   const krm::Json& object, const krm::Json* old);

/// A RoleBinding or ClusterRoleBinding about to be written. Holders of system:masters and of verb
/// `bind` on the role pass; so do writes that leave roleRef and subjects as they are.
/// @error kNotFound no such role; kForbidden naming the missing rules; kInternal a roleRef of
///        another kind.
[[nodiscard]] Expected<void> check_binding_escalation(const RbacAuthorizer& rbac,
                                                      const apiserver::WriteContext& context,
                                                      std::string_view resource,
                                                      const krm::Json& object,
                                                      const krm::Json* old);

/// A copy of a kind of group rbac.authorization.k8s.io whose `admit` hook makes the check after
/// the one it had. Other kinds come back as they are. `rbac` must outlive the definition's use.
[[nodiscard]] apiserver::ResourcePtr with_escalation_check(apiserver::ResourcePtr kind,
                                                           const RbacAuthorizer& rbac);

}  // namespace kintsugi::kinds
