#include "controlplane/views/internal/export_rights.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controlplane/controllers/binding_policy.h"
#include "controlplane/internal/names.h"
#include "controlplane/internal/shard_access.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

bool is_read(std::string_view verb) { return verb == "get" || verb == "list" || verb == "watch"; }

/// What a claim never lets a provider write, whatever its verbs (KK-149): who enters a cluster,
/// what is offered and bound there. A binding may be made, by who may bind (TP-069).
bool is_beyond_claims(const auth::Attributes& attributes) {
  if (is_read(attributes.verb)) {
    return false;
  }
  if (attributes.group == kCoreGroup) {
    return attributes.resource == kLogicalClusters;
  }
  return attributes.group == kApisGroup &&
         (attributes.resource == kApiExports ||
          (attributes.resource == kApiBindings && attributes.verb != "create"));
}

}  // namespace

bool within_maximal_policy(const kinds::RbacAuthorizer& rbac, const Json& api_export,
                           std::string_view export_cluster, const auth::Attributes& attributes) {
  if (api_export.at({"spec", "maximalPermissionPolicy", "local"}) == nullptr) {
    return true;
  }
  auth::Attributes asked = attributes;
  if (auth::parse_service_account_user(asked.user.name)) {
    std::erase_if(asked.user.extra, [](const auto& extra) {
      return extra.first == auth::kExtraScopes || extra.first == auth::kExtraClusterName;
    });
  }
  return allows_in_policy(rbac, asked, export_cluster);
}

void ExportRights::authorize(const auth::Attributes& attributes, Done done) {
  const bool allowed = decide(attributes);
  done(auth::Decision{allowed, allowed ? "access granted" : "access denied"});
}

bool ExportRights::decide(const auth::Attributes& attributes) const {
  if (const std::optional<bool> own = decided_by_role(attributes)) {
    return *own && is_let_in(attributes);
  }
  return !is_systems_status(attributes) && is_let_in(attributes) &&
         has_content(sources_.rbac, ref_, attributes) && is_within_policies(attributes);
}

const PermissionClaim* ExportRights::offer_on(std::string_view group,
                                              std::string_view resource) const noexcept {
  const auto found = std::find_if(
      offered_.begin(), offered_.end(),
      [&](const PermissionClaim& one) { return one.group == group && one.resource == resource; });
  return found == offered_.end() ? nullptr : &*found;
}

bool ExportRights::is_let_in(const auth::Attributes& attributes) const {
  if (attributes.cluster == "*" || !attributes.is_resource) {
    return true;
  }
  const BindingInfo* binding = sources_.bindings.find(attributes.cluster, ref_);
  if (binding == nullptr || (binding->leaving && attributes.verb == "create")) {
    return false;
  }
  if (binding->has_bound(attributes.group, attributes.resource)) {
    return true;
  }
  const PermissionClaim* offer = offer_on(attributes.group, attributes.resource);
  const auto accepts = [&](const PermissionClaim& claim) {
    return claim.group == attributes.group && claim.resource == attributes.resource &&
           claim.identity == offer->identity && claim.has_verb(attributes.verb);
  };
  if (offer != nullptr && offer->has_verb(attributes.verb) && !is_beyond_claims(attributes) &&
      std::any_of(binding->claims.begin(), binding->claims.end(), accepts)) {
    return true;
  }
  return attributes.group == kApisGroup && attributes.resource == kApiBindings &&
         is_read(attributes.verb);
}

bool has_content(const kinds::RbacAuthorizer& rbac, const ExportRef& ref,
                 const auth::Attributes& attributes) {
  auth::Attributes asked;
  asked.user = attributes.user;
  asked.cluster = ref.cluster;
  asked.verb = attributes.verb;
  asked.group = kApisGroup;
  asked.version = "v1alpha1";
  asked.resource = kApiExports;
  asked.subresource = "content";
  asked.name = ref.name;
  return rbac.decide(asked).allowed;
}

bool ExportRights::is_within_policies(const auth::Attributes& attributes) const {
  if (!attributes.is_resource) {
    return true;
  }
  const PermissionClaim* offer = offer_on(attributes.group, attributes.resource);
  if (offer == nullptr || offer->identity.empty() ||
      (sources_.in_root && sources_.in_root(offer->group, offer->resource, offer->identity))) {
    return true;
  }
  const std::vector<ExportRef> owners = sources_.catalog.exports_with_identity(offer->identity);
  return !owners.empty() && std::all_of(owners.begin(), owners.end(), [&](const ExportRef& owner) {
    const std::optional<Json> api_export = sources_.catalog.get_export(owner);
    return api_export &&
           within_maximal_policy(sources_.rbac, *api_export, owner.cluster, attributes);
  });
}

}  // namespace kintsugi::controlplane
