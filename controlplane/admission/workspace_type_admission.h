#pragma once

#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/clusters/cluster_index.h"

/// Rules of WorkspaceTypes. Source: KK-070 to KK-073.
namespace kintsugi::controlplane {

/// A type without one gets the default child type root:universal.
void prepare_workspace_type(const apiserver::WriteContext& context, krm::Json& type);

/// Names that nobody may give, told before the schema's own rule. @error (in done) kForbidden
void admit_workspace_type(const apiserver::WriteContext& context, const krm::Json* type,
                          const krm::Json* old, const apiserver::Hooks::AdmitDone& done);

/// References need paths, and who adds a default binding needs verb `bind` on its export: whoever
/// uses the type will have it bound. @error (in done) kForbidden; one text for an export that is
/// not known, that may not be bound or about which nobody can be asked.
void approve_workspace_type(ClusterIndex& index, const ApiCatalog& catalog,
                            auth::Authorizer& authorizer, const apiserver::WriteContext& context,
                            const krm::Json* type, const krm::Json* old,
                            apiserver::Hooks::AdmitDone done);

}  // namespace kintsugi::controlplane
