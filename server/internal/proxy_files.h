#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aggregation/position/token_keys.h"
#include "auth/audit_policy.h"
#include "auth/x509_identity.h"
#include "base/secret.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "proxy/config/config.h"
#include "proxy/routing/route_table.h"
#include "server/internal/proxy_tokens.h"
#include "topology/fleet/provider.h"
#include "topology/snapshot.h"

namespace kintsugi::server {

/// TLS contexts for shards by name, and the one for shards that have none of their own.
struct ShardTls {
  std::shared_ptr<net::TlsContext> common;
  std::map<std::string, std::shared_ptr<net::TlsContext>> own;
  /// Null: for plain http.
  [[nodiscard]] const std::shared_ptr<net::TlsContext>& of(const std::string& shard) const {
    const auto found = own.find(shard);
    return found == own.end() ? common : found->second;
  }
};

/// How the proxy gets to a shard of source `static`.
struct StaticAccess {
  topology::ShardSpec spec;
  Secret authorization;  ///< of the proxy itself; empty: none
};

/// Plain servers whose callers are impersonated, and by which Authorization (empty: a certificate).
using ImpersonationTokens = std::map<std::string, Secret>;
[[nodiscard]] inline ImpersonationTokens tokens_of(const std::vector<StaticAccess>& shards) {
  ImpersonationTokens tokens;
  for (const StaticAccess& shard : shards) {
    if (shard.spec.impersonate) {
      tokens[shard.spec.name] = shard.authorization;
    }
  }
  return tokens;
}

/// What the files of the configuration hold, loaded and checked as a set.
struct ProxyFiles {
  std::shared_ptr<net::TlsContext> serving;         ///< for clients
  ShardTls backend;                                 ///< request-header pairs, for shards
  std::vector<StaticAccess> shards;                 ///< source `static`
  auth::CaBundles client_ca;                        ///< one that verifies
  std::shared_ptr<const proxy::RouteTable> routes;  ///< of the mapping file; null: none
  TokenFiles tokens;
  aggregation::TokenKeys token_keys;  ///< empty: none are configured
  aggregation::TokenKeys seal_keys;   ///< of keys in the store; the same
  std::shared_ptr<const auth::AuditPolicy> audit_policy;
};
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<ProxyFiles> load_proxy_files(const proxy::ProxyConfig& config);

/// A server that shows the Shards, and the credentials there.
struct PeerAccess {
  std::string server;
  std::shared_ptr<net::TlsContext> tls;
};

/// What the two kubeconfigs say, and those of peers, of which each cluster is one. That of the root
/// shard may be left out (source `objects`), all of them with source `static`.
struct TopologyFiles {
  std::string root_server;
  std::shared_ptr<net::TlsContext> root;
  ShardTls shards;    ///< the proxy's own credentials
  ShardTls reviewed;  ///< those for reads with `share: reviewed`
  std::vector<PeerAccess> peers;
  PeerAccess hub;  ///< source `clusterprofiles`
  std::vector<topology::FleetProvider> providers;
};
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<TopologyFiles> load_topology_files(const proxy::ProxyConfig& config);

/// A file that is followed, and the key of the configuration that names it ("config" for itself).
struct FollowedFile {
  std::string path, key;
};
/// Everything that R-33 wants followed, with the files that the kubeconfigs name.
[[nodiscard]] std::vector<FollowedFile> followed_files(const std::string& config_path,
                                                       const proxy::ProxyConfig& config);

/// Takes over what may change while the proxy runs. @returns the keys that differ and need a
/// restart; their old values stay.
[[nodiscard]] std::vector<std::string> apply_config(proxy::ProxyConfig& running,
                                                    proxy::ProxyConfig next);

[[nodiscard]] Expected<net::UpstreamParams> upstream_to(const std::string& base_url,
                                                        std::shared_ptr<net::TlsContext> tls);

}  // namespace kintsugi::server
