#include "auth/impersonation.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

using Texts = std::vector<std::string>;

http::HeaderList headers_of(std::initializer_list<std::pair<const char*, const char*>> fields) {
  http::HeaderList headers;
  for (const auto& [name, value] : fields) {
    headers.add(name, value);
  }
  return headers;
}

UserInfo user_of(const char* name, Texts groups) {
  UserInfo user;
  user.name = name;
  user.groups = std::move(groups);
  return user;
}

/// Allows what is listed as "resource[/subresource] name".
class ListAuthorizer final : public Authorizer {
 public:
  explicit ListAuthorizer(Texts allowed) : allowed_(std::move(allowed)) {}
  void authorize(const Attributes& attributes, Done done) override {
    std::string text = attributes.resource;
    if (!attributes.subresource.empty()) {
      text += "/" + attributes.subresource;
    }
    text += " " + attributes.name;
    asked.push_back(text);
    Decision decision;
    decision.allowed = std::find(allowed_.begin(), allowed_.end(), text) != allowed_.end();
    done(decision);
  }
  Texts asked;

 private:
  Texts allowed_;
};

TEST(Impersonation, WhenNoHeaderIsSent_TheUserStays) {
  ListAuthorizer authorizer({});
  std::optional<UserInfo> effective;
  impersonate(headers_of({{"accept", "x"}}), user_of("alice", {"devs"}), "c", authorizer,
              [&](Expected<UserInfo> user) { effective = *user; });
  ASSERT_TRUE(effective);
  EXPECT_EQ(effective->name, "alice");
}

TEST(Impersonation, WhenEveryPartIsAllowed_IsExactlyWhatWasAsked_AM435) {
  ListAuthorizer authorizer(
      {"users carol", "groups team", "uids 7", "userextras/scopes/x view", "userextras/a 1"});
  std::optional<UserInfo> effective;
  impersonate(headers_of({{"Impersonate-User", "carol"},
                          {"Impersonate-Group", "team"},
                          {"Impersonate-Uid", "7"},
                          {"Impersonate-Extra-Scopes%2fx", "view"},
                          {"Impersonate-Extra-a", "1"}}),
              user_of("alice", {"devs"}), "c", authorizer, [&](Expected<UserInfo> user) {
                ASSERT_TRUE(user) << user.error().to_string();
                effective = *user;
              });
  ASSERT_TRUE(effective);
  EXPECT_EQ(effective->name, "carol");
  EXPECT_EQ(effective->uid, "7");
  EXPECT_EQ(effective->groups, (Texts{"team", "system:authenticated"}));
  EXPECT_EQ(*effective->extra_values("scopes/x"), Texts{"view"});
  EXPECT_EQ(authorizer.asked.size(), 5U);
}

TEST(Impersonation, WhenAServiceAccountIsNamed_ItsGroupsAreAdded_AM435) {
  const auto parsed = parse_impersonation(
      headers_of({{"Impersonate-User", "system:serviceaccount:t1:s"}}), user_of("a", {}), "c");
  ASSERT_TRUE(parsed && parsed->has_value());
  EXPECT_EQ((*parsed)->user.groups,
            (Texts{"system:serviceaccounts", "system:serviceaccounts:t1", "system:authenticated"}));
  const Attributes& check = (*parsed)->checks.front();
  EXPECT_EQ(check.resource, "serviceaccounts");
  EXPECT_EQ(check.ns, "t1");
  EXPECT_EQ(check.name, "s");
  EXPECT_EQ(check.verb, "impersonate");
}

TEST(Impersonation, WhenAnonymousIsNamed_IsUnauthenticated_AM435) {
  const auto parsed = parse_impersonation(headers_of({{"Impersonate-User", "system:anonymous"}}),
                                          user_of("a", {}), "c");
  EXPECT_EQ((*parsed)->user.groups, Texts{"system:unauthenticated"});
}

TEST(Impersonation, WhenNotAllowed_IsForbiddenWithTheClassicText_AM436) {
  ListAuthorizer authorizer({});
  std::string message;
  impersonate(headers_of({{"Impersonate-User", "carol"}}), user_of("alice", {}), "c", authorizer,
              [&](Expected<UserInfo> user) {
                ASSERT_FALSE(user);
                EXPECT_EQ(user.error().code(), Errc::kForbidden);
                message = user.error().message();
              });
  EXPECT_EQ(message,
            "users \"carol\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in "
            "API group \"\" at the cluster scope");
}

TEST(Impersonation, WhenUserIsMissing_IsABadRequest_AM436) {
  for (const char* name : {"Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"}) {
    const auto parsed = parse_impersonation(headers_of({{name, "x"}}), user_of("a", {}), "c");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code(), Errc::kBadRequest);
    EXPECT_NE(parsed.error().message().find("without impersonating a user"),
              std::string_view::npos);
  }
}

TEST(Impersonation, WhenAGroupIsSpecial_TheCallerMustHaveIt_FP078) {
  const auto ask = [](Texts own, const char* group) {
    return parse_impersonation(
               headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", group}}),
               user_of("a", std::move(own)), "c")
        .has_value();
  };
  EXPECT_TRUE(ask({"system:kcp:admin"}, "system:kcp:admin"));
  EXPECT_FALSE(ask({"system:kcp:admin"}, "system:masters"));
  EXPECT_TRUE(ask({}, "unknown"));
  EXPECT_TRUE(ask({"system:masters"}, "system:kcp:logical-cluster-admin"));
  const auto refused = parse_impersonation(
      headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", "system:masters"}}),
      user_of("mallory", {"system:authenticated"}), "c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "forbidden: impersonation is not allowed for the requestor");
}

}  // namespace
}  // namespace kintsugi::auth
