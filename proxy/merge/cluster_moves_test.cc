#include "proxy/merge/cluster_moves.h"

#include <gtest/gtest.h>

#include "proxy/merge/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::bookmark;
using testing::event;
using testing::Exchange;
using testing::FakeShard;
using testing::is_watch;

/// An event of the logical cluster that moves.
std::string of_nine(const std::string& type, const std::string& name, const std::string& revision) {
  std::string out = event(type, name, revision);
  const std::string end = "}}}\n";
  return out.substr(0, out.size() - end.size()) + R"(,"annotations":{"kcp.io/cluster":"c9"}}}})" +
         "\n";
}

std::string item_of_nine(const std::string& name, const std::string& revision) {
  const std::string whole = of_nine("X", name, revision);
  const std::size_t at = whole.find("{\"kind\"");
  return whole.substr(at, whole.size() - at - 2);
}

class MovingClusters : public testing::MergedWatches {
 protected:
  void SetUp() override {
    start();
    report("alpha");
    scripts_[1] = [this](Exchange& exchange) {
      if (exchange.head.target.starts_with("/clusters/c9/")) {
        ++listed_;
        FakeShard::reply(exchange, 200, list_);
        return;
      }
      serve(1, exchange);
    };
  }
  /// The shard reports the LogicalCluster: the last one that does owns it.
  void report(const std::string& shard) {
    const topology::ShardInfo* info = rig_->view->current().shard(shard);
    ASSERT_NE(info, nullptr);
    rig_->index.upsert_cluster(info->id, {"c9", "root:nine", {}, false});
    rig_->publisher.publish(rig_->index.freeze());
    EXPECT_TRUE(until([&] {
      const auto fact = rig_->view->current().cluster("c9");
      return fact && fact->owner == info->id;
    }));
  }
  void holds(const std::string& revision, const std::vector<std::string>& items) {
    list_ = R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
            revision + R"("},"items":[)";
    for (const std::string& item : items) {
      list_ += (&item == items.data() ? "" : ",") + item;
    }
    list_ += "]}";
  }
  std::string list_;
  int listed_ = 0;
};

TEST_F(MovingClusters, WhenAClusterMoves_T110_NobodySeesDeletions) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  // Its objects are copied: the owner is alpha.
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED other", "ADDED x"}));
  EXPECT_EQ(listed_, 0);

  holds("31", {item_of_nine("x", "30")});
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; })) << answer.body;
  EXPECT_EQ(listed_, 1);
  // What is left at alpha is cleared away, and beta goes on.
  tell(0, of_nine("DELETED", "x", "40"));
  tell(1, of_nine("MODIFIED", "x", "30"));  // older than what was listed
  tell(0, event("ADDED", "still", "41"));
  tell(1, of_nine("MODIFIED", "x", "32"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED other", "ADDED still", "ADDED x",
                                "ADDED x", "MODIFIED x"}));
  std::vector<std::string> of_x;
  for (const Json& one : events(answer)) {
    if (one.text({"object", "metadata", "name"}) == "x") {
      of_x.emplace_back(one.text({"object", "metadata", "resourceVersion"}));
    }
  }
  EXPECT_EQ(of_x, (Told{"12", "30", "32"}));
  EXPECT_FALSE(answer.ended);
  EXPECT_EQ(listed_, 1);
}

TEST_F(MovingClusters, WhenMoreHappensThanWasListed_T110_ItIsListedAgain) {
  Answer& answer = synced();
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, of_nine("MODIFIED", "x", "33"));
  tell(1, event("ADDED", "other", "34"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  holds("31", {item_of_nine("x", "30")});  // of a server that lags
  int rounds = 0;
  scripts_[1] = [this, &rounds](Exchange& exchange) {
    if (!exchange.head.target.starts_with("/clusters/c9/")) {
      serve(1, exchange);
      return;
    }
    if (++rounds == 2) {
      holds("34", {item_of_nine("x", "33")});
    }
    FakeShard::reply(exchange, 200, list_);
  };
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; })) << answer.body;
  EXPECT_EQ(rounds, 2);
  EXPECT_NE(answer.body.find(R"("resourceVersion":"33")"), std::string::npos);
}

TEST_F(MovingClusters, WhenAClientStillTakesInitialEvents_T110_ItListsAgain) {
  scripts_[1] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      FakeShard::reply(exchange, 200, list_);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "30"), false);  // and no end
    open_[1].push_back(&exchange);
  };
  holds("31", {item_of_nine("x", "30")});
  Answer& answer = watch(testing::kNewest);
  EXPECT_TRUE(until([&] { return told(answer).size() == 1; }));
  report("beta");
  EXPECT_TRUE(until([&] { return answer.ended; })) << answer.body;
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(MovingClusters, WhenAWatchBeginsInTheMiddle_T110_OnlyTheOwnersObjectsAreInitial) {
  scripts_[0] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      serve(0, exchange);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "11") + bookmark("12", true), false);
    open_[0].push_back(&exchange);
  };
  scripts_[1] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      serve(1, exchange);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "30") + bookmark("31", true), false);
    open_[1].push_back(&exchange);
  };
  Answer& answer = synced();
  EXPECT_EQ(told(answer), Told{"ADDED x"});
  EXPECT_NE(answer.body.find("\"resourceVersion\":\"11\""), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::proxy
