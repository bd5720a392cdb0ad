#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "apiserver/resource.h"
#include "base/error.h"
#include "krm/json.h"

/// What ResourceQuotas say about numbers of objects. Pure functions; who calls them keeps the
/// promise: every create charges the quotas of its namespace in its own transaction
/// (quota_admission.h), the controller brings status.used down again and corrects it.
namespace kintsugi::kinds {

inline constexpr std::string_view kResourceQuotas = "resourcequotas";

/// Counts the objects of a resource, named as in store keys ("widgets.ex.io"), in the quota's
/// namespace.
using CountObjects = std::function<Expected<std::int64_t>(std::string_view resource)>;

/// The resource that a name under spec.hard counts, as in store keys: "configmaps" for "configmaps"
/// and "count/configmaps", "widgets.ex.io" for "count/widgets.ex.io". Empty: the name is accepted
/// and nothing uses it ("pods", "cpu"; Events, which quotas leave alone).
[[nodiscard]] std::string_view counted_resource(std::string_view limit) noexcept;

/// What status should be: hard as in spec, used as counted. Quotas with scopes are about Pods and
/// use nothing. @error what `count` fails with.
[[nodiscard]] Expected<krm::Json> quota_status(const krm::Json& quota, const CountObjects& count);

/// Adds one object to status.used. A limit that is not in the status yet is counted now; one whose
/// limit is there but not its use is refused, as it cannot be known what is right.
/// @param def, name  the object to be created, for the message. @param resource as in store keys.
/// @returns whether the quota changed. @error kForbidden when it would exceed the limit.
[[nodiscard]] Expected<bool> charge_quota(krm::Json& quota, const apiserver::ResourceDef& def,
                                          std::string_view resource, std::string_view name,
                                          const CountObjects& count);

/// Takes out of the status what spec.hard does not limit any more, so that it is counted anew if it
/// comes back.
void forget_unlimited(krm::Json& quota);

}  // namespace kintsugi::kinds
