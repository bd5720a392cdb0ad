#include "auth/impersonation_gate.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

http::HeaderList headers_of(const Fields& fields) {
  http::HeaderList headers;
  for (const auto& [name, value] : fields) {
    headers.add(name, value);
  }
  return headers;
}

UserInfo requester(std::vector<std::string> groups = {"system:authenticated"}) {
  UserInfo user;
  user.name = "ann";
  user.groups = std::move(groups);
  return user;
}

int code_of(const Fields& fields, const UserInfo& user,
            ImpersonationPlace place = ImpersonationPlace::kCluster) {
  const auto wanted = admit_impersonation(headers_of(fields), &user, place);
  if (wanted) {
    return 200;
  }
  if (wanted.error().code() == Errc::kForbidden) {
    EXPECT_EQ(wanted.error().message(),
              "forbidden: impersonation is not allowed for the requestor");
    return 403;
  }
  EXPECT_EQ(wanted.error().code(), Errc::kBadRequest);
  return 400;
}

/// KK-324: nobody but system:masters may ask for these, whatever rights there are.
const std::vector<Fields>& refused() {
  static const std::vector<Fields> kRefused = {
      {{"impersonate-user", "x"}, {"impersonate-group", "system:masters"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kcp:admin"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kcp:logical-cluster-admin"}},
      {{"impersonate-user", "x"},
       {"impersonate-group", "system:kcp:external-logical-cluster-admin"}},
      {{"impersonate-user", "x"},
       {"impersonate-group", "system:kcp:tenancy:workspace-bootstrapper"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kcp:initializer:root:t"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kcp:terminator:root:t"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kcp:other"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:cluster:B"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:kintsugi:proxy"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "apis.kcp.io:binding:y"}},
      {{"impersonate-user", "x"}, {"impersonate-group", "system:nodes"}},
      {{"impersonate-user", "x"},
       {"impersonate-group", "harmless"},
       {"impersonate-group", "system:masters"}},
      {{"impersonate-group", "system:masters"}},
      {{"impersonate-user", "system:kcp:serviceaccount:c:ns:r"}},
      {{"impersonate-user", "system:apiserver"}},
      {{"impersonate-user", "system:admin"}},
      {{"impersonate-user", "system:kintsugi:shard"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-authorization.kcp.io%2fwarrant", "{}"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-authorization.kcp.io/warrant", "{}"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-authorization%2ekcp%2eio%2fwarrant", "{}"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-authorization.%4bcp.io%2fwarrant", "{}"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-authentication.kcp.io%2fcluster-name", "B"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-kcp.io%2fwhatever", "B"}},
      {{"impersonate-user", "x"}, {"impersonate-extra-a.b.kcp.io%2fwhatever", "B"}},
  };
  return kRefused;
}

std::string spelled(std::string name, int spelling) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (spelling == 1) {
      name[i] = static_cast<char>(std::toupper(name[i]));
    } else if (spelling == 2 && name[i] == '-' && i < sizeof "impersonate-extra") {
      name[i] = '_';
    }
  }
  return name;
}

TEST(ImpersonationGate, WhenWhatIsAskedForIsReserved_KK324_IsRefusedInEverySpelling) {
  for (const Fields& one : refused()) {
    for (const int spelling : {0, 1, 2}) {
      Fields fields = one;
      for (auto& [name, value] : fields) {
        name = spelled(name, spelling);
      }
      const std::string what = fields.back().first + ": " + fields.back().second;
      EXPECT_EQ(code_of(fields, requester()), 403) << what;
      EXPECT_EQ(code_of(fields, requester({})), 403) << what;
    }
  }
}

TEST(ImpersonationGate, WhenTheRequesterIsOfTheMasters_KK321_AnythingPasses) {
  for (const Fields& fields : refused()) {
    const bool has_user = fields.front().first == "impersonate-user";
    EXPECT_EQ(code_of(fields, requester({"system:masters"})), has_user ? 200 : 400);
    EXPECT_EQ(code_of(fields, requester({"system:masters"}), ImpersonationPlace::kShared),
              has_user ? 200 : 400);
  }
}

TEST(ImpersonationGate, WhenAGroupIsOnesOwn_KK320_ItMayBeNamed) {
  const auto group = [](const char* name) {
    return Fields{{"impersonate-user", "bob"}, {"impersonate-group", name}};
  };
  EXPECT_EQ(code_of(group("system:authenticated"), requester()), 200);
  EXPECT_EQ(code_of(group("system:authenticated"), requester({})), 403);
  EXPECT_EQ(code_of(group("system:kcp:admin"), requester({"system:kcp:admin"})), 200);
  EXPECT_EQ(code_of(group("system:kcp:logical-cluster-admin"),
                    requester({"system:kcp:logical-cluster-admin"})),
            403)
      << "only that of administrators";
  for (const char* harmless : {"devs", "system:serviceaccounts", "system:unauthenticated",
                               "system:kcpx", "system:clusters", "apis.kcp.ioX"}) {
    EXPECT_EQ(code_of(group(harmless), requester()), 200) << harmless;
  }
}

TEST(ImpersonationGate, WhenHarmless_IsReadAsItIs) {
  const UserInfo ann = requester();
  const auto wanted = admit_impersonation(
      headers_of({{"impersonate-user", "bob"},
                  {"impersonate-uid", "7"},
                  {"impersonate-group", "devs"},
                  {"impersonate-extra-authentication.kcp.io%2fscopes", "cluster:a"},
                  {"impersonate-extra-acme.org%2fteam", "blue"},
                  {"impersonate-extra-acme.org%2fteam", "red"}}),
      &ann, ImpersonationPlace::kCluster);
  ASSERT_TRUE(wanted && *wanted);
  EXPECT_EQ((*wanted)->name, "bob");
  EXPECT_EQ((*wanted)->uid, "7");
  EXPECT_EQ((*wanted)->groups, std::vector<std::string>{"devs"});
  EXPECT_EQ(*(*wanted)->extra_values("acme.org/team"), (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(*(*wanted)->extra_values("authentication.kcp.io/scopes"),
            std::vector<std::string>{"cluster:a"});
  EXPECT_FALSE(
      *admit_impersonation(headers_of({{"accept", "x"}}), &ann, ImpersonationPlace::kShared));
}

TEST(ImpersonationGate, WhenThePlaceIsShared_KK327_NobodySpeaksForOthers) {
  for (const char* name : {"impersonate-user", "Impersonate-Group", "impersonate_uid",
                           "IMPERSONATE-EXTRA-X", "impersonate-anything"}) {
    EXPECT_EQ(code_of({{name, "x"}}, requester({"system:kcp:admin"}), ImpersonationPlace::kShared),
              403)
        << name;
  }
}

TEST(ImpersonationGate, WhenTooMuchIsAskedFor_SE051_IsABadRequest) {
  Fields many = {{"impersonate-user", "bob"}};
  for (int i = 0; i < 63; ++i) {
    many.emplace_back("impersonate-group", "g" + std::to_string(i));
  }
  const UserInfo masters = requester({"system:masters"});
  for (const UserInfo& who : {requester(), masters}) {
    EXPECT_EQ(code_of(many, who), 200);
    Fields more = many;
    more.emplace_back("impersonate-extra-x", "y");
    EXPECT_EQ(code_of(more, who), 400);
    EXPECT_EQ(code_of({{"impersonate-user", "bob"},
                       {"impersonate-group", std::string(std::size_t{64} << 10, 'g')}},
                      who),
              400);
    EXPECT_EQ(code_of({{"impersonate-user", "bob"}, {"impersonate-user", "bob"}}, who), 400);
    EXPECT_EQ(code_of({{"impersonate-user", "bob"}, {"impersonate_user", "eve"}}, who), 400);
    EXPECT_EQ(
        code_of({{"impersonate-user", "bob"}, {"impersonate-uid", "1"}, {"Impersonate-Uid", "2"}},
                who),
        400);
    EXPECT_EQ(code_of({{"impersonate-group", "devs"}}, who), 400);
    EXPECT_EQ(code_of({{"impersonate-uid", "1"}}, who), 400);
  }
}

TEST(ImpersonationGate, WhenTheRequesterIsNotKnown_OnlyWhatAServerCannotJudgeIsRefused) {
  const auto code = [](const char* group, ImpersonationPlace place) {
    const auto wanted = admit_impersonation(
        headers_of({{"impersonate-user", "bob"}, {"impersonate-group", group}}), nullptr, place);
    return wanted ? 200 : 403;
  };
  EXPECT_EQ(code("system:authenticated", ImpersonationPlace::kCluster), 200);
  EXPECT_EQ(code("system:kcp:admin", ImpersonationPlace::kCluster), 200);
  EXPECT_EQ(code("system:masters", ImpersonationPlace::kCluster), 403);
  EXPECT_EQ(code("system:kcp:initializer:x", ImpersonationPlace::kCluster), 403);
  EXPECT_EQ(code("devs", ImpersonationPlace::kShared), 403);
}

TEST(ImpersonationGate, WhenSpelledOddly_GetsItsUsualName) {
  http::HeaderList headers = headers_of({{"impersonate-user", "bob"},
                                         {"impersonate_group", "devs"},
                                         {"impersonate-extra_x", "1"},
                                         {"impersonate-extra-a_b", "2"},
                                         {"x_impersonate", "3"}});
  spell_impersonation(headers);
  std::string left;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    left += std::string(headers[i].name) + " ";
  }
  EXPECT_EQ(left,
            "impersonate-user impersonate-group impersonate-extra-x impersonate-extra-a_b "
            "x_impersonate ");
}

}  // namespace
}  // namespace kintsugi::auth
