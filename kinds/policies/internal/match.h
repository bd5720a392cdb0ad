#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/admission.h"
#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

/// Which requests an admission policy or binding is about (MatchResources of
/// admissionregistration.k8s.io). Pure functions of their arguments.
namespace kintsugi::kinds {

using apiserver::GroupVersionName;

/// What matching looks at.
struct AdmissionSubject {
  std::string_view operation;  ///< CREATE, UPDATE, DELETE, CONNECT
  GroupVersionName resource;
  std::string_view subresource;
  std::string_view ns;  ///< of a Namespace: its own name
  std::string_view name;
  const krm::Json* object = nullptr;  ///< null on delete
  const krm::Json* old_object = nullptr;
  /// The same resource in other versions and groups, for matchPolicy Equivalent.
  std::vector<GroupVersionName> equivalents;
  /// Labels of the namespace. @error what keeps them from being known
  std::function<Expected<krm::Json>()> namespace_labels;
};

/// Immutable.
class MatchResources {
 public:
  /// @param spec  a valid MatchResources, defaulted; null: everything.
  [[nodiscard]] static MatchResources parse(const krm::Json* spec);

  /// @param webhook  a valid webhook, defaulted. Without rules it matches nothing.
  [[nodiscard]] static MatchResources of_webhook(const krm::Json& webhook);

  /// The version as which the request matches; nullopt: it does not.
  /// @error what keeps from knowing, of a request that matches otherwise
  [[nodiscard]] Expected<std::optional<GroupVersionName>> match(
      const AdmissionSubject& subject) const;

 private:
  struct Rule {
    std::vector<std::string> names, operations, groups, versions, resources;
    std::string scope;
    [[nodiscard]] bool matches(const AdmissionSubject& subject,
                               const GroupVersionName& resource) const;
  };
  [[nodiscard]] static std::vector<Rule> parse_rules(const krm::Json* rules);
  [[nodiscard]] std::optional<GroupVersionName> match_rules(const std::vector<Rule>& rules,
                                                            const AdmissionSubject& subject) const;
  [[nodiscard]] Expected<bool> match_namespace(const AdmissionSubject& subject) const;

  std::vector<Rule> rules_, exclusions_;
  krm::Selector namespaces_, objects_;
  bool equivalent_ = true;
  bool needs_rule_ = false;  ///< without rules nothing matches, not everything
};

}  // namespace kintsugi::kinds
