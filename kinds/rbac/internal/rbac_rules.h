#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authorizer.h"
#include "krm/json.h"

/// RBAC rules as values: reading, matching, comparing (AM-437 to AM-454). No state.
namespace kintsugi::kinds {

struct PolicyRule {
  std::vector<std::string> verbs, api_groups, resources, resource_names, non_resource_urls;
  bool operator==(const PolicyRule&) const = default;
};
using PolicyRules = std::vector<PolicyRule>;

/// Member `rules` of a Role or ClusterRole. What is malformed is left out.
[[nodiscard]] PolicyRules parse_rules(const krm::Json& role);
[[nodiscard]] krm::Json rules_to_json(const PolicyRules& rules);

/// Rule 2 and 3 of 15.2. A request's name is attributes.name, for list and watch also
/// attributes.field_selector_name.
[[nodiscard]] bool rule_allows(const PolicyRule& rule, const auth::Attributes& attributes);

/// What of `wanted` no rule of `held` grants, split per group and resource, verbs joined.
[[nodiscard]] PolicyRules missing_rules(const PolicyRules& held, const PolicyRules& wanted);

/// {APIGroups:[""], Resources:["secrets"], Verbs:["get"]}
[[nodiscard]] std::string describe_rule(const PolicyRule& rule);
/// Go's %q of a list: ["a" "b"]
[[nodiscard]] std::string describe_list(const std::vector<std::string>& items);

struct Subject {
  enum class Kind : std::uint8_t { kUser, kGroup, kServiceAccount, kOther };
  Kind kind = Kind::kOther;
  std::string name;
  std::string ns;  ///< service accounts
};

/// A RoleBinding or ClusterRoleBinding.
struct Binding {
  std::string name;
  std::string ns;  ///< "" for ClusterRoleBindings
  bool to_cluster_role = true;
  bool known_role_kind = true;
  std::string role;
  std::vector<Subject> subjects;
};
[[nodiscard]] Binding parse_binding(const krm::Json& object, std::string_view ns);
/// The first subject that is this user, nullptr when none is.
[[nodiscard]] const Subject* matching_subject(const Binding& binding, const auth::UserInfo& user);

}  // namespace kintsugi::kinds
