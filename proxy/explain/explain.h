#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "endpointslice/slice_builder.h"
#include "krm/json.h"
#include "proxy/routing/local_kinds.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What explain() asks beyond the index. Each may be empty. Threads: the control loop's.
struct ExplainSources {
  LocalGroups groups = {};  ///< what the proxy may have to serve
  using Get =
      std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>;
  Get partition, slice;  ///< as they are stored
  /// nullopt: the export or the Partition of the slice is not found.
  std::function<std::optional<std::vector<endpointslice::ShardPart>>(const krm::Json& slice)>
      slice_shards;
};

/// The document of /explain?path= (R-32, FP-142): how a request
/// would be routed, and for slices and virtual workspaces which shards are selected, effective and
/// contacted and why each other one is not.
/// @param path a workspace path, a logical cluster name, a URL path, or a URL of an endpoint.
[[nodiscard]] krm::Json explain_path(const topology::Snapshot& index, const ExplainSources& sources,
                                     std::string_view path);

}  // namespace kintsugi::proxy
