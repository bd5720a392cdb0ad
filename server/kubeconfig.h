#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "krm/json.h"

namespace kintsugi::server {

/// Server and credentials of one context of a kubeconfig. Texts are PEM.
struct KubeAccess {
  std::string server;
  std::string ca_pem, certificate_pem;
  Secret key_pem;
  Secret token;          ///< what `tokenFile` holds, else `token`
  std::string username;  ///< never beside a token
  Secret password;
  std::string server_name;
  bool insecure = false;  ///< insecure-skip-tls-verify
  /// Impersonate-… by which one is somebody else there (`as`); empty: oneself.
  std::vector<std::pair<std::string, std::string>> impersonation;
  std::string proxy_host;  ///< `proxy-url`; "": none
  std::uint16_t proxy_port = 0;
  Secret proxy_authorization;  ///< for it; "": none
  /// The value of the Authorization header that the credentials make; "": none.
  [[nodiscard]] Secret authorization() const;
  /// It says who one is at the server.
  [[nodiscard]] bool has_credential() const {
    return !certificate_pem.empty() || !token.empty() || !username.empty();
  }
};

/// Whether a kubeconfig is read for its credentials alone: kcp's have an empty `server` where each
/// shard has a URL of its own (FP-155).
enum class KubeServer : std::uint8_t { kRequired, kOptional };

/// Reads a kubeconfig: the named context, or the current one. Files that it names are read,
/// relative to its folder. Source: FP-156; kubernetes/client-go tools/clientcmd, validation.go.
/// A credential plug-in (`exec`) is asked by exec_plugin.h.
/// @error kConfig names the file and what is missing; the user and the field of what is not known
///        here (`auth-provider`, a proxy that is none of http), so that nobody asks without it.
[[nodiscard]] Expected<KubeAccess> read_kubeconfig(const std::string& path,
                                                   std::string_view context = {},
                                                   KubeServer needs = KubeServer::kRequired);

/// The token that a file holds, without the space around it. @error kConfig, kIo name the file.
[[nodiscard]] Expected<Secret> read_token_file(const std::string& path);

/// The context of it that the proxy uses: `base`, as kcp's kubeconfigs have it, else "", the
/// current one.
[[nodiscard]] std::string_view context_of(const std::string& path);

/// The same of a document that was read already.
/// @param folder what relative file names start at.
/// @param origin for messages: the name of the file.
[[nodiscard]] Expected<KubeAccess> kube_access(const krm::Json& document, const std::string& folder,
                                               const std::string& origin,
                                               std::string_view context = {},
                                               KubeServer needs = KubeServer::kRequired);

/// Names of the files that the context's cluster and user refer to; empty when it cannot be read.
[[nodiscard]] std::vector<std::string> kubeconfig_files(const std::string& path,
                                                        std::string_view context = {});

/// A kubeconfig with one user and one context per cluster; the first context is the current one.
struct KubeContext {
  std::string name, server;
};
[[nodiscard]] std::string render_kubeconfig(const std::vector<KubeContext>& contexts,
                                            std::string_view user, std::string_view ca_pem,
                                            std::string_view certificate_pem,
                                            std::string_view key_pem);

}  // namespace kintsugi::server
