#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/resource.h"
#include "krm/json.h"

/// ClusterCachedResources and their slices, wherever they are (KK-200 to KK-203).
namespace kintsugi::controlplane {

/// An object of cache.kcp.io of this shard, or the copy of another one's.
struct CachedEntry {
  krm::Json object;
  bool is_own = false;
};
/// @param resource  kCachedResources or kCachedSlices.
[[nodiscard]] std::optional<CachedEntry> cached_entry(const apiserver::ObjectReader& reader,
                                                      std::string_view resource,
                                                      std::string_view cluster,
                                                      std::string_view name);

/// What the spec of a ClusterCachedResource says.
struct CachedResource {
  std::string uid, group, version, plural;
  [[nodiscard]] bool operator==(const CachedResource&) const = default;
};
[[nodiscard]] CachedResource read_cached_resource(const krm::Json& object);

/// Where copies of what is offered lie on other shards: in place of the group of their resource.
[[nodiscard]] std::string copies_group(const CachedResource& resource);
/// Whether a resource of store keys holds such copies; the uid of what offers them, else "".
[[nodiscard]] std::string_view offered_by(std::string_view stored_resource) noexcept;

/// Before the name of a ClusterCachedResource: where the virtual workspace `replication` has that
/// of a slice, other shards read what they copy.
inline constexpr std::string_view kOfferSegment = "offer:";

/// What nobody may offer to others (KK-202): Secrets, tokens, rights.
[[nodiscard]] bool is_never_cached(std::string_view group, std::string_view plural) noexcept;

}  // namespace kintsugi::controlplane
