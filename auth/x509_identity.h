#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/authenticator.h"
#include "base/error.h"
#include "http/handler.h"
#include "net/revocation.h"

namespace kintsugi::auth {

/// PEM texts of the two trust anchors of a listener. Either may be empty: then no certificate is of
/// that kind.
struct CaBundles {
  std::string client_ca_pem;          ///< --client-ca-file
  std::string request_header_ca_pem;  ///< --requestheader-client-ca-file
  std::string client_crl_pem = {};    ///< revoked certificates of the first; "": none is known
  std::string request_header_crl_pem = {};     ///< the same of the second
  std::string client_crl_name = "client CRL";  ///< for messages
  std::string request_header_crl_name = "request-header CRL";
  net::CrlRules crl = {};
};

/// Files with revocation lists ("" = none), and what they mean.
struct CrlFiles {
  std::string client, request_header;
  net::CrlRules rules;
};

/// Reads the files ("" = none).
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<CaBundles> load_ca_bundles(const std::string& client_ca_file,
                                                  const std::string& request_header_ca_file,
                                                  const CrlFiles& crls = {});
/// What a file of revocation lists for these authorities holds; null without a file.
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<std::shared_ptr<const net::RevocationLists>> load_revocations(
    const std::string& file, std::string_view ca_pem, net::CrlRules rules);

/// Turns a peer's chain into an identity. Immutable. Threads: any.
class CertificateVerifier {
 public:
  /// @error kConfig a text without a certificate, or an unreadable one.
  [[nodiscard]] static Expected<std::shared_ptr<const CertificateVerifier>> make(
      const CaBundles& bundles);
  virtual ~CertificateVerifier() = default;

  /// @param chain_der leaf first, the order of PeerInfo::certificates_der.
  /// @param now seconds since 1970 to check validity against; nullopt: the wall clock.
  /// @param until when given and the answer is valid: the second from which on a certificate of the
  ///        chains that were built, or a revocation list, is out of its time.
  /// @returns `valid` when the chain ends in one of the bundles, is in its time, not revoked and
  /// may
  ///          be used by clients; name fields are filled for every parsable leaf, valid or not.
  /// Cost: parsing and one or two signature checks, 0.2 ms.
  [[nodiscard]] virtual CertificateIdentity identify(const std::vector<std::string>& chain_der,
                                                     std::optional<std::int64_t> now = std::nullopt,
                                                     std::int64_t* until = nullptr) const = 0;
};

/// A client's certificates, leaf first, as DER.
using CertificateChain = std::vector<std::string>;

/// The verifier of a process's listeners, replaced as a whole on reload, and the chains that it
/// will be asked about again. Threads: any.
class ReloadableCertificateVerifier {
 public:
  [[nodiscard]] static Expected<std::shared_ptr<ReloadableCertificateVerifier>> make(
      const CaBundles& bundles);
  /// Bundles that are in force already change nothing.
  /// @error kConfig; the old bundles stay in force.
  [[nodiscard]] Expected<void> reload(const CaBundles& bundles);
  [[nodiscard]] std::shared_ptr<const CertificateVerifier> current() const;
  /// One copy of a chain for all connections of the process (SE-041).
  /// @param key SHA-256 of it.
  [[nodiscard]] std::shared_ptr<const CertificateChain> share(const std::string& key,
                                                              const CertificateChain& chain) const;

 private:
  std::shared_ptr<const CertificateVerifier> verifier_;  // by std::atomic_load/_store
  std::string loaded_;                                   // digest of the bundles
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::weak_ptr<const CertificateChain>> chains_;
  mutable std::size_t sweep_at_ = 1'024;
};

/// What the hook left in PeerInfo::identity, nullptr without certificate.
[[nodiscard]] const CertificateIdentity* certificate_of(const http::PeerInfo& peer) noexcept;

/// What the identity of a request that begins now rests on; null without one.
[[nodiscard]] ProofPtr proof_of(const http::PeerInfo& peer) noexcept;

}  // namespace kintsugi::auth
