#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Where mounts may lead. Source: R-16.
struct MountRules {
  std::string external_url;                ///< the proxy's own, as users see it; may be empty
  std::vector<std::string> allowed_hosts;  ///< "host" or "host:port"; "*": all
};

/// Where the URL of a mounted Workspace leads.
struct MountRoute {
  enum class Kind : std::uint8_t {
    kRefused,   ///< a host that mounts may not name (E1), or a path that is not clean
    kNoRoute,   ///< not below /clusters/ (E4)
    kInside,    ///< to this proxy itself
    kShard,     ///< to the base URL of a Shard
    kServices,  ///< to the virtual workspace URL of a Shard
    kHost,      ///< to another host
  };
  Kind kind = Kind::kRefused;
  std::string target;           ///< path and query there
  topology::ShardId shard = 0;  ///< kShard, kServices
  std::string origin;           ///< kHost: scheme, host and port
};

/// @param url    of the Workspace (topology::Resolution::mount_url).
/// @param trail  of the request behind the Workspace's path, with its query.
/// Whoever may set such a URL chooses who gets the identities of those that follow it, hence the
/// list of hosts. Cost: a URL parsed per Shard. Threads: any.
[[nodiscard]] MountRoute route_mount(const topology::Snapshot& facts, const MountRules& rules,
                                     std::string_view url, std::string_view trail);

}  // namespace kintsugi::proxy
