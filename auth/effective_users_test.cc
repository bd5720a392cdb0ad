#include "auth/effective_users.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kintsugi::auth {
namespace {

using Texts = std::vector<std::string>;
using Extra = decltype(UserInfo::extra);

UserInfo user_of(std::string name, Texts groups = {}, Extra extra = {}) {
  UserInfo user;
  user.name = std::move(name);
  user.groups = std::move(groups);
  user.extra = std::move(extra);
  return user;
}

Extra scopes(Texts values) { return {{std::string(kExtraScopes), std::move(values)}}; }
Extra warrants(Texts values) { return {{std::string(kExtraWarrant), std::move(values)}}; }

/// "name[group group]" of each.
Texts shown(const UserInfo& user, std::string_view cluster) {
  Texts out;
  for (const UserInfo& one : effective_users(user, cluster)) {
    std::string text = one.name + "[";
    for (const std::string& group : one.groups) {
      text += (text.back() == '[' ? "" : " ") + group;
    }
    out.push_back(text + "]");
  }
  return out;
}

TEST(EffectiveUsers, WhenScopesNarrow_KK318_AllValuesHaveToNameTheCluster) {
  const struct {
    Texts values;
    bool in_a, in_b;
  } cases[] = {
      {{}, true, true},
      {{"cluster:a"}, true, false},
      {{"cluster:a,cluster:b"}, true, true},
      {{"cluster:a,cluster:b", "cluster:a"}, true, false},
      {{"cluster:a", "cluster:b"}, false, false},
      {{"workspace:a"}, false, false},
      {{"a"}, false, false},
      {{""}, false, false},
      {{"cluster:"}, false, false},
      {{"cluster:ab"}, false, false},
      {{"cluster:*"}, false, false},
  };
  for (const auto& one : cases) {
    const UserInfo user = user_of("u", {}, scopes(one.values));
    EXPECT_EQ(in_scope(user, "a"), one.in_a) << ::testing::PrintToString(one.values);
    EXPECT_EQ(in_scope(user, "b"), one.in_b) << ::testing::PrintToString(one.values);
    EXPECT_EQ(in_scope(user, ""), one.values.empty());
  }
}

TEST(EffectiveUsers, WhenOutOfScope_KK319_IsAnonymousWithWhatHeIsEverywhere) {
  const UserInfo eve = user_of("eve", {"system:masters", "team", "system:authenticated"},
                               scopes({"cluster:a,cluster:b", "cluster:b,cluster:c,cluster:a"}));
  EXPECT_EQ(shown(eve, "a"), Texts{"eve[system:masters team system:authenticated]"});
  EXPECT_EQ(shown(eve, "x"),
            Texts{"system:anonymous[system:authenticated system:cluster:a system:cluster:b]"});
  EXPECT_EQ(shown(user_of("eve", {"team"}, scopes({"cluster:a"})), "x"),
            Texts{"system:anonymous[system:unauthenticated]"});
  EXPECT_EQ(shown(user_of("bob", {"team"}), "x"), Texts{"bob[team]"});
}

TEST(EffectiveUsers, WhenAScopeIsAdded_KK323_HeIsHimselfOnlyWhereBothHold) {
  UserInfo user = user_of("u");
  add_scope(user, "a");
  EXPECT_EQ(*user.extra_values(kExtraScopes), Texts{"cluster:a"});
  add_scope(user, "b");
  EXPECT_EQ(*user.extra_values(kExtraScopes), (Texts{"cluster:a", "cluster:b"}));
  EXPECT_FALSE(in_scope(user, "a"));
  EXPECT_FALSE(in_scope(user, "b"));
  UserInfo outside = user_of("u");
  add_scope(outside, "");
  EXPECT_FALSE(in_scope(outside, ""));
  EXPECT_FALSE(in_scope(outside, "a"));
}

TEST(EffectiveUsers, WhenAServiceAccountIsElsewhere_KK319_ItHasItsGlobalName) {
  Extra extra = scopes({"cluster:a"});
  extra.emplace_back(kExtraClusterName, Texts{"a"});
  const UserInfo robot = user_of("system:serviceaccount:ns:r",
                                 {"system:serviceaccounts", "system:authenticated"}, extra);
  EXPECT_EQ(shown(robot, "b"),
            (Texts{"system:anonymous[system:authenticated system:cluster:a]",
                   "system:kcp:serviceaccount:a:ns:r[system:authenticated system:cluster:a]"}));
  EXPECT_EQ(shown(robot, "a").front(),
            "system:serviceaccount:ns:r[system:serviceaccounts system:authenticated]");
  EXPECT_EQ(shown(robot, "a").size(), 2U);
  const UserInfo local = user_of("system:serviceaccount:ns:r", {"g"});
  EXPECT_EQ(shown(local, "b"), Texts{"system:serviceaccount:ns:r[g]"});
  const UserInfo two =
      user_of("system:serviceaccount:ns:r", {"g"}, {{std::string(kExtraClusterName), {"a", "b"}}});
  EXPECT_EQ(shown(two, "a"), Texts{"system:anonymous[system:unauthenticated]"});
  const UserInfo person = user_of("bob", {"g"}, {{std::string(kExtraClusterName), {"a"}}});
  EXPECT_EQ(shown(person, "b"), Texts{"bob[g]"}) << "only of ServiceAccounts";
}

TEST(EffectiveUsers, WhenWarranted_KK325_NoGroupThatAdministersIsTaken) {
  const auto of = [](const std::string& warrant) {
    return shown(user_of("u", {}, warrants({warrant})), "a");
  };
  EXPECT_EQ(of(R"({"user":"w","groups":["system:kcp:admin","g"]})"),
            (Texts{"u[]", "w[system:kcp:admin g]"}));
  EXPECT_EQ(of(R"({"user":"w","groups":["system:masters","system:kcp:logical-cluster-admin",
                   "system:kcp:external-logical-cluster-admin",
                   "system:kcp:tenancy:workspace-bootstrapper"]})"),
            (Texts{"u[]", "w[]"}));
  EXPECT_EQ(of(R"({"user":"w","extra":{"authentication.kcp.io/scopes":["cluster:b"]}})"),
            (Texts{"u[]", "system:anonymous[system:unauthenticated]"}));
  for (const char* bad : {"", "x", "[]", "{}", R"({"user":""})", R"({"groups":["g"]})",
                          R"({"user":"system:serviceaccount:ns:r"})"}) {
    EXPECT_EQ(of(bad), Texts{"u[]"}) << bad;
  }
}

TEST(EffectiveUsers, WhenWarrantsNest_EndsAtABound) {
  std::string inner = R"({"user":"deepest"})";
  for (int i = 0; i < 10; ++i) {
    std::string quoted;
    for (const char c : inner) {
      quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    inner = R"({"user":"w","extra":{"authorization.kcp.io/warrant":[")" + quoted + R"("]}})";
  }
  const Texts nested = shown(user_of("u", {}, warrants({inner})), "a");
  EXPECT_EQ(std::count(nested.begin(), nested.end(), "deepest[]"), 0);
  EXPECT_LE(nested.size(), 6U);
  EXPECT_LE(shown(user_of("u", {}, warrants(Texts(1'000, R"({"user":"w"})"))), "a").size(), 32U);
}

TEST(EffectiveUsers, WhenThereAreNoBounds_NothingIsCopied) {
  EXPECT_FALSE(has_bounds(user_of("u", {"g"}, {{"acme.org/x", {"y"}}})));
  for (const std::string_view key : {kExtraScopes, kExtraClusterName, kExtraWarrant}) {
    EXPECT_TRUE(has_bounds(user_of("u", {}, {{std::string(key), {"y"}}})));
  }
  const UserInfo user = user_of("u");
  EXPECT_TRUE(any_effective_user(user, "a", [&](const UserInfo& one) { return &one == &user; }));
}

}  // namespace
}  // namespace kintsugi::auth
