#pragma once

#include <string_view>

namespace kintsugi::kinds {

inline constexpr std::string_view kAdmissionGroup = "admissionregistration.k8s.io";
inline constexpr std::string_view kPolicies = "validatingadmissionpolicies";
inline constexpr std::string_view kPolicyBindings = "validatingadmissionpolicybindings";

}  // namespace kintsugi::kinds
