#pragma once

#include "krm/json.h"

namespace kintsugi::proxy {

/// Puts the groups, versions and resources of `ours` into `theirs`. Both are of one kind:
/// APIGroupList, APIGroup, APIResourceList or APIGroupDiscoveryList (apidiscovery.k8s.io). Where
/// both have an entry, `ours` wins, as the proxy serves it. What the shard alone has keeps its
/// order; the shard's preferred versions stay.
/// @returns false when the kinds differ or are none of these; `theirs` is unchanged then.
[[nodiscard]] bool merge_discovery(krm::Json& theirs, const krm::Json& ours);

/// Puts the groups, versions and resources of `more` into `into`, where two shards say what they
/// serve (AGG-1601): what both have stays as it is in `into`, with the verbs that both have. Of the
/// kinds above, or APIVersions.
/// @returns false when the kinds differ or are none of these; `into` is unchanged then.
[[nodiscard]] bool unite_discovery(krm::Json& into, const krm::Json& more);

}  // namespace kintsugi::proxy
