// Plain servers come, go and change (sources `static` and `clusterprofiles`).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shards/testing/support.h"
#include "topology/feed.h"
#include "topology/shard_pool.h"

namespace kintsugi::topology {
namespace {

using shards::testing::FakeServer;
using shards::testing::run_until;

class PlainShards : public ::testing::Test, public FeedListener {
 protected:
  PlainShards() {
    FeedParams params;
    params.has_root = false;
    params.lists_shards = false;
    params.publish_after = milliseconds(1);
    params.shard = [](const std::string& /*shard*/, const std::string& url) {
      return Expected<net::UpstreamParams>(FakeServer::upstream(url));
    };
    feed = std::make_unique<Feed>(loop, std::move(params), publisher);
    view = publisher.attach(loop);
    feed->add_listener(*this);
    feed->start();
    server.open();
  }
  ~PlainShards() override { feed->remove_listener(*this); }
  void on_change(const ShardChanged& change) override {
    log.push_back((change.removed ? "-" : "+") + change.shard.spec.name + " " +
                  change.shard.spec.uid);
  }
  [[nodiscard]] ShardSpec plain(const std::string& name, const std::string& uid,
                                std::uint64_t access = 1) const {
    ShardSpec spec;
    spec.name = name;
    spec.uid = uid;
    spec.base_url = server.url();
    spec.plain = true;
    spec.access = access;
    return spec;
  }
  std::vector<std::string> take() { return std::exchange(log, {}); }

  net::Loop loop{"test"};
  FakeServer server{loop};
  SnapshotPublisher publisher;
  std::shared_ptr<SnapshotView> view;
  std::unique_ptr<Feed> feed;
  std::vector<std::string> log;
};

using Lines = std::vector<std::string>;

TEST_F(PlainShards, GR_703_AnotherUidOfAName_IsAnotherShard) {
  feed->put_static({plain("a", "1"), plain("b", "2")});
  const ShardId before = feed->index().shard("a")->id;
  const ShardId other = feed->index().shard("b")->id;
  EXPECT_EQ(take(), (Lines{"+a 1", "+b 2"}));
  feed->put_static({plain("a", "3"), plain("b", "2")});
  EXPECT_EQ(take(), (Lines{"-a 1", "+a 3"}));  // nothing is said of b
  EXPECT_NE(feed->index().shard("a")->id, before);
  EXPECT_EQ(feed->index().shard("b")->id, other);
  feed->put_static({plain("b", "2")});
  EXPECT_EQ(take(), (Lines{"-a 3"}));
}

/// Who has another way to its server gets connections anew, and nobody else does.
TEST_F(PlainShards, GR_703_AnotherWayToAShard_MakesItsConnectionsAnew) {
  std::vector<std::string> made;
  std::vector<std::string> moved;
  ShardPool pool(loop, view, [&](const std::string& shard, const std::string& url) {
    made.push_back(shard);
    return Expected<net::UpstreamParams>(FakeServer::upstream(url));
  });
  pool.on_moved([&](const shards::ShardClient& client) { moved.push_back(client.name()); });
  feed->put_static({plain("a", "1"), plain("b", "2")});
  ASSERT_TRUE(run_until(loop, [&] { return made.size() == 2; }));
  const ShardId a = feed->index().shard("a")->id;
  const net::Upstream* const before = pool.find(a)->upstream();
  made.clear();
  moved.clear();
  feed->put_static({plain("a", "1", 2), plain("b", "2")});
  EXPECT_EQ(feed->index().shard("a")->id, a);  // the slot and the streams' positions stay
  ASSERT_TRUE(run_until(loop, [&] { return !made.empty(); }));
  EXPECT_EQ(made, (Lines{"a"}));
  EXPECT_EQ(moved, (Lines{"a"}));
  EXPECT_NE(pool.find(a)->upstream(), before);
}

/// A data loop's certificate is believed for whoever the headers name: without one it is refused.
TEST_F(PlainShards, GR_301_WhetherAProcessIsBack_IsAskedAsNobody) {
  FakeServer other(loop);
  other.open();
  other.serve("/readyz", 200, "ok");
  ShardPool pool(loop, view, [](const std::string& /*shard*/, const std::string& url) {
    return Expected<net::UpstreamParams>(FakeServer::upstream(url));
  });
  ShardSpec spec = plain("a", "1");
  spec.replica_urls = {other.url()};
  feed->put_static({spec});
  const auto asked = [&] {
    return std::any_of(other.log.begin(), other.log.end(), [](const auto& one) {
      return one.target == "/readyz" && one.headers.get("x-remote-user") == "system:anonymous" &&
             one.headers.get("x-remote-group") == "system:unauthenticated";
    });
  };
  EXPECT_TRUE(run_until(loop, asked));
}

TEST_F(PlainShards, GR_703_WhatAProbeIsAnsweredWith_IsKnown) {
  server.serve("/livez", 401, "{}");
  feed->put_static({plain("a", "1")});
  ASSERT_TRUE(run_until(loop, [&] { return feed->status().front().probe_status == 401; }));
  EXPECT_TRUE(feed->status().front().up);  // it answers
}

}  // namespace
}  // namespace kintsugi::topology
