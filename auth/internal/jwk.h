#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/jwt.h"
#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::auth {

/// Signatures of issuers (RFC 7518 3.1, RFC 8037). Never `none`, never a shared secret.
enum class JwsAlgorithm : std::uint8_t {
  kRs256,
  kRs384,
  kRs512,
  kPs256,
  kPs384,
  kPs512,
  kEs256,
  kEs384,
  kEs512,
  kEdDsa
};
[[nodiscard]] std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name) noexcept;
/// "EdDSA, ES256, …", for messages.
[[nodiscard]] std::string known_jws_algorithms();

/// A public key of an issuer: RSA of 2,048 to 8,192 bits, P-256, P-384, P-521 or Ed25519.
/// Immutable. Threads: any.
class VerificationKey {
 public:
  /// @error kBadRequest no key of these, or one that is not well formed.
  [[nodiscard]] static Expected<std::shared_ptr<const VerificationKey>> from_jwk(
      const krm::Json& jwk);
  ~VerificationKey();
  VerificationKey(const VerificationKey&) = delete;
  VerificationKey& operator=(const VerificationKey&) = delete;

  [[nodiscard]] const std::string& key_id() const noexcept { return key_id_; }
  /// The key's type and its own `alg`, if it has one, allow the algorithm.
  [[nodiscard]] bool fits(JwsAlgorithm algorithm) const noexcept;
  /// @param signature in JWS form (ECDSA: r and s). False too for an algorithm that does not fit.
  [[nodiscard]] bool verify(JwsAlgorithm algorithm, std::string_view input,
                            std::string_view signature) const;

 private:
  enum class Kind : std::uint8_t { kRsa, kP256, kP384, kP521, kEd25519 };
  VerificationKey(evp_pkey_st* key, Kind kind) : key_(key), kind_(kind) {}
  evp_pkey_st* key_;
  Kind kind_;
  std::string key_id_;
  std::optional<JwsAlgorithm> only_;
};

/// A document of RFC 7517. Keys that are of no use here are left out.
struct KeySet {
  static constexpr std::size_t kMaxBytes = 1U << 20, kMaxKeys = 256;
  static constexpr std::size_t kMaxTries = 16;  ///< signatures checked for one token
  std::vector<std::shared_ptr<const VerificationKey>> keys;

  /// @error kBadRequest no JSON object with `keys`, or beyond the limits.
  [[nodiscard]] static Expected<KeySet> parse(std::string_view text);

  enum class Verdict : std::uint8_t {
    kGood,
    kBad,
    kUnknownKey,  ///< newer keys might know it: no key of that id, or a token without one
  };
  /// @param allowed empty: all.
  [[nodiscard]] Verdict check(const Jwt& jwt, const std::vector<JwsAlgorithm>& allowed) const;
};

}  // namespace kintsugi::auth
