#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "controlplane/clusters/root_view.h"
#include "krm/json.h"

/// Where a new workspace may go. No I/O.
namespace kintsugi::controlplane {

/// Workspaces that were placed on each shard, by name.
using PlacementCounts = std::map<std::string, std::size_t, std::less<>>;

/// Shards that match the selector and take new workspaces, the emptiest first, then by name.
/// @param selector spec.location.selector; null matches all.
/// @error kInvalid the selector is malformed, with its text.
[[nodiscard]] Expected<std::vector<std::string>> placement_candidates(
    const RootView& root, const krm::Json* selector, const PlacementCounts& counts);

/// A new logical cluster name: 16 random characters of [a-z0-9], the first a letter.
[[nodiscard]] std::string random_cluster_name();

}  // namespace kintsugi::controlplane
