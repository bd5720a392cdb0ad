#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

// OpenSSL's own type, so that its headers stay out of ours.
struct evp_pkey_st;

namespace kintsugi::auth {

/// One RSA (RS256) or P-256 (ES256) key, public or private. Immutable. Threads: any.
class JwtKey {
 public:
  /// Every key of a PEM text: PUBLIC KEY, RSA PUBLIC KEY, PRIVATE KEY, EC PRIVATE KEY, RSA PRIVATE
  /// KEY or CERTIFICATE blocks.
  /// @error kConfig no key, or one that is neither RSA nor P-256.
  [[nodiscard]] static Expected<std::vector<std::shared_ptr<const JwtKey>>> parse_pem(
      std::string_view pem);
  /// A fresh P-256 key, for installations that bring none.
  [[nodiscard]] static Expected<std::shared_ptr<const JwtKey>> generate();
  ~JwtKey();
  JwtKey(const JwtKey&) = delete;
  JwtKey& operator=(const JwtKey&) = delete;

  [[nodiscard]] bool is_private() const noexcept { return private_; }
  /// base64url(SHA-256(SubjectPublicKeyInfo)), as Kubernetes computes it.
  [[nodiscard]] const std::string& key_id() const noexcept { return key_id_; }
  [[nodiscard]] std::string_view algorithm() const noexcept { return rsa_ ? "RS256" : "ES256"; }
  /// The public half as a JSON Web Key with kid, alg and use.
  [[nodiscard]] krm::Json jwk() const;
  [[nodiscard]] Expected<std::string> private_pem() const;
  [[nodiscard]] Expected<std::string> public_pem() const;

  /// Signature over `input` in JWS form (ES256: r and s, 32 bytes each).
  [[nodiscard]] Expected<std::string> sign(std::string_view input) const;
  [[nodiscard]] bool verify(std::string_view input, std::string_view signature) const;

 private:
  JwtKey(evp_pkey_st* key, bool rsa, bool is_private);
  evp_pkey_st* key_;
  bool rsa_;
  bool private_;
  std::string key_id_;
};
using JwtKeys = std::vector<std::shared_ptr<const JwtKey>>;

/// A compact JWS taken apart; nothing is verified.
struct Jwt {
  krm::Json header, claims;
  std::string_view signing_input;  ///< points into the parsed text
  std::string signature;
};
/// @error kUnauthorized not three base64url parts of JSON objects.
[[nodiscard]] Expected<Jwt> parse_jwt(std::string_view token);

/// One of the keys signed it. `alg` must be the key's; `none` never passes. Time, issuer and
/// audience are the caller's business.
/// @error kUnauthorized
[[nodiscard]] Expected<void> verify_jwt(const Jwt& jwt, const JwtKeys& keys);

/// header.claims.signature
[[nodiscard]] Expected<std::string> sign_jwt(const krm::Json& claims, const JwtKey& key);

}  // namespace kintsugi::auth
