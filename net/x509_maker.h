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
/// @error kConfig   `ca` cannot be read, or an address or name is malformed
[[nodiscard]] Expected<KeyPair> issue(const KeyPair& ca, const CertificateRequest& request);

}  // namespace kintsugi::net
