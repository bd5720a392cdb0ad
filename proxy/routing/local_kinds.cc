#include "proxy/routing/local_kinds.h"

#include <algorithm>

namespace kintsugi::proxy {
namespace {

/// True when `path` is `prefix` itself or goes on below it.
bool below(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

std::string_view without_slash(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') {
    path.remove_suffix(1);
  }
  return path;
}

constexpr std::string_view kOpenApi = "/openapi/v3";
constexpr std::string_view kCore = "/apis/core.kcp.io";
constexpr std::string_view kCoreVersion = "/apis/core.kcp.io/v1alpha1";
constexpr std::string_view kOpenApiV2 = "/openapi/v2";

/// @param rest what follows /openapi/v3.
LocalUse openapi_use(std::string_view rest, bool own_shards, LocalGroups groups) {
  if (own_shards && rest == "/apis/core.kcp.io/v1alpha1") {
    return LocalUse::kOverlay;
  }
  if (groups.partitions && below(rest, "/apis/topology.kcp.io")) {
    return LocalUse::kServe;
  }
  const bool both = rest.empty() || (groups.slices && rest == "/apis/apis.kcp.io/v1alpha1");
  return both ? LocalUse::kOverlay : LocalUse::kForward;
}

}  // namespace

LocalUse local_use(std::string_view trail, bool own_shards, LocalGroups groups) noexcept {
  if (groups.none() && !own_shards) {
    return LocalUse::kForward;
  }
  const bool is_openapi = trail.starts_with(kOpenApi);
  if (!is_openapi && !trail.starts_with("/apis") && !trail.starts_with(kOpenApiV2)) {
    return LocalUse::kForward;
  }
  const std::string_view path = without_slash(trail.substr(0, trail.find('?')));
  if (is_openapi) {
    return openapi_use(path.substr(kOpenApi.size()), own_shards, groups);
  }
  if (path == "/apis" || path == kOpenApiV2 ||
      (groups.slices && (path == "/apis/apis.kcp.io" || path == "/apis/apis.kcp.io/v1alpha1"))) {
    return LocalUse::kOverlay;
  }
  if (own_shards && below(path, kCore)) {
    if (path == kCore || path == kCoreVersion) {
      return LocalUse::kOverlay;
    }
    const std::string_view rest = path.substr(std::min(kCoreVersion.size(), path.size()));
    if (below(path, kCoreVersion) && (below(rest, "/shards") || below(rest, "/watch/shards"))) {
      return LocalUse::kServe;
    }
  }
  // The whole group is ours, its discovery too.
  if (groups.partitions && below(path, "/apis/topology.kcp.io")) {
    return LocalUse::kServe;
  }
  for (const std::string_view prefix :
       {"/apis/apis.kcp.io/v1alpha1/apiexportendpointslices",
        "/apis/apis.kcp.io/v1alpha1/watch/apiexportendpointslices"}) {
    if (groups.slices && below(path, prefix)) {
      return LocalUse::kServe;
    }
  }
  return LocalUse::kForward;
}

std::string without_identity(std::string_view trail) {
  const std::string_view path = trail.substr(0, trail.find('?'));
  const std::size_t colon = path.find(':');
  if (colon == std::string_view::npos) {
    return std::string(trail);
  }
  const std::size_t end = std::min(path.find('/', colon), path.size());
  return std::string(trail.substr(0, colon)) + std::string(trail.substr(end));
}

}  // namespace kintsugi::proxy
