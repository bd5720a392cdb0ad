#include "aggregation/watch/merged_watch.h"

#include <gtest/gtest.h>

#include <tuple>

#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::event;
using testing::Exchange;
using testing::FakeShard;
using testing::gone;
using testing::is_watch;
using testing::kMaps;
using testing::kNewest;
using testing::MergedWatches;
using testing::Rig;
using testing::wants;

TEST_F(MergedWatches, WhenManyAskTheSame_T43_OneStreamPerShardServesThem) {
  start();
  std::vector<Answer*> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(&synced());
  }
  EXPECT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; }));
  tell(1, event("MODIFIED", "b", "22"));
  for (Answer* one : all) {
    EXPECT_TRUE(until([&] { return told(*one).size() == 3; }));
    EXPECT_EQ(told(*one), (Told{"ADDED a", "ADDED b", "MODIFIED b"}));
    EXPECT_EQ(ends(*one), 1U);
  }
}

TEST_F(MergedWatches, WhenAShardForgot_T61_TheDifferenceIsTold) {
  start();
  Answer& answer = synced();
  tell(1, event("ADDED", "c", "25") + event("ADDED", "d", "26"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  list_again(1, R"({"metadata":{"name":"b","namespace":"t","uid":"u-b","resourceVersion":"40"}},)"
                R"({"metadata":{"name":"c","namespace":"t","uid":"u-c","resourceVersion":"25"}},)"
                R"({"metadata":{"name":"e","namespace":"t","uid":"u-e","resourceVersion":"41"}})");
  tell(1, gone());
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED c", "ADDED d", "ADDED e", "DELETED d",
                                "MODIFIED b"}));
  EXPECT_TRUE(until([&] { return cursor(answer).ends_with("00044"); })) << answer.body;
  EXPECT_EQ(events(answer).front().text({"object", "kind"}), "ConfigMap");
  tell(1, event("MODIFIED", "e", "45"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 8; }));
  EXPECT_FALSE(answer.ended);
  EXPECT_TRUE(wants(*open_[1].back(), "resourceVersion=44"));
}

TEST_F(MergedWatches, WhenAShardForgot_T61_WhatWasMadeAgainGoesBeforeItComes) {
  start();
  Answer& answer = synced();
  list_again(1,
             R"({"metadata":{"name":"b","namespace":"t","uid":"u-other","resourceVersion":"40"}})");
  const std::size_t before = told(answer).size();
  tell(1, gone());
  EXPECT_TRUE(until([&] { return told(answer).size() == before + 2; })) << answer.body;
  std::vector<std::string> both;
  for (const auto& one : events(answer)) {
    const std::string_view version = one.text({"object", "metadata", "resourceVersion"});
    if (one.text({"object", "metadata", "name"}) == "b" && (version == "39" || version == "40")) {
      both.push_back(std::string(one.text({"type"})) + " " +
                     std::string(one.text({"object", "metadata", "uid"})) + " " +
                     std::string(version));
    }
  }
  EXPECT_EQ(both, (std::vector<std::string>{"DELETED u-b 39", "ADDED u-other 40"}));
}

TEST_F(MergedWatches, WhenAShardForgot_T61_ClientsExpireWhereThatIsAskedFor) {
  start({.resync = aggregation::Resync::kExpire});
  Answer& answer = synced();
  tell(1, gone());
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(MergedWatches, WhenAWatchResumes_T51_ItGetsWhatItMissedOnce) {
  start();
  Answer& first = synced();
  const std::string at = cursor(first);
  tell(0, event("ADDED", "x", "15"));
  tell(1, event("ADDED", "y", "25"));
  EXPECT_TRUE(until([&] { return told(first).size() == 4; }));
  Answer& again = watch("?watch=1&allowWatchBookmarks=true&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return told(again).size() == 2; })) << again.body;
  tell(0, event("DELETED", "x", "16"));
  EXPECT_TRUE(until([&] { return told(again).size() == 3; }));
  EXPECT_EQ(told(again), (Told{"ADDED x", "ADDED y", "DELETED x"}));
  EXPECT_EQ(streams(0) + streams(1), 2U);
  EXPECT_TRUE(until([&] { return cursor(again) == cursor(first); }));
}

TEST_F(MergedWatches, WhenAWatchResumesAtAnEvent_T52_NothingIsMissed) {
  start();
  Answer& first = synced();
  std::size_t count = 2;
  for (const auto& [from, name, revision] :
       {std::tuple(0U, "x", "25"), std::tuple(1U, "y", "25"), std::tuple(0U, "z", "26")}) {
    tell(from, event("ADDED", name, revision));
    ++count;
    EXPECT_TRUE(until([&] { return told(first).size() == count; }));
  }
  Answer& again = watch("?watch=1&resourceVersion=26");
  Answer& both = watch("?watch=1&resourceVersion=25");
  Answer& never = watch("?watch=1&resourceVersion=24");
  EXPECT_TRUE(until([&] { return never.ended; }));
  EXPECT_EQ(events(never).back().find("object")->find("code")->as_integer(), 410);
  tell(1, event("MODIFIED", "y", "27"));
  EXPECT_TRUE(until([&] { return !told(again).empty() && told(both).size() >= 3; }));
  EXPECT_EQ(told(again), Told{"MODIFIED y"});
  EXPECT_EQ(told(both), (Told{"ADDED y", "ADDED z", "MODIFIED y"}));
}

TEST_F(MergedWatches, WhenTheRightIsGone_T90_NobodyJoinsARunningStream) {
  start({}, [](aggregation::MergeParams& params) { params.rights_age = Duration(); });
  Answer& first = synced();
  const std::string at = cursor(first);
  Answer& second = watch("?watch=1&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return second.status == 200; }));
  EXPECT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; }));
  scripts_[1] = [](Exchange& exchange) {
    FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
  };
  Answer& third = watch("?watch=1&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return third.closed; }));
  EXPECT_EQ(third.status, 403);
  EXPECT_TRUE(until([&] { return first.ended && second.ended; }));
  EXPECT_EQ(events(second).back().find("object")->find("code")->as_integer(), 403);
}

TEST_F(MergedWatches, WhenAShardHasJustStarted_T59_ItsFirst403IsNotBelieved) {
  start({}, [](aggregation::MergeParams& params) {
    params.first_backoff = milliseconds(1);
    params.last_backoff = milliseconds(2);
  });
  Answer& answer = synced();
  int refusals = 0;
  scripts_[1] = [&](Exchange& exchange) {
    if (++refusals <= 3) {
      FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
    } else {
      serve(1, exchange);
    }
  };
  open_[1].back()->stream->reset(Errc::kReset);
  EXPECT_TRUE(until([&] { return open_[1].size() >= 2 && streams(1) == 1; }));
  tell(1, event("ADDED", "later", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED later"}));
  EXPECT_FALSE(answer.ended);
}

TEST_F(MergedWatches, WhenAShardStays403AfterALoss_T67_TheClientIsTold) {
  start({}, [](aggregation::MergeParams& params) {
    params.first_backoff = milliseconds(1);
    params.last_backoff = milliseconds(2);
    params.rights_age = milliseconds(20);
  });
  Answer& answer = synced();
  scripts_[1] = [](Exchange& exchange) {
    FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
  };
  open_[1].back()->stream->reset(Errc::kReset);
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 403);
}

TEST_F(MergedWatches, WhenAShardEndsItsStreamAndSays403_T67_TheClientIsToldAtOnce) {
  start({}, [](aggregation::MergeParams& params) { params.rights_age = seconds(600); });
  Answer& answer = synced();
  scripts_[1] = [](Exchange& exchange) {
    FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
  };
  open_[1].back()->stream->send_data("", true);
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 403);
}

TEST_F(MergedWatches, WhenAShardIsAway_T63_T64_ThePolicyDecides) {
  start({.allow_partial = true});
  take_away(1);
  Answer& strict = watch(kNewest);
  EXPECT_TRUE(until([&] { return strict.closed; }));
  EXPECT_EQ(strict.status, 429);
  EXPECT_FALSE(strict.header("retry-after").empty());
  Answer& partial = send(kNewest, "application/json", {{"x-kintsugi-partial", "true"}});
  EXPECT_TRUE(until([&] { return partial.status == 200 && told(partial).size() == 1; }));
  EXPECT_EQ(told(partial), Told{"ADDED a"});
}

TEST_F(MergedWatches, WhenNoShardSaysAnything_T02_TheInitialEventsEnd) {
  start({}, [](aggregation::MergeParams& params) { params.silence = milliseconds(20); });
  for (const std::size_t i : {0U, 1U}) {
    scripts_[i] = [](Exchange& exchange) {
      if (!is_watch(exchange)) {
        FakeShard::reply(
            exchange, 200,
            R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""},"items":[]})");
        return;
      }
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
    };
  }
  Answer& answer = synced();
  EXPECT_EQ(events(answer).back().text({"object", "kind"}), "ConfigMap");
  EXPECT_FALSE(answer.ended);
}

TEST_F(MergedWatches, WhenAnEventIsOfAnotherKind_T68_ItIsNotForwarded) {
  start();
  Answer& answer = synced();
  std::string foreign = event("ADDED", "bad", "30");
  foreign.replace(foreign.find("ConfigMap"), 9, "Secret");
  tell(1, foreign);
  EXPECT_TRUE(until([&] { return open_[1].size() >= 2 && streams(1) == 1; }));
  tell(1, event("ADDED", "good", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED good"}));
  EXPECT_EQ(failures("beta", "malformed"), 1U);
}

TEST_F(MergedWatches, WhenWatchListIsRefused_T105_TheParameterIsNamed) {
  start({.watch_list = false});
  Answer& answer = watch(kNewest);
  EXPECT_TRUE(until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 422);
  EXPECT_NE(answer.body.find("sendInitialEvents"), std::string::npos);
}

TEST_F(MergedWatches, WhenABurstEnds_AGG514_ABookmarkFollowsForEachReader) {
  start({}, [](aggregation::MergeParams& params) { params.bookmark_gap = milliseconds(30); });
  Answer& first = synced();
  tell(0, event("ADDED", "x1", "12"));
  ASSERT_TRUE(until([&] { return told(first).size() == 3; })) << first.body;
  Answer& second = synced();
  for (int i = 2; i < 6; ++i) {
    tell(0, event("ADDED", "x" + std::to_string(i), std::to_string(11 + i)));
    ASSERT_TRUE(until([&] { return told(first).size() == 2U + static_cast<std::size_t>(i); }));
  }
  for (Answer* answer : {&first, &second}) {
    const auto types = [answer] {
      std::string all;
      for (const Json& one : events(*answer)) {
        all += one.text({"type"}) == "BOOKMARK" ? 'b' : 'e';
      }
      return all;
    };
    EXPECT_TRUE(until([&] { return told(*answer).size() == 7 && types().ends_with("eb"); }))
        << types();
    EXPECT_EQ(types().find("bb"), std::string::npos) << types();
  }
  EXPECT_EQ(cursor(first), cursor(second));
}

}  // namespace
}  // namespace kintsugi::proxy
