#pragma once

#include <memory>
#include <string>

#include "auth/x509_identity.h"
#include "base/error.h"
#include "net/tls.h"
#include "proxy/config/config.h"
#include "server/kubeconfig.h"

/// TLS contexts of what kubeconfigs say.
namespace kintsugi::server {

using RevocationsPtr = std::shared_ptr<const net::RevocationLists>;

/// Revoked certificates of the servers that the proxy asks.
[[nodiscard]] Expected<RevocationsPtr> backend_revocations(const proxy::ProxyConfig& config);

/// CA, client pair and server name. @param path  for messages
[[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> client_context(const KubeAccess& access,
                                                                        const std::string& path,
                                                                        RevocationsPtr revocations);
/// The same for what the proxy asks for itself, with all credentials (FP-156). @error kConfig, too,
/// when there is none: nothing is asked as nobody.
[[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> own_context(const KubeAccess& access,
                                                                     const std::string& path,
                                                                     RevocationsPtr revocations);

/// What the context says besides its certificate, and by which way.
void say_credential(const KubeAccess& access, net::TlsContext& context);

/// Who one is with a context: name in its certificate, name before a password, or what the token is
/// for; no secret.
[[nodiscard]] std::string own_name(const net::TlsContext& context);

/// What `text` holds of a file; unchanged when there is none.
[[nodiscard]] Expected<void> take_file(const std::string& path, std::string& text);
[[nodiscard]] Expected<void> take_file(const std::string& path, Secret& text);

}  // namespace kintsugi::server
