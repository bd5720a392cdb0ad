#include "auth/request_header.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

using http::HeaderList;
using Groups = std::vector<std::string>;

HeaderList headers_of(std::initializer_list<std::pair<const char*, const char*>> fields) {
  HeaderList headers;
  for (const auto& [name, value] : fields) {
    headers.add(name, value);
  }
  return headers;
}

Groups values_of(const HeaderList& headers, std::string_view name) {
  Groups values;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name == name) {
      values.emplace_back(headers[i].value);
    }
  }
  return values;
}

UserInfo alice() {
  UserInfo user;
  user.name = "alice";
  user.groups = {"team", "system:authenticated"};
  return user;
}

/// The proxy's step on a request of `user`.
HeaderList forward(HeaderList headers, const UserInfo& user,
                   const RequestHeaderConfig& config = {}) {
  strip_identity_headers(headers, config);
  EXPECT_TRUE(stamp_identity(headers, user, config));
  return headers;
}

TEST(IdentityHeaders, WhenGroupIsForged_OnlyRealGroupsArrive_FP049) {
  const HeaderList out = forward(headers_of({{"X-Remote-Group", "system:masters"}}), alice());
  EXPECT_EQ(values_of(out, "x-remote-group"), (Groups{"team", "system:authenticated"}));
}

TEST(IdentityHeaders, WhenUserIsForged_TheRealOneArrives_FP050) {
  const HeaderList out = forward(headers_of({{"X-Remote-User", "admin"}}), alice());
  EXPECT_EQ(values_of(out, "x-remote-user"), Groups{"alice"});
}

TEST(IdentityHeaders, WhenExtrasAreForged_TheyAreGone_FP051_FP053_FP054) {
  UserInfo user = alice();
  user.extra = {{"foo", {"real"}}};
  const HeaderList out =
      forward(headers_of({{"X-Remote-Extra-Authorization.kcp.io%2Fwarrant", "{}"},
                          {"X-Remote-Extra-Authentication.kcp.io%2Fscopes", "cluster:x"},
                          {"X-REMOTE-EXTRA-FOO", "forged"},
                          {"accept", "a/b"}}),
              user);
  EXPECT_EQ(values_of(out, "x-remote-extra-foo"), Groups{"real"});
  EXPECT_EQ(out.get("accept"), "a/b");
  EXPECT_EQ(out.size(), 5U);  // accept, user, two groups, one extra
}

TEST(IdentityHeaders, WhenSeveralGroupsAreForged_EachRealOneIsSentOnce_FP052) {
  UserInfo user = alice();
  user.groups = {"a", "b", "c"};
  const HeaderList out =
      forward(headers_of({{"X-Remote-Group", "x"}, {"x-remote-group", "y"}}), user);
  EXPECT_EQ(values_of(out, "x-remote-group"), (Groups{"a", "b", "c"}));
}

TEST(IdentityHeaders, WhenNamesAreCustom_DefaultNamesAreStrippedToo_FP055) {
  RequestHeaderConfig config;
  config.user_headers = {"X-Who"};
  config.group_headers = {"X-Which"};
  config.uid_headers = {"X-Number"};
  config.extra_prefixes = {"X-More-"};
  UserInfo user = alice();
  user.uid = "7";
  user.extra = {{"k", {"v"}}};
  HeaderList headers = headers_of({{"X-Who", "evil"},
                                   {"X-Which", "evil"},
                                   {"X-More-a", "evil"},
                                   {"X-Remote-User", "evil"},
                                   {"X-Remote-Group", "evil"},
                                   {"X-Remote-Uid", "evil"},
                                   {"X-Remote-Extra-a", "evil"}});
  EXPECT_EQ(strip_identity_headers(headers, config), 7U);
  EXPECT_TRUE(headers.empty());
  ASSERT_TRUE(stamp_identity(headers, user, config));
  EXPECT_EQ(headers.get("x-who"), "alice");
  EXPECT_EQ(values_of(headers, "x-which"), user.groups);
  EXPECT_EQ(headers.get("x-number"), "7");
  EXPECT_EQ(headers.get("x-more-k"), "v");
}

TEST(IdentityHeaders, WhenCustomNamesBeginWithAnyLetter_TheyAreStrippedAndNothingElse_FP055) {
  for (char first = 'A'; first <= 'Z'; ++first) {
    RequestHeaderConfig config;
    config.user_headers = {first + std::string("-Who"), ""};
    config.group_headers = {};
    config.uid_headers = {};
    config.extra_prefixes = {"", first + std::string("_More-")};
    for (const char other : {first, static_cast<char>(first + 'a' - 'A')}) {
      HeaderList headers = headers_of({{"X-Remote_User", "evil"}, {"accept", "a/b"}});
      headers.add(other + std::string("_who"), "evil");
      headers.add(other + std::string("-more-a"), "evil");
      headers.add(other + std::string("-whole"), "good");
      EXPECT_EQ(strip_identity_headers(headers, config), 3U) << first;
      ASSERT_EQ(headers.size(), 2U) << first;
      EXPECT_EQ(headers[1].value, "good");
    }
  }
}

TEST(IdentityHeaders, WhenUnauthenticated_AllAreGoneAndAuthorizationStays_FP056_FP080) {
  HeaderList headers = headers_of({{"X-Remote-User", "a"},
                                   {"X-Remote-Group", "b"},
                                   {"X-Remote-Uid", "c"},
                                   {"Authorization", "Bearer t"}});
  EXPECT_EQ(strip_identity_headers(headers, {}), 3U);
  EXPECT_EQ(headers.size(), 1U);
  EXPECT_EQ(headers.get("authorization"), "Bearer t");
}

TEST(IdentityHeaders, WhenExtraKeyHasASlash_ItIsEscapedAndReadBack_FP057) {
  UserInfo user = alice();
  user.extra = {{"authentication.kcp.io/cluster-name", {"abc", "def"}}};
  const HeaderList out = forward({}, user);
  EXPECT_EQ(values_of(out, "x-remote-extra-authentication.kcp.io%2fcluster-name"),
            (Groups{"abc", "def"}));
  const std::optional<UserInfo> read = read_identity_headers(out, {});
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, user);
}

TEST(IdentityHeaders, WhenUidIsForged_TheRealOneArrives_FP059) {
  UserInfo user = alice();
  user.uid = "uid1";
  EXPECT_EQ(values_of(forward(headers_of({{"X-Remote-Uid", "77"}}), user), "x-remote-uid"),
            Groups{"uid1"});
  EXPECT_TRUE(
      values_of(forward(headers_of({{"X-Remote-Uid", "77"}}), alice()), "x-remote-uid").empty());
}

TEST(IdentityHeaders, WhenUnderscoresStandForDashes_TheyAreGone_FP060) {
  HeaderList headers = headers_of({{"X_Remote_User", "evil"},
                                   {"x_remote-group", "evil"},
                                   {"X-Remote_Extra_a", "evil"},
                                   {"X_REMOTE_UID", "evil"}});
  EXPECT_EQ(strip_identity_headers(headers, {}), 4U);
  EXPECT_TRUE(headers.empty());
}

TEST(IdentityHeaders, WhenConnectionNamesThem_TheIdentityStillArrives_FP061) {
  const HeaderList out = forward(
      headers_of({{"Connection", "X-Remote-User, X-Remote-Group, x-drop"}, {"x-drop", "1"}}),
      alice());
  EXPECT_EQ(values_of(out, "x-remote-user"), Groups{"alice"});
  EXPECT_EQ(values_of(out, "x-remote-group"), alice().groups);
  EXPECT_FALSE(out.contains("x-drop"));
  EXPECT_FALSE(out.contains("connection"));
}

TEST(IdentityHeaders, WhenHopByHopFieldsCome_OnlyTeTrailersStays) {
  HeaderList headers = headers_of({{"te", "trailers"},
                                   {"keep-alive", "1"},
                                   {"proxy-connection", "close"},
                                   {"transfer-encoding", "chunked"},
                                   {"upgrade", "websocket"},
                                   {"proxy-authorization", "x"},
                                   {"trailer", "x"},
                                   {"impersonate-user", "bob"},
                                   {"cookie", "c"}});
  EXPECT_EQ(strip_identity_headers(headers, {}), 0U);
  EXPECT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers.get("te"), "trailers");
  EXPECT_EQ(headers.get("impersonate-user"), "bob");
  HeaderList gzip = headers_of({{"te", "gzip"}});
  strip_identity_headers(gzip, {});
  EXPECT_TRUE(gzip.empty());
}

TEST(IdentityHeaders, WhenThereAre2000Groups_AllArrive_FP130) {
  UserInfo user = alice();
  user.groups.clear();
  for (int i = 0; i < 2000; ++i) {
    user.groups.push_back("g" + std::to_string(i));
  }
  const HeaderList out = forward(
      headers_of({{"x-remote-user", "a"}, {"x-remote-user", "b"}, {"X-ReMoTe-UsEr", "c"}}), user);
  EXPECT_EQ(values_of(out, "x-remote-group"), user.groups);
  EXPECT_EQ(values_of(out, "x-remote-user"), Groups{"alice"});
}

TEST(IdentityHeaders, WhenANameHoldsControlBytes_StampFails) {
  UserInfo user = alice();
  user.groups = {"a\r\nX-Remote-Group: system:masters"};
  HeaderList headers;
  const Expected<void> stamped = stamp_identity(headers, user, {});
  ASSERT_FALSE(stamped);
  EXPECT_EQ(stamped.error().code(), Errc::kUnauthorized);
}

TEST(IdentityHeaders, WhenRead_KeysAreLowerCaseAndDecoded_AM426) {
  const std::optional<UserInfo> user =
      read_identity_headers(headers_of({{"X-Remote-User", "bob"},
                                        {"X-Remote-Group", "a"},
                                        {"X-Remote-Group", "b"},
                                        {"X-Remote-Uid", "u"},
                                        {"X-Remote-Extra-Foo%2FBar", "1"},
                                        {"X-Remote-Extra-foo%2fbar", "2"}}),
                            {});
  ASSERT_TRUE(user);
  EXPECT_EQ(user->groups, (Groups{"a", "b"}));
  EXPECT_EQ(user->uid, "u");
  ASSERT_NE(user->extra_values("foo/bar"), nullptr);
  EXPECT_EQ(*user->extra_values("foo/bar"), (Groups{"1", "2"}));
  EXPECT_FALSE(read_identity_headers(headers_of({{"X-Remote-Group", "a"}}), {}));
}

TEST(IdentityHeaders, WhenNamesAreLimited_OthersMayNotAssert) {
  RequestHeaderConfig config;
  EXPECT_TRUE(may_assert_identity("any", config));
  config.allowed_names = {"kcp-mounts-proxy", "front"};
  EXPECT_TRUE(may_assert_identity("front", config));
  EXPECT_FALSE(may_assert_identity("any", config));
}

struct FilterCase {
  const char* id = "";
  Groups pass = {}, drop = {}, in = {}, out = {};
};
class GroupFilter : public ::testing::TestWithParam<FilterCase> {};
TEST_P(GroupFilter, WhenListsAreGiven_KeepsTheRightGroups) {
  const FilterCase& c = GetParam();
  EXPECT_EQ(filter_groups(c.in, c.pass, c.drop), c.out) << c.id;
}
INSTANTIATE_TEST_SUITE_P(
    FP062to070, GroupFilter,
    ::testing::Values(
        FilterCase{"FP-062", {}, {}, {"foo", "bar", "baz"}, {"bar", "baz", "foo"}},
        FilterCase{"FP-063", {"foo"}, {}, {"foo", "bar", "baz"}, {"foo"}},
        FilterCase{
            "FP-064", {"bar*"}, {}, {"foo", "foo2", "bar1", "bar2", "baz"}, {"bar1", "bar2"}},
        FilterCase{"FP-065",
                   {"foo", "bar*"},
                   {},
                   {"foo", "foo2", "bar1", "bar2", "baz"},
                   {"bar1", "bar2", "foo"}},
        FilterCase{"FP-066",
                   {},
                   {"foo"},
                   {"foo", "foo2", "bar1", "bar2", "baz"},
                   {"bar1", "bar2", "baz", "foo2"}},
        FilterCase{"FP-067",
                   {},
                   {"baz*"},
                   {"foo", "foo2", "bar1", "bar2", "baz", "baz1", "baz2"},
                   {"bar1", "bar2", "foo", "foo2"}},
        FilterCase{"FP-068",
                   {},
                   {"foo", "baz*"},
                   {"foo", "foo2", "bar1", "bar2", "baz", "baz1"},
                   {"bar1", "bar2", "foo2"}},
        FilterCase{"FP-069",
                   {"foo", "bar*", "foo*"},
                   {"foo", "baz*"},
                   {"foo", "foo2", "bar1", "bar2", "baz"},
                   {"bar1", "bar2", "foo2"}},
        FilterCase{"FP-070",
                   {},
                   default_drop_groups(),
                   {"system:kcp:initializer:root:tenant", "system:kcp:terminator:root:t",
                    "system:kcp:other", "system:authenticated", "system:masters"},
                   {"system:authenticated", "system:kcp:other"}}));

TEST(ExtraFilter, WhenListsAreGiven_KeepsTheRightKeys_FP071) {
  const std::vector<std::pair<std::string, Groups>> extra = {
      {"foo", {"1"}}, {"foobar", {"2"}}, {"kcp.io/test", {"3"}}};
  EXPECT_EQ(filter_extra(extra, {}, {}), extra);
  EXPECT_EQ(filter_extra(extra, {}, {"bar", "kcp.io"}).size(), 1U);
  EXPECT_EQ(filter_extra(extra, {"foobar"}, {}).front().first, "foobar");
  EXPECT_TRUE(filter_extra(extra, {"foobar"}, {"bar"}).empty());
}

}  // namespace
}  // namespace kintsugi::auth
