#include "topology/conditions.h"

#include <algorithm>

namespace kintsugi::topology {
namespace {

using krm::Json;

Json without_time(const Json& condition) {
  Json copy = condition;
  copy.erase("lastTransitionTime");
  return copy;
}

const Json* find_type(const Json* conditions, std::string_view type) {
  if (conditions == nullptr) {
    return nullptr;
  }
  for (const Json& condition : conditions->items()) {
    if (condition.text({"type"}) == type) {
      return &condition;
    }
  }
  return nullptr;
}

}  // namespace

Json render_conditions(std::vector<Condition> wanted, const Json* old, std::string_view now) {
  std::sort(wanted.begin(), wanted.end(), [](const Condition& a, const Condition& b) {
    const bool a_ready = a.type == "Ready";
    const bool b_ready = b.type == "Ready";
    return a_ready != b_ready ? a_ready : a.type < b.type;
  });
  Json list = Json::array();
  for (const Condition& condition : wanted) {
    Json item = Json::object({{"type", condition.type}, {"status", condition.status}});
    if (!condition.reason.empty()) {
      item["reason"] = condition.reason;
    }
    if (!condition.severity.empty() && condition.status == "False") {
      item["severity"] = condition.severity;
    }
    if (!condition.message.empty()) {
      item["message"] = condition.message;
    }
    const Json* before = find_type(old, condition.type);
    const bool same = before != nullptr && without_time(*before) == item;
    item["lastTransitionTime"] = same ? before->text({"lastTransitionTime"}) : now;
    list.push_back(std::move(item));
  }
  return list;
}

bool same_but_times(const Json& a, const Json& b) {
  const Json* a_conditions = a.find("conditions");
  const Json* b_conditions = b.find("conditions");
  if ((a_conditions == nullptr) != (b_conditions == nullptr)) {
    return false;
  }
  Json a_rest = a;
  Json b_rest = b;
  a_rest.erase("conditions");
  b_rest.erase("conditions");
  if (!(a_rest == b_rest)) {
    return false;
  }
  if (a_conditions == nullptr) {
    return true;
  }
  return std::equal(
      a_conditions->items().begin(), a_conditions->items().end(), b_conditions->items().begin(),
      b_conditions->items().end(),
      [](const Json& x, const Json& y) { return without_time(x) == without_time(y); });
}

}  // namespace kintsugi::topology
