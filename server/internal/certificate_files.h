#pragma once

#include <vector>

#include "base/certificate_ends.h"
#include "proxy/config/config.h"
#include "proxy/routing/route_table.h"

namespace kintsugi::server {

/// When the certificates end that the configuration names, in files and in kubeconfigs; by use
/// (serving; client and peer: of the proxy itself; requestheader: that assert identities; ca) and
/// key of the configuration, or shard. Read anew: ask when the files were taken. What cannot be
/// read or holds none is left out.
/// @param routes  of the mapping file; null: none.
[[nodiscard]] std::vector<CertificateEnd> certificate_ends(const proxy::ProxyConfig& config,
                                                           const proxy::RouteTable* routes);

}  // namespace kintsugi::server
