#include "topology/shard_status.h"

#include <gtest/gtest.h>

namespace kintsugi::topology {
namespace {

Feed::ShardStatus good() {
  Feed::ShardStatus shard;
  shard.name = "a";
  shard.base_url = "https://a";
  shard.up = true;
  for (Feed::ResourceStatus& one : shard.resources) {
    one.synced = true;
    one.last_status = 200;
  }
  return shard;
}

/// "True", or "<status> <reason> <severity> <message>".
std::string say(const Feed::ShardStatus& shard, std::size_t which) {
  const Condition condition = shard_conditions(shard)[which];
  return condition.reason.empty() ? condition.status
                                  : condition.status + " " + condition.reason + " " +
                                        condition.severity + " " + condition.message;
}
std::string ready(const Feed::ShardStatus& shard) { return say(shard, 0); }
std::string synced(const Feed::ShardStatus& shard) { return say(shard, 1); }

TEST(ShardConditions, TP108_WhenItAnswersEverything_IsReadyAndSynced) {
  EXPECT_EQ(ready(good()), "True");
  EXPECT_EQ(synced(good()), "True");
}

TEST(ShardConditions, TP108_WhenItIsDown_SaysWhy) {
  Feed::ShardStatus shard = good();
  shard.up = false;
  shard.cause = "Refused";
  EXPECT_EQ(ready(shard), "False Unreachable Error Refused");
  EXPECT_EQ(synced(shard), "True");  // what is known is still used
  shard.cause = "Tls";
  EXPECT_EQ(ready(shard), "False CertificateInvalid Error Tls");
}

TEST(ShardConditions, TP108_WhenItRefusesTheProxy_IsUnauthorized) {
  Feed::ShardStatus shard = good();
  shard.resources[0].last_status = 403;  // one kind alone: a stale identity, say
  EXPECT_EQ(ready(shard), "True");
  for (Feed::ResourceStatus& one : shard.resources) {
    one.last_status = 403;
    one.synced = false;
  }
  EXPECT_EQ(ready(shard).substr(0, 18), "False Unauthorized");
  EXPECT_EQ(synced(shard), "False Syncing Info workspaces: HTTP 403");
  shard = good();
  shard.resources[3].last_status = 401;
  EXPECT_EQ(ready(shard).substr(0, 18), "False Unauthorized");
}

TEST(ShardConditions, TP108_WhenNothingWasHeardYet_IsNotProbed) {
  Feed::ShardStatus shard;
  shard.up = true;
  EXPECT_EQ(ready(shard), "Unknown NotProbed  no answer of the shard yet");
  EXPECT_EQ(synced(shard), "False Syncing Info workspaces: not answered yet");
  shard.resources[1].last_status = 404;
  EXPECT_EQ(ready(shard), "True");
}

TEST(ShardConditions, WhenItsUrlIsUseless_IsUnreachable) {
  Feed::ShardStatus shard;
  shard.up = true;
  shard.cause = "Config: no URL";
  EXPECT_EQ(ready(shard), "False Unreachable Error Config: no URL");
}

}  // namespace
}  // namespace kintsugi::topology
