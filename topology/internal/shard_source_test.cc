#include "topology/internal/shard_source.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "shards/testing/support.h"
#include "topology/feed.h"

namespace kintsugi::topology {
namespace {

using shards::testing::FakeServer;
using shards::testing::run_until;

const std::string kAtRoot = "/clusters/root/apis/core.kcp.io/v1alpha1/shards";
const std::string kAtPeer = "/services/admin/apis/core.kcp.io/v1alpha1/shards";

struct Known final : shards::InformerSink {
  std::map<std::string, std::string> shards;  // name -> cluster that shows it
  void on_upsert(const shards::ObjectKey& key, const krm::Json& /*object*/) override {
    shards[std::string(key.name)] = key.cluster;
  }
  void on_delete(const shards::ObjectKey& key) override {
    if (shards[std::string(key.name)] == key.cluster) {
      shards.erase(std::string(key.name));
    }
  }
  void on_synced() override {}
};

class ShardSourceTest : public ::testing::Test {
 protected:
  ShardSourceTest() : root(loop), first(loop), second(loop) {
    for (FakeServer* server : {&root, &first, &second}) {
      server->open();
    }
    root.add_collection(kAtRoot);
    root.put(kAtRoot, "root", "alpha");
    for (FakeServer* peer : {&first, &second}) {
      peer->add_collection(kAtPeer);
      peer->put(kAtPeer, "system:shard", "alpha");
    }
    root_upstream = net::Upstream::make(loop, FakeServer::upstream(root.url()));
    params.root = root_upstream.get();
    params.peers = {FakeServer::upstream(first.url()), FakeServer::upstream(second.url())};
  }
  void start() {
    source = std::make_unique<ShardSource>(loop, params, known);
    source->start();
  }
  bool until(const std::function<bool()>& done) { return run_until(loop, done); }
  [[nodiscard]] bool shows(const std::string& cluster) const {
    const auto found = known.shards.find("alpha");
    return found != known.shards.end() && found->second == cluster;
  }
  void reopen(FakeServer& server) { server.open(server.port()); }

  net::Loop loop{"test"};
  FakeServer root, first, second;
  std::unique_ptr<net::Upstream> root_upstream;
  ShardSource::Params params;
  Known known;
  std::unique_ptr<ShardSource> source;
};

TEST_F(ShardSourceTest, WhenTheFirstPeerIsDead_FP154_TheSecondIsUsedAndTheFirstRests) {
  first.close();
  params.limit = seconds(20);
  start();
  source->root_serves();
  ASSERT_TRUE(until([&] { return shows("system:shard"); }));
  reopen(first);
  for (std::size_t times = 2; times < 6; ++times) {  // its turn would come
    second.end_watches(kAtPeer);
    ASSERT_TRUE(until([&] { return second.count(kAtPeer) >= times; }));
  }
  EXPECT_EQ(first.count(kAtPeer), 0U) << "30 s have not passed";
  EXPECT_EQ(root.count(kAtRoot), 0U) << "the root shard serves identities only";
  second.put(kAtPeer, "system:shard", "beta");
  EXPECT_TRUE(until([&] { return known.shards.contains("beta"); }));
}

TEST_F(ShardSourceTest, WhenThePauseIsOver_FP154_ThePeerHasItsTurnAgain) {
  first.close();
  params.pause = milliseconds(1);
  params.limit = seconds(20);
  start();
  ASSERT_TRUE(until([&] { return shows("system:shard"); }));
  reopen(first);
  second.put(kAtPeer, "system:shard", "beta");
  ASSERT_TRUE(until([&] {
    second.end_watches(kAtPeer);
    return first.count(kAtPeer) != 0;
  }));
  EXPECT_TRUE(known.shards.contains("alpha"));
}

TEST_F(ShardSourceTest, WhenNoPeerAnswers_FP154_TheRootPathIsUsedUntilOneDoes) {
  first.close();
  second.close();
  params.limit = milliseconds(20);
  params.pause = milliseconds(300);
  start();
  ASSERT_TRUE(until([&] { return loop.stats().turns > 100; }));
  EXPECT_EQ(root.count(kAtRoot), 0U) << "it does not serve yet";
  source->root_serves();
  ASSERT_TRUE(until([&] { return shows("root"); }));
  reopen(second);
  ASSERT_TRUE(until([&] { return shows("system:shard"); }));
  ASSERT_TRUE(until([&] { return root.watches(kAtRoot) == 0; }));
  EXPECT_EQ(known.shards.size(), 1U);
  // The last peer goes while it is watched.
  second.close();
  ASSERT_TRUE(until([&] { return shows("root"); }));
}

TEST_F(ShardSourceTest, WhenPeersDoNotKnowTheAdminWorkspace_FP154_TheRootPathIsUsed) {
  for (FakeServer* peer : {&first, &second}) {
    peer->remove_collection(kAtPeer);
  }
  params.limit = milliseconds(20);
  start();
  source->root_serves();
  ASSERT_TRUE(until([&] { return shows("root"); }));
  EXPECT_GT(first.count(kAtPeer) + second.count(kAtPeer), 0U);
}

TEST_F(ShardSourceTest, WhenThereAreNoPeers_TheRootShardIsReadOnceItServes) {
  params.peers.clear();
  start();
  source->root_serves();
  source->root_serves();
  ASSERT_TRUE(until([&] { return shows("root"); }));
  EXPECT_EQ(root.count(kAtRoot), 1U);
}

/// One answer.
struct Heard final : http::ResponseHandler {
  void on_head(http::ResponseHead head, bool /*end*/) noexcept override { status = head.status; }
  void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
  void on_close(Errc how) noexcept override {
    closed = true;
    cause = how;
  }
  int status = 0;
  bool closed = false;
  Errc cause = Errc::kOk;
};

TEST_F(ShardSourceTest, WhenARequestHasABody_FP154_OnlyOnePeerIsAsked) {
  first.close();
  std::vector<int> told;
  Peers peers(loop,
              {.servers = params.peers, .on_answer = [&](int status) { told.push_back(status); }});
  http::RequestHead head;
  head.method = "POST";
  head.target = "/x";
  Heard post;
  peers.open(net::UpstreamClass::kWrite, head, post).send_data(std::string_view("{}"), true);
  ASSERT_TRUE(until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 0);
  EXPECT_NE(post.cause, Errc::kOk);
  EXPECT_EQ(peers.failures_in_a_row(), 1U);
  head.method = "GET";
  head.end_stream = true;
  for (int i = 0; i < 2; ++i) {
    Heard get;
    (void)peers.open(net::UpstreamClass::kRead, head, get);
    ASSERT_TRUE(until([&] { return get.closed; }));
    EXPECT_EQ(get.status, 404);
  }
  EXPECT_EQ(told, (std::vector<int>{0, 404, 404}));
  EXPECT_EQ(peers.failures_in_a_row(), 0U);
  Heard cut;
  auto doomed = std::make_unique<Peers>(loop, Peers::Params{.servers = params.peers});
  (void)doomed->open(net::UpstreamClass::kRead, head, cut);
  doomed.reset();
  EXPECT_TRUE(cut.closed);
  EXPECT_EQ(cut.cause, Errc::kCancelled);
}

TEST_F(ShardSourceTest, WhenTheSourceChanges_FP154_TheFeedKeepsTheShards) {
  const std::string exports = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io";
  root.serve(exports, 200, R"({"status":{"identityHash":"h"}})");
  const std::string rest = R"(,"spec":{"baseURL":")" + root.url() + R"("})";
  root.put(kAtRoot, "root", "alpha", rest);
  for (FakeServer* peer : {&first, &second}) {
    peer->put(kAtPeer, "system:shard", "alpha", rest);
  }
  SnapshotPublisher publisher;
  FeedParams feed_params;
  feed_params.root = FakeServer::upstream(root.url());
  feed_params.peers = params.peers;
  feed_params.peer_limit = feed_params.peer_pause = milliseconds(20);
  feed_params.identity_poll = milliseconds(5);
  feed_params.shard = [](const std::string&,
                         const std::string& url) -> Expected<net::UpstreamParams> {
    return FakeServer::upstream(url);
  };
  Feed feed(loop, feed_params, publisher);
  feed.start();
  ASSERT_TRUE(until([&] { return feed.index().shard("alpha") != nullptr; }));
  const ShardId id = feed.index().shard("alpha")->id;
  first.close();
  second.close();
  ASSERT_TRUE(until([&] { return root.watches(kAtRoot) == 1; }));
  root.put(kAtRoot, "root", "beta", rest);
  ASSERT_TRUE(until([&] { return feed.index().shard("beta") != nullptr; }));
  ASSERT_NE(feed.index().shard("alpha"), nullptr);
  EXPECT_EQ(feed.index().shard("alpha")->id, id) << "it never left";
  root.remove(kAtRoot, "root", "alpha");
  EXPECT_TRUE(until([&] { return feed.index().shard("alpha") == nullptr; }));
}

}  // namespace
}  // namespace kintsugi::topology
