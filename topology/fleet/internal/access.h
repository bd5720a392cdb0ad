#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "base/time.h"
#include "krm/json.h"
#include "net/address_rules.h"
#include "topology/fleet/internal/fault.h"

namespace kintsugi::topology {

/// `topology.fleet` as far as objects of the hub are judged by it.
struct FleetOptions {
  bool cluster_api = false;             ///< kubeconfig Secrets of Cluster API are clusters, too
  bool qualified = false;               ///< names: qualified
  bool insecure = false;                ///< insecure-skip-tls-verify is obeyed
  std::vector<std::string> properties;  ///< those that become labels
  std::vector<std::string> allow;       ///< addresses and names that would be refused
  std::vector<std::string> own;         ///< "host:port" of the proxy itself
  Duration leave_grace = seconds(30);
};

/// How a cluster is reached. Texts are PEM.
struct FleetAccess {
  std::string server;  ///< without a trailing slash
  std::string ca_pem, server_name, proxy_url;
  bool insecure = false;
  std::string certificate_pem;
  Secret key_pem, token;
  std::string username;
  Secret password;
  bool operator==(const FleetAccess&) const = default;
  [[nodiscard]] bool has_credential() const {
    return !certificate_pem.empty() || !token.empty() || !username.empty();
  }
};

/// Bounds of what a hub may say of one cluster.
inline constexpr std::size_t kMaxFleetCertificates = std::size_t{64} << 10;  ///< a CA [bytes]
inline constexpr std::size_t kMaxFleetKubeconfig = std::size_t{256} << 10;   ///< [bytes]
inline constexpr std::size_t kMaxFleetToken = std::size_t{32} << 10;         ///< [bytes]

/// Judges the servers that a hub names: the proxy sends credentials there (GR-701, bad input).
class FleetServers {
 public:
  explicit FleetServers(const FleetOptions& options);
  /// https alone; neither this machine nor what only this machine reaches (loopback, link-local,
  /// unspecified, multicast addresses, `localhost`), unless it is allowed, and never the proxy.
  [[nodiscard]] std::optional<FleetFault> judge(std::string_view url) const;

 private:
  net::AddressList allow_;
  std::vector<std::string> own_;
};

/// Server, CA and way of a `cluster` as kubeconfigs and access providers have it.
[[nodiscard]] Judged<FleetAccess> read_fleet_cluster(const krm::Json& cluster,
                                                     const FleetOptions& options,
                                                     const FleetServers& servers);

/// A kubeconfig that a Secret of the hub holds (GR-702). Programs, older plug-ins and names of
/// files are refused: they would be this machine's. @param context  "": the current one
[[nodiscard]] Judged<FleetAccess> read_fleet_kubeconfig(std::string_view text,
                                                        std::string_view context,
                                                        const FleetOptions& options,
                                                        const FleetServers& servers);

/// A PEM text of certificates, from base64. @param field  for messages
[[nodiscard]] Judged<std::string> read_fleet_certificates(std::string_view base64,
                                                          std::string_view field);

}  // namespace kintsugi::topology
