#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/runtime/status/redactor.h"

namespace kintsugi::workers {

enum class ConditionStatus : std::uint8_t { kTrue, kFalse, kUnknown };
[[nodiscard]] std::string_view condition_text(ConditionStatus status) noexcept;

/// One condition as a reconciler states it (RT-80).
struct Condition {
  std::string_view type;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string_view reason;  ///< CamelCase; what is none is made so, "" becomes "Unknown"
  std::string message;
  std::int64_t observed_generation = 0;
};

/// The condition types of a kind in their fixed order, and what must not stand in their messages.
/// Lifetime: of the texts and the redactor, longer than this.
struct ConditionRules {
  std::vector<std::string_view> order;
  const Redactor* redactor = nullptr;
};

inline constexpr std::size_t kMaxMessage = 1'024;  ///< bytes of a message, of an event's note

/// Puts a condition into `status.conditions`: in the kind's order; types that the kind does not
/// name come after those, as they were. lastTransitionTime changes only with the condition's
/// status. The message is printable, without secrets, at most kMaxMessage bytes.
/// @param status  the object's `status`, changed in place.
/// @param now     RFC 3339, of the wall clock.
/// @returns whether anything has changed.
bool set_condition(krm::Json& status, const ConditionRules& rules, const Condition& condition,
                   std::string_view now);

/// Takes a condition out. @returns whether there was one.
bool drop_condition(krm::Json& status, std::string_view type);

/// The condition of a type; nullptr when there is none.
[[nodiscard]] const krm::Json* find_condition(const krm::Json& status,
                                              std::string_view type) noexcept;

/// Whether a type's status differs, e.g. that of `Ready` (RT-81).
[[nodiscard]] bool is_transition(const krm::Json& from, const krm::Json& to, std::string_view type);

/// Whether two statuses mean the same (RT-81): null, absent, {}, [] and objects of such members are
/// one; conditions are compared by type, in any order, and without lastTransitionTime.
[[nodiscard]] bool same_status(const krm::Json& a, const krm::Json& b);

}  // namespace kintsugi::workers
