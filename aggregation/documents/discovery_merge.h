#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "aggregation/asking/merge_params.h"
#include "krm/json.h"

namespace kintsugi::aggregation {

/// Puts the groups, versions and resources of `ours` into `theirs`. Both are of one kind:
/// APIGroupList, APIGroup, APIResourceList or APIGroupDiscoveryList (apidiscovery.k8s.io). Where
/// both have an entry, `ours` wins, as the proxy serves it. What the shard alone has keeps its
/// order; the shard's preferred versions stay.
/// @returns false when the kinds differ or are none of these; `theirs` is unchanged then.
[[nodiscard]] bool merge_discovery(krm::Json& theirs, const krm::Json& ours);

/// Joins `more` to `into`, where two shards say what they serve: what both have stays as it is in
/// `into`, with the verbs that both have; a version is as fresh as the fresher of both. Of the
/// kinds above, or APIVersions.
/// @returns false when the kinds differ or are none of these; `into` is unchanged then.
[[nodiscard]] bool join_discovery(krm::Json& into, const krm::Json& more, Join join);

/// Every version of an APIGroupDiscoveryList is Stale: its shard cannot be asked now (AGG-1602).
void mark_stale(krm::Json& document);
/// Leaves these verbs over. What is left without any is dropped, subresources always are: merged
/// reads serve none.
void keep_verbs(krm::Json& document, const std::vector<std::string_view>& verbs);
/// Versions in Kubernetes' order, the first of a group being its preferred one.
void order_versions(krm::Json& document);

}  // namespace kintsugi::aggregation
