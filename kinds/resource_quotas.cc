#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "kinds/common.h"
#include "kinds/quota/quota.h"
#include "krm/names.h"
#include "krm/quantity.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

constexpr std::string_view kRequestDoc =
    "Request represents a minimum amount of cpu/memory that a container may consume.";
constexpr std::string_view kLimitDoc =
    "Limits control the maximum amount of cpu/memory that a container may use independent of "
    "contention on the node.";
constexpr std::string_view kExistsOnly =
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

constexpr std::array<std::string_view, 9> kIntegers = {"pods",
                                                       "resourcequotas",
                                                       "services",
                                                       "replicationcontrollers",
                                                       "secrets",
                                                       "configmaps",
                                                       "services.nodeports",
                                                       "services.loadbalancers",
                                                       "persistentvolumeclaims"};
constexpr std::array<std::string_view, 10> kAmounts = {"cpu",
                                                       "memory",
                                                       "ephemeral-storage",
                                                       "requests.cpu",
                                                       "requests.memory",
                                                       "requests.storage",
                                                       "requests.ephemeral-storage",
                                                       "limits.cpu",
                                                       "limits.memory",
                                                       "limits.ephemeral-storage"};
constexpr std::array<std::string_view, 6> kPodCompute = {
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"};
constexpr std::array<std::string_view, 7> kScopes = {
    "Terminating",          "NotTerminating", "BestEffort",
    "NotBestEffort",        "PriorityClass",  "CrossNamespacePodAffinity",
    "VolumeAttributesClass"};

bool is_huge_pages(std::string_view name) {
  return name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
}

bool is_quota_name(std::string_view name) {
  return is_in(kIntegers, name) || is_in(kAmounts, name) || is_huge_pages(name);
}

/// Standard for containers and volumes, not for quotas.
bool is_standard_name(std::string_view name) { return name == "storage" || is_quota_name(name); }

/// Resources of others, counts among them: "example.com/gpu", "count/widgets.ex.io".
bool is_extended(std::string_view name) {
  return name.find('/') != std::string_view::npos &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.") &&
         krm::check_qualified_name("requests." + std::string(name)).empty();
}

void check_name(std::string_view name, const std::string& field, std::vector<Cause>& causes) {
  const bool plain = name.find('/') == std::string_view::npos;
  const std::size_t before = causes.size();
  for (const std::string& fault : krm::check_qualified_name(name)) {
    causes.push_back(krm::field_invalid(field, Json(name), fault));
  }
  if (causes.size() == before && plain && !is_standard_name(name)) {
    causes.push_back(krm::field_invalid(field, Json(name),
                                        "must be a standard resource type or fully qualified"));
  }
  if (plain && !is_quota_name(name)) {
    causes.push_back(
        krm::field_invalid(field, Json(name), "must be a standard resource for quota"));
  }
}

void check_amount(std::string_view name, const Json& value, const std::string& field,
                  std::vector<Cause>& causes) {
  const auto amount = krm::Quantity::parse(value.as_string());
  if (!amount) {
    causes.push_back(krm::field_invalid(field, value, amount.error().message()));
    return;
  }
  if (amount->is_negative()) {
    causes.push_back(krm::field_invalid(field, value, "must be greater than or equal to 0"));
  }
  if ((is_in(kIntegers, name) || is_extended(name)) && !amount->is_whole()) {
    causes.push_back(krm::field_invalid(field, value, "must be an integer"));
  }
}

void check_amounts(const Json& object, std::string_view part, std::string_view list,
                   std::vector<Cause>& causes) {
  const Json* amounts = object.at({part, list});
  if (amounts == nullptr) {
    return;
  }
  for (const krm::JsonMember& amount : amounts->members()) {
    const std::string field = std::string(part) + "." + std::string(list) + "[" + amount.key + "]";
    check_name(amount.key, field, causes);
    check_amount(amount.key, amount.value, field, causes);
  }
}

bool fits(std::string_view scope, std::string_view resource) {
  if (scope == "BestEffort") {
    return resource == "pods";
  }
  if (scope == "VolumeAttributesClass") {
    return resource == "persistentvolumeclaims" || resource == "requests.storage";
  }
  return !is_in(kScopes, scope) || resource == "pods" || is_in(kPodCompute, resource);
}

using Names = std::set<std::string_view>;

void check_conflicts(const Names& scopes, const std::string& field, const Json& shown,
                     std::vector<Cause>& causes) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}};
  for (const auto& [one, other] : kPairs) {
    if (scopes.contains(one) && scopes.contains(other)) {
      causes.push_back(krm::field_invalid(field, shown, "conflicting scopes"));
    }
  }
}

/// A cause for each limit that a scope cannot be about.
void check_fit(const Json& object, std::string_view scope, const std::string& field,
               const Json& shown, std::vector<Cause>& causes) {
  const Json* hard = object.at({"spec", "hard"});
  if (hard == nullptr) {
    return;
  }
  for (const krm::JsonMember& limit : hard->members()) {
    if (is_quota_name(limit.key) && !fits(scope, limit.key)) {
      causes.push_back(krm::field_invalid(field, shown, "unsupported scope applied to resource"));
    }
  }
}

void check_scopes(const Json& object, std::vector<Cause>& causes) {
  const Json* scopes = object.at({"spec", "scopes"});
  if (scopes == nullptr) {
    return;
  }
  const std::string field = "spec.scopes";
  Names seen;
  for (const Json& each : scopes->items()) {
    const std::string_view scope = each.as_string();
    if (!is_in(kScopes, scope)) {
      causes.push_back(krm::field_invalid(field, *scopes, "unsupported scope"));
    }
    check_fit(object, scope, field, *scopes, causes);
    seen.insert(scope);
  }
  check_conflicts(seen, field, *scopes, causes);
}

void check_operator(const Json& requirement, const std::string& field, std::vector<Cause>& causes) {
  const std::string_view scope = requirement.text({"scopeName"});
  const std::string_view op = requirement.text({"operator"});
  const Json* values = requirement.find("values");
  const bool has_values = values != nullptr && values->size() > 0;
  if (is_in(kScopes, scope) && scope != "PriorityClass" && scope != "VolumeAttributesClass" &&
      op != "Exists") {
    causes.push_back(krm::field_invalid(field + ".operator", Json(op), kExistsOnly));
  }
  if (op == "In" || op == "NotIn") {
    if (!has_values) {
      causes.push_back(krm::field_required(
          field + ".values",
          "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"));
    }
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (has_values) {
      causes.push_back(krm::field_invalid(
          field + ".values", *values,
          "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"));
    }
  } else {
    causes.push_back(
        krm::field_invalid(field + ".operator", Json(op), "not a valid selector operator"));
  }
}

void check_selector(const Json& object, std::vector<Cause>& causes) {
  const Json* selector = object.at({"spec", "scopeSelector"});
  const Json* requirements = selector == nullptr ? nullptr : selector->find("matchExpressions");
  if (requirements == nullptr) {
    return;
  }
  const std::string field = "spec.scopeSelector.matchExpressions";
  Names seen;
  for (const Json& requirement : requirements->items()) {
    const std::string_view scope = requirement.text({"scopeName"});
    if (!is_in(kScopes, scope)) {
      causes.push_back(krm::field_invalid(field + ".scopeName", Json(scope), "unsupported scope"));
    }
    check_fit(object, scope, field, *selector, causes);
    check_operator(requirement, field, causes);
    seen.insert(scope);
  }
  const Json* scopes = object.at({"spec", "scopes"});
  check_conflicts(seen, field, scopes == nullptr ? Json() : *scopes, causes);
}

Names scope_names(const Json& object) {
  Names out;
  if (const Json* scopes = object.at({"spec", "scopes"})) {
    for (const Json& scope : scopes->items()) {
      out.insert(scope.as_string());
    }
  }
  return out;
}

void validate(const apiserver::WriteContext& context, const Json& object, const Json* old,
              std::vector<Cause>& causes) {
  if (context.subresource == "status") {
    check_amounts(object, "status", "hard", causes);
    check_amounts(object, "status", "used", causes);
    return;
  }
  check_amounts(object, "spec", "hard", causes);
  check_scopes(object, causes);
  check_selector(object, causes);
  if (old != nullptr && scope_names(object) != scope_names(*old)) {
    const Json* scopes = object.at({"spec", "scopes"});
    causes.push_back(krm::field_invalid("spec.scopes", scopes == nullptr ? Json() : *scopes,
                                        "field is immutable"));
  }
}

/// "configmaps: 1/2, secrets: 0/5"
std::string used_text(const Json& object, bool limits) {
  std::string out;
  const Json* hard = object.at({"status", "hard"});
  if (hard == nullptr) {
    return out;
  }
  for (const krm::JsonMember& limit : hard->members()) {
    if (limit.key.starts_with("limits.") != limits) {
      continue;
    }
    const std::string_view used = object.text({"status", "used", limit.key});
    out += out.empty() ? "" : ", ";
    out += limit.key + ": ";
    out += used.empty() ? "0" : used;
    out += "/";
    out += limit.value.as_string();
  }
  return out;
}

apiserver::Column used_column(std::string_view name, std::string_view description,
                              Json (*cell)(const Json& object)) {
  apiserver::Column out;
  out.name = name;
  out.description = description;
  out.cell = cell;
  return out;
}

}  // namespace

apiserver::ResourcePtr resource_quota_kind() {
  apiserver::ResourceDef def = make_kind("", "v1", "ResourceQuota", "resourcequotas");
  def.short_names = {"quota"};
  def.delete_answers_object = true;
  def.versions[0].status = true;
  def.status_metadata = true;
  def.versions[0].columns = {
      used_column("Request", kRequestDoc,
                  [](const Json& object) { return Json(used_text(object, false)); }),
      used_column("Limit", kLimitDoc,
                  [](const Json& object) { return Json(used_text(object, true)); }),
      age_column()};
  def.hooks.prepare = [](const apiserver::WriteContext& context, Json& object, const Json* old) {
    if (old != nullptr && context.subresource != "status") {
      forget_unlimited(object);
    }
    if (object.find("status") == nullptr) {
      object["status"] = Json::object();
    }
  };
  def.hooks.validate = validate;
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace kintsugi::kinds
