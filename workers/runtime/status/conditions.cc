#include "workers/runtime/status/conditions.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kConditions = "conditions";

/// The form that Kubernetes wants of a reason, at most 1,024 bytes of letters and digits.
std::string reason_text(std::string_view reason) {
  std::string out;
  bool upper = true;
  for (const char c : reason.substr(0, 1'024)) {
    const bool lower_case = c >= 'a' && c <= 'z';
    const bool letter = lower_case || (c >= 'A' && c <= 'Z');
    if (!letter && (out.empty() || c < '0' || c > '9')) {
      upper = true;
      continue;
    }
    out += upper && lower_case ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return out.empty() ? "Unknown" : out;
}

std::size_t place_of(const ConditionRules& rules, std::string_view type) {
  return static_cast<std::size_t>(std::find(rules.order.begin(), rules.order.end(), type) -
                                  rules.order.begin());
}

/// Null, [], {}, and objects of such members: what may or may not come back from a server.
bool is_nothing(const Json& value) noexcept {
  if (value.is_object()) {
    return std::all_of(value.members().begin(), value.members().end(),
                       [](const krm::JsonMember& member) { return is_nothing(member.value); });
  }
  return value.is_null() || (value.is_array() && value.size() == 0);
}

bool same_value(const Json& a, const Json& b, bool is_condition);

/// Whether all that `a` has is in `b`.
bool has_all(const Json& a, const Json& b, bool is_condition) {
  return std::all_of(a.members().begin(), a.members().end(), [&](const krm::JsonMember& member) {
    if (is_condition && member.key == "lastTransitionTime") {
      return true;
    }
    const Json* other = b.find(member.key);
    return other == nullptr ? is_nothing(member.value) : same_value(member.value, *other, false);
  });
}

bool same_value(const Json& a, const Json& b, bool is_condition) {
  if (is_nothing(a) || is_nothing(b)) {
    return is_nothing(a) && is_nothing(b);
  }
  if (a.is_object() && b.is_object()) {
    return has_all(a, b, is_condition) && has_all(b, a, is_condition);
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [](const Json& x, const Json& y) { return same_value(x, y, false); });
  }
  return a == b;
}

/// Whether the condition stands there as it would be set, each in its place.
bool stands(const Json& conditions, const ConditionRules& rules, const Condition& condition,
            std::string_view reason, std::string_view message) {
  const Json* same = nullptr;
  std::size_t last = 0;
  for (const Json& one : conditions.items()) {
    const std::string_view type = one.text({"type"});
    const std::size_t place = place_of(rules, type);
    if (place < last || (type == condition.type && same != nullptr)) {
      return false;
    }
    last = place;
    same = type == condition.type ? &one : same;
  }
  if (same == nullptr) {
    return false;
  }
  const Json* const generation = same->find("observedGeneration");
  const bool numbered = condition.observed_generation > 0;
  return same->size() == (numbered ? 6U : 5U) && numbered == (generation != nullptr) &&
         (!numbered || *generation == Json(condition.observed_generation)) &&
         same->text({"status"}) == condition_text(condition.status) &&
         same->text({"reason"}) == reason && same->text({"message"}) == message &&
         !same->text({"lastTransitionTime"}).empty();
}

/// The conditions sorted by type.
std::vector<const Json*> sorted_conditions(const Json* conditions) {
  std::vector<const Json*> out;
  if (conditions != nullptr) {
    for (const Json& one : conditions->items()) {
      out.push_back(&one);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Json* a, const Json* b) {
    return a->text({"type"}) < b->text({"type"});
  });
  return out;
}

}  // namespace

std::string_view condition_text(ConditionStatus status) noexcept {
  return status == ConditionStatus::kTrue    ? "True"
         : status == ConditionStatus::kFalse ? "False"
                                             : "Unknown";
}

const Json* find_condition(const Json& status, std::string_view type) noexcept {
  const Json* conditions = status.find(kConditions);
  if (conditions == nullptr) {
    return nullptr;
  }
  const Json::Array& items = conditions->items();
  const auto at = std::find_if(items.begin(), items.end(),
                               [&](const Json& one) { return one.text({"type"}) == type; });
  return at == items.end() ? nullptr : &*at;
}

bool set_condition(Json& status, const ConditionRules& rules, const Condition& condition,
                   std::string_view now) {
  const std::string_view state = condition_text(condition.status);
  const Json* before = find_condition(status, condition.type);
  const bool stays = before != nullptr && before->text({"status"}) == state &&
                     !before->text({"lastTransitionTime"}).empty();
  const std::string message =
      rules.redactor != nullptr ? peer_message(condition.message, *rules.redactor, kMaxMessage)
                                : std::string(cut_utf8(printable(condition.message), kMaxMessage));
  const std::string reason = reason_text(condition.reason);
  if (const Json* const all = status.find(kConditions);
      all != nullptr && stands(*all, rules, condition, reason, message)) {
    return false;
  }
  Json next = Json::object(
      {{"type", Json(condition.type)},
       {"status", Json(state)},
       {"reason", Json(reason)},
       {"message", Json(message)},
       {"lastTransitionTime", Json(stays ? before->text({"lastTransitionTime"}) : now)}});
  if (condition.observed_generation > 0) {
    next["observedGeneration"] = Json(condition.observed_generation);
  }
  Json::Array old = status[kConditions].items();
  Json::Array merged;
  for (Json& one : old) {
    if (one.text({"type"}) != condition.type) {
      merged.push_back(std::move(one));
    }
  }
  merged.push_back(std::move(next));
  std::stable_sort(merged.begin(), merged.end(), [&](const Json& a, const Json& b) {
    return place_of(rules, a.text({"type"})) < place_of(rules, b.text({"type"}));
  });
  Json result(std::move(merged));
  if (result == status[kConditions]) {
    return false;
  }
  status[kConditions] = std::move(result);
  return true;
}

bool drop_condition(Json& status, std::string_view type) {
  if (find_condition(status, type) == nullptr) {
    return false;
  }
  Json::Array& items = status[kConditions].edit_items();
  std::erase_if(items, [&](const Json& one) { return one.text({"type"}) == type; });
  return true;
}

bool is_transition(const Json& from, const Json& to, std::string_view type) {
  const Json* a = find_condition(from, type);
  const Json* b = find_condition(to, type);
  return (a == nullptr ? std::string_view() : a->text({"status"})) !=
         (b == nullptr ? std::string_view() : b->text({"status"}));
}

bool same_status(const Json& a, const Json& b) {
  if (a == b) {
    return true;
  }
  const std::vector<const Json*> ours = sorted_conditions(a.find(kConditions));
  const std::vector<const Json*> theirs = sorted_conditions(b.find(kConditions));
  if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                  [](const Json* x, const Json* y) { return same_value(*x, *y, true); })) {
    return false;
  }
  const auto rest_is_in = [](const Json& x, const Json& y) {
    return std::all_of(x.members().begin(), x.members().end(), [&](const krm::JsonMember& member) {
      const Json* other = y.find(member.key);
      return member.key == kConditions ||
             (other == nullptr ? is_nothing(member.value)
                               : same_value(member.value, *other, false));
    });
  };
  return rest_is_in(a, b) && rest_is_in(b, a);
}

}  // namespace kintsugi::workers
