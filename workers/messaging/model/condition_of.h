#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

[[nodiscard]] inline Condition condition_of(std::string_view type, ConditionStatus status,
                                            std::string_view reason, std::string message = {}) {
  Condition condition;
  condition.type = type;
  condition.status = status;
  condition.reason = reason;
  condition.message = std::move(message);
  return condition;
}

/// What is wrong with an object.
[[nodiscard]] inline Condition refusal(std::string_view type, std::string_view reason,
                                       std::string message) {
  return condition_of(type, ConditionStatus::kFalse, reason, std::move(message));
}

}  // namespace kintsugi::workers
