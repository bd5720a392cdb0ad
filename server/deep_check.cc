#include "server/deep_check.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "server/encryption.h"
#include "server/files.h"
#include "server/internal/backend_judge.h"
#include "server/internal/etcd_opening.h"
#include "server/internal/named_peers.h"
#include "server/internal/proxy_files.h"
#include "server/internal/shard_credentials.h"
#include "server/internal/webhook_server.h"
#include "server/internal/worker_access.h"
#include "server/kubeconfig.h"
#include "server/shard_files.h"
#include "workers/runtime/endpoints/endpoint_url.h"

namespace kintsugi::server {
namespace {

using Asks = Peer::Asks;
using TlsPtr = std::shared_ptr<net::TlsContext>;

const std::string kShards =
    std::string(krm::kRootClusterPath) + "/apis/core.kcp.io/v1alpha1/shards";
const std::string kWorkspaces =
    std::string(krm::kRootClusterPath) + "/apis/tenancy.kcp.io/v1alpha1/workspaces?limit=1";
const std::string kClusters =
    std::string(krm::kEverywhereEscaped) + "/apis/core.kcp.io/v1alpha1/logicalclusters?limit=1";

/// Of who has a store.
std::string lock_of(const std::string& folder, bool is_etcd) {
  return folder + (is_etcd ? "/mirror/data" : "") + "/store.lock";
}

/// What the servers of a ProxyConfiguration are asked.
class ProxyPeers {
 public:
  ProxyPeers(const LoadedProxyConfig& loaded, PeerProbe& probe, ProxyFiles files,
             TopologyFiles topology)
      : loaded_(loaded),
        config_(loaded.config),
        probe_(probe),
        pairs_{std::move(files.backend), std::move(files.shards), std::move(files.routes)},
        topology_(std::move(topology)) {}

  void add_all() {
    check_port(probe_, place("listener.port"), config_.listener.address, config_.listener.port,
               lock_of(config_.data_dir, config_.store.is_etcd));
    if (config_.topology.source == "static") {
      add_static();
    } else if (config_.has_fleet()) {
      add("topology.fleet.kubeconfig", "hub", topology_.hub.server, topology_.hub.tls, "/apis",
          true);
    } else {
      add_root();
    }
    if (config_.store.is_etcd) {
      add_etcd(probe_, place("store.endpoints"), access_of_etcd(config_.store),
               config_.store.password_file, false);
    }
    add_issuers();
    add_webhook(probe_, place("authentication.webhook.kubeconfig"), "authentication webhook",
                config_.authentication.webhook.kubeconfig);
    add_webhook(probe_, place("audit.webhook_kubeconfig"), "audit webhook",
                config_.audit.webhook_kubeconfig);
    add_backends();
  }

 private:
  /// "<file>:<line>: <key>".
  [[nodiscard]] std::string place(const std::string& key) const {
    return place_of(loaded_.path, loaded_.origin, key) + ": " + key;
  }

  /// nullopt, and a finding, where the URL is none.
  std::optional<Peer> peer(const std::string& key, const std::string& name, const std::string& url,
                           TlsPtr tls, Asks asks, const std::string& target) {
    auto server = upstream_to(url, std::move(tls));
    const std::string where = place(key);
    if (!server) {
      probe_.find({false, where + ": " + name + ": " + std::string(server.error().message())});
      return std::nullopt;
    }
    Peer out;
    out.place = where;
    out.name = name;
    out.server = std::move(*server);
    out.asks = asks;
    out.target = target;
    return out;
  }

  void add(const std::string& key, const std::string& name, const std::string& url, TlsPtr tls,
           const std::string& target, bool required, Asks asks = Asks::kReads) {
    if (auto one = peer(key, name, url, std::move(tls), asks, target)) {
      one->required = required;
      probe_.add(std::move(*one));
    }
  }

  void add_root() {
    if (topology_.root == nullptr) {
      return;
    }
    const bool has_shards = config_.topology.source == "kcp";
    auto root = peer("topology.root_kubeconfig", "root", topology_.root_server, topology_.root,
                     Asks::kReads, has_shards ? kShards : kWorkspaces);
    if (!root) {
      return;
    }
    root->required = true;
    if (has_shards) {
      root->more = [this](std::string_view body) { return shard_peers(body); };
    }
    probe_.add(std::move(*root));
    for (const PeerAccess& one : topology_.peers) {
      add("topology.peer_kubeconfigs", "peer", one.server, one.tls,
          std::string(krm::kServicesPrefix) + "admin/apis/core.kcp.io/v1alpha1/shards", false);
    }
  }

  /// Each as the proxy itself, and as who asserts callers.
  std::vector<Peer> shard_peers(std::string_view list) {
    std::vector<Peer> out;
    const auto take = [&out](std::optional<Peer> one) {
      if (one) {
        out.push_back(std::move(*one));
      }
    };
    for (const NamedShard& shard : shards_in(list)) {
      const auto own = std::find_if(config_.shards.begin(), config_.shards.end(),
                                    [&](const auto& one) { return one.name == shard.name; });
      const bool differs = own != config_.shards.end();
      const std::string at = "shards." + shard.name;
      take(peer(
          differs && !own->kubeconfig.empty() ? at + ".kubeconfig" : "topology.shards_kubeconfig",
          shard.name, shard.base_url, topology_.shards.of(shard.name), Asks::kReads, kClusters));
      if (shard.base_url.starts_with("https://")) {
        take(peer(differs && !own->cert_file.empty() ? at + ".cert_file" : "backend.cert_file",
                  shard.name, shard.base_url, pairs_.tls.of(shard.name), Asks::kAsserted,
                  "/livez"));
      }
    }
    return out;
  }

  void add_static() {
    for (std::size_t i = 0; i < pairs_.shards.size(); ++i) {
      const StaticAccess& shard = pairs_.shards[i];
      auto one = peer("topology.shards[" + std::to_string(i) + "]", shard.spec.name,
                      shard.spec.base_url, pairs_.tls.of(shard.spec.name),
                      shard.spec.impersonate ? Asks::kReads : Asks::kAsserted,
                      shard.spec.impersonate ? "/apis" : "/livez");
      if (!one) {
        continue;
      }
      if (shard.spec.impersonate && !shard.authorization.empty()) {
        one->headers.add("authorization", shard.authorization.view());
      }
      if (shard.spec.impersonate || shard.spec.base_url.starts_with("https://")) {
        probe_.add(std::move(*one));
      }
    }
  }

  void add_issuers() {
    const auto files = load_token_files(config_.authentication);
    const std::string key = config_.authentication.config_file.empty()
                                ? "authentication.oidc.issuer_url"
                                : "authentication.config_file";
    for (const auto& issuer : files ? files->issuers : auth::JwtIssuers()) {
      net::TlsParams params;
      params.ca_pem = issuer->config().ca_pem;
      if (auto tls = net::TlsContext::client(params)) {
        add(key, "issuer", issuer->discovery_url(), std::move(*tls), "", false);
      }
    }
  }

  void add_backends() {
    if (pairs_.routes == nullptr) {
      return;
    }
    for (const proxy::MappingEntry& entry : pairs_.routes->entries()) {
      const auto tls = pairs_.tls.own.find(entry.name());
      if (!entry.is_clusters()) {
        add("mapping_file", "the backend of " + entry.path, entry.backend,
            tls == pairs_.tls.own.end() ? nullptr : tls->second, "/", false,
            entry.cert_file.empty() ? Asks::kAnswers : Asks::kAsserted);
      }
    }
  }

  const LoadedProxyConfig& loaded_;
  const proxy::ProxyConfig& config_;
  PeerProbe& probe_;
  const BackendPairs pairs_;
  const TopologyFiles topology_;
};

/// What the servers of a WorkerConfiguration are asked.
class WorkerPeers {
 public:
  WorkerPeers(const WorkerConfig& config, WorkerAccess access, PeerProbe& probe)
      : config_(config), access_(std::move(access)), probe_(probe) {}

  template <class Place>
  void add_all(Place place) {
    for (const WorkerRoleConfig& role : config_.roles) {
      const std::string at = "roles." + role.name;
      if (role.servers.empty()) {
        const std::string key = at + ".endpoints.name";
        Peer slice = peer(place(key) + ": " + key, "proxy", access_.proxy,
                          std::string(krm::kClustersPrefix) + role.slice_cluster +
                              "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/" + role.slice);
        slice.required = true;
        slice.more = [this, &role, where = slice.place](std::string_view body) {
          return endpoints_of(role, where, body);
        };
        probe_.add(std::move(slice));
      }
      for (const std::string& url : role.servers) {
        add_endpoint(role, place(at + ".server") + ": " + at + ".server", url,
                     [this](Peer one) { probe_.add(std::move(one)); });
      }
    }
  }

 private:
  [[nodiscard]] Peer peer(const std::string& place, const std::string& name, net::Url url,
                          const std::string& target) const {
    Peer out;
    out.place = place;
    out.name = name;
    out.server.tls = url.scheme == "https" ? access_.tls : nullptr;
    out.server.url = std::move(url);
    out.asks = Asks::kReads;
    out.target = target;
    out.headers = access_.headers;
    return out;
  }

  /// The credential goes where it may go alone.
  template <class Take>
  void add_endpoint(const WorkerRoleConfig& role, const std::string& place, const std::string& text,
                    Take take) {
    workers::EndpointRules rules;
    rules.proxy_host = access_.proxy.host;
    rules.allowed_hosts = role.allowed_endpoint_hosts;
    const auto allowed = workers::parse_endpoint(text, rules);
    auto url = net::Url::parse(text);
    if (!allowed || !url) {
      const Error& why = allowed ? url.error() : allowed.error();
      probe_.find(
          {false, place + ": " + workers::shown_url(text) + ": " + std::string(why.message())});
      return;
    }
    const std::string target = workers::everywhere_path(std::exchange(url->path, {}), "/apis");
    take(peer(place, "endpoint", std::move(*url), target));
  }

  std::vector<Peer> endpoints_of(const WorkerRoleConfig& role, const std::string& place,
                                 std::string_view slice) {
    std::vector<Peer> out;
    const auto document = krm::Json::parse(slice);
    const auto urls = document ? workers::endpoint_urls(*document)
                               : Expected<std::vector<std::string>>(std::vector<std::string>());
    if (!urls || urls->empty()) {
      probe_.find({false, place + ": the slice lists no endpoint"});
      return out;
    }
    for (const std::string& url : *urls) {
      add_endpoint(role, place, url, [&out](Peer endpoint) { out.push_back(std::move(endpoint)); });
    }
    return out;
  }

  const WorkerConfig& config_;
  const WorkerAccess access_;
  PeerProbe& probe_;
};

const std::string kCommandLine = "command line: ";

}  // namespace

ConfigCheck joined(ConfigCheck first, ConfigCheck second) {
  first.checks += second.checks;
  std::move(second.findings.begin(), second.findings.end(), std::back_inserter(first.findings));
  return first;
}

ConfigCheck check_peers(const LoadedProxyConfig& loaded) {
  PeerProbe probe;
  auto files = load_proxy_files(loaded.config);
  auto topology = load_topology_files(loaded.config);
  if (!files || !topology) {
    probe.find({true, std::string((files ? topology.error() : files.error()).message())});
    return probe.run();
  }
  ProxyPeers peers(loaded, probe, std::move(*files), std::move(*topology));
  peers.add_all();
  return probe.run();
}

ConfigCheck check_peers(const WorkerConfig& config, const std::string& path,
                        const krm::ConfigOrigin& origin) {
  PeerProbe probe;
  auto access = load_worker_access(config.kubeconfig);
  if (!access) {
    probe.find({true, std::string(access.error().message())});
    return probe.run();
  }
  WorkerPeers peers(config, std::move(*access), probe);
  peers.add_all([&](const std::string& key) { return place_of(path, origin, key); });
  return probe.run();
}

ConfigCheck check_files(const ShardOptions& options) {
  ConfigCheck check;
  const auto judge = [&check](const std::string& option, const Error* fault) {
    ++check.checks;
    if (fault != nullptr) {
      check.findings.push_back(
          {true, kCommandLine + option + ": " + std::string(fault->message())});
    }
  };
  const auto loads = [&judge](const std::string& option, const auto& result) {
    judge(option, result ? nullptr : &result.error());
  };
  loads("--join", check_join_folder(options.layout));
  if (check.has_error()) {
    return check;
  }
  const ShardCredentials credentials(options.layout, options.name, options.revocations);
  const std::vector<std::string> files = credentials.followed();
  if (file_exists(files.front()) && file_exists(account_key_file(options.layout))) {
    loads("--join", credentials.load_serving());
  }
  if (file_exists(files.front())) {
    loads("--join", credentials.load_outgoing());
  }
  const std::string encryption =
      options.encryption.empty() ? encryption_config_path(options.layout) : options.encryption;
  if (!options.encryption.empty() || file_exists(encryption)) {
    loads("--encryption-provider-config", read_encryption_config(encryption));
  }
  if (!options.audit_webhook.empty()) {
    loads("--audit-webhook-config-file", load_webhook_server(options.audit_webhook));
  }
  return check;
}

ConfigCheck check_peers(const ShardOptions& options) {
  PeerProbe probe;
  check_port(probe, kCommandLine + "--port", options.address, options.port,
             options.etcd.endpoints.empty()
                 ? lock_of(options.layout.shard_data(options.name), false)
                 : lock_of(options.layout.shard_replica(options.name, options.replica), true));
  if (!options.etcd.endpoints.empty()) {
    store::EtcdParams etcd = options.etcd;
    if (etcd.prefix.empty()) {
      etcd.prefix = "/kintsugi/shards/" + options.name;
    }
    add_etcd(probe, kCommandLine + "--store", etcd, options.etcd_password_file, true);
  }
  add_webhook(probe, kCommandLine + "--audit-webhook-config-file", "audit webhook",
              options.audit_webhook);
  const std::string root = options.layout.shard_kubeconfig("root");
  const ShardCredentials credentials(options.layout, options.name, options.revocations);
  auto tls = credentials.load_outgoing();
  auto access = file_exists(root) ? read_kubeconfig(root, "base") : KubeAccess();
  if (options.name == "root" || !tls || !access || access->server.empty()) {
    return probe.run();  // it is told with the files, or made at the first start
  }
  const auto peer = [&tls](const std::string& name, const std::string& url,
                           const std::string& target) -> std::optional<Peer> {
    auto server = upstream_to(url, *tls);
    if (!server) {
      return std::nullopt;
    }
    Peer out;
    out.place = kCommandLine + "--join";
    out.name = name;
    out.server = std::move(*server);
    out.asks = Asks::kReads;
    out.target = target;
    return out;
  };
  if (auto one = peer("root", access->server, kShards)) {
    one->more = [&options, peer](std::string_view list) {
      std::vector<Peer> out;
      for (const NamedShard& shard : shards_in(list)) {
        auto other = peer(shard.name, shard.base_url, "/livez");
        if (other && shard.name != options.name && shard.name != "root") {
          out.push_back(std::move(*other));
        }
      }
      return out;
    };
    probe.add(std::move(*one));
  }
  return probe.run();
}

}  // namespace kintsugi::server
