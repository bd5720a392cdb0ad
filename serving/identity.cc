#include "serving/identity.h"

#include <utility>

#include "auth/payer.h"
#include "serving/fair_seats.h"

namespace kintsugi::serving {
namespace {

std::shared_ptr<auth::CertificateIdentity> make_identity(const IdentityParams& params,
                                                         auth::CertificateIdentity facts) {
  auto identity = std::make_shared<ConnectionIdentity>();
  static_cast<auth::CertificateIdentity&>(*identity) = std::move(facts);
  if (!identity->valid || !identity->from_client_ca || identity->common_name.empty()) {
    return identity;
  }
  auth::UserInfo user;
  user.name = identity->common_name;
  if (identity->organizations.size() > auth::kMostGroups) {
    return identity;
  }
  std::vector<std::string> groups = identity->organizations;
  groups.emplace_back(auth::kGroupAuthenticated);
  user.groups = auth::filter_groups(groups, params.pass_groups, params.drop_groups);
  user.extra.push_back(
      {"authentication.kubernetes.io/credential-id", {"X509SHA256=" + identity->sha256_hex}});
  if (auth::stamp_identity(identity->stamp, user, params.headers)) {
    identity->payer = auth::payer_of(user, {}).name;
    identity->user = std::move(user);
  }
  return identity;
}

}  // namespace

auth::CertificateProofs::Kind proxy_identities(IdentityParams params) {
  auth::CertificateProofs::Kind kind = auth::CertificateProofs::plain();
  kind.make = [params = std::move(params)](auth::CertificateIdentity facts) {
    return make_identity(params, std::move(facts));
  };
  kind.same = [flags = kind.same](const auth::CertificateIdentity& before,
                                  const auth::CertificateIdentity& now) {
    return flags(before, now) && static_cast<const ConnectionIdentity&>(before).user ==
                                     static_cast<const ConnectionIdentity&>(now).user;
  };
  return kind;
}

const ConnectionIdentity* identity_of(const http::PeerInfo& peer) noexcept {
  return static_cast<const ConnectionIdentity*>(
      static_cast<const auth::CertificateIdentity*>(peer.identity.get()));
}

bool is_nobody(const http::RequestHead& head, const http::PeerInfo& peer) noexcept {
  return identity_of(peer) == nullptr && !head.headers.contains("authorization");
}

Level level_of(const http::PeerInfo& peer) noexcept {
  const ConnectionIdentity* identity = identity_of(peer);
  return identity != nullptr && identity->user ? level_of(*identity->user) : Level::kUnknown;
}

net::BodyPayer payer_of(const http::PeerInfo& peer) {
  const ConnectionIdentity* identity = identity_of(peer);
  const bool known = identity != nullptr && identity->user;
  net::BodyPayer payer = auth::payer_of(known ? *identity->user : auth::UserInfo(), peer.address);
  payer.connection = auth::connection_of(peer);
  return payer;
}

}  // namespace kintsugi::serving
