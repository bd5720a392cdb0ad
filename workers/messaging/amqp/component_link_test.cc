// A link to a management node behind a real socket on loopback.
#include "workers/messaging/amqp/component_link.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workers/messaging/amqp/internal/reconnect_delay.h"
#include "workers/messaging/amqp/testing/joined.h"
#include "workers/messaging/amqp/testing/node.h"

namespace kintsugi::workers {
namespace {

using amqp_testing::ManagementPeer;
using amqp_testing::Node;
using amqp_testing::read_request;
using amqp_testing::session_params;

struct Linked {
  explicit Linked(const std::function<void(ComponentLink::Params&)>& edit = {}) {
    ComponentLink::Params params;
    params.host = "127.0.0.1";
    params.port = node.port;
    params.session = session_params();
    params.least_wait = milliseconds(5);
    params.most_wait = milliseconds(50);
    if (edit) {
      edit(params);
    }
    ComponentLink::Callbacks callbacks;
    callbacks.on_ready = [this](const AmqpPeer& peer) {
      ++ready;
      product = peer.product;
    };
    callbacks.on_answer = [this](std::uint64_t id, const ManagementReply* reply) {
      answers.emplace_back(id, reply == nullptr ? "none" : std::string(reply->body.as_string()));
      if (on_answer) {
        on_answer();
      }
    };
    callbacks.on_lost = [this](const std::string& why, bool unauthorized) {
      lost.push_back((unauthorized ? "! " : "") + why);
    };
    callbacks.on_room = [this] {
      while (to_send > 0 && link->submit(read_request()) != 0) {
        --to_send;
      }
    };
    link = std::make_unique<ComponentLink>(loop, std::move(params), std::move(callbacks));
  }
  bool until(const std::function<bool()>& condition) {
    return amqp_testing::run_until(loop, node, condition);
  }

  Node node;
  net::Loop loop{"test"};
  std::unique_ptr<ComponentLink> link;
  int ready = 0, to_send = 0;
  std::string product;
  std::vector<std::pair<std::uint64_t, std::string>> answers;
  std::vector<std::string> lost;
  std::function<void()> on_answer;
};

TEST(ReconnectDelay, ItDoublesFromHalfASecondTo30AndIsSpread) {
  std::set<Duration> firsts;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ReconnectDelay delay(milliseconds(500), seconds(30), seed);
    Duration upper = seconds(1);
    for (int i = 0; i < 12; ++i) {
      const Duration wait = delay.next();
      EXPECT_GE(wait, upper / 2);
      EXPECT_LE(wait, upper);
      if (i == 0) {
        firsts.insert(wait);
      }
      upper = std::min<Duration>(2 * upper, seconds(30));
    }
    delay.succeed();
    EXPECT_LE(delay.next(), seconds(1));
  }
  EXPECT_GT(firsts.size(), 95U);
}

TEST(ComponentLink, MR28_RequestsGetTheirAnswersInWindows) {
  Linked l;
  l.to_send = 1'000;
  ASSERT_TRUE(l.until([&] { return l.answers.size() == 1'000; }));
  EXPECT_EQ(l.ready, 1);
  EXPECT_EQ(l.product, "qpid-dispatch-router");
  EXPECT_EQ(l.answers.back().first, 1'000U);
  EXPECT_TRUE(l.lost.empty());
  EXPECT_EQ(l.loop.stats().writes_outside_flush, 0U);
  // Of a window about one write, not one of each request.
  EXPECT_LT(l.loop.stats().writes, 100U);
}

TEST(ComponentLink, MR30_WhenTheConnectionIsCut_TheNextFollows) {
  Linked l([](ComponentLink::Params& params) { params.session.request_deadline = seconds(100); });
  l.node.answers = false;
  ASSERT_TRUE(l.until([&] { return l.ready == 1; }));
  EXPECT_NE(l.link->submit(read_request()), 0U);
  ASSERT_TRUE(l.until([&] { return l.node.peer->requests.size() == 1; }));
  l.node.hang_up();
  l.node.answers = true;
  ASSERT_TRUE(l.until([&] { return l.ready == 2; }));
  ASSERT_EQ(l.lost.size(), 1U);
  EXPECT_EQ(l.lost[0], "the peer ended the connection");
  EXPECT_TRUE(l.answers.empty());
  EXPECT_EQ(l.node.connections, 2);
  EXPECT_EQ(l.link->submit(read_request()), 1U);
  ASSERT_TRUE(l.until([&] { return l.answers.size() == 1; }));
}

TEST(ComponentLink, WhenNobodyListens_ItIsTriedAgainUntilSomebodyDoes) {
  std::uint16_t free_port = 0;
  { free_port = Node().port; }
  Linked l([&](ComponentLink::Params& params) { params.port = free_port; });
  ASSERT_TRUE(l.until([&] { return l.lost.size() >= 4; }));
  EXPECT_EQ(l.lost[0], "Connection refused");
  EXPECT_FALSE(l.link->is_ready());
  EXPECT_EQ(l.link->room(), 0U);
  EXPECT_EQ(l.link->submit(read_request()), 0U);
  l.link->stop();
  const std::size_t before = l.lost.size();
  int turns = 0;
  ASSERT_TRUE(l.until([&] { return ++turns > 100; }));
  EXPECT_EQ(l.lost.size(), before);
}

TEST(ComponentLink, WhenWeAreRefused_ItSaysSo) {
  Linked l;
  l.node.options.outcome = 1;
  ASSERT_TRUE(l.until([&] { return l.lost.size() >= 2; }));
  EXPECT_EQ(l.lost[0], "! SASL ANONYMOUS failed with code 1");
  EXPECT_EQ(l.ready, 0);
}

TEST(ComponentLink, BH5_RequestsEndAtTheirDeadlineAndTheLinkStays) {
  Linked l;
  l.node.answers = false;
  ASSERT_TRUE(l.until([&] { return l.ready == 1; }));
  EXPECT_EQ(l.link->submit(read_request(), milliseconds(20)), 1U);
  ASSERT_TRUE(l.until([&] { return l.answers.size() == 1; }));
  EXPECT_EQ(l.answers[0].second, "none");
  EXPECT_TRUE(l.link->is_ready());
  EXPECT_TRUE(l.lost.empty());
  l.node.peer->answer(l.node.peer->requests[0].correlation, ManagementPeer::status(200),
                      ManagementPeer::text("late"));
  ASSERT_TRUE(l.until([&] { return l.link->unknown_answers() == 1; }));
}

TEST(ComponentLink, AResetInsideOfAnAnswerSaysGoodbyeAndConnectsAgain) {
  Linked l;
  l.on_answer = [&] {
    if (l.lost.empty()) {
      l.link->reset("because");
    }
  };
  l.to_send = 20;
  ASSERT_TRUE(l.until([&] { return l.ready == 1; }));
  ManagementPeer* const first = l.node.peer.get();
  ASSERT_TRUE(l.until([&] { return l.lost.size() == 1 && first->closed; }));
  EXPECT_EQ(l.lost[0], "because");
  EXPECT_EQ(l.answers.size(), 1U);
  l.to_send = 5;
  ASSERT_TRUE(l.until([&] { return l.ready == 2 && l.answers.size() == 6; }));
  EXPECT_EQ(l.lost.size(), 1U);
}

TEST(ComponentLink, WhenItIsDestroyedOrStopped_NobodyIsCalled) {
  {
    Linked l;
    l.link.reset();
    int turns = 0;
    ASSERT_TRUE(l.until([&] { return ++turns > 20; }));
    EXPECT_EQ(l.ready, 0);
  }
  Linked l;
  ASSERT_TRUE(l.until([&] { return l.ready == 1; }));
  (void)l.link->submit(read_request());
  l.link.reset();
  ASSERT_TRUE(l.until([&] { return l.node.peer->closed; }));
  EXPECT_TRUE(l.lost.empty());
  EXPECT_TRUE(l.answers.empty());
}

}  // namespace
}  // namespace kintsugi::workers
