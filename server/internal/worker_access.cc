#include "server/internal/worker_access.h"

#include <utility>

#include "server/internal/kube_tls.h"
#include "server/kubeconfig.h"
#include "workers/runtime/endpoints/endpoint_url.h"

namespace kintsugi::server {

Expected<WorkerAccess> load_worker_access(const std::string& kubeconfig) {
  auto access = read_kubeconfig(kubeconfig, context_of(kubeconfig));
  if (!access) {
    return fail(std::move(access.error()));
  }
  auto url = net::Url::parse(access->server);
  if (!url) {
    return fail(std::move(url.error()).at(kubeconfig));
  }
  WorkerAccess out;
  out.proxy = std::move(*url);
  out.proxy.path.clear();
  auto tls = own_context(*access, kubeconfig, nullptr);
  if (!tls) {
    return fail(std::move(tls.error()));
  }
  if (out.proxy.scheme == "https") {
    out.tls = std::move(*tls);
    return out;
  }
  workers::EndpointRules rules;
  rules.proxy_host = out.proxy.host;
  if (const auto plain = workers::parse_endpoint(access->server, rules); !plain) {
    return fail(Errc::kConfig, kubeconfig + ": " + std::string(plain.error().message()));
  }
  if (const Secret says = access->authorization(); !says.empty()) {
    out.headers.add("authorization", says.view());
  }
  for (const auto& [name, value] : access->impersonation) {
    out.headers.add(name, value);
  }
  return out;
}

Expected<void> renew_worker_access(const WorkerAccess& access, const std::string& kubeconfig) {
  auto next = load_worker_access(kubeconfig);
  if (!next) {
    return fail(std::move(next.error()));
  }
  if (next->proxy != access.proxy || access.tls == nullptr) {
    return fail(Errc::kConfig,
                kubeconfig + ": " +
                    (access.tls == nullptr ? "a credential without TLS" : "another server") +
                    " is read at the start alone");
  }
  access.tls->renew(std::move(next->tls));
  return {};
}

Expected<void> judge_worker_access(const WorkerConfig& config, const WorkerAccess& access) {
  for (const WorkerRoleConfig& role : config.roles) {
    workers::EndpointRules rules;
    rules.proxy_host = access.proxy.host;
    rules.allowed_hosts = role.allowed_endpoint_hosts;
    for (const std::string& url : role.servers) {
      if (const auto endpoint = workers::parse_endpoint(url, rules); !endpoint) {
        return fail(Errc::kConfig, "roles." + role.name + ".server: " + workers::shown_url(url) +
                                       ": " + std::string(endpoint.error().message()));
      }
    }
  }
  return {};
}

}  // namespace kintsugi::server
