#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::proxy {

/// What the proxy does with the API path of a logical cluster
/// (docs/architecture.md, T-01).
enum class LocalUse : std::uint8_t {
  kForward,  ///< not ours
  kServe,    ///< a resource that the proxy stores
  kOverlay,  ///< a discovery or OpenAPI document that both have parts of
};

/// Who stores an API group: `topology.groups.<group>` of the configuration.
enum class GroupMode : std::uint8_t {
  kProxy,  ///< the proxy stores, computes and serves
  kShard,  ///< requests go to the shard, whose own controllers compute
  kAuto,   ///< the shard, if discovery of the logical cluster there has it
};
struct GroupModes {
  GroupMode partitions = GroupMode::kProxy;  ///< topology.kcp.io
  GroupMode slices = GroupMode::kProxy;      ///< of apis.kcp.io: APIExportEndpointSlice
  [[nodiscard]] bool any_auto() const noexcept {
    return partitions == GroupMode::kAuto || slices == GroupMode::kAuto;
  }
  bool operator==(const GroupModes&) const = default;
};

/// The API groups that the proxy stores and serves in a logical cluster (`topology.groups`); what
/// is not among them is its shard's (T-01).
struct LocalGroups {
  bool partitions = true;  ///< topology.kcp.io
  bool slices = true;      ///< of apis.kcp.io: APIExportEndpointSlice
  [[nodiscard]] bool none() const noexcept { return !partitions && !slices; }
  bool operator==(const LocalGroups&) const = default;
};

/// What the proxy may have to serve: all but what is the shards' for sure.
[[nodiscard]] constexpr LocalGroups possible_groups(GroupModes modes) noexcept {
  return {modes.partitions != GroupMode::kShard, modes.slices != GroupMode::kShard};
}

/// The same for every method: a shard answers PUT /apis like GET (AM-055), so the list has to be
/// that of both, too.
/// @param trail what follows /clusters/<cluster>, with or without query.
/// Cost: a few comparisons; nearly every path fails the first one.
/// @param own_shards the cluster is root and Shards are stored by the proxy (source `objects`).
/// @param groups     those that are the proxy's in this cluster.
[[nodiscard]] LocalUse local_use(std::string_view trail, bool own_shards = false,
                                 LocalGroups groups = {}) noexcept;

/// The trail of a wildcard request without the identity hash that clients of kcp may put behind the
/// resource (`…/partitions:<hash>?watch=true`).
[[nodiscard]] std::string without_identity(std::string_view trail);

}  // namespace kintsugi::proxy
