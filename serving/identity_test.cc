#include "serving/identity.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::serving {
namespace {

TEST(ProxyIdentity, WhenACertificateBringsTooManyGroups_SE087_ItIsNobodys) {
  const auth::CertificateProofs::Kind kind = proxy_identities({});
  for (const std::size_t groups : {999U, 1'000U, 1'001U, 5'000U}) {
    auth::CertificateIdentity facts;
    facts.valid = facts.from_client_ca = true;
    facts.common_name = "alice";
    for (std::size_t i = 0; i < groups; ++i) {
      facts.organizations.push_back("g" + std::to_string(i));
    }
    http::PeerInfo peer;
    peer.identity = kind.make(std::move(facts));
    const ConnectionIdentity* identity = identity_of(peer);
    ASSERT_NE(identity, nullptr);
    EXPECT_EQ(identity->user.has_value(), groups <= 1'000) << groups;
    EXPECT_EQ(identity->stamp.contains("x-remote-user"), groups <= 1'000) << groups;
  }
}

}  // namespace
}  // namespace kintsugi::serving
