#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

/// How a client finds the virtual workspace URL of one shard in an endpoint slice. Source:
/// TP-053. Pure functions, any thread.
namespace kintsugi::endpointslice {

/// One element of status.endpoints.
struct SliceEndpoint {
  /// Which shards the URL stands for.
  enum class Scope : std::uint8_t {
    kPlain,      ///< no `shards`: the one shard whose virtual workspace URL it begins with
    kSelected,   ///< `shards.selector`
    kAll,        ///< `shards.matchAll`
    kAmbiguous,  ///< both are set: never chosen, choosing fails
  };
  std::string url;
  Scope scope = Scope::kPlain;
  krm::Selector selector;  ///< kSelected only
};

/// Reads status.endpoints of a slice, also of one that no schema has checked: unknown members are
/// passed over.
/// @param slice the whole object; without status or endpoints the list is empty.
/// @error kInvalid "status.endpoints[<i>]…": a missing url, a wrong type, or an invalid selector.
[[nodiscard]] Expected<std::vector<SliceEndpoint>> parse_endpoints(const krm::Json& slice);

/// The URL for one shard. If any endpoint says which shards it is for, the one with most
/// requirements among those that match wins (`matchAll` counts none) and URLs are not looked at;
/// else exactly one URL must begin with the prefix.
/// @param labels     the shard's metadata.labels
/// @param own_prefix the shard's virtual workspace URL; a prefix ends at a path segment
/// @error kNotFound nothing matches; kInvalid two match equally well, or an endpoint sets both
///        matchAll and selector.
[[nodiscard]] Expected<std::string> pick_url(const std::vector<SliceEndpoint>& endpoints,
                                             const krm::Json& labels, std::string_view own_prefix);

}  // namespace kintsugi::endpointslice
