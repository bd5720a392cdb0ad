#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/secret.h"

namespace kintsugi::net {

/// A certificate with its key, both PEM. ECDSA P-256.
struct KeyPair {
  std::string certificate_pem;
  Secret key_pem;  ///< PKCS #8, not encrypted: write it with mode 0600
};

/// What a certificate says. Kubernetes reads the common name as user and the organizations as
/// groups.
struct CertificateRequest {
  std::string common_name;
  std::vector<std::string> organizations;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;  ///< "127.0.0.1", "::1"
  int days = 365;                         ///< from now; negative: has expired (for tests)
  bool client = false;                    ///< extended key usage clientAuth
  bool server = false;                    ///< extended key usage serverAuth
};

/// Valid from one hour ago, so that clocks may differ. Serial numbers are random.
/// @error kInternal OpenSSL refused, with its cause
[[nodiscard]] Expected<KeyPair> make_ca(const std::string& common_name, int days = 3650);
/// Ends with `ca` at the latest.
/// @error kConfig   `ca` cannot be read, or an address or name is malformed
[[nodiscard]] Expected<KeyPair> issue(const KeyPair& ca, const CertificateRequest& request);

/// A new key, and the request (PKCS #10, PEM) for a certificate of it. The subject is what it asks
/// to be; nothing else is asked for.
struct SigningRequest {
  std::string request_pem;
  Secret key_pem;
};
/// @error kInternal OpenSSL refused.
[[nodiscard]] Expected<SigningRequest> make_signing_request(
    const std::string& common_name, const std::vector<std::string>& organizations);
/// A certificate for the key of a request that somebody else made. What it says is `what`, not what
/// was asked for. @returns PEM.
/// @error kBadRequest it cannot be read, is not signed with its own key, or that is no key of at
///        least P-256 or RSA 2,048; kForbidden it asks for another subject, or for names, than
///        `what` has; kConfig as issue().
[[nodiscard]] Expected<std::string> sign_request(const KeyPair& ca, const std::string& request_pem,
                                                 const CertificateRequest& what);

/// "sha256:" and 64 hex digits of the SubjectPublicKeyInfo, as kubeadm pins a CA; "" for what
/// cannot be read.
[[nodiscard]] std::string public_key_hash(const std::string& certificate_pem);

/// Whether a pair that `ca` issued is to be made again (SE-145): a third of its life is over, or
/// its key is another's. What cannot be read or another CA issued is nobody's to renew.
[[nodiscard]] bool is_due(const KeyPair& ca, const KeyPair& pair);

/// The certificates of a PEM text, each as a text of its own, in their order. What else it holds is
/// left out.
[[nodiscard]] std::vector<std::string> split_certificates(const std::string& pem);
/// Whether the key belongs to the (first) certificate. False for what cannot be read.
[[nodiscard]] bool is_key_of(const std::string& certificate_pem, const Secret& key_pem);
/// Whether a certificate was signed with the key of `issuer_pem`. False for what cannot be read.
[[nodiscard]] bool is_issued_by(const std::string& certificate_pem, const std::string& issuer_pem);

/// Whether a certificate is for all names and addresses of the request. False for what cannot be
/// read.
[[nodiscard]] bool is_for(const std::string& certificate_pem, const CertificateRequest& request);

}  // namespace kintsugi::net
