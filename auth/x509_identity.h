#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authenticator.h"
#include "base/error.h"
#include "http/handler.h"

namespace kintsugi::auth {

/// PEM texts of the two trust anchors of a listener. Either may be empty: then no certificate is of
/// that kind.
struct CaBundles {
  std::string client_ca_pem;          ///< --client-ca-file
  std::string request_header_ca_pem;  ///< --requestheader-client-ca-file
};

/// Reads the files ("" = none).
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<CaBundles> load_ca_bundles(const std::string& client_ca_file,
                                                  const std::string& request_header_ca_file);

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
  ///        chains that were built is out of its time.
  /// @returns `valid` when the chain ends in one of the bundles, is in its time and may be used by
  ///          clients; name fields are filled for every parsable leaf, valid or not.
  /// Cost: parsing and one or two signature checks, 0.2 ms.
  [[nodiscard]] virtual CertificateIdentity identify(const std::vector<std::string>& chain_der,
                                                     std::optional<std::int64_t> now = std::nullopt,
                                                     std::int64_t* until = nullptr) const = 0;
};

/// The verifier of a listener, replaced as a whole on reload; connections keep the identity that
/// they got. Threads: any.
class ReloadableCertificateVerifier {
 public:
  [[nodiscard]] static Expected<std::shared_ptr<ReloadableCertificateVerifier>> make(
      const CaBundles& bundles);
  /// @error kConfig; the old bundles stay in force.
  [[nodiscard]] Expected<void> reload(const CaBundles& bundles);
  [[nodiscard]] std::shared_ptr<const CertificateVerifier> current() const;

 private:
  mutable std::shared_ptr<const CertificateVerifier> verifier_;  // by std::atomic_load/_store
};

/// For net::ListenerParams::identify: a `const CertificateIdentity` for connections with a
/// certificate, null for those without.
[[nodiscard]] std::function<std::shared_ptr<const void>(const http::PeerInfo&)> make_identify_hook(
    std::shared_ptr<const ReloadableCertificateVerifier> verifier);

/// What the hook left in PeerInfo::identity, nullptr without certificate.
[[nodiscard]] const CertificateIdentity* certificate_of(const http::PeerInfo& peer) noexcept;

}  // namespace kintsugi::auth
