#include "server/internal/proxy_files.h"

#include <algorithm>
#include <utility>

#include "base/secret_file.h"
#include "base/strings.h"
#include "net/proxy_rules.h"
#include "net/server_credential.h"
#include "server/files.h"
#include "server/internal/kube_tls.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

/// A URL that stands somewhere else needs none in the kubeconfig.
KubeServer of_server(const std::string& url) {
  return url.empty() ? KubeServer::kRequired : KubeServer::kOptional;
}

Expected<KubeAccess> access_of(const proxy::StaticShard& shard, const proxy::ProxyConfig& config) {
  KubeAccess access;
  if (!shard.kubeconfig.empty()) {
    auto read = read_kubeconfig(shard.kubeconfig, {}, of_server(shard.url));
    if (!read) {
      return read;
    }
    access = std::move(*read);
    if (!access.impersonation.empty()) {
      return fail(Errc::kConfig, shard.kubeconfig +
                                     ": as: not for a plain server, which is told "
                                     "of its callers");
    }
  }
  access.server = shard.url.empty() ? access.server : shard.url;
  access.server_name = shard.server_name.empty() ? access.server_name : shard.server_name;
  auto taken = take_file(shard.ca_file, access.ca_pem);
  taken = taken ? take_file(shard.cert_file, access.certificate_pem) : std::move(taken);
  taken = taken ? take_file(shard.key_file, access.key_pem) : std::move(taken);
  if (!taken) {
    return fail(std::move(taken.error()));
  }
  if (!shard.token_file.empty()) {
    auto token = read_token_file(shard.token_file);
    if (!token) {
      return fail(std::move(token.error()));
    }
    access.token = std::move(*token);
    access.username.clear();
  }
  const bool asserts = shard.identity == proxy::CallerIdentity::kRequestHeader;
  if (asserts && !access.authorization().empty()) {
    return fail(Errc::kConfig, "shard " + shard.name +
                                   ": a token or password cannot assert who asks; set identity: "
                                   "impersonate");
  }
  if (access.ca_pem.empty()) {
    if (auto result = take_file(config.backend.ca_file, access.ca_pem); !result) {
      return fail(std::move(result.error()));
    }
  }
  if (asserts && access.certificate_pem.empty()) {
    taken = take_file(config.backend.cert_file, access.certificate_pem);
    taken = taken ? take_file(config.backend.key_file, access.key_pem) : std::move(taken);
    if (!taken) {
      return fail(std::move(taken.error()));
    }
  }
  return access;
}

/// CA and client pair that assert identities to every shard.
Expected<net::TlsParams> backend_params(const proxy::ProxyConfig& config) {
  net::TlsParams params;
  params.ca_file = config.backend.ca_file;
  params.certificate_file = config.backend.cert_file;
  params.key_file = config.backend.key_file;
  const std::string& kubeconfig = config.backend.kubeconfig;
  if (!params.certificate_file.empty() || kubeconfig.empty()) {
    return params;
  }
  auto access = read_kubeconfig(kubeconfig, context_of(kubeconfig), KubeServer::kOptional);
  if (!access) {
    return fail(std::move(access.error()));
  }
  if (access->certificate_pem.empty()) {
    return fail(Errc::kConfig, kubeconfig + ": has no client certificate to reach shards with");
  }
  params.ca_pem = std::move(access->ca_pem);
  params.certificate_pem = std::move(access->certificate_pem);
  params.key_pem = std::move(access->key_pem);
  return params;
}

/// Shards that are reached in another way than the rest, and backends of the mapping file.
Expected<void> load_own_backends(const proxy::ProxyConfig& config, const net::TlsParams& common,
                                 ProxyFiles& files) {
  for (const proxy::ShardOverride& shard : config.shards) {
    net::TlsParams params = common;
    if (!shard.ca_file.empty()) {
      params.ca_file = shard.ca_file;
      params.ca_pem.clear();
    }
    if (!shard.cert_file.empty()) {
      params.certificate_file = shard.cert_file;
      params.key_file = shard.key_file;
      params.certificate_pem.clear();
      params.key_pem = {};
    }
    params.server_name = shard.server_name;
    auto tls = net::TlsContext::client(params);
    if (!tls) {
      return fail(std::move(tls.error()).at("shards." + shard.name));
    }
    if (!shard.proxy_url.empty()) {
      auto proxy = net::parse_proxy(shard.proxy_url, false);
      if (!proxy) {
        return fail(std::move(proxy.error()).at("shards." + shard.name));
      }
      net::set_credential(**tls, {.proxy = std::move(*proxy)});
    }
    files.backend.own[shard.name] = std::move(*tls);
  }
  for (const proxy::MappingEntry& entry :
       files.routes != nullptr ? files.routes->entries() : std::vector<proxy::MappingEntry>()) {
    if (entry.is_clusters() || !entry.backend.starts_with("https://")) {
      continue;
    }
    net::TlsParams params;
    params.revocations = common.revocations;
    params.ca_file = entry.ca_file;
    params.certificate_file = entry.cert_file;
    params.key_file = entry.key_file;
    params.server_name = entry.server_name;
    auto tls = net::TlsContext::client(params);
    if (!tls) {
      return fail(
          std::move(tls.error()).at(config.mapping_file + ":" + std::to_string(entry.line)));
    }
    files.backend.own[entry.name()] = std::move(*tls);
  }
  return {};
}

Expected<void> load_routes(const proxy::ProxyConfig& config, ProxyFiles& files) {
  if (config.mapping_file.empty()) {
    return {};
  }
  auto text = read_file(config.mapping_file);
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto entries = proxy::parse_mapping(*text, config.mapping_file);
  if (!entries) {
    return fail(std::move(entries.error()));
  }
  files.routes = std::make_shared<const proxy::RouteTable>(std::move(*entries));
  return {};
}

Expected<std::shared_ptr<net::TlsContext>> serving_context(const proxy::ProxyConfig& config) {
  net::TlsParams params;
  params.certificate_file = config.listener.cert_file;
  params.key_file = config.listener.key_file;
  params.http2 = config.listener.http2;
  params.request_client_certificate = true;
  for (const std::string* ca : {&config.authentication.client_ca_file,
                                &config.authentication.request_header.client_ca_file}) {
    if (!ca->empty()) {
      params.client_ca_files.push_back(*ca);
    }
  }
  auto tls = net::TlsContext::server(params);
  if (!tls) {
    return tls;
  }
  if (auto applied = net::apply_serving_options(**tls, config.listener.tls); !applied) {
    return fail(std::move(applied.error()));
  }
  return tls;
}

/// Shards of source `static`, with their files.
Expected<void> load_shards(const proxy::ProxyConfig& config, const RevocationsPtr& revocations,
                           ProxyFiles& files) {
  for (const proxy::StaticShard& shard : config.topology.shards) {
    auto access = access_of(shard, config);
    if (!access) {
      return fail(std::move(access.error()));
    }
    StaticAccess& made = files.shards.emplace_back();
    made.spec.name = shard.name;
    made.spec.uid = shard.uid;
    made.spec.labels = shard.labels;
    made.spec.base_url = access->server;
    made.spec.plain = true;
    made.authorization = access->authorization();
    made.spec.impersonate = shard.identity == proxy::CallerIdentity::kImpersonate;
    if (access->server.starts_with("https://")) {
      auto tls = client_context(*access, "shard " + shard.name, revocations);
      if (!tls) {
        return fail(std::move(tls.error()));
      }
      net::set_credential(
          **tls, {.proxy = {access->proxy_host, access->proxy_port, access->proxy_authorization}});
      files.backend.own[shard.name] = std::move(*tls);
    }
  }
  return {};
}

Expected<std::shared_ptr<const auth::AuditPolicy>> load_audit_policy(const std::string& file) {
  if (file.empty()) {
    return std::make_shared<const auth::AuditPolicy>();
  }
  const auto text = read_file(file);
  auto policy = text ? auth::AuditPolicy::parse(*text, file)
                     : Expected<auth::AuditPolicy>(fail(text.error().clone()));
  if (!policy) {
    return fail(std::move(policy.error()));
  }
  return std::make_shared<const auth::AuditPolicy>(std::move(*policy));
}

}  // namespace

Expected<ProxyFiles> load_proxy_files(const proxy::ProxyConfig& config) {
  ProxyFiles files;
  if (auto result = load_routes(config, files); !result) {
    return fail(std::move(result.error()));
  }
  auto revocations = backend_revocations(config);
  if (!revocations) {
    return fail(std::move(revocations.error()));
  }
  net::TlsParams common;
  if (config.has_plain_servers()) {
    if (auto result = load_shards(config, *revocations, files); !result) {
      return fail(std::move(result.error()));
    }
  } else {
    auto params = backend_params(config);
    if (!params) {
      return fail(std::move(params.error()));
    }
    common = std::move(*params);
    common.revocations = *revocations;
    auto backend_tls = net::TlsContext::client(common);
    if (!backend_tls) {
      return fail(std::move(backend_tls.error()));
    }
    files.backend.common = std::move(*backend_tls);
  }
  common.revocations = *revocations;
  if (auto result = load_own_backends(config, common, files); !result) {
    return fail(std::move(result.error()));
  }
  auto serving_tls = serving_context(config);
  if (!serving_tls) {
    return fail(std::move(serving_tls.error()));
  }
  files.serving = std::move(*serving_tls);
  auto tokens = load_token_files(config.authentication);
  if (!tokens) {
    return fail(std::move(tokens.error()));
  }
  files.tokens = std::move(*tokens);
  auto bundles = auth::load_ca_bundles(
      config.authentication.client_ca_file, config.authentication.request_header.client_ca_file,
      {config.authentication.client_crl_file, config.authentication.request_header.client_crl_file,
       config.crl});
  if (!bundles) {
    return fail(std::move(bundles.error()));
  }
  if (auto verifier = auth::CertificateVerifier::make(*bundles); !verifier) {
    return fail(std::move(verifier.error()).at(config.authentication.client_ca_file));
  }
  files.client_ca = std::move(*bundles);
  struct Keys {
    const std::string& path;
    aggregation::TokenKeys& target;
  };
  for (const auto& [path, target] : {Keys{config.token_keys_file, files.token_keys},
                                     Keys{config.store.seal_key_file, files.seal_keys}}) {
    if (path.empty()) {
      continue;
    }
    const auto text = read_secret_file(path);
    auto keys = text ? aggregation::parse_token_keys(text->view())
                     : Expected<aggregation::TokenKeys>(fail(text.error().clone()));
    if (!keys) {
      return fail(std::move(keys.error()).at(path));
    }
    target = std::move(*keys);
  }
  auto policy = load_audit_policy(config.audit.policy_file);
  if (!policy) {
    return fail(std::move(policy.error()));
  }
  files.audit_policy = std::move(*policy);
  return files;
}

namespace {

std::vector<std::string> mapped_files(const std::string& mapping) {
  std::vector<std::string> files;
  const auto text = mapping.empty() ? Expected<std::string>("") : read_file(mapping);
  const auto entries =
      text ? proxy::parse_mapping(*text, mapping) : Expected<std::vector<proxy::MappingEntry>>({});
  if (!entries) {
    return files;
  }
  for (const proxy::MappingEntry& entry : *entries) {
    for (const std::string& file : {entry.ca_file, entry.cert_file, entry.key_file}) {
      if (!file.empty()) {
        files.push_back(absolute_path(file));
      }
    }
  }
  return files;
}

}  // namespace

std::vector<FollowedFile> followed_files(const std::string& config_path,
                                         const proxy::ProxyConfig& config) {
  std::vector<FollowedFile> files = {
      {config_path, "config"},
      {config.listener.cert_file, "listener.cert_file"},
      {config.listener.key_file, "listener.key_file"},
      {config.authentication.client_ca_file, "authentication.client_ca_file"},
      {config.authentication.client_crl_file, "authentication.client_crl_file"},
      {config.token_keys_file, "aggregation.token_keys_file"},
      {config.store.seal_key_file, "store.seal_key_file"},
      {config.backend.ca_file, "backend.ca_file"},
      {config.backend.cert_file, "backend.cert_file"},
      {config.backend.crl_file, "backend.crl_file"},
      {config.backend.key_file, "backend.key_file"},
      {config.topology.root_kubeconfig, "topology.root_kubeconfig"},
      {config.topology.shards_kubeconfig, "topology.shards_kubeconfig"},
      {config.topology.reviewed_kubeconfig, "topology.reviewed_kubeconfig"},
      {config.topology.fleet.kubeconfig, "topology.fleet.kubeconfig"},
      {config.topology.fleet.provider_file, "topology.fleet.provider_file"},
      {config.authentication.webhook.kubeconfig, "authentication.webhook.kubeconfig"},
      {config.authentication.request_header.client_ca_file,
       "authentication.request_header.client_ca_file"},
      {config.authentication.request_header.client_crl_file,
       "authentication.request_header.client_crl_file"},
      {config.authentication.token_file, "authentication.token_file"},
      {config.authentication.oidc.ca_file, "authentication.oidc.ca_file"},
      {config.authentication.config_file, "authentication.config_file"},
      {config.mapping_file, "mapping_file"},
      {config.store.ca_file, "store.ca_file"},
      {config.store.cert_file, "store.cert_file"},
      {config.store.key_file, "store.key_file"},
      {config.audit.policy_file, "audit.policy_file"},
  };
  for (const std::string& file : config.authentication.service_accounts.key_files) {
    files.push_back({file, "authentication.service_accounts.key_files"});
  }
  for (const std::string& file : config.topology.peer_kubeconfigs) {
    files.push_back({file, "topology.peer_kubeconfigs"});
  }
  for (const net::SniPair& pair : config.listener.tls.sni) {
    files.push_back({pair.certificate_file, "listener.cert_file"});
    files.push_back({pair.key_file, "listener.key_file"});
  }
  for (const proxy::ShardOverride& shard : config.shards) {
    for (const std::string& file :
         {shard.ca_file, shard.cert_file, shard.key_file, shard.kubeconfig}) {
      files.push_back({file, "shards"});
    }
  }
  for (std::string& file : mapped_files(config.mapping_file)) {
    files.push_back({std::move(file), "mapping_file"});
  }
  const std::size_t own = files.size();
  for (std::size_t i = 0; i < own; ++i) {
    if (!files[i].path.ends_with("kubeconfig") &&
        files[i].key.find("kubeconfig") == std::string::npos) {
      continue;
    }
    for (std::string& named : kubeconfig_files(files[i].path, context_of(files[i].path))) {
      files.push_back({std::move(named), files[i].key});
    }
  }
  for (const proxy::StaticShard& shard : config.topology.shards) {
    const std::string key = "topology.shards";
    for (const std::string& named :
         {shard.kubeconfig, shard.ca_file, shard.cert_file, shard.key_file, shard.token_file}) {
      files.push_back({named, key});
    }
    if (!shard.kubeconfig.empty()) {
      for (std::string& named : kubeconfig_files(shard.kubeconfig)) {
        files.push_back({std::move(named), key});
      }
    }
  }
  std::erase_if(files, [](const FollowedFile& file) { return file.path.empty(); });
  return files;
}

std::vector<std::string> apply_config(proxy::ProxyConfig& running, proxy::ProxyConfig next) {
  std::vector<std::string> stuck;
  const auto keep = [&stuck](std::string_view key, auto& value, const auto& old) {
    if (value != old) {
      stuck.emplace_back(key);
      value = old;
    }
  };
  keep("external_url", next.external_url, running.external_url);
  keep("mounts.allowed_hosts", next.mount_hosts, running.mount_hosts);
  keep("outgoing", next.outgoing, running.outgoing);
  keep("existence", next.existence, running.existence);
  keep("data_dir", next.data_dir, running.data_dir);
  proxy::StoreConfig store = running.store;
  store.seal_key_file = next.store.seal_key_file;
  keep("store", next.store, store);
  keep("loops", next.loops, running.loops);
  keep("listener.address", next.listener.address, running.listener.address);
  keep("listener.port", next.listener.port, running.listener.port);
  keep("listener.goaway_chance", next.listener.goaway_chance, running.listener.goaway_chance);
  keep("listener.watch_starts", next.listener.watch_starts, running.listener.watch_starts);
  keep("listener.balance_watches", next.listener.balance_watches, running.listener.balance_watches);
  keep("listener.max_streams", next.listener.max_streams, running.listener.max_streams);
  keep("listener timeouts", next.listener.timeouts, running.listener.timeouts);
  keep("authentication.workspaces", next.authentication.workspaces,
       running.authentication.workspaces);
  keep("topology.source", next.topology.source, running.topology.source);
  keep("topology.fleet", next.topology.fleet, running.topology.fleet);
  keep("topology.groups", next.topology.groups, running.topology.groups);
  keep("region", next.region, running.region);
  keep("net.congestion", next.congestion, running.congestion);
  keep("regions", next.endpoint_slice.regions, running.endpoint_slice.regions);
  keep("endpoint_slice.mode", next.endpoint_slice.mode, running.endpoint_slice.mode);
  keep("endpoint_slice.consumers", next.endpoint_slice.consumers, running.endpoint_slice.consumers);
  keep("endpoint_slice.leave_grace_ms", next.endpoint_slice.leave_grace,
       running.endpoint_slice.leave_grace);
  keep("wildcard", next.wildcard, running.wildcard);
  keep("aggregation", next.aggregation, running.aggregation);
  keep("aggregation", next.merge, running.merge);
  keep("aggregation.shared_file", next.shared_file, running.shared_file);
  keep("aggregation.cursor.journal", next.sequence_journal, running.sequence_journal);
  keep("aggregation.cursor.journal_bytes", next.sequence_journal_bytes,
       running.sequence_journal_bytes);
  keep("aggregation.authz.user", next.own_user, running.own_user);
  keep("limits.served", next.served_limits, running.served_limits);
  keep("limits.seats", next.seats, running.seats);
  keep("fairness", next.distributed_users, running.distributed_users);
  keep("authorization.recheck_watches_ms", next.authorization.recheck_watches,
       running.authorization.recheck_watches);
  proxy::AuditConfig audit = running.audit;
  audit.policy_file = next.audit.policy_file;
  keep("audit", next.audit, audit);
  keep("access_log", next.access_log, running.access_log);
  keep("tracing", next.tracing, running.tracing);
  keep("admin.bind", next.admin.bind, running.admin.bind);
  keep("admin.token_file", next.admin.token_file, running.admin.token_file);
  keep("admin.socket", next.admin.socket, running.admin.socket);
  next.endpoint_slice.external_url = running.endpoint_slice.external_url;
  running = std::move(next);
  return stuck;
}

Expected<net::UpstreamParams> upstream_to(const std::string& base_url,
                                          std::shared_ptr<net::TlsContext> tls) {
  auto url = net::Url::parse(base_url);
  if (!url) {
    return fail(std::move(url.error()));
  }
  net::UpstreamParams params;
  params.url = std::move(*url);
  params.tls = std::move(tls);
  return params;
}

}  // namespace kintsugi::server
