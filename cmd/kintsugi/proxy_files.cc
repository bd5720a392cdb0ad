#include "cmd/kintsugi/proxy_files.h"

#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/files.h"
#include "cmd/kintsugi/kubeconfig.h"

namespace kintsugi::cmd {
namespace {

constexpr std::string_view kContext = "base";

Expected<std::shared_ptr<net::TlsContext>> client_context(const KubeAccess& access,
                                                          const std::string& path) {
  net::TlsParams params;
  params.ca_pem = access.ca_pem;
  params.certificate_pem = access.certificate_pem;
  params.key_pem = access.key_pem;
  params.server_name = access.server_name;
  auto made = net::TlsContext::client(params);
  if (!made) {
    return fail(std::move(made.error()).at(path));
  }
  return made;
}

/// What `text` holds of a file; unchanged when there is none.
Expected<void> take_file(const std::string& path, std::string& text) {
  if (path.empty()) {
    return {};
  }
  auto read = read_file(path);
  if (!read) {
    return fail(std::move(read.error()));
  }
  text = std::move(*read);
  return {};
}

Expected<KubeAccess> access_of(const proxy::StaticShard& shard, const proxy::ProxyConfig& config) {
  KubeAccess access;
  if (!shard.kubeconfig.empty()) {
    auto read = read_kubeconfig(shard.kubeconfig);
    if (!read) {
      return read;
    }
    access = std::move(*read);
  }
  access.server = shard.url.empty() ? access.server : shard.url;
  access.server_name = shard.server_name.empty() ? access.server_name : shard.server_name;
  for (const auto& [file, text] : {std::pair{&shard.ca_file, &access.ca_pem},
                                   {&shard.cert_file, &access.certificate_pem},
                                   {&shard.key_file, &access.key_pem},
                                   {&shard.token_file, &access.token}}) {
    if (auto result = take_file(*file, *text); !result) {
      return fail(std::move(result.error()));
    }
  }
  access.token = std::string(trim(access.token));
  const bool asserts = shard.identity == proxy::CallerIdentity::kRequestHeader;
  if (asserts && !access.token.empty()) {
    return fail(Errc::kConfig, "shard " + shard.name +
                                   ": a token cannot assert who asks; set identity: impersonate");
  }
  if (access.ca_pem.empty()) {
    if (auto result = take_file(config.backend.ca_file, access.ca_pem); !result) {
      return fail(std::move(result.error()));
    }
  }
  if (asserts && access.certificate_pem.empty()) {
    for (const auto& [file, text] : {std::pair{&config.backend.cert_file, &access.certificate_pem},
                                     {&config.backend.key_file, &access.key_pem}}) {
      if (auto result = take_file(*file, *text); !result) {
        return fail(std::move(result.error()));
      }
    }
  }
  return access;
}

/// Shards of source `static`, with their files.
Expected<void> load_shards(const proxy::ProxyConfig& config, ProxyFiles& files) {
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
    made.token = access->token;
    made.spec.impersonate = shard.identity == proxy::CallerIdentity::kImpersonate;
    if (access->server.starts_with("https://")) {
      auto tls = client_context(*access, "shard " + shard.name);
      if (!tls) {
        return fail(std::move(tls.error()));
      }
      files.backend.own[shard.name] = std::move(*tls);
    }
  }
  return {};
}

}  // namespace

ImpersonationTokens tokens_of(const std::vector<StaticAccess>& shards) {
  ImpersonationTokens tokens;
  for (const StaticAccess& shard : shards) {
    if (shard.spec.impersonate) {
      tokens[shard.spec.name] = shard.token;
    }
  }
  return tokens;
}

Expected<ProxyFiles> load_proxy_files(const proxy::ProxyConfig& config) {
  ProxyFiles files;
  if (config.topology.source == "static") {
    if (auto result = load_shards(config, files); !result) {
      return fail(std::move(result.error()));
    }
  } else {
    net::TlsParams backend;
    backend.ca_file = config.backend.ca_file;
    backend.certificate_file = config.backend.cert_file;
    backend.key_file = config.backend.key_file;
    auto backend_tls = net::TlsContext::client(backend);
    if (!backend_tls) {
      return fail(std::move(backend_tls.error()));
    }
    files.backend.common = std::move(*backend_tls);
  }
  net::TlsParams serving;
  serving.certificate_file = config.listener.cert_file;
  serving.key_file = config.listener.key_file;
  serving.client_ca_files = {config.authentication.client_ca_file};
  serving.request_client_certificate = true;
  auto serving_tls = net::TlsContext::server(serving);
  if (!serving_tls) {
    return fail(std::move(serving_tls.error()));
  }
  files.serving = std::move(*serving_tls);
  auto bundles = auth::load_ca_bundles(config.authentication.client_ca_file, "");
  if (!bundles) {
    return fail(std::move(bundles.error()));
  }
  if (auto verifier = auth::CertificateVerifier::make(*bundles); !verifier) {
    return fail(std::move(verifier.error()).at(config.authentication.client_ca_file));
  }
  files.client_ca = std::move(*bundles);
  if (!config.token_keys_file.empty()) {
    const auto text = read_file(config.token_keys_file);
    auto keys = text ? proxy::parse_token_keys(*text)
                     : Expected<proxy::TokenKeys>(fail(text.error().clone()));
    if (!keys) {
      return fail(std::move(keys.error()).at(config.token_keys_file));
    }
    files.token_keys = std::move(*keys);
  }
  return files;
}

Expected<TopologyFiles> load_topology_files(const proxy::ProxyConfig& config) {
  if (config.topology.source == "static") {
    return TopologyFiles{};
  }
  const bool has_root = !config.topology.root_kubeconfig.empty();
  auto root = has_root ? read_kubeconfig(config.topology.root_kubeconfig, kContext)
                       : Expected<KubeAccess>(KubeAccess{});
  auto shards = read_kubeconfig(config.topology.shards_kubeconfig, kContext);
  if (!root || !shards) {
    return fail(std::move(!root ? root.error() : shards.error()));
  }
  auto root_tls = has_root ? client_context(*root, config.topology.root_kubeconfig)
                           : std::shared_ptr<net::TlsContext>();
  auto shards_tls = client_context(*shards, config.topology.shards_kubeconfig);
  if (!root_tls || !shards_tls) {
    return fail(std::move(!root_tls ? root_tls.error() : shards_tls.error()));
  }
  return TopologyFiles{root->server, std::move(*root_tls), std::move(*shards_tls)};
}

std::vector<FollowedFile> followed_files(const std::string& config_path,
                                         const proxy::ProxyConfig& config) {
  std::vector<FollowedFile> files = {
      {config_path, "config"},
      {config.listener.cert_file, "listener.cert_file"},
      {config.listener.key_file, "listener.key_file"},
      {config.authentication.client_ca_file, "authentication.client_ca_file"},
      {config.token_keys_file, "aggregation.token_keys_file"},
      {config.backend.ca_file, "backend.ca_file"},
      {config.backend.cert_file, "backend.cert_file"},
      {config.backend.key_file, "backend.key_file"},
      {config.topology.root_kubeconfig, "topology.root_kubeconfig"},
      {config.topology.shards_kubeconfig, "topology.shards_kubeconfig"},
  };
  const std::size_t own = files.size();
  for (std::size_t i = own - 2; i < own; ++i) {
    for (std::string& named : kubeconfig_files(files[i].path, kContext)) {
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
  keep("data_dir", next.data_dir, running.data_dir);
  keep("loops", next.loops, running.loops);
  keep("listener.address", next.listener.address, running.listener.address);
  keep("listener.port", next.listener.port, running.listener.port);
  keep("listener.max_streams", next.listener.max_streams, running.listener.max_streams);
  keep("listener timeouts", next.listener.timeouts, running.listener.timeouts);
  keep("topology.source", next.topology.source, running.topology.source);
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
  keep("limits.served", next.served_limits, running.served_limits);
  keep("authorization.recheck_watches_ms", next.authorization.recheck_watches,
       running.authorization.recheck_watches);
  keep("admin.bind", next.admin.bind, running.admin.bind);
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

}  // namespace kintsugi::cmd
