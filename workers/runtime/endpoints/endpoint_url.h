#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// Endpoint URLs and the paths below them. Source: RT-10, RT-13, RT-15, section 18.
namespace kintsugi::workers {

/// Where a credential may be sent.
struct EndpointRules {
  std::string proxy_host;  ///< without port; of `server` where that is the source of endpoints
  std::vector<std::string> allowed_hosts;  ///< allowed_endpoint_hosts, without port
};

inline constexpr std::size_t kMaxEndpointUrl = 2'048;

/// A unit: one endpoint seen by one role.
struct UnitEndpoint {
  std::string
      url;  ///< canonical: scheme and host in lower case, no default port, no slash at the end
  std::string name;  ///< unit_name(url)
  bool operator==(const UnitEndpoint&) const = default;
};

/// @error kInvalid; the message is one of a few constant texts, without the URL.
/// Refused: above 2,048 bytes, user info, query, fragment, http outside of loopback, a host that
/// the rules do not name, what is no URL.
[[nodiscard]] Expected<UnitEndpoint> parse_endpoint(std::string_view url,
                                                    const EndpointRules& rules);

/// A name for a folder: "<host>-<port>-<32 hex digits>", at most 110 bytes of [a-z0-9.-], the same
/// for the same canonical URL for ever, another for any other.
[[nodiscard]] std::string unit_name(std::string_view canonical_url);

/// The URL for events and logs: no user info, no query, no fragment, no control characters, at most
/// 256 bytes (RT-84).
[[nodiscard]] std::string shown_url(std::string_view url);

/// Every `status.endpoints[].url`, as written and in order; one that is missing or no string is "".
/// No status or no endpoints: none.
/// @error kInvalid not an APIExportEndpointSlice, or endpoints are no list: the units stay as they
///        are.
[[nodiscard]] Expected<std::vector<std::string>> endpoint_urls(const krm::Json& slice);

/// "<base>/clusters/*<api_path>", for reads and watches.
/// @param base  path of the canonical URL, "" or "/…". One that ends in "/clusters/<cluster>" names
///              the only cluster, and is not extended.
[[nodiscard]] std::string everywhere_path(std::string_view base, std::string_view api_path);
/// "<base>/clusters/<cluster><api_path>", for writes and single gets.
/// @error kInvalid a cluster name that would change the path, or another one than base's own.
[[nodiscard]] Expected<std::string> cluster_path(std::string_view base, std::string_view cluster,
                                                 std::string_view api_path);

/// The cluster of an object: its annotation kcp.io/cluster, else the one that the path of the
/// request names. "" when neither says.
/// @param path  of a URL or request; "/clusters/*" names none.
[[nodiscard]] std::string_view cluster_of(std::string_view annotation,
                                          std::string_view path) noexcept;
/// @returns view into `object` or `path`.
[[nodiscard]] std::string_view cluster_of(const krm::Json& object, std::string_view path) noexcept;

/// system:* (each shard has the same ones).
[[nodiscard]] bool is_ignored_cluster(std::string_view cluster) noexcept;

}  // namespace kintsugi::workers
