#pragma once

#include <cstdint>
#include <string_view>

/// What the credentials of our own processes are for. The proxy's table is kept twice: by the proxy
/// before it asks (own_requests.h), and by an embedded shard that is asked. Source: SE-055, SE-148.
namespace kintsugi::shards {

/// What own requests are for. Those of callers are of neither.
enum class OwnRole : std::uint8_t {
  kTopology,  ///< what is where, and who may do what: get, list and watch of the kinds that say so,
              ///< list and watch of roles and bindings, reviews, discovery, probes
  kReviewed,  ///< `share: reviewed`: get, list and watch for callers whose rights were reviewed
  kShard,     ///< another shard: what it copies, logical clusters that it places here, its Shard
};

/// Verb of the API and the resource that it is for; the resource without an identity hash.
struct OwnQuestion {
  std::string_view verb, group, resource, subresource;
};
/// Whether the role may do this, in any logical cluster and in all of them at once.
[[nodiscard]] bool has_own_right(OwnRole role, const OwnQuestion& question) noexcept;

/// Paths that are no resources, for every role: health, version, discovery, OpenAPI.
/// @param path  below the logical cluster.
[[nodiscard]] bool is_own_path(std::string_view verb, std::string_view path) noexcept;

}  // namespace kintsugi::shards
