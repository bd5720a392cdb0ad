#include "server/internal/certificate_files.h"

#include <string>
#include <utility>

#include "auth/certificate_end.h"
#include "server/files.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

constexpr const char* kCa = "ca";
constexpr const char* kClient = "client";
constexpr const char* kRequestHeader = "requestheader";

class Ends {
 public:
  void add_text(const char* use, const std::string& name, std::string_view pem) {
    if (const auto end = auth::first_end_of(pem)) {
      ends_.push_back({use, name, *end});
    }
  }
  void add_file(const char* use, const std::string& name, const std::string& path) {
    if (const auto text = path.empty() ? Expected<std::string>("") : read_file(path)) {
      add_text(use, name, *text);
    }
  }
  /// Its credential and its CA. @param context  "": the current one.
  void add_kubeconfig(const char* use, const std::string& name, const std::string& path,
                      std::string_view context) {
    if (path.empty()) {
      return;
    }
    const auto access = read_kubeconfig(path, context, KubeServer::kOptional);
    if (access) {
      add_text(use, name, access->certificate_pem);
      add_text(kCa, name, access->ca_pem);
    }
  }
  [[nodiscard]] std::vector<CertificateEnd> take() { return std::move(ends_); }

 private:
  std::vector<CertificateEnd> ends_;
};

/// Credentials of single shards, and of backends of the mapping file.
void add_shards(const proxy::ProxyConfig& config, const proxy::RouteTable* routes, Ends& ends) {
  for (const proxy::ShardOverride& shard : config.shards) {
    const std::string name = "shards." + shard.name;
    ends.add_file(kRequestHeader, name, shard.cert_file);
    ends.add_file(kCa, name, shard.ca_file);
    ends.add_kubeconfig(kClient, name, shard.kubeconfig, context_of(shard.kubeconfig));
  }
  for (const proxy::StaticShard& shard : config.topology.shards) {
    const std::string name = "topology.shards." + shard.name;
    const char* const use =
        shard.identity == proxy::CallerIdentity::kRequestHeader ? kRequestHeader : kClient;
    ends.add_file(use, name, shard.cert_file);
    ends.add_file(kCa, name, shard.ca_file);
    ends.add_kubeconfig(use, name, shard.kubeconfig, "");
  }
  for (const proxy::MappingEntry& entry :
       routes != nullptr ? routes->entries() : std::vector<proxy::MappingEntry>()) {
    if (!entry.is_clusters()) {
      ends.add_file(kRequestHeader, entry.name(), entry.cert_file);
      ends.add_file(kCa, entry.name(), entry.ca_file);
    }
  }
}

}  // namespace

std::vector<CertificateEnd> certificate_ends(const proxy::ProxyConfig& config,
                                             const proxy::RouteTable* routes) {
  Ends ends;
  ends.add_file("serving", "listener.cert_file", config.listener.cert_file);
  for (std::size_t i = 0; i < config.listener.tls.sni.size(); ++i) {
    ends.add_file("serving", "listener.sni." + std::to_string(i),
                  config.listener.tls.sni[i].certificate_file);
  }
  const auto& authentication = config.authentication;
  ends.add_file(kCa, "authentication.client_ca_file", authentication.client_ca_file);
  ends.add_file(kCa, "authentication.request_header.client_ca_file",
                authentication.request_header.client_ca_file);
  ends.add_file(kCa, "authentication.oidc.ca_file", authentication.oidc.ca_file);
  ends.add_kubeconfig(kClient, "authentication.webhook.kubeconfig",
                      authentication.webhook.kubeconfig, "");
  ends.add_file(kCa, "backend.ca_file", config.backend.ca_file);
  const std::string& backend = config.backend.kubeconfig;
  if (config.backend.cert_file.empty()) {
    ends.add_kubeconfig(kRequestHeader, "backend.kubeconfig", backend, context_of(backend));
  }
  ends.add_file(kRequestHeader, "backend.cert_file", config.backend.cert_file);
  const std::string& root = config.topology.root_kubeconfig;
  const std::string& shards = config.topology.shards_kubeconfig;
  ends.add_kubeconfig(kClient, "topology.root_kubeconfig", root, context_of(root));
  ends.add_kubeconfig(kClient, "topology.shards_kubeconfig", shards, context_of(shards));
  const std::string& reviewed = config.topology.reviewed_kubeconfig;
  ends.add_kubeconfig(kClient, "topology.reviewed_kubeconfig", reviewed, context_of(reviewed));
  const std::string& hub = config.topology.fleet.kubeconfig;
  ends.add_kubeconfig(kClient, "topology.fleet.kubeconfig", hub, context_of(hub));
  for (std::size_t i = 0; i < config.topology.peer_kubeconfigs.size(); ++i) {
    ends.add_kubeconfig("peer", "topology.peer_kubeconfigs." + std::to_string(i),
                        config.topology.peer_kubeconfigs[i], "");
  }
  add_shards(config, routes, ends);
  return ends.take();
}

}  // namespace kintsugi::server
