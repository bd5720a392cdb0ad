#pragma once

#include "krm/json.h"

namespace kintsugi::proxy {

/// Puts the groups, versions and resources of `ours` into `theirs`. Both are of one kind:
/// APIGroupList, APIGroup, APIResourceList or APIGroupDiscoveryList (apidiscovery.k8s.io). Where
/// both have an entry, `ours` wins, as the proxy serves it. What the shard alone has keeps its
/// order; the shard's preferred versions stay.
/// @returns false when the kinds differ or are none of these; `theirs` is unchanged then.
[[nodiscard]] bool merge_discovery(krm::Json& theirs, const krm::Json& ours);

}  // namespace kintsugi::proxy
