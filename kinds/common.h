#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "kinds/builtin_kinds.h"
#include "krm/json.h"

/// What the files of this folder share.
namespace kintsugi::kinds {

/// One list per API group.
[[nodiscard]] std::vector<apiserver::ResourcePtr> admissionregistration_kinds();
[[nodiscard]] std::vector<apiserver::ResourcePtr> core_kinds();
[[nodiscard]] std::vector<apiserver::ResourcePtr> apiextensions_kinds();
[[nodiscard]] std::vector<apiserver::ResourcePtr> coordination_kinds();
[[nodiscard]] std::vector<apiserver::ResourcePtr> events_kinds();
[[nodiscard]] std::vector<apiserver::ResourcePtr> rbac_kinds();
/// Parts of the core group.
[[nodiscard]] apiserver::ResourcePtr namespace_kind();
[[nodiscard]] apiserver::ResourcePtr core_event_kind();
[[nodiscard]] apiserver::ResourcePtr resource_quota_kind();

/// A builtin kind of one version with the names that follow from its Kind; schema from the tables.
[[nodiscard]] apiserver::ResourceDef make_kind(std::string_view group, std::string_view version,
                                               std::string_view kind, std::string_view plural);

/// Sets `defaults`, and `prepare` so that it begins with them.
using Prepare =
    std::function<void(const apiserver::WriteContext&, krm::Json& object, const krm::Json* old)>;
void set_defaults_and_prepare(apiserver::Hooks& hooks, std::function<void(krm::Json&)> defaults,
                              Prepare prepare);

/// "5s", "3m11s" since a moment; "<unknown>" for absent and malformed ones.
[[nodiscard]] std::string age_text(std::string_view timestamp);
[[nodiscard]] apiserver::Column age_column();
[[nodiscard]] apiserver::Column created_at_column();

/// Member at a path equal in both, absent and null being equal.
[[nodiscard]] bool same_member(const krm::Json& a, const krm::Json& b, std::string_view key);
/// Gives `object` the member that `old` has, or takes it away.
void copy_member(krm::Json& object, const krm::Json& old, std::string_view key);
[[nodiscard]] bool is_set(const krm::Json& object, std::string_view key);

/// A text member of a struct of the reference's internal types: as Go prints it, as JSON has it.
struct GoField {
  std::string_view shown, key;
};
/// The object as the reference shows it in a message: {"APIGroup":"","Kind":"Role","Name":"r"}.
[[nodiscard]] std::string go_struct_text(const krm::Json& object, std::span<const GoField> fields);

/// A CustomResourceDefinition as a whole; `old` null on create.
void validate_definition(const krm::Json& crd, const krm::Json* old, std::vector<Cause>& causes);
/// A ValidatingAdmissionPolicy as a whole, and its status; `old` null on create.
void validate_policy(const krm::Json& policy, const krm::Json* old, std::vector<Cause>& causes);
void validate_policy_status(const krm::Json& policy, std::vector<Cause>& causes);
/// A ValidatingAdmissionPolicyBinding.
void validate_policy_binding(const krm::Json& binding, std::vector<Cause>& causes);
/// A MutatingAdmissionPolicy, and a MutatingAdmissionPolicyBinding; `old` null on create.
void validate_mutating_policy(const krm::Json& policy, const krm::Json* old,
                              std::vector<Cause>& causes);
void validate_mutating_binding(const krm::Json& binding, std::vector<Cause>& causes);
/// MatchResources of any; null: none.
void validate_match_resources(const krm::Json* resources, const std::string& field,
                              std::vector<Cause>& causes);
/// One of its resource rules, or of a webhook's.
void validate_rule(const krm::Json& rule, const std::string& field, std::vector<Cause>& causes);
/// `matchConditions` of a webhook. @param field  of the list
void validate_match_conditions(const krm::Json& webhook, const std::string& field,
                               std::vector<Cause>& causes);
/// A MutatingWebhookConfiguration or ValidatingWebhookConfiguration; `old` null on create.
void validate_webhooks(const krm::Json& configuration, const krm::Json* old, bool mutating,
                       std::vector<Cause>& causes);
/// What a writer of one should know: webhooks that can never be called.
void warn_of_services(const krm::Json& configuration, std::vector<std::string>& warnings);
void validate_webhook_url(const krm::Json& url, const std::string& field,
                          std::vector<Cause>& causes);
void validate_label_selector(const krm::Json& selector, const std::string& field,
                             std::vector<Cause>& causes);

/// Its spec.conversion.
void validate_conversion(const krm::Json& conversion, std::vector<Cause>& causes);

}  // namespace kintsugi::kinds
