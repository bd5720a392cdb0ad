#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kintsugi::auth {

struct CertificateIdentity;

/// Why it is believed who somebody is, and for how long (SE-040). Every connection with a
/// certificate and every running stream refers to one; who judges it is CertificateProofs or
/// TokenProofs of the loop. Threads: its loop.
struct Proof {
  enum class Method : std::uint8_t { kCertificate, kToken };

  Method method = Method::kCertificate;
  bool ended = false;                    ///< for good: no clock and no reload revives it
  std::uint64_t generation = 0;          ///< how often what judges it had been replaced
  std::int64_t valid_until = INT64_MAX;  ///< [s since 1970] from then on it does not hold
  std::array<unsigned char, 32> key{};   ///< SHA-256 of the chain, or of the token
  std::string cluster;  ///< of a token: the logical cluster whose issuers may have judged it
  /// What took the place of an ended one that still holds, but says something else now.
  std::shared_ptr<const CertificateIdentity> successor = nullptr;
};
using ProofPtr = std::shared_ptr<const Proof>;

/// Wall clock [s since 1970].
using WallClock = std::function<std::int64_t()>;

}  // namespace kintsugi::auth
