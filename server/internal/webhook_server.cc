#include "server/internal/webhook_server.h"

#include <utility>

#include "net/tls.h"
#include "server/internal/kube_tls.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {

Expected<WebhookServer> load_webhook_server(const std::string& kubeconfig) {
  auto access = read_kubeconfig(kubeconfig);
  if (!access) {
    return fail(std::move(access.error()));
  }
  auto url = net::Url::parse(access->server);
  if (!url) {
    return fail(std::move(url.error()).at(kubeconfig));
  }
  WebhookServer webhook;
  webhook.upstream.url = std::move(*url);
  webhook.authorization = access->authorization();
  if (webhook.upstream.url.scheme == "https") {
    net::TlsParams params;
    params.ca_pem = access->ca_pem;
    params.certificate_pem = access->certificate_pem;
    params.key_pem = access->key_pem;
    params.server_name = access->server_name;
    params.verify_peer = !access->insecure;
    auto tls = net::TlsContext::client(params);
    if (!tls) {
      return fail(std::move(tls.error()).at(kubeconfig));
    }
    webhook.upstream.tls = std::move(*tls);
    say_credential(*access, *webhook.upstream.tls);
  }
  return webhook;
}

}  // namespace kintsugi::server
