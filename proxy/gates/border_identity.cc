#include "proxy/gates/border_identity.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "serving/identity.h"

namespace kintsugi::proxy {

namespace {

void restrict_groups(serving::ConnectionIdentity& identity, const auth::BorderRules& rules) {
  if (!identity.user) {
    return;
  }
  // All that was brought is judged, and counted, also what was configured to be dropped anyhow.
  auth::UserInfo brought;
  brought.groups = identity.organizations;
  auth::drop_reserved(brought, auth::IdentityOrigin::kCertificate,
                      rules.is_peer(identity.common_name));
  const auto is_brought = [](const std::vector<std::string>& groups, const std::string& group) {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  auth::UserInfo user = *identity.user;
  std::erase_if(user.groups, [&](const std::string& group) {
    return is_brought(identity.organizations, group) && !is_brought(brought.groups, group);
  });
  if (user == *identity.user) {
    return;
  }
  identity.stamp = {};
  identity.user.reset();
  if (auth::stamp_identity(identity.stamp, user, {})) {
    identity.user = std::move(user);
  }
}

}  // namespace

auth::CertificateProofs::Kind at_border(auth::CertificateProofs::Kind kind,
                                        auth::BorderRules rules) {
  kind.make = [make = std::move(kind.make),
               rules = std::move(rules)](auth::CertificateIdentity facts) {
    std::shared_ptr<auth::CertificateIdentity> identity = make(std::move(facts));
    restrict_groups(static_cast<serving::ConnectionIdentity&>(*identity), rules);
    return identity;
  };
  return kind;
}

}  // namespace kintsugi::proxy
