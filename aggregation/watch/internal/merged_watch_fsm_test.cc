#include "aggregation/watch/internal/merged_watch_fsm.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace kintsugi::aggregation {
namespace {

using Fsm = MergedWatchFsm;
using Action = Fsm::Action;
using Answers = Fsm::Answers;
using Kind = Action::Kind;
using Present = Fsm::Present;
using State = Fsm::State;
using Why = Fsm::Why;

constexpr TimePoint kBegin = TimePoint() + seconds(1'000);
constexpr TimePoint kNow = kBegin + seconds(10);

const MergeParams& params() {
  static const MergeParams kParams;
  return kParams;
}

std::string text_of(const Action& action) {
  static constexpr const char* kNames[] = {
      "-",           "look",       "answer",     "send head",     "pass on",
      "refuse",      "tell error", "fail",       "doom",          "wait",
      "initial end", "give up",    "bookmark",   "want bookmark", "await bookmark",
      "cut",         "reset",      "look again", "end silent",    "want end",
      "end"};
  static constexpr const char* kWhys[] = {
      "",       "shard away",   "all away",     "busy",   "unreviewed", "shard's status",
      "future", "present lost", "present late", "expired"};
  std::string out = kNames[static_cast<std::size_t>(action.kind)];
  if (action.why != Why::kNothing) {
    out += std::string(": ") + kWhys[static_cast<std::size_t>(action.why)];
  }
  if (action.marks) {
    out += " marked";
  }
  if (!action.reason.empty()) {
    out += " (" + std::string(action.reason) + ")";
  }
  if (action.part != 0) {
    out += " of " + std::to_string(action.part);
  }
  if (action.wait > Duration{}) {
    out += " " + std::to_string(std::chrono::duration_cast<milliseconds>(action.wait).count());
  }
  if (action.at != TimePoint()) {
    out +=
        " at " + std::to_string(std::chrono::duration_cast<milliseconds>(action.at - kNow).count());
  }
  return out;
}

/// The driver stops at once.
bool is_last(Kind kind) {
  return kind == Kind::kPassOn || kind == Kind::kRefuse || kind == Kind::kTellError ||
         kind == Kind::kReset || kind == Kind::kEnd;
}

/// @{ A machine in each of its states, as a driver brings it there: of a strict watch with
/// bookmarks that asks for the present objects and their end, if nothing else is said.
Fsm starting(bool partial = false) { return {params(), partial, true}; }
Fsm asking(bool partial = false) {
  Fsm fsm = starting(partial);
  fsm.on_start({.from_state = true, .marks_end = true, .generation = 7});
  return fsm;
}
Fsm busy() {
  Fsm fsm = asking();
  EXPECT_EQ(text_of(fsm.on_refused(429, false, 3)), "-");
  return fsm;
}
Fsm initial(bool partial = false) {
  Fsm fsm = asking(partial);
  EXPECT_EQ(text_of(fsm.on_answers({}, kBegin)), "send head");
  return fsm;
}
Fsm given_up() {
  Fsm fsm = initial(true);
  EXPECT_EQ(text_of(fsm.on_present_late(false, true, kNow)), "give up");
  return fsm;
}
Fsm live() {
  Fsm fsm = initial();
  EXPECT_EQ(text_of(fsm.on_present_told()), "initial end marked");
  return fsm;
}
Fsm doomed() {
  Fsm fsm = live();
  EXPECT_EQ(text_of(fsm.on_expired("history", seconds(4))), "doom (history) 4000");
  return fsm;
}
Fsm cut_off() {
  Fsm fsm = live();
  EXPECT_EQ(text_of(fsm.on_too_much()), "cut 5000");
  return fsm;
}
Fsm ended() {
  Fsm fsm = live();
  EXPECT_TRUE(fsm.on_stop());
  return fsm;
}  // @}

struct Row {
  const char* event;
  std::function<Action(Fsm&)> tell;
  /// What comes of it, "<action>" or "<action> > <state>" where that is another one, by state:
  /// starting, asking, asking with a shard that is busy, initial, the same of a partial watch that
  /// has given up shards that are away, live, live and doomed, cut off, ended.
  std::array<std::string, 9> becomes;
};

const std::string kPassed = "pass on > ended";
const std::string kShardAway = "refuse: shard away > ended";
const std::string kRefused = "fail: shard's status (refused)";
const std::string kBehind = "fail: expired (behind)";
const std::string kForgotten = "fail: expired (history)";
const std::string kUnreviewed = "refuse: unreviewed > ended";

const std::vector<Row>& rows() {
  const auto answers = [](const Answers& what) {
    return [=](Fsm& f) { return f.on_answers(what, kNow); };
  };
  const auto refused = [](int status, bool by_all = false) {
    return [=](Fsm& f) { return f.on_refused(status, by_all, 5); };
  };
  static const std::vector<Row> kRows = {
      {"started",
       [](Fsm& f) {
         f.on_start({.from_state = true, .marks_end = true, .generation = 7});
         return Action();
       },
       {"- > asking", "-", "-", "-", "-", "-", "-", "-", "-"}},
      // Until the head is out.
      {"all shards have accepted",
       answers({}),
       {"send head > initial", "send head > initial", "refuse: busy > ended", "-", "-", "-", "-",
        "-", "-"}},
      {"the third refuses",
       answers({.refused = 2}),
       {"pass on of 2 > ended", "pass on of 2 > ended", "pass on of 2 > ended", "-", "-", "-", "-",
        "-", "-"}},
      {"the second is silent, the third refuses",
       answers({.refused = 2, .silent = 1}),
       {"refuse: shard away of 1 > ended", "refuse: shard away of 1 > ended",
        "refuse: shard away of 1 > ended", "-", "-", "-", "-", "-", "-"}},
      {"all are away",
       answers({.all_away = true}),
       {"refuse: all away > ended", "refuse: all away > ended", "refuse: busy > ended", "-", "-",
        "-", "-", "-", "-"}},
      {"the head is late, a shard is dialed",
       [](Fsm& f) { return f.on_headers_late(true); },
       {"wait 500", "wait 500", "wait 500", "-", "-", "-", "-", "-", "-"}},
      {"the head is late",
       [](Fsm& f) { return f.on_headers_late(false); },
       {"answer", "answer", "answer", "-", "-", "-", "-", "-", "-"}},
      // Shards.
      {"a shard is lost",
       [](Fsm& f) { return f.on_shard_lost(); },
       {"-", kShardAway, "look", "-", "-", "-", "-", "-", "-"}},
      {"a shard is lost amid its present objects",
       [](Fsm& f) { return f.on_half_lost(); },
       {"-", "fail: present lost (initial)", "fail: present lost (initial)",
        "fail: present lost (initial)", "fail: present lost (initial)", "fail: expired (initial)",
        "fail: expired (initial)", "fail: expired (initial)", "-"}},
      {"401", refused(401),
       {"-", kPassed, kPassed, "want end", "want end", "want end", "want end", "want end", "-"}},
      {"403",
       refused(403),
       {"-", kPassed, kPassed, kRefused, "-", kRefused, kRefused, kRefused, "-"}},
      {"404", refused(404), {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"404, as of all others",
       refused(404, true),
       {"-", kPassed, kPassed, "-", "-", "-", "-", "-", "-"}},
      {"429", refused(429), {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"422",
       refused(422),
       {"-", kPassed, kPassed, kRefused, kRefused, kRefused, kRefused, kRefused, "-"}},
      {"504",
       refused(504),
       {"-", kPassed, kPassed, "fail: future (refused)", "fail: future (refused)",
        "fail: future (refused)", "fail: future (refused)", "fail: future (refused)", "-"}},
      {"nobody is silent",
       [](Fsm& f) { return f.on_silence(TimePoint::max(), kNow); },
       {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"a shard is silent for a while",
       [](Fsm& f) { return f.on_silence(kNow - seconds(100), kNow); },
       {"-", "-", "-", "look again at 200000", "-", "look again at 200000", "look again at 200000",
        "-", "-"}},
      {"a shard is silent for too long",
       [](Fsm& f) { return f.on_silence(kNow - seconds(300), kNow); },
       {"-", "-", "-", "end silent at 300000", "-", "end silent at 300000", "end silent at 300000",
        "-", "-"}},
      // Present objects.
      {"they are told",
       [](Fsm& f) { return f.on_present_told(); },
       {"-", "-", "-", "initial end marked > live", "initial end marked > live", "-", "-", "-",
        "-"}},
      {"they are late, and the client slow",
       [](Fsm& f) { return f.on_present_late(true, true, kNow); },
       {"-", "wait 120000", "wait 120000", "wait 120000", "wait 120000", "-", "-", "-", "-"}},
      {"they are late",
       [](Fsm& f) { return f.on_present_late(false, true, kNow); },
       {"-", "fail: present late (initial)", "fail: present late (initial)",
        "fail: present late (initial)", "give up", "-", "-", "-", "-"}},
      {"they are late, and nobody knows what they are",
       [](Fsm& f) { return f.on_present_late(false, false, kNow); },
       {"-", "fail: present late (initial)", "fail: present late (initial)",
        "fail: present late (initial)", "fail: present late (initial)", "-", "-", "-", "-"}},
      // Where the client is.
      {"a component moves",
       [](Fsm& f) { return f.on_moved({3, 3}, kNow); },
       {"-", "-", "-", "-", "-", "want bookmark", "want bookmark", "-", "-"}},
      {"a component moves just after a bookmark",
       [](Fsm& f) {
         f.on_bookmark_sent(kNow);
         return f.on_moved({3, 3}, kNow);
       },
       {"-", "-", "-", "-", "-", "await bookmark at 200", "await bookmark at 200", "-", "-"}},
      {"a bookmark is wanted",
       [](Fsm& f) { return f.on_bookmark_wanted(false, true, kNow); },
       {"-", "-", "-", "-", "-", "bookmark", "-", "bookmark", "-"}},
      {"a bookmark is wanted that cannot be told",
       [](Fsm& f) { return f.on_bookmark_wanted(false, false, kNow); },
       {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"a bookmark is wanted, the group owes events",
       [](Fsm& f) { return f.on_bookmark_wanted(true, true, kNow); },
       {"-", "-", "-", "-", "-", "await bookmark at 200", "-", "await bookmark at 200", "-"}},
      {"a bookmark is wanted, a shard has just left",
       [](Fsm& f) {
         f.on_departure(7, kNow);
         return f.on_bookmark_wanted(false, true, kNow);
       },
       {"-", "-", "-", "-", "-", "await bookmark at 5000", "-", "await bookmark at 5000", "-"}},
      {"no bookmark is due",
       [](Fsm& f) { return f.on_bookmark_due(kNow); },
       {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      // Rights.
      {"its rights cannot be told",
       [](Fsm& f) { return f.on_unreviewed(); },
       {kUnreviewed, kUnreviewed, kUnreviewed, "want end", "want end", "want end", "want end",
        "want end", "-"}},
      // Ends.
      {"it has lost events, and is told now",
       [](Fsm& f) { return f.on_expired("history", Duration{}); },
       {kForgotten, kForgotten, kForgotten, kForgotten, kForgotten, kForgotten, kForgotten,
        kForgotten, "-"}},
      {"it has lost events, and is told in its turn",
       [](Fsm& f) { return f.on_expired("history", seconds(2)); },
       {"doom (history) 2000", "doom (history) 2000", "doom (history) 2000", "doom (history) 2000",
        "doom (history) 2000", "doom (history) 2000", "-", "doom (history) 2000", "-"}},
      {"its turn has come",
       [](Fsm& f) { return f.on_doom("history"); },
       {"-", "-", "-", "-", "-", "-", kForgotten, "-", "-"}},
      {"too much waits for it",
       [](Fsm& f) { return f.on_too_much(); },
       {"-", "-", "-", "cut 5000 > cut off", "cut 5000 > cut off", "cut 5000 > cut off",
        "cut 5000 > cut off", "-", "-"}},
      {"its grace is over",
       [](Fsm& f) { return f.on_grace_over(); },
       {"-", "-", "-", "-", "-", "-", "-", "reset > ended", "-"}},
      {"it has taken everything",
       [](Fsm& f) { return f.on_drained(); },
       {"-", "-", "-", "-", "-", "-", "-", "want end", "-"}},
      {"its end is wanted",
       [](Fsm& f) { return f.on_end_wanted(false, kNow); },
       {"-", "-", "-", "end > ended", "end > ended", "end > ended", "end > ended", "end > ended",
        "-"}},
      {"its end is wanted at once",
       [](Fsm& f) { return f.on_end_wanted(false, kBegin + milliseconds(100)); },
       {"-", "-", "-", "wait 900", "wait 900", "wait 900", "wait 900", "wait 900", "-"}},
      {"its end is wanted, and it lacks what it cannot come back for",
       [](Fsm& f) { return f.on_end_wanted(true, kNow); },
       {"-", "-", "-", kBehind, kBehind, kBehind, kBehind, kBehind, "-"}},
      {"something is wrong for good",
       [](Fsm& f) { return f.on_error(); },
       {"refuse > ended", "refuse > ended", "refuse > ended", "tell error > ended",
        "tell error > ended", "tell error > ended", "tell error > ended", "tell error > ended",
        "-"}},
      {"the client is gone",
       [](Fsm& f) {
         (void)f.on_stop();
         return Action();
       },
       {"- > ended", "- > ended", "- > ended", "- > ended", "- > ended", "- > ended", "- > ended",
        "- > ended", "-"}},
  };
  return kRows;
}

/// What the machine says, and what it is after its driver has done that.
std::string become(Fsm& fsm, const Row& row) {
  const State before = fsm.state();
  const Action action = row.tell(fsm);
  if (is_last(action.kind)) {
    EXPECT_TRUE(fsm.on_stop()) << row.event;
  }
  std::string out = text_of(action);
  if (fsm.state() != before) {
    out += " > " + std::string(state_name(fsm.state()));
  }
  return out;
}

TEST(MergedWatchFsm, EveryEventInEveryState_IsInTheTable) {
  const std::array<std::function<Fsm()>, 9> states = {
      [] { return starting(); }, [] { return asking(); },   [] { return busy(); },
      [] { return initial(); },  [] { return given_up(); }, [] { return live(); },
      [] { return doomed(); },   [] { return cut_off(); },  [] { return ended(); }};
  for (const Row& row : rows()) {
    for (std::size_t i = 0; i < states.size(); ++i) {
      Fsm fsm = states[i]();
      const State before = fsm.state();
      EXPECT_EQ(become(fsm, row), row.becomes[i])
          << row.event << " in state " << i << ", " << state_name(before);
    }
  }
}

/// What can never be, after each of many random histories.
void check(const Fsm& fsm, const std::string& history) {
  switch (fsm.state()) {
    case State::kStarting:
      EXPECT_EQ(fsm.present(), Present::kComing) << history << ": nothing came of shards";
      EXPECT_EQ(fsm.busy(), 0) << history << ": no shard was asked";
      break;
    case State::kAsking:
      EXPECT_NE(fsm.present(), Present::kGivenUp) << history << ": given up without a head";
      break;
    case State::kInitial:
      EXPECT_NE(fsm.present(), Present::kTold) << history << ": what is told still comes";
      break;
    case State::kLive:
      EXPECT_EQ(fsm.present(), Present::kTold) << history << ": live without present objects";
      EXPECT_FALSE(fsm.owes_end_mark()) << history << ": live, and their end was not told";
      break;
    case State::kCutOff:
    case State::kEnded:
      break;
  }
  if (fsm.present() == Present::kGivenUp) {
    EXPECT_FALSE(fsm.is_strict()) << history << ": a strict watch goes on without a shard";
  }
  EXPECT_FALSE(fsm.is_unanswered() && fsm.has_head()) << history;
  if (fsm.is_unanswered()) {
    EXPECT_EQ(fsm.bookmark_due(), TimePoint::max()) << history << ": a bookmark before the head";
  }
}

TEST(MergedWatchFsm, WhateverHappens_IllegalCombinationsNeverAre) {
  std::mt19937 random(11);
  for (int run = 0; run < 4'000; ++run) {
    Fsm fsm(params(), run % 2 == 0, run % 4 < 2);
    std::string history;
    for (int step = 0; step < 30; ++step) {
      const Row& row = rows()[random() % rows().size()];
      const bool was_doomed = fsm.is_doomed();
      const State before = fsm.state();
      const Present present = fsm.present();
      history += std::string("; ") + row.event;
      const std::string becomes = become(fsm, row);
      check(fsm, history);
      EXPECT_GE(fsm.present(), present) << history;
      EXPECT_GE(fsm.state(), before) << history << ": a watch goes back";
      EXPECT_TRUE(fsm.is_doomed() || !was_doomed) << history << ": what was lost is back";
      if (before == State::kEnded) {
        EXPECT_EQ(becomes, "-") << history << ": something comes after the end";
      }
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

TEST(MergedWatchFsm, APartialWatch_GoesOnWithoutShards) {
  Fsm away = asking(true);
  EXPECT_EQ(text_of(away.on_shard_lost()), "look");
  EXPECT_EQ(text_of(away.on_refused(403, false, 1)), "-");
  EXPECT_EQ(text_of(away.on_answers({.refused = 0, .silent = 1}, kBegin)), "send head");
  EXPECT_TRUE(away.waives_absent());
  EXPECT_EQ(text_of(away.on_silence(kNow - seconds(500), kNow)), "-");
  Fsm all = asking(true);
  EXPECT_EQ(text_of(all.on_refused(403, true, 1)), "pass on");
  EXPECT_EQ(text_of(all.on_answers({.refused = 1, .all_refuse = true, .all_away = true}, kBegin)),
            "pass on of 1");
  EXPECT_EQ(text_of(all.on_answers({.all_away = true}, kBegin)), "refuse: all away");
}

TEST(MergedWatchFsm, OfShardsThatAreBusy_TheBusiestCounts) {
  Fsm fsm = busy();
  EXPECT_EQ(fsm.busy(), 3);
  (void)fsm.on_refused(429, false, 9);
  (void)fsm.on_refused(429, false, 2);
  EXPECT_EQ(fsm.busy(), 9);
}

TEST(MergedWatchFsm, AConnectionThatIsBeingMade_IsWaitedForOnce) {
  Fsm fsm = asking();
  EXPECT_EQ(text_of(fsm.on_headers_late(true)), "wait 500");
  EXPECT_EQ(text_of(fsm.on_headers_late(true)), "answer");
}

TEST(MergedWatchFsm, PresentObjectsThatWereToldBeforeTheHead_AreNotAwaitedBehindIt) {
  Fsm fsm(params(), false, true);
  fsm.on_start({});
  EXPECT_TRUE(fsm.awaits_present());
  EXPECT_EQ(text_of(fsm.on_present_told()), "initial end");
  EXPECT_EQ(fsm.state(), State::kAsking);
  EXPECT_EQ(text_of(fsm.on_answers({}, kBegin)), "send head");
  EXPECT_EQ(fsm.state(), State::kLive);
}

TEST(MergedWatchFsm, WhoHasLostEventsAmidPresentObjects_IsNotToldTheirEnd) {
  Fsm fsm = initial();
  EXPECT_EQ(text_of(fsm.on_expired("removed", seconds(4))), "doom (removed) 4000");
  EXPECT_EQ(text_of(fsm.on_present_told()), "-");
  EXPECT_TRUE(fsm.awaits_present());
  EXPECT_EQ(text_of(fsm.on_doom("removed")), "fail: expired (removed)");
  Fsm unmarked(params(), false, true);  // it is told no end at all
  unmarked.on_start({});
  (void)unmarked.on_expired("removed", seconds(4));
  EXPECT_EQ(text_of(unmarked.on_present_told()), "initial end");
}

TEST(MergedWatchFsm, ObjectsThatCome_PutOffTheEndOfPatience) {
  Fsm fsm = initial();
  fsm.on_progress(kNow - seconds(119));
  EXPECT_EQ(text_of(fsm.on_present_late(false, true, kNow)), "wait 1000");
  EXPECT_EQ(text_of(fsm.on_present_late(false, true, kNow + seconds(1))),
            "fail: present late (initial)");
}

TEST(MergedWatchFsm, ALossAmidPresentObjects_IsMadeGoodByWhoBeganWithAllOfThem) {
  Fsm at_cursor(params(), false, true);
  at_cursor.on_start({});
  (void)at_cursor.on_answers({}, kBegin);
  EXPECT_EQ(text_of(at_cursor.on_half_lost()), "fail: expired (initial)");
}

TEST(MergedWatchFsm, ABookmarkThatIsDue_IsSentOnlyIfSomethingMoved) {
  Fsm fsm = live();
  fsm.on_bookmark_sent(kNow);
  EXPECT_EQ(text_of(fsm.on_moved({3, 3}, kNow)), "await bookmark at 200");
  EXPECT_EQ(text_of(fsm.on_moved({3, 3}, kNow)), "-") << "it is awaited already";
  EXPECT_EQ(text_of(fsm.on_bookmark_due(kNow + milliseconds(199))), "-");
  EXPECT_EQ(text_of(fsm.on_bookmark_due(kNow + milliseconds(200))), "want bookmark");
  EXPECT_EQ(fsm.bookmark_due(), TimePoint::max());
  fsm.on_bookmark_sent(kNow + milliseconds(200));
  EXPECT_EQ(text_of(fsm.on_moved({17, 17}, kNow + milliseconds(300))), "await bookmark at 1300");
  fsm.on_bookmark_sent(kNow + milliseconds(400));  // as another event brought it
  EXPECT_EQ(text_of(fsm.on_bookmark_due(kNow + seconds(2))), "-");
  EXPECT_FALSE(fsm.forget_bookmark());
}

TEST(MergedWatchFsm, BookmarksWithLongCursors_AGG514_GoWithEventsAndRarely) {
  Fsm fsm = live();
  fsm.on_bookmark_sent(kNow);
  EXPECT_EQ(text_of(fsm.on_moved({1'000, 1'000, false}, kNow + seconds(100))), "-");
  EXPECT_TRUE(fsm.is_stale()) << "the next one that is sent while nothing happens says it";
  EXPECT_EQ(text_of(fsm.on_moved({1'000, 1'000}, kNow + seconds(100))), "want bookmark");
  EXPECT_EQ(text_of(fsm.on_moved({1'000, 1'000}, kNow)), "await bookmark at 16000");
  EXPECT_TRUE(fsm.forget_bookmark());
  EXPECT_EQ(text_of(fsm.on_moved({2, 65}, kNow)), "await bookmark at 2000")
      << "the cursor of a few shards is as long";
  EXPECT_TRUE(fsm.forget_bookmark());
  EXPECT_EQ(text_of(fsm.on_moved({64, 64, false}, kNow)), "await bookmark at 1000");
  Fsm numbers(params(), false, true);
  numbers.on_start({.by_sequence = true});
  (void)numbers.on_answers({}, kBegin);
  (void)numbers.on_present_told();
  numbers.on_bookmark_sent(kNow);
  EXPECT_EQ(text_of(numbers.on_moved({2'000, 2'000, false}, kNow)), "await bookmark at 1000");
}

TEST(MergedWatchFsm, WithoutBookmarks_NoneIsWantedOrAwaited) {
  Fsm fsm(params(), false, false);
  fsm.on_start({});
  (void)fsm.on_answers({}, kBegin);
  (void)fsm.on_present_told();
  EXPECT_EQ(text_of(fsm.on_moved({3, 3}, kNow)), "-");
  EXPECT_EQ(text_of(fsm.on_bookmark_wanted(true, true, kNow)), "-");
}

TEST(MergedWatchFsm, AfterADeparture_NoCursorIsToldUntilTheTableSaysSo) {
  Fsm fsm = live();
  fsm.on_departure(fsm.on_slots(7), kNow);
  EXPECT_EQ(text_of(fsm.on_bookmark_wanted(false, true, kNow + seconds(1))),
            "await bookmark at 5000");
  EXPECT_EQ(fsm.on_slots(8), 7U);
  EXPECT_EQ(text_of(fsm.on_bookmark_wanted(false, true, kNow + seconds(1))), "bookmark");
  fsm.on_departure(fsm.on_slots(8), kNow);
  EXPECT_EQ(text_of(fsm.on_bookmark_wanted(false, true, kNow + seconds(5))), "bookmark")
      << "a Partition was edited";
}

TEST(MergedWatchFsm, NewSlots_MeanAListForWhoHasLostObjectsOrItsKindOfCursor) {
  EXPECT_EQ(live().on_followed(false, false, false), "");
  EXPECT_EQ(live().on_followed(false, false, true), "rollback");
  EXPECT_EQ(live().on_followed(true, false, true), "sequence");
  EXPECT_EQ(live().on_followed(true, true, true), "removed");
  EXPECT_EQ(doomed().on_followed(true, true, true), "") << "it is told already";
  EXPECT_EQ(starting().on_followed(true, true, true), "") << "it has nothing yet";
  EXPECT_EQ(ended().on_followed(true, true, true), "");
}

}  // namespace
}  // namespace kintsugi::aggregation
