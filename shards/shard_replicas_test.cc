// Several processes behind one shard (GR-301).
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shards/shard_client.h"
#include "shards/testing/support.h"

namespace kintsugi::shards {
namespace {

using testing::FakeServer;
using testing::run_until;

class ShardReplicasTest : public ::testing::Test {
 protected:
  ShardReplicasTest() : one_(loop_), two_(loop_) {
    ShardClientParams params;
    params.name = "beta";
    params.probe = false;
    params.upstream = [](const std::string& url) -> Expected<net::UpstreamParams> {
      if (!net::Url::parse(url)) {
        return fail(Errc::kConfig, "no URL");
      }
      return FakeServer::upstream(url);
    };
    client_ = std::make_unique<ShardClient>(loop_, std::move(params));
    for (FakeServer* server : {&one_, &two_}) {
      server->open();
      server->serve("/readyz", 200, "ok");
      server->serve("/thing", 200, "a thing");
      server->serve("/written", 200, "done");
    }
  }
  /// Both are there, and the second has been found to be ready.
  void have_both() {
    ASSERT_TRUE(client_->set_urls(one_.url(), {two_.url()}));
    ASSERT_TRUE(ask_until([&] { return two_.count("/thing") == 1; }));
    before_ = {one_.count("/thing"), two_.count("/thing")};
  }
  /// Status; 0: nobody answered.
  int ask(const std::string& target, net::UpstreamClass kind = net::UpstreamClass::kRead) {
    net::FetchRequest request;
    request.target = target;
    request.kind = kind;
    int status = -1;
    auto call = net::fetch(loop_, *client_->upstream(), std::move(request),
                           [&](const Expected<net::FetchResponse>& answer) {
                             if (!answer) {
                               client_->on_failure(answer.error().code());
                             }
                             status = answer ? answer->status : 0;
                           });
    EXPECT_TRUE(run_until(loop_, [&] { return status >= 0; }));
    return status;
  }

  /// Asks, which succeeds each time, until something holds.
  bool ask_until(const std::function<bool()>& holds) {
    const TimePoint limit = Clock::now() + seconds(20);
    while (!holds() && Clock::now() < limit) {
      EXPECT_EQ(ask("/thing"), 200);
      bool passed = false;
      net::Timer pause(loop_);
      pause.start(milliseconds(5), [&] { passed = true; });
      EXPECT_TRUE(run_until(loop_, [&] { return passed; }));
    }
    return holds();
  }

  net::Loop loop_{"test"};
  FakeServer one_, two_;
  std::pair<std::size_t, std::size_t> before_;  // reads of both
  std::unique_ptr<ShardClient> client_;
};

TEST_F(ShardReplicasTest, GR301_ReadsAreSpreadAndWritesGoToTheFirst) {
  two_.serve("/readyz", 500, "not yet");
  ASSERT_TRUE(*client_->set_urls(one_.url(), {two_.url()}));
  ASSERT_TRUE(run_until(loop_, [&] { return two_.count("/readyz") > 0; }));
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(ask("/thing"), 200);
  }
  EXPECT_EQ(two_.count("/thing"), 0U) << "it is not ready";
  two_.serve("/readyz", 200, "ok");
  have_both();
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_EQ(ask("/thing"), 200);
    EXPECT_EQ(ask("/written", net::UpstreamClass::kWrite), 200);
  }
  EXPECT_EQ(one_.count("/thing") - before_.first, 5U);
  EXPECT_EQ(two_.count("/thing") - before_.second, 5U);
  EXPECT_EQ(one_.count("/written"), 10U);
}

TEST_F(ShardReplicasTest, GR301_OneThatIsAwayIsLeftOutUntilItIsBack) {
  have_both();
  const std::uint16_t port = one_.port();
  one_.close();
  for (int turn = 0; turn < 20 && client_->upstream()->stats(net::UpstreamClass::kRead).failed == 0;
       ++turn) {
    ask("/thing");  // one of them finds out
  }
  EXPECT_TRUE(client_->answers_elsewhere());
  EXPECT_TRUE(client_->up()) << "the shard is there";
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_EQ(ask("/thing"), 200);
    EXPECT_EQ(ask("/written", net::UpstreamClass::kWrite), 200) << "to whoever answers";
  }
  const std::size_t before = one_.count("/thing");
  one_.open(port);
  EXPECT_TRUE(ask_until([&] { return one_.count("/thing") > before; })) << "it is back";
  EXPECT_GT(one_.count("/readyz"), 0U);
}

TEST_F(ShardReplicasTest, GR301_WhenTheLastOneIsLost_OneThatHasJustComeBackIsAsked) {
  have_both();
  FakeServer* away = &one_;
  FakeServer* there = &two_;
  for (int turn = 0; turn < 2; ++turn) {
    const std::uint16_t port = away->port();
    const std::size_t before = there->count("/thing");
    away->close();
    ASSERT_TRUE(ask_until([&] { return there->count("/thing") >= before + 4; }));
    away->open(port);
    there->close();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(ask("/thing"), 200) << "turn " << turn;
    }
    EXPECT_TRUE(client_->answers_elsewhere());
    EXPECT_TRUE(client_->up());
    there->open(there->port());
    const std::size_t back = there->count("/thing");
    ASSERT_TRUE(ask_until([&] { return there->count("/thing") > back; })) << "both are there";
    std::swap(away, there);
  }
}

TEST_F(ShardReplicasTest, GR301_WhatOneHasLostIsFetchedFromTheOther) {
  have_both();
  one_.add_collection("/long");
  two_.add_collection("/long");
  for (const bool repeatable : {false, true}) {
    net::FetchRequest request;
    request.method = "POST";
    request.target = "/long?watch=true";  // begins, and goes on
    request.body = "asked";
    request.repeatable = repeatable;
    int status = -1;
    auto call = net::fetch(
        loop_, *client_->upstream(), std::move(request),
        [&](const Expected<net::FetchResponse>& answer) { status = answer ? answer->status : 0; });
    ASSERT_TRUE(
        run_until(loop_, [&] { return one_.watches("/long") + two_.watches("/long") > 0; }));
    FakeServer& first = one_.watches("/long") > 0 ? one_ : two_;
    FakeServer& other = &first == &one_ ? two_ : one_;
    const std::uint16_t port = first.port();
    first.send_event("/long", "ADDED", "{}");  // forgotten
    first.close();
    if (repeatable) {
      ASSERT_TRUE(run_until(loop_, [&] { return other.watches("/long") > 0; }));
      other.end_watches("/long");
    }
    ASSERT_TRUE(run_until(loop_, [&] { return status >= 0; }));
    EXPECT_EQ(status, repeatable ? 200 : 0);
    const std::size_t before = first.count("/thing");
    first.open(port);
    ASSERT_TRUE(ask_until([&] { return first.count("/thing") > before; }));
  }
}

TEST_F(ShardReplicasTest, GR301_WhenAnotherOneLeads_NothingHasToMove) {
  have_both();
  const net::Upstream* const before = client_->upstream();
  const Expected<bool> moved = client_->set_urls(two_.url(), {one_.url()});
  ASSERT_TRUE(moved);
  EXPECT_FALSE(*moved);
  EXPECT_EQ(client_->upstream(), before);
  EXPECT_EQ(client_->draining(), 0U);
  EXPECT_EQ(ask("/written", net::UpstreamClass::kWrite), 200);
  EXPECT_EQ(two_.count("/written"), 1U);
  const Expected<bool> alone = client_->set_urls(two_.url(), {});
  ASSERT_TRUE(alone);
  EXPECT_FALSE(*alone);
  EXPECT_EQ(client_->draining(), 1U) << "what runs there ends by itself";
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(ask("/thing"), 200);
  }
  EXPECT_EQ(one_.count("/thing"), before_.first);
  EXPECT_TRUE(*client_->set_urls(one_.url(), {})) << "this one was not known";
}

TEST_F(ShardReplicasTest, GR301_WhatIsNoUrlIsLeftOut) {
  ASSERT_TRUE(*client_->set_urls(one_.url(), {"nonsense", two_.url() + "/below"}));
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(ask("/thing"), 200);
  }
  EXPECT_EQ(one_.count("/thing"), 4U);
}

}  // namespace
}  // namespace kintsugi::shards
