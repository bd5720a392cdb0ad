#include "proxy/border_identity.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proxy/identity.h"

namespace kintsugi::proxy {

std::function<std::shared_ptr<const void>(const http::PeerInfo&)> at_border(
    std::function<std::shared_ptr<const void>(const http::PeerInfo&)> identify,
    auth::BorderRules rules) {
  return [identify = std::move(identify),
          rules = std::move(rules)](const http::PeerInfo& peer) -> std::shared_ptr<const void> {
    std::shared_ptr<const void> known = identify(peer);
    const auto* identity = static_cast<const ConnectionIdentity*>(
        static_cast<const auth::CertificateIdentity*>(known.get()));
    if (identity == nullptr || !identity->user) {
      return known;
    }
    // All that was brought is judged, and counted, also what was configured to be dropped anyhow.
    auth::UserInfo brought;
    brought.groups = identity->organizations;
    auth::drop_reserved(brought, auth::IdentityOrigin::kCertificate,
                        rules.is_peer(identity->common_name));
    const auto is_brought = [](const std::vector<std::string>& groups, const std::string& group) {
      return std::find(groups.begin(), groups.end(), group) != groups.end();
    };
    auth::UserInfo user = *identity->user;
    std::erase_if(user.groups, [&](const std::string& group) {
      return is_brought(identity->organizations, group) && !is_brought(brought.groups, group);
    });
    if (user == *identity->user) {
      return known;
    }
    auto changed = std::make_shared<ConnectionIdentity>(*identity);
    changed->stamp = {};
    changed->user.reset();
    if (auth::stamp_identity(changed->stamp, user, {})) {
      changed->user = std::move(user);
    }
    return std::shared_ptr<const auth::CertificateIdentity>(std::move(changed));
  };
}

}  // namespace kintsugi::proxy
