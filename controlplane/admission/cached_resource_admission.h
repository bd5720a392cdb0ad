#pragma once

#include "apiserver/resource.h"
#include "auth/authorizer.h"

/// Rules of ClusterCachedResources. Source: KK-200, KK-202.
namespace kintsugi::controlplane {

/// Of a new one: the resource is cluster-scoped, may be offered at all, no other one offers it in
/// this version, and whoever makes it may list it himself. What a later write changes of the
/// resource is looked at in the same way. @param registry  of the shard; outlives `done`.
/// @error (in done) kForbidden
void approve_cached_resource(const apiserver::Registry& registry, auth::Authorizer& authorizer,
                             const apiserver::WriteContext& context, const krm::Json* object,
                             const krm::Json* old, apiserver::Hooks::AdmitDone done);

}  // namespace kintsugi::controlplane
