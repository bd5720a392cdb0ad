#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "auth/bearer.h"
#include "auth/proof.h"
#include "auth/user.h"
#include "base/error.h"
#include "http/handler.h"

namespace kintsugi::auth {

/// Decides who sent a request. One instance per loop; may answer at once or later, never twice.
class Authenticator {
 public:
  /// nullopt: no credentials were given (the caller becomes anonymous, or passes unauthenticated at
  /// the proxy).
  /// @error kUnauthorized credentials that do not hold; kUnavailable when it cannot be known now.
  using Done = std::function<void(Expected<std::optional<UserInfo>>)>;
  virtual ~Authenticator() = default;
  /// @param head, peer valid until this returns; keep copies for later.
  /// @param token   bearer_of() of the head
  /// @param cluster logical cluster the request is for, "" when none.
  virtual void authenticate(const http::RequestHead& head, const BearerPtr& token,
                            const http::PeerInfo& peer, std::string_view cluster, Done done) = 0;
};

/// Identity of a verified client certificate; connections with equal chains share one. It comes
/// from the listener's hooks and is found again in PeerInfo::identity.
struct CertificateIdentity {
  bool valid = false;           ///< chains to one of the CAs and is in its time
  bool from_client_ca = false;  ///< an identity: CN = user, O = groups
  bool from_request_header_ca =
      false;  ///< may assert identities by header (if its name is allowed)
  std::string common_name;
  std::vector<std::string> organizations;
  std::string sha256_hex;  ///< of the DER, for authentication.kubernetes.io/credential-id
  ProofPtr proof = {};     ///< null: there never was one
};

}  // namespace kintsugi::auth
