#pragma once

#include <cstdint>
#include <string_view>

#include "topology/resolver.h"

namespace kintsugi::proxy {

/// Why a request does not go where its path points, or not yet. `/explain`, the log and metrics say
/// it; of those that tell whether something exists the client hears one and the same.
enum class RouteReason : std::uint8_t {
  kNone,
  kMalformed,           ///< bytes of the target are no path
  kTooLong,             ///< the target
  kUnclean,             ///< empty or dot segments: asked for anew without them
  kNoSuchPath,          ///< nobody serves it, whatever exists
  kNoSuchShard,         ///< of a prefix /shards/
  kNoSuchPartition,     ///< of a prefix /partitions/
  kNoVirtualWorkspace,  ///< below /services, and no virtual workspace serves it
  kInvalid,             ///< @{ as topology::NotFoundReason
  kWildcard,
  kUnknown,
  kMountSuffix,
  kMountHost,
  kPathConflict,
  kUnconfirmed,       ///< @}
  kMountPath,         ///< a mount leads to a path that mounts may not lead to
  kMountLoop,         ///< a mount leads to a mount, and so on
  kMountBelowPrefix,  ///< a mount, and a prefix of the path names shards
  kElsewhere,         ///< the prefix of the path leaves out the shard that owns the cluster
  kNotKnownYet,       ///< what could know has not been listed yet
  kUnavailable,       ///< a Workspace on the path says so
  kInactive,          ///< the logical cluster is marked so
  kNoShardUp,         ///< any would do, and none is up
  kMethod,            ///< nobody serves it by this method
  kVerb,              ///< nobody does this to all clusters
  kNamespaced,        ///< all clusters, and a namespace
  kNotOfAll,          ///< a document that is of one shard
  kBadQuestion,       ///< the path or the query contradicts itself
};
/// "", "malformed", "too-long", …: words with dashes, the same for ever.
[[nodiscard]] std::string_view route_reason_name(RouteReason reason) noexcept;

/// Why a lookup did not lead to a shard.
[[nodiscard]] RouteReason reason_of(const topology::Resolution& found) noexcept;

}  // namespace kintsugi::proxy
