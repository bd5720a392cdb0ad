#include "auth/reserved_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "auth/border_tokens.h"

namespace kintsugi::auth {
namespace {

using Texts = std::vector<std::string>;

UserInfo everything() {
  UserInfo user;
  user.name = "eve";
  user.groups = {"team",
                 "system:authenticated",
                 "system:kcp:admin",
                 "system:kcp:logical-cluster-admin",
                 "system:kcp:external-logical-cluster-admin",
                 "system:kcp:tenancy:workspace-bootstrapper",
                 "system:kcp:initializer:root:t",
                 "system:kcp:terminator:root:t",
                 "apis.kcp.io:binding:y",
                 "system:cluster:b",
                 "system:kintsugi:proxy"};
  for (const char* key :
       {"acme.org/x", "authentication.kcp.io/scopes", "authentication.kcp.io/cluster-name",
        "authorization.kcp.io/warrant", "experimental.kcp.io/y", "kcp.io"}) {
    user.extra.emplace_back(key, Texts{"v"});
  }
  return user;
}

Texts groups_left(IdentityOrigin origin, bool is_peer) {
  UserInfo user = everything();
  drop_reserved(user, origin, is_peer);
  return user.groups;
}

Texts extras_left(IdentityOrigin origin, bool is_peer) {
  UserInfo user = everything();
  drop_reserved(user, origin, is_peer);
  Texts keys;
  for (const auto& extra : user.extra) {
    keys.push_back(extra.first);
  }
  return keys;
}

TEST(ReservedIdentity, WhenItComesFromAClient_SE052_NothingOfTheSystemIsLeft) {
  const Texts harmless = {"team", "system:authenticated", "system:kcp:admin"};
  for (const IdentityOrigin origin : {IdentityOrigin::kCertificate, IdentityOrigin::kRequestHeader,
                                      IdentityOrigin::kToken, IdentityOrigin::kOwnToken}) {
    EXPECT_EQ(groups_left(origin, false), harmless) << static_cast<int>(origin);
  }
  EXPECT_EQ(extras_left(IdentityOrigin::kCertificate, false), Texts{"acme.org/x"});
  EXPECT_EQ(extras_left(IdentityOrigin::kToken, false), Texts{"acme.org/x"});
  EXPECT_EQ(extras_left(IdentityOrigin::kRequestHeader, false),
            (Texts{"acme.org/x", "authentication.kcp.io/scopes"}))
      << "what narrows stays narrow";
  EXPECT_EQ(extras_left(IdentityOrigin::kOwnToken, false).size(), 5U);
}

TEST(ReservedIdentity, WhenItComesFromAPeer_KK329_ItAdministersFromOutside) {
  const Texts by_certificate = groups_left(IdentityOrigin::kCertificate, true);
  EXPECT_EQ(by_certificate, (Texts{"team", "system:authenticated", "system:kcp:admin",
                                   "system:kcp:external-logical-cluster-admin",
                                   "system:kcp:tenancy:workspace-bootstrapper"}));
  const Texts by_header = groups_left(IdentityOrigin::kRequestHeader, true);
  for (const char* never : {"system:kcp:initializer:root:t", "system:kcp:terminator:root:t",
                            "system:kcp:logical-cluster-admin"}) {
    EXPECT_EQ(std::count(by_header.begin(), by_header.end(), never), 0) << never;
  }
  EXPECT_EQ(by_header.size(), 8U);
  EXPECT_EQ(extras_left(IdentityOrigin::kRequestHeader, true).size(), 6U);
}

TEST(ReservedIdentity, WhenDropped_IsCountedByKind) {
  const auto counts = [] {
    std::map<std::string_view, std::uint64_t> out;
    for (const DroppedCount& one : dropped_counts()) {
      out[one.kind] = one.count;
    }
    return out;
  };
  auto before = counts();
  static_cast<void>(groups_left(IdentityOrigin::kToken, false));
  auto after = counts();
  const std::map<std::string_view, std::uint64_t> expected = {
      {"admin_group", 3}, {"lifecycle_group", 2}, {"policy_group", 1}, {"cluster_group", 1},
      {"own_group", 1},   {"warrant", 1},         {"extra", 4},        {"system_user", 0}};
  ASSERT_EQ(after.size(), expected.size());
  for (const auto& [kind, count] : expected) {
    EXPECT_EQ(after[kind] - before[kind], count) << kind;
  }
}

TEST(ReservedIdentity, WhenATokenNamesAUserOfTheSystem_KK282_OnlyAllowedOnesPass) {
  const BorderRules none;
  EXPECT_TRUE(none.may_be_named("alice"));
  EXPECT_TRUE(none.may_be_named("systemd"));
  EXPECT_FALSE(none.may_be_named("system:admin"));
  BorderRules some;
  some.system_users = {"system:monitoring", "system:node:*"};
  EXPECT_TRUE(some.may_be_named("system:monitoring"));
  EXPECT_TRUE(some.may_be_named("system:node:a"));
  EXPECT_FALSE(some.may_be_named("system:monitoring2"));
  EXPECT_FALSE(some.may_be_named("system:serviceaccount:a:b"));

  const auto status = [](const std::string& user, const BorderRules& rules) {
    RequestAuthenticator::Params params;
    params.tokens = std::make_shared<BorderTokens>(
        *TokenFile::parse("secret," + user + ",1,\"g,system:cluster:b\"\n"),
        BorderTokens::Source::kOthers, rules);
    RequestAuthenticator authenticator(params);
    http::RequestHead head;
    head.headers.add("authorization", "Bearer secret");
    std::string out;
    authenticator.authenticate(head, bearer_of(head.headers), {}, "",
                               [&](Expected<std::optional<UserInfo>> found) {
                                 out = !found || !*found ? "401" : (*found)->name;
                                 if (found && *found) {
                                   EXPECT_FALSE((*found)->in_group("system:cluster:b"));
                                   EXPECT_TRUE((*found)->in_group("g"));
                                 }
                               });
    return out;
  };
  EXPECT_EQ(status("alice", none), "alice");
  EXPECT_EQ(status("system:admin", none), "401");
  EXPECT_EQ(status("system:monitoring", some), "system:monitoring");
}

}  // namespace
}  // namespace kintsugi::auth
