#include "kinds/policies/internal/access_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::kinds {
namespace {

class SlowAuthorizer final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& attributes, Done done) override {
    asked.push_back(attributes);
    if (slow) {
      waiting.push_back(std::move(done));
    } else {
      done(auth::Decision{true, "at once"});
    }
  }
  std::vector<auth::Attributes> asked;
  std::vector<Done> waiting;
  bool slow = false;
};

cel::AccessQuestion question(const char* name) {
  cel::AccessQuestion out;
  out.group = "ex.io";
  out.resource = "widgets";
  out.name = name;
  out.verb = "get";
  return out;
}

TEST(AccessCache, WhenAnswersComeAtOnce_AsksOnce) {
  SlowAuthorizer authorizer;
  auth::UserInfo user;
  user.name = "u";
  const auto cache = std::make_shared<AccessCache>(authorizer, user, "lc");
  for (int i = 0; i < 2; ++i) {
    const auto answer = cache->ask(question("a"));
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->allowed);
    EXPECT_EQ(answer->reason, "at once");
  }
  EXPECT_FALSE(cache->is_waiting());
  ASSERT_EQ(authorizer.asked.size(), 1U);
  EXPECT_EQ(authorizer.asked[0].user.name, "u");
  EXPECT_EQ(authorizer.asked[0].cluster, "lc");
  cel::AccessQuestion account = question("a");
  account.account_namespace = "ns";
  account.account = "robot";
  ASSERT_TRUE(cache->ask(account));
  EXPECT_EQ(authorizer.asked[1].user.name, "system:serviceaccount:ns:robot");
}

TEST(AccessCache, WhenAnswersTakeTime_TellsWhenAllAreThere) {
  SlowAuthorizer authorizer;
  authorizer.slow = true;
  const auto cache = std::make_shared<AccessCache>(authorizer, auth::UserInfo(), "lc");
  EXPECT_FALSE(cache->ask(question("a")));
  EXPECT_FALSE(cache->ask(question("b")));
  EXPECT_TRUE(cache->is_waiting());
  int settled = 0;
  cache->settled([&] { ++settled; });
  authorizer.waiting[0](auth::Decision{false, ""});
  EXPECT_EQ(settled, 0);
  authorizer.waiting[1](fail(Errc::kUnavailable, "gone"));
  EXPECT_EQ(settled, 1);
  EXPECT_FALSE(cache->ask(question("a"))->allowed);
  EXPECT_EQ(cache->ask(question("b"))->error, "gone");
  EXPECT_EQ(authorizer.asked.size(), 2U);
}

}  // namespace
}  // namespace kintsugi::kinds
