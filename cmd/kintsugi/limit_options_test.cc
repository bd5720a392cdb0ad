#include "cmd/kintsugi/limit_options.h"

#include <gtest/gtest.h>

#include "controlplane/quotas/workspace_quotas.h"

namespace kintsugi::cmd {
namespace {

LimitOptions with(std::vector<std::string> limits) { return {0, std::move(limits), {}}; }

TEST(LimitOptions, R30_EveryKeyOfTheConfigurationIsAnOption) {
  const auto limits = with({"user.rps=1", "user.burst=2", "cluster.concurrent=3", "shard.watches=4",
                            "unauthenticated.rps=5"})
                          .requests();
  ASSERT_TRUE(limits);
  const serving::RequestLimits expected{.user = {.rps = 1, .burst = 2},
                                        .cluster = {.concurrent = 3},
                                        .shard = {.watches = 4},
                                        .unauthenticated_rps = 5};
  EXPECT_EQ(*limits, expected);
  EXPECT_TRUE(with({}).requests()->any() == false);
}

TEST(LimitOptions, SE089_WhatClientsMayHaveOpenIsAnOption) {
  const auto made = with({"connections=7", "connections_per_address=8", "connections_per_user=9",
                          "watches_per_user=10", "watches_per_resource=1"})
                        .make(1);
  ASSERT_TRUE(made);
  const net::ConnectionLimits limits = (*made)->connections()->limits();
  EXPECT_EQ(limits.process, 7U);
  EXPECT_EQ(limits.per_address, 8U);
  EXPECT_EQ(limits.per_payer, 9U);
  serving::RequestLimiter::Pass one, two;
  EXPECT_TRUE(serving::admit_watch((*made)->bounds(), one, "a", "x", TimePoint() + seconds(1)));
  EXPECT_FALSE(serving::admit_watch((*made)->bounds(), two, "a", "x", TimePoint() + seconds(1)));
}

TEST(LimitOptions, WhatIsNoLimitIsRefusedByItsText) {
  for (const char* text : {"", "user", "user.rps", "user.rps=", "user.rps=-1", "user.rps=x",
                           "user=1", "users.rps=1", "user.rate=1", "unauthenticated.burst=1",
                           "merged_per_user=1", "user.rps=99999999999999999999"}) {
    const auto limits = with({text}).requests();
    ASSERT_FALSE(limits) << text;
    EXPECT_NE(limits.error().message().find("\"" + std::string(text) + "\""), std::string::npos);
  }
}

TEST(LimitOptions, SE080_SeatsFollowTheCoresUnlessTheyAreGiven) {
  LimitOptions options;
  EXPECT_EQ((*options.make(1))->seats().seats, serving::ProcessLimits::seats_of_shard());
  options.seats = 10;
  EXPECT_EQ((*options.make(2))->seats().seats, 5U);
  EXPECT_GE(serving::ProcessLimits::seats_at_proxy(), 2'048U);
  EXPECT_GE(serving::ProcessLimits::total_at_proxy(), 2 * serving::ProcessLimits::seats_at_proxy());
}

TEST(LimitOptions, SE093_QuotasOfWorkspacesHaveDefaultsAndMayBeSaidOtherwise) {
  LimitOptions options;
  const auto plain = options.workspace();
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->sums, controlplane::default_quotas());
  EXPECT_EQ(plain->writes, (serving::LimitRule{.rps = 500, .burst = 2'000}));
  EXPECT_EQ(plain->watches, (serving::LimitRule{.watches = 5'000}));
  options.quotas = {"objects=10", "bytes=1Mi", "children=0", "writes.rps=0", "watches=7"};
  const auto said = options.workspace();
  ASSERT_TRUE(said);
  EXPECT_EQ(said->sums[controlplane::column_of(controlplane::Quota::kObjects)], 10);
  EXPECT_EQ(said->sums[controlplane::column_of(controlplane::Quota::kBytes)], 1 << 20);
  EXPECT_EQ(said->sums[controlplane::column_of(controlplane::Quota::kChildren)], store::kNoLimit);
  EXPECT_EQ(said->writes, (serving::LimitRule{.burst = 2'000}));
  EXPECT_EQ(said->watches.watches, 7U);
  for (const char* text : {"", "objects", "objects=", "objects=x", "objects=-1", "objects=0.5",
                           "watches=1k", "things=1", "writes=1"}) {
    options.quotas = {text};
    ASSERT_FALSE(options.workspace()) << text;
    ASSERT_FALSE(options.make(1)) << text;
  }
}

TEST(LimitOptions, SE071_UsersWhoSpeakForOthers_AreKnownToTheProcess) {
  LimitOptions options;
  options.distributed_users = {"gateway", "system:serviceaccount:default:door"};
  const auto made = options.make(1);
  ASSERT_TRUE(made);
  EXPECT_TRUE((*made)->is_distributed("gateway"));
  EXPECT_TRUE((*made)->is_distributed("system:serviceaccount:default:door"));
  EXPECT_FALSE((*made)->is_distributed("alice"));
  for (const char* name : {"", "a\"b", "a\nb"}) {
    options.distributed_users = {name};
    EXPECT_FALSE(options.make(1)) << name;
  }
}

}  // namespace
}  // namespace kintsugi::cmd
