#include "proxy/routing/mount_route.h"

#include <algorithm>

#include "krm/path_prefixes.h"
#include "net/upstream.h"

namespace kintsugi::proxy {
namespace {

bool same_origin(const net::Url& a, const net::Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

/// Nothing that another server could read as another path.
bool is_clean(std::string_view url) {
  const std::string_view path = url.substr(std::min(url.find("://"), url.size() - 1) + 1);
  const bool plain = url.find_first_of("?#@%\\") == std::string_view::npos;
  const auto has = [&](std::string_view part) {
    return path.find(part, 2) != std::string_view::npos || path.ends_with(part);
  };
  return plain && !has("//") && !has("/./") && !has("/../") && !path.ends_with("/..") &&
         !path.ends_with("/.");
}

bool is_listed(const MountRules& rules, const net::Url& url) {
  return std::any_of(rules.allowed_hosts.begin(), rules.allowed_hosts.end(),
                     [&](const std::string& host) {
                       return host == "*" || host == url.host || host == url.authority() ||
                              host == url.host + ":" + std::to_string(url.port);
                     });
}

}  // namespace

MountRoute route_mount(const topology::Snapshot& facts, const MountRules& rules,
                       std::string_view url, std::string_view trail) {
  MountRoute out;
  const auto where = net::Url::parse(url);
  if (!where || !is_clean(url)) {
    return out;
  }
  const std::string_view path = where->path;
  const auto external = net::Url::parse(rules.external_url);
  if (external && same_origin(*where, *external) &&
      path.starts_with(external->path + std::string(krm::kClustersPrefix))) {
    out.kind = MountRoute::Kind::kInside;
    out.target = std::string(path.substr(external->path.size())) + std::string(trail);
    return out;
  }
  if (!path.starts_with(krm::kClustersPrefix)) {
    out.kind = MountRoute::Kind::kNoRoute;
    return out;
  }
  if (where->scheme != "https") {
    return out;
  }
  out.target = where->path + std::string(trail);
  bool is_known = false;
  for (const auto& info : facts.shards()) {
    const auto leads_to = [&](const std::string& text) {
      const auto known = net::Url::parse(text);
      return known && same_origin(*where, *known);
    };
    const auto& others = info->spec.replica_urls;
    const bool base =
        leads_to(info->spec.base_url) || std::any_of(others.begin(), others.end(), leads_to);
    if (base || leads_to(info->spec.virtual_workspace_url)) {
      out.kind = base ? MountRoute::Kind::kShard : MountRoute::Kind::kServices;
      out.shard = info->id;
      return out;
    }
    is_known = is_known || leads_to(info->spec.external_url);
  }
  if (is_known || is_listed(rules, *where)) {
    out.kind = MountRoute::Kind::kHost;
    out.origin = where->scheme + "://" + where->authority();
  }
  return out;
}

}  // namespace kintsugi::proxy
