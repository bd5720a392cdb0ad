#pragma once

#include <cstdint>
#include <functional>
#include <string>
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
/// reads serve none; so are versions of an APIGroupDiscoveryList without a resource and groups
/// without a version, which kubectl takes for broken servers; Stale versions stay.
void keep_verbs(krm::Json& document, const std::vector<std::string_view>& verbs);
/// Leaves the resources of which `keeps` says so, the groups that may have one in an APIGroupList.
/// @param group  of an APIResourceList; the others say it themselves
void keep_resources(
    krm::Json& document, std::string_view group,
    const std::function<bool(std::string_view group, std::string_view resource)>& keeps);
/// "g/v" of every version of an APIGroupList or APIGroup; of other kinds none.
[[nodiscard]] std::vector<std::string> group_versions(const krm::Json& document);
/// Without these; groups of an APIGroupList without a version go, too.
void drop_versions(krm::Json& document, const std::vector<std::string>& group_versions);
/// Versions in Kubernetes' order, the first of a group being its preferred one.
void order_versions(krm::Json& document);

}  // namespace kintsugi::aggregation
