#include "proxy/forwarding/backend_check.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "net/testing/support.h"

namespace kintsugi::proxy {
namespace {

std::string refusal(const std::string& name) {
  return R"({"kind":"Status","message":"selfsubjectreviews.authentication.k8s.io is forbidden: User )"
         R"(\")" +
         name +
         R"(\" cannot create resource \"selfsubjectreviews\" in API group )"
         R"(\"authentication.k8s.io\" at the cluster scope: access denied"})";
}

std::string review(const std::string& name) {
  return R"({"kind":"SelfSubjectReview","status":{"userInfo":{"username":")" + name +
         R"(","groups":["kintsugi-backend-check-1"]}}})";
}

TEST(BackendCheck, WhenAServerTells_FP162_TheNameIsTakenAsAWhole) {
  const struct {
    int status;
    std::string body, user;
  } cases[] = {
      {201, review("probe"), "probe"},
      {200, review("probe"), "probe"},
      {201, review("user-of-probe-1"), "user-of-probe-1"},
      {403, refusal("probe"), "probe"},
      {403, refusal("x-probe-x"), "x-probe-x"},
      {403, refusal("a b: c"), "a b: c"},
      {201, R"({"status":{"userInfo":{}},"x":"probe"})", ""},
      {200, R"({"headers":{"x-remote-user":"probe"}})", ""},
      {200, R"("probe")", ""},
      {404, review("probe"), ""},
      {401, refusal("probe"), ""},
      {403, R"({"kind":"Status","message":"no access for probe"})", ""},
      {403,
       R"({"kind":"Echo","message":"selfsubjectreviews.authentication.k8s.io is forbidden: )"
       R"(User \"probe\" cannot create resource \"selfsubjectreviews\""})",
       ""},
      {403, "probe", ""},
      {403,
       R"({"kind":"Status","message":"forbidden: User \"probe\" cannot get path \"/metrics\""})",
       "probe"},
      {403, R"({"kind":"Status","message":"no: forbidden: User \"probe\" cannot get path \"/x\""})",
       ""},
      {200, R"({"kind":"Status","message":"forbidden: User \"probe\" cannot get path \"/x\""})",
       ""},
      {500, "", ""},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(reviewed_user(one.status, one.body), one.user) << one.status << " " << one.body;
  }
}

TEST(BackendCheck, WhenAServerDoesNotTell_FP162_NoConnectionIsKeptUntilItIsAskedAgain) {
  net::testing::Pair pair(net::testing::Pair::Mode::kH2Plain);
  bool told = false, tried = false;
  std::vector<BackendTarget> targets(1);
  targets[0].what = "shard a";
  targets[0].server = pair.upstream_params;
  const BackendCheck check(
      pair.loop, std::move(targets),
      {.told = [&](const Expected<void>&) { told = true; }, .tried = [&] { tried = true; }});
  ASSERT_TRUE(pair.until([&] { return tried; }));
  const std::size_t asked = pair.server.requests;
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().connections == 0; }));
  ASSERT_TRUE(pair.until([&] { return pair.server.requests > asked; }));
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().connections == 0; }));
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace kintsugi::proxy
