#pragma once

#include <string_view>

#include "krm/json.h"

namespace kintsugi::controlplane {

/// Sets status.conditions[type] as kcp writes conditions: reason, severity and message only where
/// they say something. lastTransitionTime moves when anything else changes.
/// @returns whether anything changed.
bool set_kcp_condition(krm::Json& object, std::string_view type, std::string_view status,
                       std::string_view severity = {}, std::string_view reason = {},
                       std::string_view message = {});

}  // namespace kintsugi::controlplane
