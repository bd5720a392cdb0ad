#include "server/internal/up_welcome.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/strings.h"
#include "server/internal/role_plan.h"
#include "server/internal/up_broker.h"
#include "server/internal/up_files.h"
#include "server/layout.h"

namespace kintsugi::server {

std::string proxies_of(const UpOptions& options) {
  return options.proxies == 1 ? "a proxy" : std::to_string(options.proxies) + " proxies";
}

void print_welcome(const UpOptions& options) {
  const Layout& layout = options.layout;
  const std::string last = shard_name(options.shards - 1);
  const std::string shards = options.shards == 1 ? "one shard (" + last + ")"
                                                 : std::to_string(options.shards) + " shards (" +
                                                       shard_name(0) + " … " + last + ")";
  std::string at = url_of_proxy(options);
  for (std::uint32_t i = 1; i < options.proxies; ++i) {
    at += ", :" + std::to_string(port_of_proxy(options, i));
  }
  std::printf(
      "Kintsugi is ready: %s at %s and %s.\n\n"
      "In another terminal:\n\n"
      "  export KUBECONFIG=%s\n"
      "  kubectl get shards\n"
      "  kubectl create -f - <<'EOF'\n"
      "  {\"apiVersion\": \"tenancy.kcp.io/v1alpha1\", \"kind\": \"Workspace\", \"metadata\": "
      "{\"name\": \"demo\"}}\n"
      "  EOF\n"
      "  kubectl get workspaces\n"
      "  kubectl --server=%s/clusters/root:demo create configmap hello "
      "--from-literal=who=world\n\n"
      "Logs are in %s. Ctrl-C stops everything; the data stays in %s.\n",
      proxies_of(options).c_str(), at.c_str(), shards.c_str(), layout.admin_kubeconfig().c_str(),
      url_of_proxy(options).c_str(), layout.logs().c_str(), layout.dir.c_str());
  for (const std::string& role : options.workers) {
    if (role == "delivery") {
      std::printf("\nWorkers of role delivery fill logical clusters (%s) by what hubs say at %s.\n",
                  join(options.delivery.clients, ", ").c_str(), url_of_broker(options).c_str());
      continue;
    }
    const RoleNames names{role};
    std::printf("\nWorkers of role %s serve every workspace that binds the APIExport in %s.\n",
                role.c_str(), names.provider().c_str());
  }
  if (options.regions_far) {
    std::printf("\nRegions are %u ms apart (docs/regions.md):", options.regions_rtt);
    for (std::uint32_t i = 0; i < options.proxies; ++i) {
      std::printf(" %s at %s", region_of(options, i).c_str(), url_of_proxy(options, i).c_str());
    }
    std::printf(".\n");
  }
  if (options.tells_outgoing) {
    std::printf(
        "\nConversion webhooks and token issuers of workspaces may be on this machine "
        "(--outgoing-allow %s).\n",
        join(options.tenants.outgoing_allow, ",").c_str());
  }
  std::fflush(stdout);
}

}  // namespace kintsugi::server
