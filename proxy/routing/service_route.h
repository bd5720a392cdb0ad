#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/request_info.h"
#include "krm/service_path.h"
#include "proxy/routing/route_reason.h"
#include "topology/resolver.h"
#include "topology/snapshot.h"

/// Where a request to a virtual workspace goes (R-15, T-11).
/// Pure functions over one snapshot, any thread.
namespace kintsugi::proxy {

/// The shards that a prefix of the URL leaves over.
struct ServiceScope {
  bool limited = false;  ///< there is a prefix; else all are members
  bool native = false;   ///< it names one shard, whose own revisions are wanted
  std::vector<const topology::ShardInfo*> members;  ///< sorted by name; only when limited
  [[nodiscard]] bool has(topology::ShardId shard) const noexcept;
};
[[nodiscard]] ServiceScope one_shard(const topology::ShardInfo& shard);
/// The shards that a stored Partition selects now; none while its selector is invalid.
[[nodiscard]] ServiceScope shards_of_partition(const topology::Snapshot& facts,
                                               const krm::Json& partition);

struct ServiceQuestion {
  const topology::Snapshot& facts;
  const ServiceScope& scope;
  std::string_view method;
  std::string_view asked;  ///< target as the client sent it, for messages
  const krm::ServicePath& path;
  bool is_watch = false;                        ///< krm::RequestTarget::is_watch
  const krm::RequestInfo* info = nullptr;       ///< of path.trail, of clusters/*; null: read here
  const topology::Resolution* found = nullptr;  ///< of path.cluster; null: looked up here
};

struct ServiceRoute {
  /// E1 to E4 are told before authentication, other refusals after it (SE-160).
  std::optional<Error> refusal;
  bool refused_before_identity = false;
  RouteReason why = RouteReason::kNone;  ///< there is a refusal
  topology::ShardId shard = 0;
  std::vector<topology::ShardId> any_of;    ///< instead of `shard`: any of these that is up
  bool merged = false;                      ///< over the shards of read_shards()
  std::vector<topology::ShardId> union_of;  ///< a discovery document made of those of these
  std::string owner;                        ///< of what is merged: its logical cluster's name
  std::string target;                       ///< below the shard's virtual workspace URL
  topology::Resolution::Kind lookup = topology::Resolution::Kind::kResolved;
  topology::NotFoundReason reason = topology::NotFoundReason::kNone;
};
[[nodiscard]] ServiceRoute route_service(const ServiceQuestion& question);

/// How a shard takes part in reads of `clusters/*`.
struct WildcardShard {
  const topology::ShardInfo* shard = nullptr;
  bool member = false;    ///< not left out by a prefix
  bool consumes = false;  ///< known to hold what is read
  bool open = false;      ///< may hold it: its APIBindings are not listed yet
  [[nodiscard]] bool contacted() const noexcept { return member && (consumes || open); }
};
/// Every shard, sorted by name. An apiexport is consumed where it is bound, other kinds everywhere.
/// @param owner logical cluster name of the export.
[[nodiscard]] std::vector<WildcardShard> wildcard_shards(const topology::Snapshot& facts,
                                                         const ServiceScope& scope,
                                                         const krm::ServicePath& path,
                                                         std::string_view owner);

/// The shards of the scope for a merged read of clusters/* (T-11); where none has
/// to be contacted, one stands in, whose list is empty.
[[nodiscard]] std::vector<WildcardShard> read_shards(const ServiceQuestion& question);

}  // namespace kintsugi::proxy
