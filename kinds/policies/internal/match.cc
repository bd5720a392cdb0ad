#include "kinds/policies/internal/match.h"

#include <algorithm>
#include <utility>

namespace kintsugi::kinds {
namespace {

using krm::Json;

std::vector<std::string> strings(const Json& object, std::string_view member) {
  std::vector<std::string> out;
  if (const Json* list = object.find(member)) {
    for (const Json& item : list->items()) {
      out.emplace_back(item.as_string());
    }
  }
  return out;
}

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::any_of(list.begin(), list.end(),
                     [wanted](const std::string& each) { return each == "*" || each == wanted; });
}

bool is_namespace(const GroupVersionName& resource) {
  return resource.group.empty() && resource.name == "namespaces";
}

krm::Selector selector_of(const Json& spec, std::string_view member) {
  const Json* selector = spec.find(member);
  Expected<krm::Selector> parsed =
      selector == nullptr ? krm::Selector() : krm::Selector::from_json(*selector);
  return parsed ? std::move(*parsed) : krm::Selector();
}

bool has_labels(const krm::Selector& selector, const Json* object) {
  if (object == nullptr) {
    return false;
  }
  const Json* labels = object->at({"metadata", "labels"});
  return selector.matches(labels == nullptr ? Json() : *labels);
}

}  // namespace

std::vector<MatchResources::Rule> MatchResources::parse_rules(const Json* rules) {
  std::vector<Rule> out;
  if (rules == nullptr) {
    return out;
  }
  for (const Json& rule : rules->items()) {
    out.push_back({strings(rule, "resourceNames"), strings(rule, "operations"),
                   strings(rule, "apiGroups"), strings(rule, "apiVersions"),
                   strings(rule, "resources"), std::string(rule.text({"scope"}))});
  }
  return out;
}

MatchResources MatchResources::parse(const Json* spec) {
  MatchResources out;
  if (spec == nullptr || spec->is_null()) {
    return out;
  }
  out.rules_ = parse_rules(spec->find("resourceRules"));
  out.exclusions_ = parse_rules(spec->find("excludeResourceRules"));
  out.namespaces_ = selector_of(*spec, "namespaceSelector");
  out.objects_ = selector_of(*spec, "objectSelector");
  out.equivalent_ = spec->text({"matchPolicy"}) != "Exact";
  return out;
}

MatchResources MatchResources::of_webhook(const Json& webhook) {
  MatchResources out = parse(&webhook);
  out.rules_ = parse_rules(webhook.find("rules"));
  out.needs_rule_ = true;
  return out;
}

bool MatchResources::Rule::matches(const AdmissionSubject& subject,
                                   const GroupVersionName& resource) const {
  const bool cluster_wide = is_namespace(resource) || subject.ns.empty();
  if ((scope == "Namespaced" && cluster_wide) || (scope == "Cluster" && !cluster_wide) ||
      !has(operations, subject.operation) || !has(groups, resource.group) ||
      !has(versions, resource.version)) {
    return false;
  }
  const bool covered = std::any_of(resources.begin(), resources.end(), [&](std::string_view each) {
    const std::size_t slash = each.find('/');
    const std::string_view plural = each.substr(0, slash);
    const std::string_view sub = slash == std::string_view::npos ? "" : each.substr(slash + 1);
    return (plural == "*" || plural == resource.name) && (sub == "*" || sub == subject.subresource);
  });
  return covered &&
         (names.empty() || std::find(names.begin(), names.end(), subject.name) != names.end());
}

std::optional<GroupVersionName> MatchResources::match_rules(const std::vector<Rule>& rules,
                                                            const AdmissionSubject& subject) const {
  for (const Rule& rule : rules) {
    if (rule.matches(subject, subject.resource)) {
      return subject.resource;
    }
  }
  if (equivalent_) {
    for (const Rule& rule : rules) {
      for (const GroupVersionName& other : subject.equivalents) {
        if (rule.matches(subject, other)) {
          return other;
        }
      }
    }
  }
  return std::nullopt;
}

/// Objects outside of namespaces are never exempt.
Expected<bool> MatchResources::match_namespace(const AdmissionSubject& subject) const {
  const bool itself = subject.resource.name == "namespaces";
  if (namespaces_.empty() || (subject.ns.empty() && !itself)) {
    return true;
  }
  if (itself && subject.subresource.empty() && subject.object != nullptr) {
    return has_labels(namespaces_, subject.object);
  }
  const Expected<Json> labels = subject.namespace_labels();
  if (!labels) {
    return fail(labels.error().clone());
  }
  return namespaces_.matches(*labels);
}

Expected<std::optional<GroupVersionName>> MatchResources::match(
    const AdmissionSubject& subject) const {
  const Expected<bool> in_namespace = match_namespace(subject);
  if (in_namespace && !*in_namespace) {
    return std::nullopt;
  }
  if (!objects_.empty() && !has_labels(objects_, subject.object) &&
      !has_labels(objects_, subject.old_object)) {
    return std::nullopt;
  }
  if (match_rules(exclusions_, subject)) {
    return std::nullopt;
  }
  std::optional<GroupVersionName> matched = rules_.empty() && !needs_rule_
                                                ? std::optional(subject.resource)
                                                : match_rules(rules_, subject);
  if (matched && !in_namespace) {
    return fail(in_namespace.error().clone());
  }
  return matched;
}

}  // namespace kintsugi::kinds
