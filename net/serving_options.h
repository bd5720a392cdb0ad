#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "net/tls.h"

namespace kintsugi::net {

/// A further certificate of a server, for clients that ask for one of its names (SNI).
struct SniPair {
  std::string certificate_file, key_file;
  std::vector<std::string> names;  ///< exact or "*.example.org"; none: those of the certificate
};

/// What a server's context may have besides TlsParams. Names are those of Go's crypto/tls, as in
/// the command lines of Kubernetes programs.
struct ServingOptions {
  std::string min_version;                 ///< "VersionTLS12", "VersionTLS13"; "": 1.2
  std::vector<std::string> cipher_suites;  ///< "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"; none: usual
  std::vector<std::string> curves;         ///< Go's numbers: "29" is X25519; none: the usual ones
  std::vector<SniPair> sni;                ///< the first that has the name is used
};

/// Changes a server's context that nobody uses yet. Threads: the caller's.
/// @error kConfig names the option, or the file, and the cause.
[[nodiscard]] Expected<void> apply_serving_options(TlsContext& context,
                                                   const ServingOptions& options);

}  // namespace kintsugi::net
