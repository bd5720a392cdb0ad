#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "auth/x509_identity.h"

namespace kintsugi::auth {

/// Remembers who valid chains are, so that clients that come back, and those with many connections,
/// are not verified each time (0.2 ms each: what a storm of reconnects costs beside TLS itself).
/// An answer holds until a certificate of its chain is out of its time, at most kLongest, and not
/// beyond a reload of the verifier, nor when the clock is put back behind it. Refusals are not
/// kept. At most kMost answers of about 0.5 kB; when one more comes, all are forgotten. Threads:
/// one loop.
class CertificateCache {
 public:
  static constexpr std::size_t kMost = 16'384;
  static constexpr std::int64_t kLongest = 600;  ///< [s]

  explicit CertificateCache(std::shared_ptr<const ReloadableCertificateVerifier> verifier)
      : verifier_(std::move(verifier)) {}

  /// @param now seconds since 1970; nullopt: the wall clock.
  /// As CertificateVerifier::identify().
  [[nodiscard]] CertificateIdentity identify(const std::vector<std::string>& chain_der,
                                             std::optional<std::int64_t> now = std::nullopt);
  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }

 private:
  struct Answer {
    CertificateIdentity identity;
    std::int64_t from = 0, until = 0;
  };
  std::shared_ptr<const ReloadableCertificateVerifier> verifier_;
  std::shared_ptr<const CertificateVerifier> asked_;  ///< whose answers are known
  std::unordered_map<std::string, Answer> known_;     ///< by the SHA-256 of the chain
};

}  // namespace kintsugi::auth
