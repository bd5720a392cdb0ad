#include "kinds/controllers/internal/role_aggregation.h"

#include <algorithm>
#include <utility>

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kGroup = "rbac.authorization.k8s.io";

apiserver::ObjectKey key_of(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), std::string(kGroup), "clusterroles", "", std::string(name)};
}

bool aggregates(const Json& role) {
  const Json* rule = role.find("aggregationRule");
  return rule != nullptr && !rule->is_null();
}

/// Rules of the selected roles: selector by selector, by name, equal ones once.
Json union_of(const Json& role, const std::map<std::string, Json>& others) {
  Json rules = Json::array();
  const Json* selectors = role.at({"aggregationRule", "clusterRoleSelectors"});
  if (selectors == nullptr) {
    return rules;
  }
  for (const Json& selector : selectors->items()) {
    for (const auto& [name, other] : others) {
      const Json* own = other.find("rules");
      if (own == nullptr || !label_selector_matches(selector, other.at({"metadata", "labels"}))) {
        continue;
      }
      for (const Json& rule : own->items()) {
        const Json::Array& known = rules.items();
        if (std::find(known.begin(), known.end(), rule) == known.end()) {
          rules.push_back(rule);
        }
      }
    }
  }
  return rules;
}

}  // namespace

bool label_selector_matches(const Json& selector, const Json* labels) {
  const auto value_of = [&](std::string_view key) {
    return labels == nullptr ? nullptr : labels->find(key);
  };
  if (const Json* equal = selector.find("matchLabels")) {
    for (const krm::JsonMember& member : equal->members()) {
      const Json* value = value_of(member.key);
      if (value == nullptr || value->as_string() != member.value.as_string()) {
        return false;
      }
    }
  }
  if (const Json* expressions = selector.find("matchExpressions")) {
    for (const Json& expression : expressions->items()) {
      const std::string_view operation = expression.text({"operator"});
      const Json* value = value_of(expression.text({"key"}));
      const Json* values = expression.find("values");
      const bool listed = value != nullptr && values != nullptr &&
                          std::find(values->items().begin(), values->items().end(), *value) !=
                              values->items().end();
      const bool good = (operation == "In" && listed) || (operation == "NotIn" && !listed) ||
                        (operation == "Exists" && value != nullptr) ||
                        (operation == "DoesNotExist" && value == nullptr);
      if (!good) {
        return false;
      }
    }
  }
  return true;
}

RoleAggregation::RoleAggregation(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "clusterrole-aggregation-controller") {}

void RoleAggregation::start() {
  follow(kGroup, "clusterroles", [this](const apiserver::ApiServer::Change& change) {
    note(change.cluster, change.name, change.object.get());
    const auto found = aggregating_.find(change.cluster);
    if (found == aggregating_.end()) {
      return;
    }
    for (const std::string& name : found->second) {
      queue_.add(key_of(change.cluster, name).pack());
    }
  });
}

void RoleAggregation::note(std::string_view cluster, std::string_view name, const Json* role) {
  const auto found = aggregating_.find(cluster);
  if (role != nullptr && aggregates(*role)) {
    auto& names = found == aggregating_.end() ? aggregating_[std::string(cluster)] : found->second;
    names.emplace(name);
  } else if (found != aggregating_.end()) {
    if (const auto known = found->second.find(name); known != found->second.end()) {
      found->second.erase(known);
    }
    if (found->second.empty()) {
      aggregating_.erase(found);
    }
  }
}

void RoleAggregation::add_cluster(std::string_view cluster) {
  reader().list(cluster, kGroup, "clusterroles", "", [&](const Json& role) {
    if (aggregates(role)) {
      const std::string_view name = role.text({"metadata", "name"});
      note(cluster, name, &role);
      queue_.add(key_of(cluster, name).pack());
    }
    return true;
  });
}

void RoleAggregation::remove_cluster(std::string_view cluster) {
  if (const auto found = aggregating_.find(cluster); found != aggregating_.end()) {
    aggregating_.erase(found);
  }
}

void RoleAggregation::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> role = get(key);
  if (!role || !aggregates(*role) || apiserver::is_deleted(*role)) {
    finished(true);
    return;
  }
  std::map<std::string, Json> others;
  reader().list(key.cluster, kGroup, "clusterroles", "", [&](const Json& other) {
    const std::string name(other.text({"metadata", "name"}));
    if (name != key.name) {
      others.emplace(name, other);
    }
    return true;
  });
  Json rules = union_of(*role, others);
  const Json* present = role->find("rules");
  if (present != nullptr ? *present == rules : rules.size() == 0) {
    finished(true);
    return;
  }
  (*role)["rules"] = std::move(rules);
  update(key, "", std::move(*role), [finished = std::move(finished)](Expected<Json> result) {
    finished(result || result.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::kinds
