// Merged watches: present objects that break off, and lists that stand in for events.
#include <gtest/gtest.h>

#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::event;
using testing::Exchange;
using testing::FakeShard;
using testing::gone;
using testing::is_watch;
using testing::object;
using testing::wants;

constexpr const char* kMissing =
    R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404})";
constexpr const char* kInvalid =
    R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422})";

class BrokenWatches : public testing::MergedWatches {
 protected:
  static std::string list(const std::string& metadata, const std::string& items) {
    return R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{)" + metadata +
           R"(},"items":[)" + items + "]}";
  }
  /// The group reads this many shards by streams of its own.
  bool follows(std::size_t count) {
    const auto groups = rig_->handler->merge_groups();
    return groups.size() == 1 && groups[0].shards.size() == count;
  }
};

TEST_F(BrokenWatches, WhenAListThatStandsInIsRetried_AGG806_ItIsAcceptedAgain) {
  start();
  std::size_t lists = 0;
  Exchange* first = nullptr;
  scripts_[1] = [&](Exchange& exchange) {
    if (is_watch(exchange) && wants(exchange, "sendInitialEvents=true")) {
      FakeShard::reply(exchange, 422, kInvalid);
    } else if (is_watch(exchange)) {
      serve(1, exchange);
    } else if (++lists == 1) {
      first = &exchange;
    } else {
      serve(1, exchange);
    }
  };
  Answer& answer = watch(testing::kNewest);
  ASSERT_TRUE(until([&] { return first != nullptr && follows(1); }));  // alpha has answered
  // Accepted, but what comes is no object: nothing of it is told.
  FakeShard::reply(*first, 200,
                   list(R"("resourceVersion":"20")", R"({"metadata":{"name":"nothing"}})"));
  ASSERT_TRUE(until([&] { return testing::MergedWatches::ends(answer) == 1; })) << answer.body;
  EXPECT_EQ(lists, 2U);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b"}));
  ASSERT_TRUE(until([&] { return streams(1) == 1; }));
  tell(1, event("ADDED", "c", "25"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; })) << answer.body;
}

TEST_F(BrokenWatches, WhenObjectsAreCompared_T61_EveryPageOfTheListIsRead) {
  start();
  Answer& answer = synced();
  ASSERT_TRUE(until([&] { return follows(2); }));
  std::vector<std::string> asked;
  scripts_[1] = [&](Exchange& exchange) {
    if (is_watch(exchange)) {
      serve(1, exchange);
      return;
    }
    asked.push_back(exchange.head.target);
    if (wants(exchange, "continue=")) {
      FakeShard::reply(exchange, 200, list(R"("resourceVersion":"44")", object("b", "21")));
    } else {
      FakeShard::reply(exchange, 200,
                       list(R"("resourceVersion":"44","continue":"more")", object("d", "40")));
    }
  };
  tell(1, gone());
  ASSERT_TRUE(until([&] { return told(answer).size() == 3 && streams(1) == 1; })) << answer.body;
  EXPECT_TRUE(until([&] { return cursor(answer).ends_with("00044"); })) << answer.body;
  EXPECT_EQ(told(answer),
            (Told{"ADDED a", "ADDED b", "ADDED d"}));  // b, of page two, is still there
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_NE(asked[1].find("continue=more"), std::string::npos) << asked[1];
  EXPECT_FALSE(answer.ended);
}

TEST_F(BrokenWatches, WhenAShardThatLackedTheResourceBreaksOff_AGG806_ClientsListAgain) {
  start({}, [](aggregation::MergeParams& params) { params.reprobe = milliseconds(20); });
  bool serves = false;
  Exchange* begun = nullptr;
  scripts_[1] = [&](Exchange& exchange) {
    if (!serves) {
      FakeShard::reply(exchange, 404, kMissing);
    } else if (begun == nullptr && is_watch(exchange)) {
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
      exchange.stream->send_data(event("ADDED", "x", "19"), false);
      begun = &exchange;
    } else {  // x was deleted meanwhile: nobody will tell
      serve(1, exchange);
    }
  };
  Answer& answer = synced();
  EXPECT_EQ(told(answer), (Told{"ADDED a"}));
  serves = true;
  ASSERT_TRUE(until([&] { return told(answer).size() == 2; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED x"}));
  begun->stream->reset(Errc::kReset);
  ASSERT_TRUE(until([&] { return answer.ended; })) << answer.body;
  EXPECT_EQ(events(answer).back().text({"type"}), "ERROR");
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

}  // namespace
}  // namespace kintsugi::proxy
