// What the kubeconfigs of the topology say (load_topology_files).
#include <algorithm>
#include <filesystem>
#include <utility>

#include "auth/certificate_end.h"
#include "auth/user.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "krm/yaml.h"
#include "net/proxy_rules.h"
#include "server/internal/fleet_source.h"
#include "server/internal/kube_tls.h"
#include "server/internal/proxy_files.h"

namespace kintsugi::server {
namespace {

/// Each cluster of a kubeconfig, with the credentials of its current context.
Expected<void> add_peers(const std::string& path, const RevocationsPtr& revocations,
                         std::vector<PeerAccess>& peers) {
  const auto text = read_secret_file(path);
  auto document =
      text ? krm::parse_yaml(text->view()) : Expected<krm::Json>(fail(text.error().clone()));
  if (!document) {
    return fail(std::move(document.error()).at(path));
  }
  const std::string context(document->text({"current-context"}));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const krm::Json* clusters = document->find("clusters");
  for (const krm::Json& cluster : clusters != nullptr ? clusters->items() : krm::Json::Array()) {
    krm::Json there = *document;
    if (krm::Json* contexts = there.find("contexts"); contexts != nullptr) {
      for (krm::Json& entry : contexts->edit_items()) {
        if (entry.text({"name"}) == context) {
          entry.make({"context", "cluster"}) = cluster.text({"name"});
        }
      }
    }
    auto access = kube_access(there, folder, path, context);
    auto url = access ? net::Url::parse(access->server) : Expected<net::Url>(net::Url());
    auto tls =
        access ? own_context(*access, path, revocations) : std::shared_ptr<net::TlsContext>();
    if (!access || !url || !tls) {
      return fail(std::move(!access ? access.error() : !url ? url.error() : tls.error()));
    }
    if (!url->path.empty()) {
      return fail(Errc::kConfig, path + ": \"" + access->server + "\" must have no path");
    }
    const bool known = std::any_of(peers.begin(), peers.end(), [&](const PeerAccess& peer) {
      return peer.server == access->server;
    });
    if (!known) {
      peers.push_back({access->server, std::move(*tls)});
    }
  }
  return {};
}

}  // namespace

Expected<TopologyFiles> load_topology_files(const proxy::ProxyConfig& config) {
  if (config.has_plain_servers()) {
    TopologyFiles files;
    if (config.has_fleet()) {
      auto revocations = backend_revocations(config);
      const std::string& file = config.topology.fleet.kubeconfig;
      auto hub = read_kubeconfig(file, context_of(file));
      auto tls = hub && revocations ? own_context(*hub, file, *revocations)
                                    : Expected<std::shared_ptr<net::TlsContext>>(nullptr);
      auto providers = load_fleet_providers(config);
      if (!revocations || !hub || !tls || !providers) {
        return fail(std::move(!revocations ? revocations.error()
                              : !hub       ? hub.error()
                              : !tls       ? tls.error()
                                           : providers.error()));
      }
      files.hub = {hub->server, std::move(*tls)};
      files.providers = std::move(*providers);
    }
    return files;
  }
  const bool has_root = !config.topology.root_kubeconfig.empty();
  const bool has_reviewed = !config.topology.reviewed_kubeconfig.empty();
  const std::string& root_file = config.topology.root_kubeconfig;
  const std::string& shards_file = config.topology.shards_kubeconfig;
  const std::string& reviewed_file =
      has_reviewed ? config.topology.reviewed_kubeconfig : shards_file;
  auto root = has_root ? read_kubeconfig(root_file, context_of(root_file))
                       : Expected<KubeAccess>(KubeAccess{});
  auto shards = read_kubeconfig(shards_file, context_of(shards_file), KubeServer::kOptional);
  auto reviewed = read_kubeconfig(reviewed_file, context_of(reviewed_file), KubeServer::kOptional);
  auto revocations = backend_revocations(config);
  if (!root || !shards || !reviewed || !revocations) {
    return fail(std::move(!root       ? root.error()
                          : !shards   ? shards.error()
                          : !reviewed ? reviewed.error()
                                      : revocations.error()));
  }
  auto root_tls =
      has_root ? own_context(*root, root_file, *revocations) : std::shared_ptr<net::TlsContext>();
  auto shards_tls = own_context(*shards, shards_file, *revocations);
  auto reads = own_context(*reviewed, reviewed_file, *revocations);
  if (!root_tls || !shards_tls || !reads) {
    return fail(std::move(!root_tls     ? root_tls.error()
                          : !shards_tls ? shards_tls.error()
                                        : reads.error()));
  }
  if (auth::is_of_organization(shards->certificate_pem, auth::kGroupMasters)) {
    // kcp shows clusters/* to nobody else. Embedded shards know a role for it (SE-148).
    log_warn("the proxy's own credential can do more than is needed",
             {{"kubeconfig", shards_file}, {"group", auth::kGroupMasters}});
  }
  TopologyFiles files;
  files.root_server = root->server;
  files.root = std::move(*root_tls);
  files.shards.common = std::move(*shards_tls);
  files.reviewed.common = std::move(*reads);
  for (const std::string& file : config.topology.peer_kubeconfigs) {
    if (auto added = add_peers(file, *revocations, files.peers); !added) {
      return fail(std::move(added.error()));
    }
  }
  for (const proxy::ShardOverride& shard : config.shards) {
    KubeAccess access = *shards;
    if (!shard.kubeconfig.empty()) {
      auto own =
          read_kubeconfig(shard.kubeconfig, context_of(shard.kubeconfig), KubeServer::kOptional);
      if (!own) {
        return fail(std::move(own.error()));
      }
      access = std::move(*own);
    }
    if (auto result = take_file(shard.ca_file, access.ca_pem); !result) {
      return fail(std::move(result.error()));
    }
    access.server_name = shard.server_name;
    if (!shard.proxy_url.empty()) {
      auto proxy = net::parse_proxy(shard.proxy_url, false);
      if (!proxy) {
        return fail(std::move(proxy.error()).at("shards." + shard.name));
      }
      access.proxy_host = std::move(proxy->host);
      access.proxy_port = proxy->port;
      access.proxy_authorization = std::move(proxy->authorization);
    }
    auto tls = own_context(access, "shards." + shard.name, *revocations);
    if (!tls) {
      return fail(std::move(tls.error()));
    }
    files.shards.own[shard.name] = *tls;
    if (has_reviewed) {
      KubeAccess reader = *reviewed;
      reader.ca_pem = access.ca_pem;
      reader.server_name = access.server_name;
      reader.proxy_host = access.proxy_host;
      reader.proxy_port = access.proxy_port;
      reader.proxy_authorization = Secret::copy_of(access.proxy_authorization.view());
      tls = own_context(reader, "shards." + shard.name, *revocations);
    }
    if (!tls) {
      return fail(std::move(tls.error()));
    }
    files.reviewed.own[shard.name] = std::move(*tls);
  }
  return files;
}

}  // namespace kintsugi::server
