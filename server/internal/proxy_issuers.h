#pragma once

#include "auth/jwt_issuer.h"
#include "proxy/config/config.h"

namespace kintsugi::server {

/// Issuers of tokens that the configuration names, by `oidc` or by `config_file`.
/// @error kConfig in the words of kube-apiserver, with the file.
[[nodiscard]] Expected<auth::JwtIssuers> load_issuers(const proxy::AuthenticationConfig& config);

}  // namespace kintsugi::server
