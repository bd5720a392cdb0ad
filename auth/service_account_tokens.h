#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/bearer.h"
#include "auth/jwt.h"
#include "auth/user.h"
#include "base/error.h"

namespace kintsugi::auth {

/// What a ServiceAccount token says (AM-428, AM-430).
struct ServiceAccountClaims {
  std::string ns, name, uid;
  std::string cluster;  ///< kubernetes.io.clusterName, "" without
  std::string jti;
  std::string bound_kind;  ///< "Secret", "Pod" or ""
  std::string bound_name, bound_uid;
  std::int64_t issued_at = 0;   ///< [s since 1970]
  std::int64_t expires_at = 0;  ///< [s since 1970]
  std::vector<std::string> audiences;
};

/// The identity that a valid token gives: user name, groups without system:authenticated, uid and
/// extras credential-id, and with a cluster scopes and cluster-name.
[[nodiscard]] UserInfo service_account_identity(const ServiceAccountClaims& claims);

struct ServiceAccountTokenConfig {
  JwtKeys keys;  ///< any of them verifies; the first private one signs
  std::vector<std::string> issuers{"https://kcp.default.svc"};  ///< any is accepted, first is used
  std::vector<std::string> audiences;                           ///< accepted; empty = the issuers
};

/// Checks and makes ServiceAccount tokens. Threads: any while nobody calls set_keys().
class ServiceAccountTokens {
 public:
  explicit ServiceAccountTokens(ServiceAccountTokenConfig config);

  /// Other keys from now on: tokens of a key that is not among them end.
  void set_keys(JwtKeys keys);

  /// True when `iss` is one of ours: other authenticators may be asked for other tokens.
  [[nodiscard]] bool is_ours(const Bearer& token) const;

  /// Signature, issuer, time and audience. That the account still exists is the caller's business.
  /// @param audiences accepted ones; empty = the configured ones.
  /// @param now seconds since 1970. A clock lead of 60 s is tolerated for nbf and iat.
  /// @error kUnauthorized
  [[nodiscard]] Expected<ServiceAccountClaims> verify(const Bearer& token,
                                                      const std::vector<std::string>& audiences,
                                                      std::int64_t now) const;

  /// @param claims audiences empty = default; issued_at and expires_at must be set; jti is made.
  /// @error kInternal no private key.
  [[nodiscard]] Expected<std::string> issue(ServiceAccountClaims claims) const;

  [[nodiscard]] const std::vector<std::string>& default_audiences() const noexcept {
    return config_.audiences;
  }
  [[nodiscard]] bool can_issue() const noexcept { return signer_ != nullptr; }
  /// {"keys": [...]} of /openid/v1/jwks (AM-432).
  [[nodiscard]] krm::Json jwks() const;
  /// /.well-known/openid-configuration; `jwks_uri` absolute.
  [[nodiscard]] krm::Json openid_configuration(std::string_view jwks_uri) const;

 private:
  ServiceAccountTokenConfig config_;
  std::shared_ptr<const JwtKey> signer_;
};

/// Answers whether the account (and the bound object) of a verified token still exists with the
/// same uid. May answer later, once.
/// @error kUnauthorized gone or another uid; kUnavailable when it cannot be known now.
using AccountCheck =
    std::function<void(const ServiceAccountClaims&, std::function<void(Expected<void>)>)>;

}  // namespace kintsugi::auth
