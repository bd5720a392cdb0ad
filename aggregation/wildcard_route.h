#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/request_info.h"

namespace kintsugi::aggregation {

/// A request for `clusters/*` understood (U1 to U7).
struct WildcardRequest {
  enum class Use : std::uint8_t {
    kMerge,     ///< list or watch of a resource
    kGet,       ///< one object, by name (plain servers)
    kDocument,  ///< discovery, OpenAPI, version
    kRefused,
  };
  Use use = Use::kRefused;
  krm::RequestInfo info;
  std::string path;  ///< what follows "clusters/*", canonical, without the query
  std::optional<Error> refusal;
};

/// Deprecated watch paths are read as the lists that they stand for (U7).
/// @param trail  what follows "clusters/*", with the query.
/// @param plain  plain Kubernetes servers: namespaces may stand in the path, and names (AGG-202).
[[nodiscard]] WildcardRequest read_wildcard(std::string_view method, std::string_view trail,
                                            bool plain);
/// The same of what has been read of the trail before. @param info  krm::parse_request_info() of it
[[nodiscard]] WildcardRequest read_wildcard(std::string_view method, std::string_view trail,
                                            krm::RequestInfo info, bool plain);

}  // namespace kintsugi::aggregation
