#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "auth/authenticator.h"
#include "auth/certificate_proofs.h"
#include "auth/request_header.h"
#include "auth/user.h"
#include "auth/x509_identity.h"
#include "base/error.h"
#include "http/handler.h"
#include "net/body_gate.h"
#include "serving/fair_queues.h"

namespace kintsugi::serving {

/// What a client certificate means at the proxy, worked out once per chain: the user, and the
/// identity headers that every request of its connections carries to the shards
///
struct ConnectionIdentity : auth::CertificateIdentity {
  std::optional<auth::UserInfo>
      user;  ///< absent: the certificate does not hold, every request gets E5
  /// Why it cannot be told now who this is; with it there is no user. Null: E5 then.
  std::shared_ptr<const Error> refusal;
  http::HeaderList stamp;  ///< X-Remote-User, -Group, -Extra-…
  std::string payer = {};  ///< of a certificate's user, see payer_of(); "": ask that
};

struct IdentityParams {
  auth::RequestHeaderConfig headers;     ///< names that shards expect
  std::vector<std::string> pass_groups;  ///< 9.3
  std::vector<std::string> drop_groups = auth::default_drop_groups();
};

/// ConnectionIdentity for auth::CertificateProofs. Streams go on when user and headers stay.
[[nodiscard]] auth::CertificateProofs::Kind proxy_identities(IdentityParams params);

/// The connection's identity, nullptr without a client certificate.
[[nodiscard]] const ConnectionIdentity* identity_of(const http::PeerInfo& peer) noexcept;

/// Who pays for what is held while a request of this connection is answered (SE-079): the user, or
/// the address of a stranger.
[[nodiscard]] net::BodyPayer payer_of(const http::PeerInfo& peer);

/// The level of who asks, as far as the connection tells.
[[nodiscard]] Level level_of(const http::PeerInfo& peer) noexcept;

/// The proxy does not know who asks, and there is nothing that could tell a shard: merged reads
/// take more (AGG-1705).
[[nodiscard]] bool is_nobody(const http::RequestHead& head, const http::PeerInfo& peer) noexcept;

}  // namespace kintsugi::serving
