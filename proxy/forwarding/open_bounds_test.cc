#include "proxy/forwarding/open_bounds.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/loop.h"
#include "serving/identity.h"

namespace kintsugi::proxy {
namespace {

struct Asked {
  explicit Asked(const std::string& user) {
    auto identity = std::make_shared<serving::ConnectionIdentity>();
    auth::UserInfo info;
    info.name = user;
    identity->payer = "user " + user;
    identity->user = std::move(info);
    peer.identity = std::move(identity);
    head.method = "GET";
    head.target = "/clusters/root:a/api/v1/namespaces/default/configmaps";
  }
  [[nodiscard]] std::string payer(const ForwardLoop& shared) const {
    net::BodyPayer kept;
    return std::string(who_waits(shared, head, peer, kept).payer);
  }
  http::PeerInfo peer;
  http::RequestHead head;
};

TEST(OpenBounds, SE071_WhomAGatewaySpeaksFor_TakesTurnsForHimself) {
  net::Loop loop("test");
  auto limits = std::make_shared<serving::ProcessLimits>();
  limits->distribute_by_effective_user({"gateway"});
  const ForwardLoop shared(loop, nullptr, limits);
  Asked gateway("gateway");
  EXPECT_EQ(gateway.payer(shared), "user gateway");
  gateway.head.headers.set("impersonate-user", "alice");
  EXPECT_EQ(gateway.payer(shared), "user gateway for alice");
  gateway.head.headers.set("impersonate-user", std::string(20'000, 'a'));
  EXPECT_LT(gateway.payer(shared).size(), 300U) << "names of payers are kept";

  Asked other("mallory");
  other.head.headers.set("impersonate-user", "alice");
  EXPECT_EQ(other.payer(shared), "user mallory") << "impersonation changes nobody else's";
}

TEST(OpenBounds, SE071_WithoutGateways_WhoAuthenticatedTakesTheTurn) {
  net::Loop loop("test");
  const ForwardLoop shared(loop);
  Asked gateway("gateway");
  gateway.head.headers.set("impersonate-user", "alice");
  EXPECT_EQ(gateway.payer(shared), "user gateway");
}

TEST(OpenBounds, SE071_AStrangerPaysByHisAddress_AlsoWhereAnotherConnectionHadHisPlace) {
  net::Loop loop("test");
  const ForwardLoop shared(loop);
  http::RequestHead head;
  head.target = "/clusters/root/api";
  net::BodyPayer kept;
  http::PeerInfo peer;
  for (const char* address : {"", "192.0.2.7", "192.0.2.8", "2001:db8:1:200::1", "192.0.2.7"}) {
    peer.address = address;  // as a connection does that comes after another one
    for (int again = 0; again < 2; ++again) {
      const serving::FairSeats::Who who = who_waits(shared, head, peer, kept);
      EXPECT_EQ(who.payer, net::address_payer(address));
      EXPECT_EQ(who.level, serving::Level::kUnknown);
    }
  }
}

TEST(OpenBounds, SE071_ABearerThatAShardHasAcceptedPaysForItself) {
  net::Loop loop("test");
  ForwardLoop shared(loop);
  http::RequestHead head;
  head.target = "/clusters/root/api";
  head.headers.add("authorization", "Bearer good");
  http::PeerInfo peer;
  peer.address = "192.0.2.7";
  net::BodyPayer kept;
  EXPECT_EQ(who_waits(shared, head, peer, kept).payer, "address 192.0.2.7");
  shared.bearers.note_accepted(head.headers, loop.now());
  const serving::FairSeats::Who who = who_waits(shared, head, peer, kept);
  EXPECT_EQ(who.payer.substr(0, 7), "bearer ");
  EXPECT_EQ(who.level, serving::Level::kTenant);
}

}  // namespace
}  // namespace kintsugi::proxy
