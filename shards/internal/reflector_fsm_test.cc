#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "shards/internal/informer_fsm.h"
#include "shards/internal/page_scan.h"

// The rules of the workers' reflectors (RT-13, RT-20 … RT-29, section 18), event by event.
namespace kintsugi::shards {
namespace {

using Kind = InformerFsm::Action::Kind;
using State = InformerFsm::State;
using Log = std::vector<std::string>;

std::string object(const std::string& name, int revision, const std::string& more = {},
                   const std::string& cluster = "one") {
  return R"({"kind":"Thing","metadata":{"name":")" + name + R"(","uid":"u-)" + name +
         R"(","resourceVersion":")" + std::to_string(revision) +
         R"(","annotations":{"kcp.io/cluster":")" + cluster + R"("}})" + more + "}";
}
std::string event(const std::string& type, const std::string& what) {
  return R"({"type":")" + type + R"(","object":)" + what + "}\n";
}
std::string bookmark(int revision, bool end, const std::string& kind = "Thing") {
  return event(
      "BOOKMARK",
      R"({"kind":")" + kind + R"(","metadata":{"resourceVersion":")" + std::to_string(revision) +
          R"(")" +
          (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : std::string()) + "}}");
}
std::string error_event(int code, const std::string& more = {}) {
  return event("ERROR", R"({"kind":"Status","code":)" + std::to_string(code) + more + "}");
}
std::string list(const std::string& revision, const std::vector<std::string>& items,
                 const std::string& token = {}) {
  std::string text = R"({"kind":"ThingList","items":[)";
  for (const std::string& item : items) {
    text += (text.back() == '[' ? "" : ",") + item;
  }
  return text + R"(],"metadata":{"resourceVersion":")" + revision + R"(","continue":")" + token +
         R"("}})";
}
std::vector<std::string> many(int from, int to) {
  std::vector<std::string> items;
  for (int i = from; i < to; ++i) {
    items.push_back(object("n" + std::to_string(i), i + 1));
  }
  return items;
}

class Script : public InformerSink {
 public:
  explicit Script(InformerParams params = reflector_params("/t", "Thing"))
      : fsm(std::move(params), *this) {}
  void on_upsert(const ObjectKey& key, const krm::Json& item) override {
    log.push_back("+" + std::string(key.name) + "@" +
                  std::string(item.text({"metadata", "resourceVersion"})));
    clusters.emplace(key.cluster);
    EXPECT_EQ(fsm.keys().find(std::string(key.cluster) + "|" + std::string(key.ns) + "/" +
                              std::string(key.name)),
              key.id);
  }
  void on_delete(const ObjectKey& key) override {
    log.push_back("-" + std::string(key.name));
    EXPECT_NE(key.id, KeyTable::kNone);
    EXPECT_FALSE(fsm.keys().holds(key.id));
  }
  void on_synced() override { log.emplace_back("synced"); }
  void on_refused(int status) override { log.push_back("refused " + std::to_string(status)); }

  Script& feed(InformerFsm::Action next) {
    if (next.kind != Kind::kNone) {
      action = std::move(next);
      ++actions;
    }
    return *this;
  }
  Script& start() { return feed(fsm.start(now)); }
  Script& head(int status, int retry_after = 0, bool partial = false) {
    return feed(fsm.on_head(status, retry_after, now, partial));
  }
  Script& data(const std::string& bytes) { return feed(fsm.on_data(bytes, now)); }
  Script& end(Errc cause) { return feed(fsm.on_end(cause, now)); }
  Script& timer() { return feed(fsm.on_timer(now)); }
  Script& page(int status, const std::string& body, int retry_after = 0, bool partial = false) {
    return feed(fsm.on_page(status, retry_after, body, now, partial));
  }
  Script& lost(Errc cause) { return feed(fsm.on_page_failed(cause, now)); }
  Script& wait(Duration time) {
    now += time;
    return *this;
  }
  /// In step at revision 10 with a@3 and b@4, nothing in the log.
  Script& in_step() {
    start().head(200).data(event("ADDED", object("a", 3)) + event("ADDED", object("b", 4)) +
                           bookmark(10, true));
    log.clear();
    return *this;
  }
  /// The same with n0 … n<count-1>, for lists that delete much.
  Script& in_step_with(int count) {
    start().head(200);
    for (const std::string& item : many(0, count)) {
      data(event("ADDED", item));
    }
    data(bookmark(1'000, true));
    log.clear();
    return *this;
  }
  [[nodiscard]] std::size_t deletes() const {
    std::size_t count = 0;
    for (const std::string& line : log) {
      count += line[0] == '-' ? 1U : 0U;
    }
    return count;
  }
  void expect_list(const std::string& target) const {
    EXPECT_EQ(action.kind, Kind::kList);
    EXPECT_EQ(action.target, target);
  }
  void expect_rewatch(const std::string& revision) const {
    ASSERT_EQ(action.kind, Kind::kWatch);
    EXPECT_EQ(
        action.target.substr(0, action.target.rfind('=') + 1),
        "/t?watch=true&allowWatchBookmarks=true&resourceVersion=" + revision + "&timeoutSeconds=");
  }
  void expect_watch_list() const {
    ASSERT_EQ(action.kind, Kind::kWatch);
    EXPECT_NE(action.target.find("sendInitialEvents=true"), std::string::npos);
  }
  void expect_rest(Duration least, Duration most) const {
    ASSERT_EQ(action.kind, Kind::kRest);
    EXPECT_GE(action.wait, least);
    EXPECT_LE(action.wait, most);
  }

  InformerFsm fsm;
  TimePoint now{};
  InformerFsm::Action action;
  int actions = 0;
  Log log;
  std::set<std::string> clusters;
};

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

TEST(Reflector, RT21_T021_WhenTurnedDown_ListsInPagesAndRemembersItForTenMinutes) {
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

TEST(Reflector, RT21_T021_WhenTheHeadIsFollowedBySilence_AListOfOneDecides) {
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

TEST(Reflector, RT21_T024_After429_TheNextTryIsNoList) {
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

TEST(Reflector, RT23_T022_HoweverAWatchEnds_ItGoesOnAtTheCursor) {
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

TEST(Reflector, RT24_T023_WhenTheCursorIsGoneForListsToo_ListsFromTheStore) {
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

TEST(Reflector, RT26_T025_ARelistDeletesExactlyWhatIsMissing) {
  Script s;
  s.in_step_with(1'000).data(error_event(410));
  auto items = many(0, 1'000);
  items.erase(items.begin() + 500, items.begin() + 505);
  items[7] = object("n7", 5'000);
  s.page(200, list("2000", {items.begin(), items.begin() + 600}, "t"));
  EXPECT_EQ(s.log, (Log{"+n7@5000"})) << "unchanged ones are not told";
  s.page(200, list("2000", {items.begin() + 600, items.end()}));
  EXPECT_EQ(s.log, (Log{"+n7@5000", "-n500", "-n501", "-n502", "-n503", "-n504", "synced"}));
}

TEST(Reflector, RT26_T029_BookmarksOfAnotherKindAreIgnored) {
  Script s;
  s.start().head(200).data(bookmark(77, true, "Other"));
  EXPECT_FALSE(s.fsm.synced());
  s.data(bookmark(10, true));
  EXPECT_TRUE(s.fsm.synced());
  s.data(bookmark(78, false, "Other"));
  EXPECT_EQ(s.fsm.revision(), "10");
  EXPECT_EQ(s.fsm.counters().foreign, 2U);
  EXPECT_EQ(s.actions, 1);
}

TEST(Reflector, RT27_RT_T026_ABodyThatEndsEarlyDeletesNothing) {
  const std::string whole = list("20", {object("a", 3)});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    Script s;
    s.in_step().data(error_event(410)).page(200, whole.substr(0, length));
    ASSERT_EQ(s.log, Log{}) << whole.substr(0, length);
    ASSERT_EQ(s.action.kind, Kind::kRest) << whole.substr(0, length);
    s.timer();
    s.expect_list("/t?resourceVersion=10");
  }
  Script s;
  s.in_step().data(error_event(410)).lost(Errc::kReset).timer();
  s.expect_list("/t?resourceVersion=10");
  s.page(200, whole);
  EXPECT_EQ(s.log, (Log{"-b", "synced"}));
}

TEST(Reflector, RT27_RT_T027_AnEmptyListWithoutRevisionIsNone) {
  Script s;
  s.in_step_with(500).data(error_event(410));
  s.page(200, R"({"kind":"ThingList","metadata":{},"items":[]})");
  EXPECT_EQ(s.log, Log{});
  EXPECT_EQ(s.action.kind, Kind::kRest);
  EXPECT_EQ(s.fsm.counters().doubtful, 1U);
  EXPECT_EQ(s.fsm.counters().guarded, 0U);
  s.timer();
  s.expect_list("/t?resourceVersion=1000");
}

TEST(Reflector, RT27_RT_T027_AListThatWouldDeleteMuchIsConfirmed) {
  Script s;
  s.in_step_with(500).data(error_event(410));
  s.page(200, R"({"kind":"ThingList","metadata":{"resourceVersion":"1001"},"items":[]})");
  EXPECT_EQ(s.log, Log{});
  s.expect_list("/t?limit=500&resourceVersion=");
  EXPECT_EQ(s.fsm.counters().guarded, 1U);
  s.page(200, list("1002", many(0, 500)));
  EXPECT_EQ(s.log, (Log{"synced"}));
  s.expect_rewatch("1002");
  EXPECT_EQ(s.fsm.counters().guarded, 1U);
}

TEST(Reflector, RT27_WhenTheSecondListAgrees_TheDeletesCome) {
  Script s;
  s.in_step_with(500).data(error_event(410)).page(200, list("1001", {}));
  s.lost(Errc::kUnreachable).timer();
  s.expect_list("/t?limit=500&resourceVersion=");
  s.page(200, list("1002", {}));
  EXPECT_EQ(s.deletes(), 500U);
  EXPECT_EQ(s.fsm.counters().guarded, 1U);
  s.expect_rewatch("1002");
}

TEST(Reflector, RT27_TheGuardTakesMoreThanHalfAndMoreThanAHundred) {
  struct Case {
    int cached, listed;
    bool guarded;
  };
  for (const auto& [cached, listed, guarded] :
       {Case{200, 100, false}, Case{200, 99, true}, Case{100, 0, false}, Case{101, 0, true}}) {
    Script s;
    s.in_step_with(cached).data(error_event(410)).page(200, list("1001", many(0, listed)));
    EXPECT_EQ(s.fsm.counters().guarded, guarded ? 1U : 0U) << cached << " " << listed;
    EXPECT_EQ(s.deletes(), guarded ? 0U : static_cast<std::size_t>(cached - listed));
  }
}

TEST(Reflector, RT27_InitialEventsThatWouldDeleteMuchAreConfirmedByAList) {
  Script s;
  s.in_step_with(300);
  s.feed(s.fsm.relist("/u", s.now));
  s.expect_watch_list();
  s.head(200).data(bookmark(2'000, true));
  EXPECT_EQ(s.log, Log{});
  s.expect_list("/u?limit=500&resourceVersion=");
  s.page(200, list("2001", many(0, 10)));
  EXPECT_EQ(s.deletes(), 290U);
}

TEST(Reflector, RT27_RT_T027_ATypeThatWasNeverServedCountsAsSyncedAndIsAskedAgain) {
  Script s;
  s.start().head(404).page(200, R"({"kind":"ThingList","items":[],"metadata":{}})");
  EXPECT_EQ(s.log, (Log{"synced"}));
  EXPECT_TRUE(s.fsm.absent());
  s.expect_rest(seconds(30), seconds(30));
  s.timer();
  s.expect_watch_list();
}

TEST(Reflector, RT27_RT_T028_AListThatLacksAShardIsNotApplied) {
  Script s;
  s.in_step().data(error_event(410)).page(200, list("20", {object("c", 9)}), 0, true);
  EXPECT_EQ(s.log, Log{});
  EXPECT_EQ(s.action.kind, Kind::kRest);
  EXPECT_EQ(s.fsm.counters().doubtful, 1U);
  s.timer();
  s.expect_list("/t?resourceVersion=10");
  Script first;
  first.start().head(200, 0, true);
  EXPECT_EQ(first.action.kind, Kind::kRest) << "nor are initial events";
}

TEST(Reflector, RT27_RT_T028_TheWarningThatNamesAShard) {
  EXPECT_TRUE(names_missing_shard("299 - \"the answer lacks shard beta: connection refused\""));
  EXPECT_FALSE(names_missing_shard("299 - \"v1beta1 Thing is deprecated\""));
  EXPECT_FALSE(names_missing_shard("199 - \"the answer lacks shard beta\""));
  EXPECT_FALSE(names_missing_shard(""));
}

TEST(Reflector, RT28_RT_T032_After150SecondsOfSilenceWatchesAtTheCursor) {
  Script s;
  s.in_step().wait(seconds(100)).data(bookmark(11, false));
  EXPECT_EQ(s.fsm.deadline(), s.now + seconds(150));
  s.wait(seconds(100)).data("\n" + bookmark(12, false, "Other"));
  s.wait(seconds(50) - milliseconds(1)).timer();
  EXPECT_EQ(s.actions, 1);
  s.wait(milliseconds(1)).timer();
  s.expect_rewatch("11");
  EXPECT_EQ(s.fsm.counters().silences, 1U);
  s.head(200);
  EXPECT_EQ(s.fsm.deadline(), s.now + seconds(150));
}

TEST(Reflector, RT29_RT_T030_WhileForbiddenTheCacheStays) {
  for (const int status : {401, 403}) {
    Script s;
    s.in_step().wait(seconds(2)).end(Errc::kOk).head(status);
    EXPECT_EQ(s.log, (Log{"refused " + std::to_string(status)}));
    EXPECT_EQ(s.fsm.refusal(), status);
    EXPECT_EQ(s.fsm.keys().size(), 2U);
    s.expect_rest(seconds(30), seconds(30));
    for (int i = 0; i < 5; ++i) {
      s.timer();
      s.expect_rewatch("10");
      s.head(status);
      s.expect_rest(seconds(30), seconds(30));
    }
    s.timer().head(200).data(event("MODIFIED", object("a", 11)));
    EXPECT_EQ(s.fsm.refusal(), 0);
    EXPECT_EQ(s.deletes(), 0U);
    EXPECT_EQ(s.log.back(), "+a@11");
    s.data(error_event(410)).page(status, "");
    EXPECT_EQ(s.fsm.refusal(), status);
    s.expect_rest(seconds(30), seconds(30));
    EXPECT_EQ(s.deletes(), 0U);
  }
}

TEST(Reflector, RT29_RT_T031_ATypeThatIsNotThereIsEmptyAndAskedAgain) {
  Script s;
  s.start().head(404).page(404, "");
  EXPECT_EQ(s.log, (Log{"refused 404", "synced"}));
  EXPECT_TRUE(s.fsm.absent());
  EXPECT_TRUE(s.fsm.synced());
  s.expect_rest(seconds(30), seconds(30));
  s.timer().head(404).page(404, "");
  EXPECT_EQ(s.log, (Log{"refused 404", "synced", "refused 404"})) << "told once";
  s.feed(s.fsm.kick(s.now));
  s.expect_watch_list();
  s.head(200).data(event("ADDED", object("a", 3)) + bookmark(10, true));
  EXPECT_FALSE(s.fsm.absent());
  EXPECT_EQ(s.log.back(), "synced");
}

TEST(Reflector, RT29_WhenATypeGoes_ItsObjectsGo) {
  Script s;
  s.in_step().wait(seconds(2)).end(Errc::kOk).head(404);
  s.expect_list("/t?resourceVersion=10");
  s.page(404, "");
  EXPECT_EQ(s.log, (Log{"refused 404", "-a", "-b", "synced"}));
  Script large;
  large.in_step_with(300).wait(seconds(2)).end(Errc::kOk).head(404).page(404, "");
  EXPECT_EQ(large.deletes(), 0U);
  large.expect_list("/t?limit=500&resourceVersion=");
  large.page(404, "");
  EXPECT_EQ(large.deletes(), 300U);
  EXPECT_EQ(large.fsm.counters().guarded, 1U);
}

TEST(Reflector, RT13_ObjectsOfSystemClustersAreIgnored) {
  Script s;
  s.start().head(200).data(event("ADDED", object("a", 3, "", "system:admin")) +
                           event("ADDED", object("a", 4, "", "one")) + bookmark(10, true));
  EXPECT_EQ(s.log, (Log{"+a@4", "synced"}));
  EXPECT_EQ(s.fsm.counters().dropped, 0U);
}

TEST(Reflector, BadInput_ALineOfMoreThan16MiBEndsTheStream) {
  Script s;
  s.in_step();
  EXPECT_EQ(reflector_params("/t", "").max_event_bytes, 16U << 20U);
  std::string line = R"({"type":"ADDED","object":{"kind":"Thing","spec":")";
  line += std::string((16U << 20U) - line.size(), 'x');
  s.data(line);
  EXPECT_EQ(s.actions, 1) << "16 MiB are allowed";
  s.data("x");
  s.expect_list("/t?resourceVersion=10");
  EXPECT_EQ(s.fsm.counters().oversized, 1U);
}

TEST(Reflector, BadInput_ObjectsThatLackWhatTheyMustHaveAreDropped) {
  Script s;
  s.in_step();
  const std::string no_name = R"({"metadata":{"uid":"u","resourceVersion":"11"}})";
  const std::string no_uid = R"({"metadata":{"name":"a","resourceVersion":"11",)"
                             R"("annotations":{"kcp.io/cluster":"one"}}})";
  const std::string no_revision = R"({"metadata":{"name":"a","uid":"u",)"
                                  R"("annotations":{"kcp.io/cluster":"one"}}})";
  const std::string nul = R"({"metadata":{"name":"a\u0000b","uid":"u","resourceVersion":"11"}})";
  const std::string longest = object(std::string(253, 'x'), 12);
  const std::string too_long = object(std::string(254, 'x'), 13);
  for (const std::string& bad : {no_name, no_uid, no_revision, nul, too_long}) {
    s.data(event("MODIFIED", bad));
  }
  EXPECT_EQ(s.fsm.counters().dropped, 5U);
  EXPECT_EQ(s.fsm.revision(), "10");
  s.data(event("ADDED", longest));
  EXPECT_EQ(s.log.size(), 1U);
  // In a list such an object is no reason to delete what is cached of it.
  s.data(error_event(410)).page(200, list("20", {no_uid, no_name, no_revision, longest}));
  EXPECT_EQ(s.log.back(), "synced");
  EXPECT_EQ(s.log[s.log.size() - 2], "-b");
  EXPECT_EQ(s.deletes(), 1U);
  EXPECT_EQ(s.fsm.counters().dropped, 8U);
}

TEST(Reflector, BadInput_DuplicateKeysBadTextAndDepthDropOneEventOnly) {
  const std::string twice =
      R"({"metadata":{"name":"c","name":"d","uid":"u","resourceVersion":"9"}})";
  const std::string text = object("c", 9, ",\"spec\":\"\xff\"");
  const std::string deep =
      object("c", 9, ",\"spec\":" + std::string(256, '[') + std::string(256, ']'));
  const std::string deepest =
      object("c", 9, ",\"spec\":" + std::string(255, '[') + std::string(255, ']'));
  Script s;
  s.in_step();
  for (const std::string& bad : {twice, text, deep}) {
    s.data(event("ADDED", bad));
  }
  EXPECT_EQ(s.log, Log{});
  EXPECT_EQ(s.fsm.counters().dropped, 1U);
  EXPECT_EQ(s.fsm.counters().malformed, 2U);
  EXPECT_EQ(s.actions, 1);
  s.data(event("ADDED", deepest));
  EXPECT_EQ(s.log, (Log{"+c@9"}));
  // In a list the others are taken; that one could be any object, so nothing is deleted.
  s.log.clear();
  s.data(error_event(410)).page(200, list("20", {text, object("e", 15), deep, twice}));
  EXPECT_EQ(s.log, (Log{"+e@15", "synced"}));
  s.expect_rewatch("20");
}

TEST(Reflector, BadInput_UnknownTypesAndForeignKindsAreIgnoredBeforeTheCursor) {
  Script s;
  s.in_step().data(event("PATCHED", object("a", 50)));
  std::string foreign = object("c", 51);
  foreign.replace(foreign.find("Thing"), 5, "Other");
  s.data(event("ADDED", foreign));
  EXPECT_EQ(s.fsm.revision(), "10");
  EXPECT_EQ(s.log, Log{});
  EXPECT_EQ(s.fsm.counters().unknown_types, 1U);
  EXPECT_EQ(s.fsm.counters().foreign, 1U);
}

TEST(Reflector, BadInput_TextThatIsNoEventListsAgainAfterARest) {
  for (const char* bytes : {"{\n", "[]\n", "{\"type\":\"ADDED\"}\n"}) {
    Script s;
    s.in_step().data(bytes);
    ASSERT_EQ(s.action.kind, Kind::kRest);
    s.timer();
    s.expect_list("/t?resourceVersion=10");
  }
}

TEST(PageScan, WhenAListIsCut_ItemsAndFrameAreExact) {
  const auto page = scan_page(
      R"( {"a":"items","items":[ {"x":"]},{\"","y":[1,{}]} , 2],"metadata":{"items":[7]}} )");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->items, (std::vector<std::string_view>{R"({"x":"]},{\"","y":[1,{}]})", "2"}));
  EXPECT_EQ(page->frame, R"( {"a":"items","items":[],"metadata":{"items":[7]}} )");
  EXPECT_TRUE(scan_page(R"({"items":[ ]})")->items.empty());
  EXPECT_TRUE(scan_page(R"({"items":null})")->items.empty());
  for (const char* bad :
       {R"({"items":[1,]})", R"({"items":[,1]})", R"({"items":[1})", R"({"items":[1]}})",
        R"({"items":[1],"items":[2]})", R"({"items":[1]} x)", R"({"items":["a\"]})", "}", "{"}) {
    EXPECT_FALSE(scan_page(bad)) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::shards
