#pragma once

#include "apiserver/resource.h"
#include "apiserver/shard/api_catalog.h"
#include "auth/authorizer.h"

/// Rules of APIBindings that need to know the shard. Source: specs/api-machinery.md AM-498, AM-500,
/// AM-502, AM-507.
namespace kintsugi::apiserver {

/// New bindings get the finalizer; what v1alpha1 does not show of the status stays.
void prepare_binding(const WriteContext& context, krm::Json& binding, const krm::Json* old);
/// Who creates a binding needs verb `bind` on the export. What status names as bound is written by
/// the system alone.
/// @param authorizer  decides in the cluster of the export, wherever that lives.
void admit_binding(const ApiCatalog& catalog, auth::Authorizer& authorizer,
                   const WriteContext& context, const krm::Json* binding, const krm::Json* old,
                   Hooks::AdmitDone done);
/// CustomResourceDefinitions with the groups of kcp are the system's.
[[nodiscard]] ResourcePtr with_reserved_groups(const ResourcePtr& definitions);

}  // namespace kintsugi::apiserver
