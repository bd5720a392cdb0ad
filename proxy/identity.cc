#include "proxy/identity.h"

#include "auth/certificate_cache.h"

namespace kintsugi::proxy {

std::function<std::shared_ptr<const void>(const http::PeerInfo&)> make_proxy_identify(
    std::shared_ptr<const auth::ReloadableCertificateVerifier> verifier, IdentityParams params) {
  auto known = std::make_shared<auth::CertificateCache>(std::move(verifier));
  return [known = std::move(known),
          params = std::move(params)](const http::PeerInfo& peer) -> std::shared_ptr<const void> {
    if (peer.certificates_der.empty()) {
      return nullptr;
    }
    auto identity = std::make_shared<ConnectionIdentity>();
    static_cast<auth::CertificateIdentity&>(*identity) = known->identify(peer.certificates_der);
    if (identity->valid && identity->from_client_ca && !identity->common_name.empty()) {
      auth::UserInfo user;
      user.name = identity->common_name;
      std::vector<std::string> groups = identity->organizations;
      groups.emplace_back(auth::kGroupAuthenticated);
      user.groups = auth::filter_groups(groups, params.pass_groups, params.drop_groups);
      user.extra.push_back(
          {"authentication.kubernetes.io/credential-id", {"X509SHA256=" + identity->sha256_hex}});
      if (auth::stamp_identity(identity->stamp, user, params.headers)) {
        identity->user = std::move(user);
      }
    }
    return std::shared_ptr<const auth::CertificateIdentity>(std::move(identity));
  };
}

const ConnectionIdentity* identity_of(const http::PeerInfo& peer) noexcept {
  return static_cast<const ConnectionIdentity*>(
      static_cast<const auth::CertificateIdentity*>(peer.identity.get()));
}

bool is_nobody(const http::RequestHead& head, const http::PeerInfo& peer) noexcept {
  return identity_of(peer) == nullptr && !head.headers.contains("authorization");
}

}  // namespace kintsugi::proxy
