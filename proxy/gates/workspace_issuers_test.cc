#include "proxy/gates/workspace_issuers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "net/testing/support.h"
#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using net::testing::run_until;
using topology::ShardId;

/// Two shards: cluster types lives on the first, cluster team, of type root:types:t, on the second.
class WorkspaceIssuersTest : public ::testing::Test {
 protected:
  WorkspaceIssuersTest() {
    one_ = index_.upsert_shard(shard("one")).id;
    two_ = index_.upsert_shard(shard("two")).id;
    index_.set_shards_listed();
    for (const ShardId id : {one_, two_}) {
      for (std::size_t i = 0; i < topology::kResources; ++i) {
        index_.set_synced(id, static_cast<topology::Resource>(i), true);
      }
    }
    index_.upsert_cluster(one_, {"root", "root", "", false});
    index_.upsert_cluster(one_, topology::owned("c-types", "root", "types", "root:types"));
    index_.upsert_cluster(two_, {"c-team", "root:team", "root:types:t", false});
    index_.upsert_cluster(two_, {"c-plain", "root:plain", "", false});
    index_.upsert_workspace(one_, topology::edge("root", "types", "c-types"));
    publisher_.publish(index_.freeze());
    tokens_ = std::make_unique<WorkspaceTokens>(loop_, publisher_.attach(loop_), seconds(60));
    book_ = std::make_unique<WorkspaceIssuerBook>(loop_, feed_,
                                                  [this](const WorkspaceIssuersPtr& issuers) {
                                                    ++publications_;
                                                    last_ = issuers;
                                                    tokens_->set_issuers(issuers);
                                                  });
  }
  static topology::ShardSpec shard(const std::string& name) {
    topology::ShardSpec spec;
    spec.name = name;
    spec.base_url = "http://127.0.0.1:1";
    return spec;
  }
  void type(ShardId where, const std::string& configuration) {
    Json object;
    if (!configuration.empty()) {
      object.make({"spec", "authenticationConfigurations"})
          .push_back(Json::object({{"name", Json(configuration)}}));
    }
    object.make({"metadata", "annotations", "kcp.io/path"}) = "root:types";
    book_->on_change(topology::WorkspaceTypeChanged{{where, "c-types", "t", &object}});
  }
  void configuration(ShardId where, const std::string& name, const std::string& url) {
    Json object = *Json::parse(
        R"({"spec":{"jwt":[{"issuer":{"audiences":["a"]},
            "claimMappings":{"username":{"claim":"sub","prefix":""}}}]}})");
    object.at({"spec", "jwt"})->edit_items()[0].make({"issuer", "url"}) = url;
    book_->on_change(topology::WorkspaceAuthenticationChanged{{where, "c-types", name, &object}});
  }
  void settle() {
    const int before = publications_;
    run_until(loop_, [&] { return publications_ != before; });
  }
  /// What becomes of a token: "?" while it waits.
  [[nodiscard]] std::shared_ptr<std::string> begin(const std::string& cluster) {
    auto answer = std::make_shared<std::string>("?");
    tokens_->authenticate_token(std::make_shared<const auth::Bearer>("x"), {}, cluster,
                                [answer](auto result) {
                                  *answer = !result ? std::string(errc_name(result.error().code()))
                                            : !*result ? "none"
                                                       : (*result)->user.name;
                                });
    return answer;
  }
  [[nodiscard]] std::string ask(const std::string& cluster) { return *begin(cluster); }

  net::Loop loop_{"test"};
  topology::Index index_;
  topology::SnapshotPublisher publisher_;
  topology::Feed feed_{loop_,
                       [] {
                         topology::FeedParams params;
                         params.has_root = false;
                         return params;
                       }(),
                       publisher_};
  ShardId one_ = 0, two_ = 0;
  std::unique_ptr<WorkspaceTokens> tokens_;
  std::unique_ptr<WorkspaceIssuerBook> book_;
  WorkspaceIssuersPtr last_;
  int publications_ = 0;
};

TEST_F(WorkspaceIssuersTest, FP128_WhenTwoShardsHoldAType_TheOwnersCounts) {
  type(two_, "elsewhere");
  configuration(two_, "elsewhere", "https://two.example");
  book_->on_change(topology::AuthenticationSynced{two_});
  book_->on_change(topology::AuthenticationSynced{one_});
  settle();
  EXPECT_FALSE(tokens_->concern("c-team", true)) << "a copy on another shard";
  type(one_, "own");
  configuration(one_, "own", "https://one.example");
  settle();
  EXPECT_TRUE(tokens_->concern("c-team", false));
  EXPECT_FALSE(tokens_->concern("c-plain", true)) << "no type";
  EXPECT_FALSE(tokens_->concern("nowhere", true));
  EXPECT_EQ(ask("c-team"), "none");
  type(one_, "");
  settle();
  EXPECT_FALSE(tokens_->concern("c-team", true));
}

TEST_F(WorkspaceIssuersTest, FP128_WhileTheShardHasNotTold_TokensWait) {
  EXPECT_TRUE(tokens_->concern("c-team", true));
  EXPECT_FALSE(tokens_->concern("c-team", false)) << "nothing is known against nobody";
  EXPECT_EQ(ask("c-plain"), "none");
  const auto first = begin("c-team"), second = begin("c-team");
  book_->on_change(topology::AuthenticationSynced{two_});
  settle();
  EXPECT_EQ(*first, "?") << "another shard";
  book_->on_change(topology::AuthenticationSynced{one_});
  EXPECT_TRUE(run_until(loop_, [&] { return *first == "none" && *second == "none"; }));
  EXPECT_EQ(ask("c-team"), "none");
}

TEST_F(WorkspaceIssuersTest, FP128_WhenTheShardDoesNotTell_TokensAreRefusedForNow) {
  const auto ended = begin("c-team");
  tokens_.reset();
  EXPECT_EQ(*ended, "Unavailable");
  tokens_ = std::make_unique<WorkspaceTokens>(loop_, publisher_.attach(loop_), milliseconds(20));
  const auto late = begin("c-team");
  EXPECT_EQ(*late, "?");
  EXPECT_TRUE(run_until(loop_, [&] { return *late == "Unavailable"; }));
  std::vector<std::shared_ptr<std::string>> many;
  for (int i = 0; i < 256; ++i) {
    many.push_back(begin("c-team"));
  }
  EXPECT_EQ(ask("c-team"), "Unavailable") << "as many wait as may";
  EXPECT_TRUE(run_until(loop_, [&] { return *many.back() == "Unavailable"; }));
}

TEST_F(WorkspaceIssuersTest, WhenAConfigurationIsWrongOrUnchanged_NothingHappens) {
  type(one_, "own");
  configuration(one_, "own", "https://one.example");
  settle();
  const auto kept = last_->configurations.begin()->second;
  type(one_, "own");
  configuration(one_, "own", "https://one.example");  // a relist
  configuration(one_, "other", "http://plain.example");
  type(one_, "another");
  settle();
  EXPECT_EQ(publications_, 2);
  EXPECT_EQ(last_->configurations.size(), 1U) << "http is refused";
  EXPECT_EQ(last_->configurations.begin()->second, kept) << "its keys stay";
  topology::ShardInfo info;
  info.id = one_;
  book_->on_change(topology::ShardChanged{info, true});
  settle();
  EXPECT_TRUE(last_->configurations.empty() && last_->types.empty());
}

}  // namespace
}  // namespace kintsugi::proxy
