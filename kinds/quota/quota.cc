#include "kinds/quota/quota.h"

#include <algorithm>
#include <string>
#include <utility>

#include "krm/quantity.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

/// A quota with scopes is about some Pods only.
bool has_scopes(const Json& quota) {
  const Json* scopes = quota.at({"spec", "scopes"});
  const Json* selector = quota.at({"spec", "scopeSelector", "matchExpressions"});
  return (scopes != nullptr && scopes->size() > 0) || (selector != nullptr && selector->size() > 0);
}

/// "count/configmaps=2,configmaps=2"
void add_term(std::string& list, std::string_view name, std::string_view value) {
  list += list.empty() ? "" : ",";
  list += name;
  list += '=';
  list += value;
}

Error exceeded(const apiserver::ResourceDef& def, std::string_view name, const Json& quota,
               std::string_view requested, std::string_view used, std::string_view limited) {
  std::string why = "exceeded quota: ";
  why += quota.text({"metadata", "name"});
  why.append(", requested: ").append(requested);
  why.append(", used: ").append(used);
  why.append(", limited: ").append(limited);
  return krm::forbidden(def.group, def.plural, name, why);
}

}  // namespace

std::string_view counted_resource(std::string_view limit) noexcept {
  constexpr std::string_view kCount = "count/";
  if (limit.starts_with(kCount)) {
    limit.remove_prefix(kCount.size());
    return limit == "events" || limit == "events.events.k8s.io" ? std::string_view() : limit;
  }
  const bool old_name = limit == "configmaps" || limit == "secrets" || limit == kResourceQuotas;
  return old_name ? limit : std::string_view();
}

Expected<Json> quota_status(const Json& quota, const CountObjects& count) {
  Json status = Json::object();
  const Json* hard = quota.at({"spec", "hard"});
  if (hard == nullptr || hard->size() == 0) {
    return status;
  }
  const bool counts = !has_scopes(quota);
  Json used = Json::object();
  for (const krm::JsonMember& limit : hard->members()) {
    const std::string_view resource = counted_resource(limit.key);
    std::int64_t number = 0;
    if (counts && !resource.empty()) {
      const Expected<std::int64_t> counted = count(resource);
      if (!counted) {
        return fail(counted.error().clone());
      }
      number = *counted;
    }
    used[limit.key] = Json(krm::Quantity(number).to_string());
  }
  status["hard"] = *hard;
  status["used"] = std::move(used);
  return status;
}

Expected<bool> charge_quota(Json& quota, const apiserver::ResourceDef& def,
                            std::string_view resource, std::string_view name,
                            const CountObjects& count) {
  const Json* hard = quota.at({"spec", "hard"});
  if (hard == nullptr || has_scopes(quota)) {
    return false;
  }
  std::string requested;
  std::string over;
  std::string limited;
  std::string unknown;
  std::vector<std::pair<std::string, std::int64_t>> charged;
  for (const krm::JsonMember& limit : hard->members()) {
    if (counted_resource(limit.key) != resource) {
      continue;
    }
    std::int64_t used = 0;
    if (const auto known = krm::Quantity::parse(quota.text({"status", "used", limit.key}))) {
      used = known->ceiling();
    } else if (quota.at({"status", "hard", limit.key}) != nullptr) {
      unknown += unknown.empty() ? "" : ",";
      unknown += limit.key;
      continue;
    } else {
      const Expected<std::int64_t> counted = count(resource);
      if (!counted) {
        return fail(counted.error().clone());
      }
      used = *counted;
    }
    const auto most = krm::Quantity::parse(limit.value.as_string());
    if (!most || used >= most->ceiling()) {
      add_term(requested, limit.key, "1");
      add_term(over, limit.key, krm::Quantity(used).to_string());
      add_term(limited, limit.key, limit.value.as_string());
    } else {
      charged.emplace_back(limit.key, used + 1);
    }
  }
  if (!unknown.empty()) {
    return fail(krm::forbidden(
        def.group, def.plural, name,
        "status unknown for quota: " + std::string(quota.text({"metadata", "name"})) +
            ", resources: " + unknown));
  }
  if (!requested.empty()) {
    return fail(exceeded(def, name, quota, requested, over, limited));
  }
  for (const auto& [key, used] : charged) {
    quota.make({"status", "used"})[key] = Json(krm::Quantity(used).to_string());
  }
  return !charged.empty();
}

void forget_unlimited(Json& quota) {
  const Json* hard = quota.at({"spec", "hard"});
  for (const std::string_view part : {"hard", "used"}) {
    Json* amounts = quota.at({"status", part});
    if (amounts == nullptr || !amounts->is_object()) {
      continue;
    }
    std::erase_if(amounts->edit_members(), [hard](const krm::JsonMember& member) {
      return hard == nullptr || hard->find(member.key) == nullptr;
    });
    if (amounts->size() == 0) {
      quota["status"].erase(part);
    }
  }
}

}  // namespace kintsugi::kinds
