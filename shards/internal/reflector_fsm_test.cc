#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shards/testing/reflector_script.h"

// What the workers' reflectors ask and when (RT-20 … RT-25), event by event.
namespace kintsugi::shards {
namespace {

using testing::bookmark;
using testing::error_event;
using testing::event;
using testing::Kind;
using testing::list;
using testing::Log;
using testing::object;
using testing::Script;

TEST(Reflector, RT20_StartsWithAllParametersAndIsSyncedAtTheAnnotatedBookmark) {
  Script s;
  s.start();
  ASSERT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_EQ(s.action.target.substr(0, s.action.target.rfind('=') + 1),
            "/t?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
            "&resourceVersionMatch=NotOlderThan&resourceVersion=&timeoutSeconds=");
  const int timeout = std::stoi(s.action.target.substr(s.action.target.rfind('=') + 1));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
  s.head(200).data(event("ADDED", object("a", 3)) + bookmark(9, false));
  EXPECT_FALSE(s.fsm.synced());
  s.data(bookmark(10, true));
  EXPECT_TRUE(s.fsm.synced());
  EXPECT_EQ(s.log, (Log{"+a@3", "synced"}));
  EXPECT_EQ(s.fsm.revision(), "10");
  EXPECT_EQ(s.actions, 1) << "RT_T020: one request, no LIST";
}

TEST(Reflector, RT20_TheSelectorIsPartOfEveryQuestion) {
  InformerParams params = reflector_params("/t", "Thing");
  params.reflector.selector = "labelSelector=a%3Db";
  Script s(params);
  s.start();
  EXPECT_TRUE(s.action.target.ends_with("&labelSelector=a%3Db")) << s.action.target;
  s.head(422);
  s.expect_list("/t?limit=500&resourceVersion=0&labelSelector=a%3Db");
  s.page(200, list("9", {}));
  EXPECT_TRUE(s.action.target.ends_with("&labelSelector=a%3Db")) << s.action.target;
}

TEST(Reflector, RT21_RT_T021_WhenTurnedDown_ListsInPagesAndRemembersItForTenMinutes) {
  for (const int status : {400, 422}) {
    Script s;
    s.start().head(status);
    s.expect_list("/t?limit=500&resourceVersion=0");
    s.page(200, list("9", {object("a", 3)}, "a+/="));
    s.expect_list("/t?limit=500&continue=a%2B%2F%3D");
    s.page(200, list("9", {object("b", 4)}));
    EXPECT_EQ(s.log, (Log{"+a@3", "+b@4", "synced"}));
    s.expect_rewatch("9");
    EXPECT_EQ(s.fsm.no_watch_list_until(), TimePoint() + std::chrono::minutes(10));
  }
  InformerParams params = reflector_params("/t", "Thing");
  params.reflector.no_watch_list_until = TimePoint() + std::chrono::minutes(10);
  Script early(params);
  early.wait(std::chrono::minutes(10) - milliseconds(1)).start();
  early.expect_list("/t?limit=500&resourceVersion=0");
  Script late(params);
  late.wait(std::chrono::minutes(10)).start();
  late.expect_watch_list();
}

TEST(Reflector, RT21_RT_T021_WhenTheHeadIsFollowedBySilence_AListOfOneDecides) {
  Script s;
  s.start().head(200);
  EXPECT_EQ(s.fsm.deadline(), s.now + seconds(10));
  s.wait(seconds(10) - milliseconds(1)).timer();
  EXPECT_EQ(s.actions, 1);
  s.wait(milliseconds(1)).timer();
  s.expect_list("/t?limit=1");
  s.page(200, list("9", {object("a", 3)}));
  s.expect_list("/t?limit=500&resourceVersion=0");
  EXPECT_TRUE(s.log.empty()) << "the one object is not taken for the list";
  s.page(200, list("9", {object("a", 3), object("b", 4)}));
  EXPECT_EQ(s.log, (Log{"+a@3", "+b@4", "synced"}));
}

TEST(Reflector, RT21_WhenTheListOfOneFails_InitialEventsAreAskedAgain) {
  Script s;
  s.start().head(200).wait(seconds(10)).timer().lost(Errc::kUnreachable);
  s.expect_rest(Duration::zero(), milliseconds(800));
  s.timer();
  s.expect_watch_list();
  s.head(200).wait(seconds(10)).timer().page(503, "", 2);
  s.expect_rest(seconds(2), milliseconds(2'400));
  s.timer();
  s.expect_watch_list();
}

TEST(Reflector, RT21_OneByteIsEnoughAgainstTheFallback) {
  Script s;
  s.start().head(200).data("{");
  EXPECT_EQ(s.fsm.deadline(), s.now + seconds(150));
  s.wait(seconds(100)).timer();
  EXPECT_EQ(s.actions, 1);
}

TEST(Reflector, RT21_RT_T024_After429_TheNextTryIsNoList) {
  Script s;
  s.start();
  for (int i = 0; i < 4; ++i) {
    s.head(429, 3);
    s.expect_rest(seconds(3), seconds(4));
    EXPECT_EQ(s.fsm.kick(s.now).kind, Kind::kNone) << "waits what was asked";
    EXPECT_EQ(s.fsm.counters().failures, 0U);
    s.timer();
    s.expect_watch_list();
  }
  s.head(429, 3);
  EXPECT_EQ(s.fsm.counters().failures, 1U) << "the fifth in a row counts";
  EXPECT_TRUE(s.log.empty());
}

TEST(Reflector, RT21_404IsTheFeatureOrTheTypeAndAListTellsWhich) {
  Script s;
  s.start().head(404);
  s.expect_list("/t?limit=500&resourceVersion=0");
  s.page(200, list("9", {object("a", 3)}));
  s.expect_rewatch("9");
  EXPECT_GT(s.fsm.no_watch_list_until(), s.now);
  EXPECT_FALSE(s.fsm.absent());
}

TEST(Reflector, RT22_OnlyBookmarksMoveTheCursorOfSeveralShards) {
  InformerParams params = reflector_params("/t", "Thing");
  params.reflector.one_shard = false;
  Script s(params);
  s.in_step().data(event("MODIFIED", object("a", 99)));
  EXPECT_EQ(s.fsm.revision(), "10");
  s.data(bookmark(12, false));
  EXPECT_EQ(s.fsm.revision(), "12");
  Script one;
  one.in_step().data(event("MODIFIED", object("a", 11)));
  EXPECT_EQ(one.fsm.revision(), "11");
  one.data(event("DELETED", object("a", 7)));
  EXPECT_EQ(one.fsm.revision(), "7") << "no order among revisions";
}

TEST(Reflector, RT23_RT_T022_HoweverAWatchEnds_ItGoesOnAtTheCursor) {
  const std::vector<Errc> ends = {Errc::kOk, Errc::kClosed, Errc::kNotProcessed,
                                  Errc::kUnreachable};
  Script s;
  s.in_step();
  for (int i = 0; i < 100; ++i) {
    const int revision = 11 + i;
    const std::string next = event("MODIFIED", object("a", revision + 1));
    s.data(event("MODIFIED", object("a", revision)) + next.substr(0, next.size() / 2));
    s.end(ends[static_cast<std::size_t>(i) % ends.size()]);
    s.expect_rewatch(std::to_string(revision));
    s.head(200);
  }
  EXPECT_EQ(s.fsm.counters().lists, 1U);
  EXPECT_EQ(s.log.size(), 100U) << "none twice, none lost";
  EXPECT_EQ(s.log.back(), "+a@110");
}

TEST(Reflector, RT25_AWatchThatEndsWithinASecondWithoutAnEventIsAnError) {
  Script s;
  s.in_step().wait(seconds(2)).end(Errc::kOk).head(200).wait(milliseconds(999)).end(Errc::kOk);
  s.expect_rest(Duration::zero(), milliseconds(800));
  s.timer();
  s.expect_rewatch("10");
  s.head(200).wait(seconds(1)).end(Errc::kOk);
  s.expect_rewatch("10");
  s.head(200).data(bookmark(11, false)).end(Errc::kOk);
  s.expect_rewatch("11");
}

TEST(Reflector, RT23_Error429WaitsAndGoesOnAtTheCursor) {
  Script s;
  s.in_step().data(error_event(429, R"(,"details":{"retryAfterSeconds":5})"));
  s.expect_rest(seconds(5), seconds(6));
  s.timer();
  s.expect_rewatch("10");
  s.head(200).data(error_event(429));
  s.expect_rest(Duration::zero(), milliseconds(800));
}

TEST(Reflector, RT23_RT24_410And500And503AndResetListAtTheCursor) {
  const std::vector<void (*)(Script&)> breaks = {
      [](Script& s) { s.data(error_event(410)); }, [](Script& s) { s.data(error_event(500)); },
      [](Script& s) { s.data(error_event(503)); }, [](Script& s) { s.end(Errc::kReset); },
      [](Script& s) { s.wait(seconds(1)).end(Errc::kOk).head(410); }};
  for (const auto& break_it : breaks) {
    Script s;
    s.in_step();
    break_it(s);
    s.expect_list("/t?resourceVersion=10");
    s.page(200, list("20", {object("b", 4), object("c", 15)}));
    EXPECT_EQ(s.log, (Log{"+c@15", "-a", "synced"}));
    s.expect_rewatch("20");
    s.head(200).data(error_event(410));
    s.expect_rest(Duration::zero(), milliseconds(800));
    s.timer();
    s.expect_list("/t?resourceVersion=20");
  }
}

TEST(Reflector, RT24_RT_T023_WhenTheCursorIsGoneForListsToo_ListsFromTheStore) {
  const std::vector<std::pair<int, std::string>> answers = {
      {410, "{}"},
      {504, R"({"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}})"},
      {500, R"({"message":"Too large resource version: 10, current: 3"})"}};
  for (const auto& [status, body] : answers) {
    Script s;
    s.in_step().data(error_event(410)).page(status, body);
    s.expect_list("/t?limit=500&resourceVersion=");
    s.page(200, list("30", {object("a", 3)}, "t2"));
    s.expect_list("/t?limit=500&continue=t2");
    EXPECT_EQ(s.log, Log{}) << "not complete yet";
    s.page(200, list("30", {object("c", 25)}));
    EXPECT_EQ(s.log, (Log{"+c@25", "-b", "synced"}));
    s.expect_rewatch("30");
  }
}

TEST(Reflector, RT24_A410OnALaterPageMeansOneListInOnePiece) {
  Script s;
  s.in_step().data(error_event(410)).page(410, "{}").page(200, list("30", {object("a", 3)}, "t2"));
  s.page(410, "{}");
  s.expect_list("/t?resourceVersion=");
  s.page(200, list("31", {object("b", 4)}));
  EXPECT_EQ(s.log, (Log{"-a", "synced"})) << "what the broken list had shown does not count";
}

TEST(Reflector, RT24_AListThatIsTooLargeIsAskedInPages) {
  Script s;
  s.in_step().data(error_event(410)).lost(Errc::kRequestEntityTooLarge);
  s.expect_list("/t?limit=500&resourceVersion=");
  s.lost(Errc::kRequestEntityTooLarge);
  EXPECT_EQ(s.action.kind, Kind::kRest);
}

TEST(Reflector, RT24_WhenAListFails_TheLadderBeginsAtTheCursorAgain) {
  Script s;
  s.in_step().data(error_event(410)).lost(Errc::kUnreachable).timer();
  s.expect_list("/t?resourceVersion=10");
  s.page(410, "{}").page(500, "").timer();
  s.expect_list("/t?limit=500&resourceVersion=");
}

TEST(Reflector, RT25_RestsDoubleWithFullJitterAndBeginAnewAfterTwoMinutesOfHealth) {
  Script s;
  s.start();
  Duration most = milliseconds(800);
  Duration longest{};
  for (int i = 0; i < 40; ++i) {
    s.end(Errc::kRefused);
    s.expect_rest(Duration::zero(), most);
    longest = std::max(longest, s.action.wait);
    most = std::min<Duration>(2 * most, seconds(30));
    s.timer();
  }
  EXPECT_GT(longest, seconds(15));
  s.head(200).data(bookmark(10, true)).wait(seconds(119)).data(bookmark(11, false));
  s.data(error_event(504));
  EXPECT_EQ(s.action.kind, Kind::kRest);
  s.timer().head(200).wait(seconds(60)).data(bookmark(12, false)).wait(seconds(60));
  s.data(error_event(504));
  s.expect_rest(Duration::zero(), milliseconds(800));
}

}  // namespace
}  // namespace kintsugi::shards
