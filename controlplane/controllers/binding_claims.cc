#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controlplane/controllers/binding_status.h"
#include "controlplane/controllers/internal/conditions.h"
#include "krm/go_text.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kMaxShown = 10;
constexpr std::size_t kMaxShownMismatches = 5;

using Claims = std::map<std::string, Json>;  // by "<resource>/<group>/<identity>"

std::string key_of(const Json& claim) {
  return std::string(claim.text({"resource"})) + "/" + std::string(claim.text({"group"})) + "/" +
         std::string(claim.text({"identityHash"}));
}

std::string name_of(const Json& claim) {
  return std::string(claim.text({"resource"})) + "." + std::string(claim.text({"group"}));
}

Claims read_claims(const Json* list, bool only_accepted) {
  Claims out;
  for (const Json& claim : list == nullptr ? Json::Array() : list->items()) {
    if (!only_accepted || claim.text({"state"}) == "Accepted") {
      Json one = claim;
      one.erase("state");
      out.insert_or_assign(key_of(claim), std::move(one));
    }
  }
  return out;
}

/// As Go prints several errors.
std::string print(std::vector<std::string> errors) {
  errors.resize(std::min(errors.size(), kMaxShown));
  return errors.size() == 1 ? errors.front() : "[" + join(errors, ", ") + "]";
}

std::vector<std::string> verbs_of(const Json& claim) {
  std::vector<std::string> out;
  if (const Json* verbs = claim.find("verbs")) {
    for (const Json& verb : verbs->items()) {
      out.emplace_back(verb.as_string());
    }
  }
  return out;
}

bool is_wildcard(const std::vector<std::string>& verbs) {
  return std::find(verbs.begin(), verbs.end(), "*") != verbs.end();
}

/// How an accepted claim differs from the one that is offered; "": not at all.
std::string mismatch(const Json& accepted, const Json& offered) {
  std::vector<std::string> parts;
  const std::vector<std::string> ours = verbs_of(accepted);
  const std::vector<std::string> theirs = verbs_of(offered);
  const bool same = ours.size() == theirs.size() &&
                    std::is_permutation(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (!same && !is_wildcard(ours) && !is_wildcard(theirs)) {
    parts.push_back("verbs: accepted [" + join(ours, " ") + "], exported [" + join(theirs, " ") +
                    "]");
  }
  const Json* wanted = offered.find("defaultSelector");
  const Json* selector = accepted.find("selector");
  if (wanted != nullptr && (selector == nullptr || !(*selector == *wanted))) {
    parts.emplace_back("selector differs from defaultSelector");
  }
  return parts.empty() ? "" : name_of(accepted) + " (" + join(parts, "; ") + ")";
}

void tell_validity(Json& binding, const Claims& accepted, const Claims& offered) {
  std::vector<std::string> unexpected;
  std::vector<std::string> mismatches;
  for (const auto& [key, claim] : accepted) {
    const auto twin = offered.find(key);
    if (twin == offered.end()) {
      unexpected.push_back("unexpected/invalid claim for " + name_of(claim) + " (identity " +
                           krm::go_quote(claim.text({"identityHash"})) + ")");
    } else if (std::string text = mismatch(claim, twin->second); !text.empty()) {
      mismatches.push_back(std::move(text));
    }
  }
  if (!mismatches.empty()) {
    const std::string count = std::to_string(mismatches.size());
    mismatches.resize(std::min(mismatches.size(), kMaxShownMismatches));
    set_kcp_condition(
        binding, "PermissionClaimsValid", "False", "Warning", "PermissionClaimsMismatch",
        count + " permission claim(s) have mismatched verbs or selectors (showing " + "first " +
            std::to_string(mismatches.size()) + "): " + join(mismatches, ", "));
  } else if (!unexpected.empty()) {
    const std::string count = std::to_string(unexpected.size());
    const std::string shown = std::to_string(std::min(unexpected.size(), kMaxShown));
    set_kcp_condition(binding, "PermissionClaimsValid", "False", "Error", "InvalidPermissionClaims",
                      count + " unexpected and/or invalid permission claims (showing first " +
                          shown + "): " + print(std::move(unexpected)));
  } else {
    set_kcp_condition(binding, "PermissionClaimsValid", "True");
  }
}

}  // namespace

void settle_claims(Json& binding, const Json& api_export, const BindingSources& sources) {
  const Claims offered = read_claims(api_export.at({"spec", "permissionClaims"}), false);
  const Claims accepted = read_claims(binding.at({"spec", "permissionClaims"}), true);
  const Claims before = read_claims(binding.at({"status", "appliedPermissionClaims"}), false);
  Json applied = Json::array();
  std::vector<std::string> errors;
  for (const auto& [key, claim] : accepted) {
    if (offered.find(key) == offered.end()) {
      continue;
    }
    const std::string_view group = claim.text({"group"});
    const std::string_view resource = claim.text({"resource"});
    if (before.find(key) == before.end() &&
        !sources.is_served(group, resource, claim.text({"identityHash"}))) {
      errors.push_back("error getting informer for group=" + krm::go_quote(group) + ", resource=" +
                       krm::go_quote(resource) + ": unable to find informer for " + name_of(claim));
      continue;
    }
    applied.push_back(claim);
  }
  tell_validity(binding, accepted, offered);
  if (applied.size() > 0) {
    binding.make({"status", "appliedPermissionClaims"}) = std::move(applied);
  } else {
    binding["status"].erase("appliedPermissionClaims");
  }
  if (errors.empty()) {
    set_kcp_condition(binding, "PermissionClaimsApplied", "True");
  } else {
    set_kcp_condition(binding, "PermissionClaimsApplied", "False", "Error", "InternalError",
                      "Permission claims have not been fully applied: " + print(std::move(errors)));
  }
}

}  // namespace kintsugi::controlplane
