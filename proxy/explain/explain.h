#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authorizer.h"
#include "auth/user.h"
#include "base/error.h"
#include "endpointslice/slice_builder.h"
#include "krm/json.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/mount_route.h"
#include "proxy/routing/route_table.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What explain() asks beyond the index. Each may be empty. Threads: the control loop's.
struct ExplainSources {
  LocalGroups groups = {};  ///< what the proxy may have to serve
  bool console = false;     ///< /ui is
  bool wildcard = false;    ///< clusters/* is served
  bool own_root = false;    ///< the proxy serves root, which no shard has to own
  bool info = true;         ///< /healthz and /version are built in
  MountRules mounts = {};
  struct Mapping {
    std::shared_ptr<const RouteTable> entries;  ///< null: no mapping file
    bool clusters = true;                       ///< /clusters/… is served
  };
  std::function<Mapping()> mapping = {};  ///< as it is now
  using Get =
      std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>;
  Get partition, slice;  ///< as they are stored
  using Groups = std::function<void(const Expected<LocalGroups>& groups)>;
  /// Asks as a data loop asks (GroupOwners): the proxy's groups in a logical cluster. `done` once,
  /// in this turn or a later one. Empty: no group is of mode auto.
  std::function<void(const std::string& cluster, Groups done)> ask_groups = {};
  /// nullopt: the export or the Partition of the slice is not found.
  std::function<std::optional<std::vector<endpointslice::ShardPart>>(const krm::Json& slice)>
      slice_shards;
  bool reviewed = false;  ///< reads of clusters/* are reviewed in root (FP-163)
  /// Asks as a data loop asks: whether somebody may. `done` once, in this turn or a later one.
  std::function<void(const auth::Attributes& asked, auth::Authorizer::Done done)> review = {};
  /// Those of a user's groups that the proxy tells shards of. Empty: all.
  std::function<std::vector<std::string>(const std::vector<std::string>& groups)> passed_groups =
      {};
};

/// What the shard of a logical cluster has told of groups of mode auto.
struct ToldGroups {
  std::string cluster;
  Expected<LocalGroups> groups;  ///< the proxy's there
};

/// The document of /explain?path= (R-32, FP-142): how a request would be routed, which is what
/// route() decides and the loops do, and for slices and virtual workspaces which shards are
/// selected, effective and contacted and why each other one is not. Reasons are the words of
/// route_reason_name(). "right" is what decides about it besides (right_json()).
/// @param told  null: nobody was asked, and what takes an answer is "asked-first".
/// @param path a workspace path, a logical cluster name, a URL path, or a URL of an endpoint.
[[nodiscard]] krm::Json explain_path(const topology::Snapshot& index, const ExplainSources& sources,
                                     std::string_view path, std::string_view method = "GET",
                                     const ToldGroups* told = nullptr);

/// The same once it is known: where the request itself would have its shard asked which groups it
/// has, the shard is asked first. `done` once, in this call or a later turn of the control loop.
/// @param index  as it is whenever it is asked for; it and `sources` must live until then
void explain(const std::function<const topology::Snapshot&()>& index, const ExplainSources& sources,
             std::string path, std::string method, std::function<void(krm::Json document)> done);

/// explain(), and in "review" whether `user` may do that: "allowed" and "reason" as the shard says
/// that owns the logical cluster of "right", "error" where it does not, or "why" nobody is asked
/// (OP-111). @param user  as somebody who came; its groups are passed on as those of a request
void explain_for(const std::function<const topology::Snapshot&()>& index,
                 const ExplainSources& sources, std::string path, std::string method,
                 auth::UserInfo user, std::function<void(krm::Json document)> done);

/// {"found", and of the stored slice "endpoints", "conditions", "shardSelector", "shards" with why
/// each other one is not}. Part of explain_path().
[[nodiscard]] krm::Json explain_slice(const topology::Snapshot& index,
                                      const ExplainSources& sources, std::string_view cluster,
                                      std::string_view name);

/// Every form that a path may have here and where it leads, as route() decides of an example; what
/// is not served is not told. Part of /debug/routes.
[[nodiscard]] krm::Json route_forms(const topology::Snapshot& index, const ExplainSources& sources);

}  // namespace kintsugi::proxy
