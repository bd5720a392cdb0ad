#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::proxy {

/// What the proxy does with the API path of a logical cluster (design, section 6; specs/topology.md
/// section 2).
enum class LocalUse : std::uint8_t {
  kForward,  ///< not ours
  kServe,    ///< a resource that the proxy stores
  kOverlay,  ///< a discovery or OpenAPI document that both have parts of
};

/// The same for every method: a shard answers PUT /apis like GET (AM-055), so the list has to be
/// that of both, too.
/// @param trail what follows /clusters/<cluster>, with or without query.
/// Cost: a few comparisons; nearly every path fails the first one.
/// @param own_shards the cluster is root and Shards are stored by the proxy (source `objects`).
[[nodiscard]] LocalUse local_use(std::string_view trail, bool own_shards = false) noexcept;

/// The trail of a wildcard request without the identity hash that clients of kcp may put behind the
/// resource (`…/partitions:<hash>?watch=true`).
[[nodiscard]] std::string without_identity(std::string_view trail);

}  // namespace kintsugi::proxy
