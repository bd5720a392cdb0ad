#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {

/// A request for `clusters/*` understood (specs/aggregation.md 2).
struct WildcardRequest {
  enum class Use : std::uint8_t {
    kMerge,     ///< list or watch of a resource
    kDocument,  ///< discovery, OpenAPI, version
    kRefused,
  };
  Use use = Use::kRefused;
  krm::RequestInfo info;
  std::string path;  ///< what follows "clusters/*", without the query
  std::optional<Error> refusal;
};

/// @param trail  what follows "clusters/*", with the query.
/// @param namespaces  namespaced lists are served too (plain Kubernetes servers; AGG-202).
[[nodiscard]] WildcardRequest read_wildcard(std::string_view method, std::string_view trail,
                                            bool namespaces);

}  // namespace kintsugi::proxy
