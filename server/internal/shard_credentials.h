#pragma once

#include <memory>
#include <string>
#include <vector>

#include "auth/jwt.h"
#include "auth/x509_identity.h"
#include "base/certificate_ends.h"
#include "base/error.h"
#include "net/revocation.h"
#include "net/tls.h"
#include "server/internal/pki.h"
#include "server/layout.h"
#include "server/shard_program.h"

namespace kintsugi::server {

/// Certificates, CAs, revocation lists and token keys of one shard, as its files say. Keeps no
/// content. Threads: any, several at once.
class ShardCredentials {
 public:
  ShardCredentials(const Layout& layout, const std::string& shard, ShardRevocations revocations);

  /// The shard's serving certificate and its own at other shards, made where there are none or a
  /// third of their life is over.
  /// @param hosts  that the serving one names besides loopback
  /// @error kIo, kConfig.
  [[nodiscard]] Expected<void> ensure(std::vector<std::string> hosts) const;

  /// What the shard serves with. Read again while it runs, as a set.
  struct Serving {
    std::shared_ptr<net::TlsContext> tls;
    auth::CaBundles callers;  ///< whose certificates count, and which of them are revoked
    auth::JwtKeys account_keys;
  };
  /// Lists of a million serials take seconds. @error kConfig, kIo: the first that is not in order.
  [[nodiscard]] Expected<Serving> load_serving() const;

  /// As this shard, to other shards. @error kConfig.
  [[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> load_outgoing() const;

  /// PEM of the CA that serving certificates are of. @error kConfig.
  [[nodiscard]] Expected<std::string> root_ca() const;

  /// When they end, by the names of their files; what cannot be read is left out.
  [[nodiscard]] std::vector<CertificateEnd> ends() const;

  /// The files of load_serving() and load_outgoing().
  [[nodiscard]] std::vector<std::string> followed() const;

 private:
  [[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> load_tls() const;

  const Layout layout_;
  const Pki pki_;
  const std::string name_;  ///< of the serving certificate's files
  const ShardRevocations revocations_;
};

}  // namespace kintsugi::server
