#pragma once

#include <string_view>

namespace kintsugi::kinds {

inline constexpr std::string_view kAdmissionGroup = "admissionregistration.k8s.io";
inline constexpr std::string_view kPolicies = "validatingadmissionpolicies";
inline constexpr std::string_view kPolicyBindings = "validatingadmissionpolicybindings";
inline constexpr std::string_view kMutatingPolicies = "mutatingadmissionpolicies";
inline constexpr std::string_view kMutatingPolicyBindings = "mutatingadmissionpolicybindings";
inline constexpr std::string_view kMutatingWebhooks = "mutatingwebhookconfigurations";
inline constexpr std::string_view kValidatingWebhooks = "validatingwebhookconfigurations";

/// The kinds that say what admission does: no policy and no webhook is asked about them.
[[nodiscard]] constexpr bool is_admission_kind(std::string_view group, std::string_view plural) {
  return group == kAdmissionGroup &&
         (plural == kPolicies || plural == kPolicyBindings || plural == kMutatingPolicies ||
          plural == kMutatingPolicyBindings || plural == kMutatingWebhooks ||
          plural == kValidatingWebhooks);
}

}  // namespace kintsugi::kinds
