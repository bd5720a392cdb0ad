#include "workers/messaging/model/address_plans.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/model/internal/status_parts.h"

namespace kintsugi::workers {

std::optional<Condition> plan_not_allowed(std::span<const std::string> allowed,
                                          std::string_view plan) {
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), plan) != allowed.end()) {
    return std::nullopt;
  }
  std::vector<std::string> first(
      allowed.begin(),
      allowed.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(allowed.size(), 8)));
  std::string text = plan.empty() ? "spec.plan: is needed, of "
                                  : "spec.plan: " + std::string(plan) + " is none of ";
  text += join(first, ", ");
  text += allowed.size() > first.size() ? ", …" : "";
  return condition_of("Validated", ConditionStatus::kFalse, "PlanNotAllowed",
                      text + ", which the plan of the space allows");
}

krm::Json address_plan_status(const Parsed<AddressPlan>& plan, const krm::Json& from,
                              std::string_view now) {
  StatusWriter out(from, {"Ready"}, now, nullptr, plan.object.id.generation);
  bool refused = false;
  for (const Condition& one : plan.conditions) {
    out.set(one);
    refused = refused || one.status == ConditionStatus::kFalse;
  }
  if (!refused) {
    out.set_true("Ready");
  }
  return out.finish(refused ? "Failed" : "Active", false);
}

}  // namespace kintsugi::workers
