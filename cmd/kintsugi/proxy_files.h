#pragma once

#include <memory>
#include <string>
#include <vector>

#include "auth/x509_identity.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "proxy/config.h"

namespace kintsugi::cmd {

/// What the files of the configuration hold, loaded and checked as a set.
struct ProxyFiles {
  std::shared_ptr<net::TlsContext> serving;  ///< for clients
  std::shared_ptr<net::TlsContext> backend;  ///< request-header pair, for shards
  auth::CaBundles client_ca;                 ///< one that verifies
};
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<ProxyFiles> load_proxy_files(const proxy::ProxyConfig& config);

/// What the two kubeconfigs say; that of the root shard may be left out (source `objects`).
struct TopologyFiles {
  std::string root_server;
  std::shared_ptr<net::TlsContext> root, shards;
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

}  // namespace kintsugi::cmd
