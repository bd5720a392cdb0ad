#include "controlplane/views/internal/claims.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "controlplane/catalog/bound_schema.h"
#include "krm/labels.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

bool is_all(const Json* selector) {
  const Json* all = selector == nullptr ? nullptr : selector->find("matchAll");
  return selector == nullptr || (all != nullptr && all->as_bool());
}

/// Matches nothing.
krm::Selector none() {
  Expected<krm::Selector> out = krm::Selector::parse("claimed,!claimed");
  return out ? std::move(*out) : krm::Selector();
}

PermissionClaim parse_claim(const Json& json) {
  PermissionClaim claim;
  claim.group = json.text({"group"});
  claim.resource = json.text({"resource"});
  claim.identity = json.text({"identityHash"});
  if (const Json* verbs = json.find("verbs")) {
    for (const Json& verb : verbs->items()) {
      claim.verbs.emplace_back(verb.as_string());
    }
  }
  claim.accepted = json.text({"state"}) == "Accepted";
  const Json* selector = json.find("selector");
  if (is_all(selector)) {
    return claim;
  }
  if (const Json* labels = selector->find("matchLabels");
      labels != nullptr && labels->is_object()) {
    claim.match_labels = *labels;
  }
  Expected<krm::Selector> parsed = krm::Selector::from_json(*selector);
  if (!parsed) {
    log_warn("the selector of a permission claim cannot be read",
             {{"resource", claim.resource}, {"fault", parsed.error().message()}});
  }
  claim.selector = parsed ? std::move(*parsed) : none();
  return claim;
}

}  // namespace

bool PermissionClaim::has_verb(std::string_view verb) const noexcept {
  return std::any_of(verbs.begin(), verbs.end(),
                     [verb](const std::string& one) { return one == verb || one == "*"; });
}

bool PermissionClaim::is_about(std::string_view of_group, std::string_view of_resource,
                               std::string_view of_identity, const IdentityCheck& in_root) const {
  if (resource != of_resource ||
      claimed_group(group, resource) != claimed_group(of_group, of_resource)) {
    return false;
  }
  return identity == of_identity ||
         (of_identity.empty() && in_root && in_root(group, resource, identity));
}

std::vector<PermissionClaim> parse_claims(const Json* list) {
  std::vector<PermissionClaim> out;
  if (list != nullptr && list->is_array()) {
    for (const Json& claim : list->items()) {
      out.push_back(parse_claim(claim));
    }
  }
  return out;
}

std::string_view claimed_group(std::string_view group, std::string_view resource) noexcept {
  return resource == "events" && group == "events.k8s.io" ? std::string_view() : group;
}

std::string export_label_value(const ExportRef& ref) {
  return base62_sha224(ref.cluster + ":" + ref.name);
}

std::string claim_label_key(const ExportRef& ref) {
  return std::string(krm::kClaimedLabelPrefix) + export_label_value(ref);
}

std::string claim_label_value(const PermissionClaim& claim) {
  // The claim as kcp writes it: nothing for empty texts, no verbs.
  std::string text = "{";
  if (!claim.group.empty()) {
    text += "\"group\":" + Json(claim.group).dump() + ",";
  }
  text += "\"resource\":" + Json(claim.resource).dump() + ",\"verbs\":null";
  if (!claim.identity.empty()) {
    text += ",\"identityHash\":" + Json(claim.identity).dump();
  }
  return base62_sha224(text + "}");
}

std::string own_binding_label_value() { return "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ"; }

}  // namespace kintsugi::controlplane
