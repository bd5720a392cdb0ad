#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "controlplane/catalog/api_catalog.h"

/// Rules of APIBindings that need to know the shard, and groups that nobody may define anything in.
/// Source: KK-160 to KK-167, KK-223, KK-224.
namespace kintsugi::controlplane {

/// Bindings have the finalizer until they are deleted; what v1alpha1 does not show of the status
/// stays. The spec of one with a reference to an export gets the form in which kcp's admission
/// leaves it for its schema to judge (KK-019, KK-161): required members that are missing are empty,
/// optional ones that are empty are none. The schema's defaults come back behind it.
void prepare_binding(const apiserver::WriteContext& context, krm::Json& binding,
                     const krm::Json* old);
/// Who creates a binding needs verb `bind` on the export.
/// @param authorizer  decides in the cluster of the export, wherever that lives.
void admit_binding(const ApiCatalog& catalog, auth::Authorizer& authorizer,
                   const apiserver::WriteContext& context, const krm::Json* binding,
                   const krm::Json* old, apiserver::Hooks::AdmitDone done);
/// Status and finalizer are the system's, and nobody accepts a claim for verbs on the claimed
/// resource that he does not hold in this cluster himself. @param authorizer  null: anybody accepts
/// any claim. @error (in done) kForbidden
void approve_binding(auth::Authorizer* authorizer, const apiserver::WriteContext& context,
                     const krm::Json* binding, const krm::Json* old,
                     apiserver::Hooks::AdmitDone done);
/// Claims that become accepted, or whose verbs grow, with this write: their positions in
/// spec.permissionClaims and the verbs that are new.
struct NewClaim {
  std::size_t index = 0;
  std::string group, resource;
  std::vector<std::string> verbs;
  bool operator==(const NewClaim&) const = default;
};
[[nodiscard]] std::vector<NewClaim> newly_accepted(const krm::Json& binding, const krm::Json* old);

/// CustomResourceDefinitions or APIResourceSchemas: outside of root and `system:…`, groups of kcp
/// are the system's, and so are annotations of the domain apis.kcp.io on definitions.
[[nodiscard]] apiserver::ResourcePtr with_reserved_groups(
    const apiserver::ResourcePtr& definitions);

}  // namespace kintsugi::controlplane
