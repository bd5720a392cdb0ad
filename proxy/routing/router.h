#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/wildcard_route.h"
#include "krm/json.h"
#include "krm/request_target.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/mount_route.h"
#include "proxy/routing/request.h"
#include "proxy/routing/route_reason.h"
#include "proxy/routing/route_table.h"
#include "proxy/routing/service_route.h"
#include "topology/resolver.h"
#include "topology/snapshot.h"

/// Where a request goes: decided once, as data. The handler does what a Route says; /explain and
/// /debug/routes tell it.
namespace kintsugi::proxy {

enum class RouteKind : std::uint8_t {
  kProbe,
  kMetrics,
  kConsole,          ///< /ui and what is below it; who asks is found out later
  kFault,            ///< what RequestTarget::fault says: 400, 414 or 307
  kRefused,          ///< `reason` and `status` say why; nobody is asked who the caller is
  kMapped,           ///< an entry of the mapping file, `mapped`
  kForwarded,        ///< to `shard`, for `cluster` there
  kServed,           ///< by the proxy's own API server, for `cluster`; "*" is all of them
  kOverlaid,         ///< a document of `shard` and of the proxy; without a shard the proxy's
  kAskedFirst,       ///< served, overlaid or forwarded: `shard` is asked which groups it has
  kMounted,          ///< to another place, `mount`
  kOfOneShard,       ///< all logical clusters of `shard`, as it has them
  kMergedList,       ///< `wildcard`, over the shards of `scope`
  kMergedWatch,      ///< the same
  kMergedGet,        ///< the same, of plain servers
  kMergedDocument,   ///< discovery, OpenAPI, version
  kRefusedRead,      ///< of all logical clusters; `wildcard` says why. After identity
  kService,          ///< a virtual workspace, `service`: of one shard
  kServiceAny,       ///< of whichever shard is up
  kServiceDocument,  ///< made of those of several
  kServiceMerged,    ///< list or watch over several
  kRefusedService,   ///< `service` says why. After identity
};
/// "probe", "forwarded", …: words with dashes, the same for ever.
[[nodiscard]] std::string_view route_kind_name(RouteKind kind) noexcept;

/// What decides besides target and topology. Whoever makes it keeps what it refers to.
struct RouteFacts {
  const RouteTable* mapping = nullptr;  ///< null: no mapping file
  bool clusters = true;                 ///< /clusters/… is served
  bool console = false;                 ///< /ui is; else nobody's
  bool wildcard = false;                ///< clusters/* is
  bool own_root = false;                ///< the proxy serves root, which no shard has to own
  bool info = true;  ///< /healthz and /version are built in; else nobody's, as in kcp's front proxy
  LocalGroups groups;  ///< the proxy's, as far as no shard has them
  /// The proxy's in one logical cluster; nullopt: its shard has to be asked. Empty: `groups`.
  std::function<std::optional<LocalGroups>(std::string_view cluster)> groups_of = {};
  MountRules mounts = {};
  /// A Partition as it is stored; nullopt: there is none. Empty: there are none at all.
  std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>
      partition = {};
};

/// The shards that a prefix of a target leaves over.
struct ScopeFound {
  RouteReason reason = RouteReason::kNone;  ///< kNone: found
  ServiceScope scope;
  std::string cluster;  ///< logical cluster name of the Partition; "" for none
};

/// A decision, small: what most requests have nothing of stands beside it. Pointers and views live
/// as long as the snapshot and the facts.
struct Route {
  RouteKind kind = RouteKind::kRefused;
  RouteReason reason = RouteReason::kNone;
  int status = 0;  ///< of a refusal that is told before anybody knows who asks; 0: none
  const topology::ShardInfo* shard = nullptr;
  std::string_view cluster;  ///< logical cluster name, or "*"
  bool takes_right = false;  ///< the caller must have a right to the path in root (R-14)
  bool with_own = false;     ///< kMergedDocument: of the proxy's own kinds, too
  bool may_come = false;     ///< `wanted` is unknown, and may be known in a moment
  std::string wanted;        ///< the segment that was looked up, of kMapped and for may_come
  bool looked_up = false;    ///< a logical cluster; `lookup` and `why_not` are counted
  topology::Resolution::Kind lookup = topology::Resolution::Kind::kResolved;
  topology::NotFoundReason why_not = topology::NotFoundReason::kNone;
  /// What the request asks for from here on: in plain words, or where a mount leads. Null: as it
  /// is.
  std::unique_ptr<LedTarget> led;
  std::string_view refused_mount;                          ///< URL that is not followed
  const MappingEntry* mapped = nullptr;                    ///< kMapped
  std::unique_ptr<MountRoute> mount;                       ///< kMounted
  std::unique_ptr<ServiceRoute> service;                   ///< of virtual workspaces
  std::unique_ptr<ScopeFound> scope;                       ///< of those, and of merged reads
  std::unique_ptr<aggregation::WildcardRequest> wildcard;  ///< of merged reads, and refused ones
};

/// Where the console is, if there is one. @param target  as sent
[[nodiscard]] bool is_console(std::string_view target) noexcept;

/// Pure: the same request, topology and facts give the same Route. What it has to read of the
/// request it reads by Request::info(), which keeps it; nothing of its target is parsed again.
/// Cost: a lookup, and nothing is allocated for a request to a logical cluster by name.
/// Threads: any.
[[nodiscard]] Route route(Request& request, const topology::Snapshot& snapshot,
                          const RouteFacts& facts);

[[nodiscard]] ScopeFound find_scope(krm::TargetScope kind, std::string_view cluster,
                                    std::string_view name, const topology::Snapshot& snapshot,
                                    const RouteFacts& facts);

}  // namespace kintsugi::proxy
