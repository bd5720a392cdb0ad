// Merged reads wait for their turn at each of their shards, as other requests do (SE-072, SE-080).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "proxy/testing/list_rig.h"
#include "serving/process_limits.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using namespace testing;  // NOLINT: the fixture's words
using serving::FairLimits;
using serving::Level;

constexpr const char* kApi = "/clusters/root/api";

class MergedSeats : public MergedLists {
 protected:
  void bound(const FairLimits& seats,
             const std::function<void(aggregation::MergeParams&)>& set = {}) {
    process_limits_ = std::make_shared<serving::ProcessLimits>(seats);
    start({}, [&](aggregation::MergeParams& params) {
      params.first_byte = seconds(20);
      if (set) {
        set(params);
      }
    });
  }
  void TearDown() override {
    clients_.clear();
    MergedLists::TearDown();
  }
  [[nodiscard]] serving::FairQueues::LevelTotals tenants() const {
    return process_limits_->totals()[static_cast<std::size_t>(Level::kTenant)];
  }
  /// Shards keep what they are asked until they are told to answer.
  void hold_all() {
    for (Script& script : scripts_) {
      script = [](Exchange&) {};
    }
  }
  [[nodiscard]] static bool is_open(const Exchange& exchange) {
    return exchange.stream != nullptr && !exchange.head.target.empty();
  }
  /// The oldest that a shard has not answered; null: none.
  Exchange* oldest(std::size_t i) {
    for (Exchange& exchange : shard(i).exchanges) {
      if (is_open(exchange)) {
        return &exchange;
      }
    }
    return nullptr;
  }
  void answer_oldest(std::size_t i) {
    if (Exchange* const exchange = oldest(i)) {
      exchange->head.target.clear();
      FakeShard::reply(*exchange, 200, list_of("11", {item("of-" + all_[i])}));
    }
  }
  [[nodiscard]] std::size_t open_at(std::size_t i) {
    return static_cast<std::size_t>(
        std::count_if(shard(i).exchanges.begin(), shard(i).exchanges.end(), is_open));
  }
  /// What is asked from now on, somebody else asks.
  void become(const std::string& name) {
    auto who = std::make_shared<serving::ConnectionIdentity>();
    who->valid = who->from_client_ca = true;
    auth::UserInfo user;
    user.name = name;
    user.groups = {"system:authenticated"};
    EXPECT_TRUE(auth::stamp_identity(who->stamp, user, {}));
    who->user = std::move(user);
    rig_->identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(who));
    net::UpstreamParams params;
    params.url = net::Url{"http", "127.0.0.1", rig_->front->port(), ""};
    params.prior_knowledge = true;
    clients_.push_back(std::move(rig_->client));
    rig_->client = net::Upstream::make(rig_->loop, params);
  }
  std::vector<decltype(Rig::client)> clients_;
};

TEST_F(MergedSeats, SE072_WhileAShardsSeatsAreTaken_ItsPartAloneWaits) {
  bound({.seats = 1});
  hold_all();
  Answer other;
  rig_->send(other, Rig::get(kApi));
  ASSERT_TRUE(until([&] { return open_at(0) == 1; }));
  Answer& list = send();
  ASSERT_TRUE(until([&] { return open_at(1) == 1 && open_at(2) == 1; }));
  EXPECT_EQ(open_at(0), 1U) << "what runs there keeps its seat";
  EXPECT_EQ(tenants().waiting, 1U);
  EXPECT_EQ(tenants().seats, 3U);
  answer_oldest(1);
  answer_oldest(2);
  ASSERT_TRUE(until([&] { return tenants().seats == 1; })) << "who has begun to answer needs none";
  answer_oldest(0);
  ASSERT_TRUE(until([&] { return other.closed && open_at(0) == 1; }));
  answer_oldest(0);
  ASSERT_TRUE(until([&] { return list.closed; }));
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(names(list), (std::vector<std::string>{"of-alpha", "of-b", "of-cc"}));
  EXPECT_EQ(tenants().seats, 0U);
  EXPECT_EQ(tenants().waiting, 0U);
}

TEST_F(MergedSeats, SE072_AnAnswerThatNobodyReadsHasNoSeat) {
  bound({.seats = 1});
  const std::string large = R"("annotations":{"x":")" + std::string(200'000, 'x') + R"("})";
  for (Script& script : scripts_) {
    script = [&](Exchange& exchange) {
      FakeShard::reply(exchange, 200, list_of("11", {item("a", "," + large)}));
    };
  }
  Answer& slow = answers_.emplace_back();
  slow.takes = false;
  http::RequestHead head = Rig::get(kMaps);
  head.headers.add("accept", "application/json");
  rig_->send(slow, head);
  ASSERT_TRUE(until([&] { return slow.status == 200; }));
  EXPECT_EQ(tenants().seats, 0U);
  Answer& next = ask();
  EXPECT_EQ(next.status, 200);
  EXPECT_FALSE(slow.closed);
}

TEST_F(MergedSeats, SE_T035_WhoFindsNoSeatInTime_Is429OnceAndNoOtherShardIsAskedAgain) {
  bound({.seats = 1},
        [](aggregation::MergeParams& params) { params.first_byte = milliseconds(300); });
  hold_all();
  Answer other;
  rig_->send(other, Rig::get(kApi));
  ASSERT_TRUE(until([&] { return open_at(0) == 1; }));
  scripts_[1] =
      scripts_[2] = [](Exchange& exchange) { FakeShard::reply(exchange, 200, list_of("11", {})); };
  const Answer& list = ask();
  EXPECT_EQ(list.status, 429);
  EXPECT_NE(list.header("retry-after"), "");
  const auto body = Json::parse(list.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->text({"reason"}), "TooManyRequests");
  EXPECT_EQ(tenants().late, 2U) << "once more after Retry-After, as with a shard's own 429";
  EXPECT_EQ(shard(0).exchanges.size(), 1U);
  EXPECT_EQ(shard(1).exchanges.size(), 1U);
  EXPECT_EQ(shard(2).exchanges.size(), 1U);
  EXPECT_EQ(tenants().waiting, 0U);
}

TEST_F(MergedSeats, SE072_AFullQueueRefusesAtOnce_AndWhoGoesLeavesIt) {
  bound({.seats = 1, .queues = 1, .hand = 1, .queue_length = 2});
  hold_all();
  send();
  ASSERT_TRUE(until([&] { return open_at(0) == 1 && open_at(1) == 1 && open_at(2) == 1; }));
  Answer& second = send("?labelSelector=a");
  send("?labelSelector=b");
  ASSERT_TRUE(until([&] { return tenants().waiting == 6; }));
  send("?labelSelector=c");
  ASSERT_TRUE(until([&] { return tenants().full == 3; })) << "of each shard its part";
  second.stream->reset(Errc::kCancelled);
  ASSERT_TRUE(until([&] { return tenants().waiting == 3; }));
  EXPECT_EQ(open_at(0), 1U);
}

TEST_F(MergedSeats, SE005_OneWithManyMergedListsDoesNotHoldUpAnother) {
  bound({.seats = 2, .queues = 8, .hand = 1, .queue_length = 50});
  hold_all();
  constexpr int kMany = 20;
  for (int i = 0; i < kMany; ++i) {
    send("?labelSelector=n" + std::to_string(i));
  }
  ASSERT_TRUE(until([&] { return tenants().waiting == 3 * (kMany - 2); }));
  become("bob");
  Answer& light = send("?labelSelector=light");
  ASSERT_TRUE(until([&] { return tenants().waiting == 3 * (kMany - 1); }));
  int rounds = 0;
  while (!light.closed && rounds < kMany) {
    ++rounds;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t asked = shard(i).exchanges.size();
      answer_oldest(i);
      ASSERT_TRUE(until([&] { return shard(i).exchanges.size() > asked || light.closed; }));
    }
  }
  EXPECT_EQ(light.status, 200);
  EXPECT_LE(rounds, 6) << "his turn comes next, not behind all of the other's";
}

TEST_F(MergedSeats, SE005_OneWithManyMergedListsDoesNotHoldUpAnothersRequests) {
  bound({.seats = 2, .queues = 8, .hand = 1, .queue_length = 50});
  hold_all();
  constexpr int kMany = 20;
  for (int i = 0; i < kMany; ++i) {
    send("?labelSelector=n" + std::to_string(i));
  }
  ASSERT_TRUE(until([&] { return tenants().waiting == 3 * (kMany - 2) && open_at(0) == 2; }))
      << "at a shard no more than its seats";
  become("bob");
  Answer light;
  rig_->send(light, Rig::get(kApi));
  ASSERT_TRUE(until([&] { return tenants().waiting == 3 * (kMany - 2) + 1; }));
  int answered = 0;
  const auto got = [&] {
    return std::any_of(shard(0).exchanges.begin(), shard(0).exchanges.end(),
                       [](const Exchange& one) { return one.head.target == "/clusters/root/api"; });
  };
  for (; !got() && answered < kMany; ++answered) {
    const std::size_t asked = shard(0).exchanges.size();
    answer_oldest(0);
    ASSERT_TRUE(until([&] { return shard(0).exchanges.size() > asked; }));
  }
  EXPECT_TRUE(got());
  EXPECT_LE(answered, 6);
}

TEST_F(MergedSeats, SE072_AMergedWatchHasSeatsWhileItBegins) {
  bound({.seats = 1});
  hold_all();
  Answer other;
  rig_->send(other, Rig::get(kApi));
  ASSERT_TRUE(until([&] { return open_at(0) == 1; }));
  Answer& watch = send("?watch=1&resourceVersion=0");
  ASSERT_TRUE(until([&] { return open_at(1) == 1 && open_at(2) == 1; }));
  EXPECT_EQ(tenants().waiting, 1U);
  EXPECT_EQ(open_at(0), 1U);
  const auto begin = [](Exchange& exchange) {
    exchange.head.target.clear();
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
  };
  begin(*oldest(1));
  begin(*oldest(2));
  ASSERT_TRUE(until([&] { return tenants().seats == 1; }));
  FakeShard::reply(*oldest(0), 200, "{}");
  ASSERT_TRUE(until([&] { return other.closed && shard(0).exchanges.size() == 2; }));
  begin(shard(0).exchanges.back());
  ASSERT_TRUE(until([&] { return watch.status == 200 && tenants().seats == 0; }));
  EXPECT_EQ(tenants().waiting, 0U);
  EXPECT_FALSE(watch.closed);
  Answer& next = send("?watch=1&resourceVersion=0&labelSelector=other");
  ASSERT_TRUE(until([&] { return open_at(1) == 1 && open_at(2) == 1; }));
  EXPECT_FALSE(next.closed);
}

TEST_F(MergedSeats, SE091_SE005_ListsThatAreNotReadLeaveRoomForOthers) {
  bound({}, [](aggregation::MergeParams& params) { params.list_streams = 24; });
  hold_all();
  for (int i = 0; i < 8; ++i) {
    send("?labelSelector=n" + std::to_string(i));
  }
  ASSERT_TRUE(until([&] { return open_at(0) == 2; }));
  become("bob");
  send("?labelSelector=light");
  ASSERT_TRUE(until([&] { return open_at(0) == 3; })) << "a quarter of the streams is the other's";
}

}  // namespace
}  // namespace kintsugi::proxy
