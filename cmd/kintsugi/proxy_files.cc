#include "cmd/kintsugi/proxy_files.h"

#include <utility>

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

}  // namespace

Expected<ProxyFiles> load_proxy_files(const proxy::ProxyConfig& config) {
  ProxyFiles files;
  net::TlsParams backend;
  backend.ca_file = config.backend.ca_file;
  backend.certificate_file = config.backend.cert_file;
  backend.key_file = config.backend.key_file;
  auto backend_tls = net::TlsContext::client(backend);
  if (!backend_tls) {
    return fail(std::move(backend_tls.error()));
  }
  files.backend = std::move(*backend_tls);
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
  return files;
}

Expected<TopologyFiles> load_topology_files(const proxy::ProxyConfig& config) {
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
