#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// AddressPlan and MessagingAddressPlan: which of them a space may use, and their status. Functions
// of their inputs alone. Source: section 3.2, 3.4, MS-036. Threads: any.

/// Validated=False/PlanNotAllowed: the space's plan lists the address plans that it allows, and
/// this is none of them. nullopt: allowed.
/// @param allowed  spec.addressPlans of the space's plan; empty: all
/// @param plan     name of the address's plan, "" for the built-in one
[[nodiscard]] std::optional<Condition> plan_not_allowed(std::span<const std::string> allowed,
                                                        std::string_view plan);

/// phase Active or Failed, message, conditions.
[[nodiscard]] krm::Json address_plan_status(const Parsed<AddressPlan>& plan, const krm::Json& from,
                                            std::string_view now);

}  // namespace kintsugi::workers
