#include "auth/payer.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

TEST(Payer, SE071_WhenAUserIsVerified_HisNamePays) {
  UserInfo user;
  user.name = "alice";
  EXPECT_EQ(payer_of(user, "192.0.2.1").name, "user alice");
  EXPECT_TRUE(payer_of(user, "192.0.2.1").known);
  EXPECT_EQ(payer_of({}, "192.0.2.1").name, "address 192.0.2.1");
  EXPECT_FALSE(payer_of({}, "192.0.2.1").known);
  EXPECT_EQ(payer_of(anonymous_user(), "192.0.2.1").name, "address 192.0.2.1");
}

TEST(Payer, SE071_WhenAccountsAreOfOneCluster_TheyHaveOnePurse) {
  const auto account = [](const std::string& name, const std::string& cluster) {
    UserInfo user;
    user.name = "system:serviceaccount:default:" + name;
    if (!cluster.empty()) {
      user.extra.push_back({std::string(kExtraClusterName), {cluster}});
    }
    return payer_of(user, "192.0.2.1").name;
  };
  EXPECT_EQ(account("a", "c1"), account("b", "c1"));
  EXPECT_NE(account("a", "c1"), account("a", "c2"));
  EXPECT_NE(account("a", ""), account("b", ""));
}

TEST(Payer, SE071_WhenTheTreeIsKnown_AccountsOfAllOfItHaveOnePurse) {
  const auto account = [](const std::string& cluster) {
    UserInfo user;
    user.name = "system:serviceaccount:default:a";
    user.extra.push_back({std::string(kExtraClusterName), {cluster}});
    return payer_of(user, "192.0.2.1",
                    [](std::string_view of) {
                      return std::string(of == "child" || of == "team" ? "team" : of);
                    })
        .name;
  };
  EXPECT_EQ(account("child"), account("team"));
  EXPECT_NE(account("child"), account("other"));
}

TEST(Payer, WhenAProxyIsInFront_TheLastAddressIsTheOneItSaw) {
  http::HeaderList headers;
  EXPECT_EQ(last_forwarded(headers), "");
  headers.add("x-forwarded-for", "10.0.0.1, 192.0.2.9");
  EXPECT_EQ(last_forwarded(headers), "192.0.2.9");
  headers.add("x-forwarded-for", "192.0.2.10");
  EXPECT_EQ(last_forwarded(headers), "192.0.2.10");
}

TEST(BearerBook, SE071_WhenAShardAcceptedABearer_ItPaysForItselfForTenMinutes) {
  BearerBook book;
  const auto request = [](const std::string& token) {
    http::HeaderList headers;
    headers.add("authorization", "Bearer " + token);
    return headers;
  };
  const TimePoint now{};
  EXPECT_EQ(book.payer(request("a"), now), "");
  book.note_accepted(request("a"), now);
  book.note_accepted({}, now);
  EXPECT_EQ(book.payer(request("b"), now), "");
  EXPECT_EQ(book.payer({}, now), "");
  const std::string payer = book.payer(request("a"), now + seconds(599));
  EXPECT_NE(payer, "");
  EXPECT_EQ(payer.find("Bearer a"), std::string::npos) << "tokens are not kept";
  EXPECT_EQ(book.payer(request("a"), now + seconds(600)), "");
}

}  // namespace
}  // namespace kintsugi::auth
