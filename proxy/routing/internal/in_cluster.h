#pragma once

#include <optional>
#include <string>

#include "proxy/routing/request.h"

namespace kintsugi::proxy {

/// Clients that know no logical clusters (in-cluster configurations) send plain API paths with a
/// ServiceAccount token: the token's own logical cluster is put in front. Nothing is
/// verified here; the shard does that. A claim that is no cluster name is ignored.
/// @param request  its target is that of its head; the result is to be parsed anew (SE-024).
/// @returns the target to use instead; nullopt: as it came.
[[nodiscard]] std::optional<std::string> in_cluster_target(Request& request);

}  // namespace kintsugi::proxy
