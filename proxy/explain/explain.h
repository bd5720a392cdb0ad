#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "endpointslice/slice_builder.h"
#include "krm/json.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/mount_route.h"
#include "proxy/routing/route_table.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What explain() asks beyond the index. Each may be empty. Threads: the control loop's.
struct ExplainSources {
  LocalGroups groups = {};   ///< what the proxy may have to serve
  bool asks_groups = false;  ///< of some the shard is asked first (GroupMode::kAuto)
  bool wildcard = false;     ///< clusters/* is served
  bool own_root = false;     ///< the proxy serves root, which no shard has to own
  MountRules mounts = {};
  struct Mapping {
    std::shared_ptr<const RouteTable> entries;  ///< null: no mapping file
    bool clusters = true;                       ///< /clusters/… is served
  };
  std::function<Mapping()> mapping = {};  ///< as it is now
  using Get =
      std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>;
  Get partition, slice;  ///< as they are stored
  /// nullopt: the export or the Partition of the slice is not found.
  std::function<std::optional<std::vector<endpointslice::ShardPart>>(const krm::Json& slice)>
      slice_shards;
};

/// The document of /explain?path= (R-32, FP-142): how a request would be routed, which is what
/// route() decides and the loops do, and for slices and virtual workspaces which shards are
/// selected, effective and contacted and why each other one is not. Reasons are the words of
/// route_reason_name().
/// @param path a workspace path, a logical cluster name, a URL path, or a URL of an endpoint.
[[nodiscard]] krm::Json explain_path(const topology::Snapshot& index, const ExplainSources& sources,
                                     std::string_view path, std::string_view method = "GET");

/// Every form that a path may have here and where it leads, as route() decides of an example; what
/// is not served is not told. Part of /debug/routes.
[[nodiscard]] krm::Json route_forms(const topology::Snapshot& index, const ExplainSources& sources);

}  // namespace kintsugi::proxy
