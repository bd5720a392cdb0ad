#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace kintsugi::net {

/// A certificate with its key, both PEM. ECDSA P-256.
struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;  ///< PKCS #8, not encrypted: write it with mode 0600
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

/// Whether a pair that `ca` issued is to be made again (SE-145): a third of its life is over, or
/// its key is another's. What cannot be read or another CA issued is nobody's to renew.
[[nodiscard]] bool is_due(const KeyPair& ca, const KeyPair& pair);

}  // namespace kintsugi::net
