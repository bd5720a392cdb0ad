#include "controlplane/internal/shard_accounts.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "auth/authenticators.h"
#include "base/time.h"
#include "krm/json.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// A shard that has logical cluster `here`; others answer as answer() tells.
class ShardAccountsTest : public ::testing::Test {
 protected:
  ShardAccountsTest() {
    auth::ServiceAccountTokenConfig config;
    config.keys = {*auth::JwtKey::generate()};
    tokens_ = std::make_shared<const auth::ServiceAccountTokens>(std::move(config));
    ShardAccounts::Params params;
    params.here = [this](const auth::ServiceAccountClaims& claims,
                         const std::function<void(Expected<void>)>& done) {
      ++looked_up_;
      done(claims.name == "lives" ? Expected<void>() : fail(Errc::kUnauthorized, "gone"));
    };
    params.is_here = [](std::string_view cluster) { return cluster == "here"; };
    params.others = [this] { return others_; };
    params.knows_all = [this] { return knows_all_; };
    params.issue = [this](const auth::ServiceAccountClaims& claims) {
      return tokens_->issue(claims);
    };
    params.send = [this](const std::string& shard, const net::FetchRequest& request,
                         ShardAccounts::Answered done) {
      asked_.push_back(shard);
      request_ = request;
      waiting_.emplace_back(shard, std::move(done));
    };
    params.fresh = seconds(1'000);
    params.stale = seconds(0);
    accounts_ = std::make_unique<ShardAccounts>(loop_, std::move(params));
  }
  static auth::ServiceAccountClaims claims_of(const char* cluster, const char* name = "lives",
                                              const char* secret = "") {
    auth::ServiceAccountClaims claims;
    claims.ns = "default";
    claims.name = name;
    claims.uid = "u";
    claims.cluster = cluster;
    claims.bound_kind = *secret == '\0' ? "" : "Secret";
    claims.bound_name = secret;
    return claims;
  }
  std::shared_ptr<std::string> ask(const auth::ServiceAccountClaims& claims) {
    auto out = std::make_shared<std::string>("?");
    accounts_->check(claims, [out](const Expected<void>& result) {
      *out = result ? "lives" : std::string(errc_name(result.error().code()));
    });
    return out;
  }
  /// What the shards that were asked say, in their order.
  void answer(const std::map<std::string, std::string>& says) {
    auto waiting = std::exchange(waiting_, {});
    for (auto& [shard, done] : waiting) {
      const std::string word = says.at(shard);
      net::FetchResponse response;
      response.status = word == "denied" ? 403 : word == "broken" ? 500 : 201;
      response.body = word == "no" ? R"({"status":{"user":{},"error":"invalid bearer token"}})"
                                   : R"({"status":{"authenticated":true,"user":{"username":)" +
                                         (R"("system:serviceaccount:default:)" +
                                          std::string(word == "other" ? "else" : "lives")) +
                                         R"(","uid":"u"}}})";
      done(word == "away" ? Expected<net::FetchResponse>(fail(Errc::kUnreachable))
                          : Expected<net::FetchResponse>(std::move(response)));
    }
  }

  net::Loop loop_{"test"};
  std::shared_ptr<const auth::ServiceAccountTokens> tokens_;
  std::vector<std::string> others_ = {"one", "two"};
  bool knows_all_ = true;
  std::vector<std::string> asked_;
  net::FetchRequest request_;
  std::vector<std::pair<std::string, ShardAccounts::Answered>> waiting_;
  int looked_up_ = 0;
  std::unique_ptr<ShardAccounts> accounts_;
};

TEST_F(ShardAccountsTest, KK331_WhenTheClusterIsHere_NobodyElseIsAsked) {
  EXPECT_EQ(*ask(claims_of("here")), "lives");
  EXPECT_EQ(*ask(claims_of("here", "gone")), "Unauthorized");
  EXPECT_EQ(*ask(claims_of("")), "Unauthorized");
  EXPECT_EQ(*ask(claims_of("root:a")), "Unauthorized");
  EXPECT_EQ(looked_up_, 2);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(ShardAccountsTest, KK331_WhenTheClusterIsElsewhere_ItsShardSaysWhetherTheAccountLives) {
  const auto first = ask(claims_of("there")), second = ask(claims_of("there"));
  EXPECT_EQ(*first, "?");
  EXPECT_EQ(asked_, (std::vector<std::string>{"one", "two"})) << "once for both";
  EXPECT_EQ(request_.target, "/clusters/there/apis/authentication.k8s.io/v1/tokenreviews");
  EXPECT_EQ(request_.method, "POST");
  answer({{"one", "denied"}, {"two", "yes"}});
  EXPECT_EQ(*first, "lives");
  EXPECT_EQ(*second, "lives");
  EXPECT_EQ(*ask(claims_of("there")), "lives") << "believed for a while";
  asked_.clear();
  const auto other = ask(claims_of("there", "lives", "bound"));
  EXPECT_EQ(asked_, std::vector<std::string>{"two"}) << "who knew the cluster before";
  answer({{"two", "denied"}});
  EXPECT_EQ(asked_, (std::vector<std::string>{"two", "one"})) << "it moved";
  answer({{"one", "yes"}});
  EXPECT_EQ(*other, "lives");
  EXPECT_EQ(looked_up_, 0);
}

/// Whoever is asked gets nothing that he could use as the account.
TEST_F(ShardAccountsTest, KK315_WhenAShardIsAsked_ItGetsATokenForTheQuestionAlone) {
  static_cast<void>(ask(claims_of("there", "lives", "bound")));
  const Expected<Json> body = Json::parse(request_.body);
  ASSERT_TRUE(body);
  const auth::Bearer token(body->text({"spec", "token"}));
  ASSERT_EQ(body->at({"spec", "audiences"})->size(), 1U);
  const std::string audience(body->at({"spec", "audiences"})->items()[0].as_string());
  EXPECT_FALSE(tokens_->verify(token, {}, unix_seconds())) << "a server lets nobody in with it";
  const auto claims = tokens_->verify(token, {audience}, unix_seconds());
  ASSERT_TRUE(claims);
  EXPECT_EQ(claims->name, "lives");
  EXPECT_EQ(claims->uid, "u");
  EXPECT_EQ(claims->cluster, "there");
  EXPECT_EQ(claims->bound_name, "bound");
  EXPECT_FALSE(tokens_->verify(token, {audience}, unix_seconds() + 300)) << "nor for long";
}

TEST_F(ShardAccountsTest, KK331_KKT135_WhenNobodyKnowsTheAccount_TheTokenEnds) {
  const auto gone = ask(claims_of("there"));
  answer({{"one", "no"}, {"two", "denied"}});
  EXPECT_EQ(*gone, "Unauthorized");
  const auto renamed = ask(claims_of("there"));
  answer({{"one", "other"}, {"two", "denied"}});
  EXPECT_EQ(*renamed, "Unauthorized") << "another account";
  others_.clear();
  EXPECT_EQ(*ask(claims_of("nowhere")), "Unauthorized");
}

TEST_F(ShardAccountsTest, KK331_WhenAShardIsAway_NobodySaysThatTheAccountIsGone) {
  const auto unsure = ask(claims_of("there"));
  answer({{"one", "away"}, {"two", "denied"}});
  EXPECT_EQ(*unsure, "Unavailable");
  const auto failing = ask(claims_of("there"));
  answer({{"one", "broken"}, {"two", "no"}});
  EXPECT_EQ(*failing, "Unavailable");
  const auto known = ask(claims_of("there"));
  answer({{"one", "away"}, {"two", "yes"}});
  EXPECT_EQ(*known, "lives");
  knows_all_ = false;
  const auto early = ask(claims_of("other"));
  answer({{"one", "denied"}, {"two", "denied"}});
  EXPECT_EQ(*early, "Unavailable") << "there may be more shards";
}

TEST_F(ShardAccountsTest, WhenItStops_NobodyIsTold) {
  const auto late = ask(claims_of("there"));
  accounts_->stop();
  answer({{"one", "yes"}, {"two", "yes"}});
  EXPECT_EQ(*late, "?");
}

}  // namespace
}  // namespace kintsugi::controlplane
