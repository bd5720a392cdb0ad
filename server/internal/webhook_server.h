#pragma once

#include <string>

#include "base/error.h"
#include "base/secret.h"
#include "net/upstream.h"

namespace kintsugi::server {

/// A server of the operator's that a kubeconfig names, as Kubernetes' webhooks have it: the current
/// context's URL, CA and credentials.
struct WebhookServer {
  net::UpstreamParams upstream;
  Secret authorization;  ///< value of the header; empty: none
};
/// @error kConfig with the file's name.
[[nodiscard]] Expected<WebhookServer> load_webhook_server(const std::string& kubeconfig);

}  // namespace kintsugi::server
