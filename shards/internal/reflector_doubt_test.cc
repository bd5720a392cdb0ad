#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shards/internal/page_scan.h"
#include "shards/testing/reflector_script.h"

// When the workers' reflectors doubt what they are told (RT-13, RT-26 … RT-29, section 18), event
// by event.
namespace kintsugi::shards {
namespace {

using testing::bookmark;
using testing::error_event;
using testing::event;
using testing::Kind;
using testing::list;
using testing::Log;
using testing::many;
using testing::object;
using testing::Script;

TEST(Reflector, RT26_RT_T025_ARelistDeletesExactlyWhatIsMissing) {
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

TEST(Reflector, RT26_RT_T029_BookmarksOfAnotherKindAreIgnored) {
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

TEST(Reflector, RT27_RT29_WhenATypeGoes_ItsObjectsGoAfterSixAnswersThatSaySo) {
  const auto answer_404 = [](Script& s, int times) {
    for (int i = 0; i < times; ++i) {
      s.timer();
      ASSERT_EQ(s.action.kind, Kind::kList);
      s.page(404, "");
    }
  };
  Script s;
  s.in_step().wait(seconds(2)).end(Errc::kOk).head(404);
  s.expect_list("/t?resourceVersion=10");
  s.page(404, "");
  answer_404(s, 4);
  EXPECT_EQ(s.deletes(), 0U);
  EXPECT_EQ(s.fsm.counters().doubtful, 5U);
  EXPECT_FALSE(s.fsm.absent());
  answer_404(s, 1);
  EXPECT_EQ(s.deletes(), 2U);
  EXPECT_TRUE(s.fsm.absent());
  s.expect_rest(seconds(30), seconds(30));
  Script large;
  large.in_step_with(300).wait(seconds(2)).end(Errc::kOk).head(404).page(404, "");
  answer_404(large, 5);
  EXPECT_EQ(large.deletes(), 0U);
  large.expect_list("/t?limit=500&resourceVersion=");
  large.page(404, "");
  EXPECT_EQ(large.deletes(), 300U);
  EXPECT_EQ(large.fsm.counters().guarded, 1U);
}

TEST(Reflector, RT27_WhenAProxyThatHasJustBegunKnowsNoPath_NothingIsGone) {
  Script s;
  s.in_step();
  for (int i = 0; i < 3; ++i) {  // again and again, each time for less than six answers
    s.wait(seconds(2))
        .end(Errc::kUnreachable)
        .timer()
        .head(404)
        .page(404, "")
        .timer()
        .page(404, "");
    s.timer().page(200, list("20", {object("a", 3), object("b", 4)})).head(200);
  }
  EXPECT_EQ(s.deletes(), 0U);
  EXPECT_EQ(s.fsm.keys().size(), 2U);
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
