#include "aggregation/watch/internal/member_watch_fsm.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "aggregation/position/cursor.h"

namespace kintsugi::aggregation {
namespace {

using Fsm = MemberWatchFsm;
using Action = Fsm::Action;
using State = Fsm::State;
using Present = Fsm::Present;
using Fault = Fsm::Fault;
using Taken = Fsm::Taken;

constexpr TimePoint kNow = TimePoint() + seconds(1'000);
constexpr WatchStart kFromState{0, true, false, false};
constexpr WatchStart kFrom100{100, false, false, false};
constexpr WatchStart kFromNow{0, false, false, true};

MemberWatchParams params() {
  return {milliseconds(100), seconds(5), seconds(30), seconds(10), false, false};
}

std::string name_of(State state) {
  static constexpr const char* kNames[] = {"opening", "initial", "catching up", "live",
                                           "waiting", "absent",  "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string text_of(const Action& action) {
  static constexpr const char* kNames[] = {"-",           "watch",  "list",    "rest", "accepted",
                                           "initial end", "absent", "refused", "lost", "expired"};
  std::string out = kNames[static_cast<std::size_t>(action.kind)];
  if (!action.cause.empty()) {
    out += " '" + std::string(action.cause) + "'";
  }
  if (action.status != 0) {
    out += " " + std::to_string(action.status);
  }
  if (!action.reason.empty()) {
    out += " (" + std::string(action.reason) + ")";
  }
  if (action.wait > Duration{}) {
    out += " " + std::to_string(std::chrono::duration_cast<milliseconds>(action.wait).count());
  }
  return out + (action.often ? " often" : "");
}

std::string text_of(Taken taken) {
  static constexpr const char* kNames[] = {"nothing", "present",  "change",      "late change",
                                           "replay",  "bookmark", "initial end", "malformed"};
  return kNames[static_cast<std::size_t>(taken)];
}

/// @{ A machine in each of its states, as a driver brings it there.
Fsm opening(const WatchStart& start = kFrom100) {
  Fsm fsm(params(), start);
  EXPECT_EQ(text_of(fsm.on_open(false)), "watch");
  return fsm;
}
Fsm accepted(const WatchStart& start) {
  Fsm fsm = opening(start);
  EXPECT_EQ(text_of(fsm.on_accepted()), "accepted");
  return fsm;
}
Fsm initial() { return accepted(kFromState); }
Fsm begun() {
  Fsm fsm = initial();
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 7, false), Taken::kPresent);
  return fsm;
}
Fsm catching_up() { return accepted(kFrom100); }
Fsm live() {
  Fsm fsm = catching_up();
  EXPECT_EQ(fsm.on_event(EventType::kModified, 101, false), Taken::kChange);
  return fsm;
}
Fsm waiting() {
  Fsm fsm = live();
  EXPECT_EQ(fsm.on_end(Errc::kOk, 200, ShardVerdict::kGood, kNow).kind, Action::Kind::kLost);
  return fsm;
}
Fsm absent() {
  Fsm fsm = opening(kFromState);
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 404, ShardVerdict::kAbsent, kNow)), "absent 30000");
  return fsm;
}
Fsm stopped() {
  Fsm fsm = live();
  fsm.stop();
  return fsm;
}  // @}

const std::string kSequence = "lost '" + std::string(kTooLargeVersions) + "' (sequence) > waiting";
const std::string kStrange = "lost 'its events cannot be understood' (malformed) > waiting";
const std::string kStrangeList = "lost 'its list cannot be understood' (malformed) > waiting";
const std::string kDenied = "lost 'it has ended the watch with 403' > waiting";
const std::string kEnded = "lost 'it ended the stream' > waiting";

struct Row {
  const char* event;
  std::function<std::string(Fsm&)> tell;
  /// What comes of it, "<action>" or "<action> > <state>" where that is another one, by state: from
  /// 100 on opening, for present objects opening, initial without and with some of them, catching
  /// up, live, waiting, absent, stopped.
  std::array<std::string, 9> becomes;
};

const std::vector<Row>& rows() {
  using Verdict = ShardVerdict;
  const auto end = [](Errc cause, int status, Verdict verdict) {
    return [=](Fsm& f) { return text_of(f.on_end(cause, status, verdict, kNow)); };
  };
  const auto event = [](EventType type, std::uint64_t revision, bool initial_end = false) {
    return [=](Fsm& f) { return text_of(f.on_event(type, revision, initial_end)); };
  };
  static const std::vector<Row> kRows = {
      {"opened",
       [](Fsm& f) { return text_of(f.on_open(false)); },
       {"watch", "watch", "watch > opening", "watch > opening", "watch > opening",
        "watch > opening", "watch > opening", "watch > opening", "-"}},
      {"opened, lists are preferred",
       [](Fsm& f) { return text_of(f.on_open(true)); },
       {"watch", "list (known)", "list (known) > opening", "list (known) > opening",
        "watch > opening", "watch > opening", "watch > opening", "list (known) > opening", "-"}},
      {"unreachable",
       [](Fsm& f) { return text_of(f.on_unreachable("dials", kNow)); },
       {"lost 'dials' (connect) > waiting", "lost 'dials' (connect) > waiting", "-", "-", "-", "-",
        "-", "-", "-"}},
      {"refused for its versions",
       [](Fsm& f) { return text_of(f.on_sequence_clash(kNow)); },
       {kSequence, kSequence, kSequence, kSequence, kSequence, kSequence, "-", "-", "-"}},
      {"accepted",
       [](Fsm& f) { return text_of(f.on_accepted()); },
       {"accepted > catching up", "accepted > initial", "-", "-", "-", "-", "-", "-", "-"}},
      {"other coding",
       [](Fsm& f) { return text_of(f.on_other_coding("speaks JSON", kNow)); },
       {"rest", "rest", "-", "-", "-", "-", "-", "-", "-"}},
      {"look again",
       [](Fsm& f) { return text_of(f.on_look_again()); },
       {"-", "-", "-", "-", "-", "-", "-", "rest", "-"}},
      {"object at 50",
       event(EventType::kModified, 50),
       {"nothing", "nothing", "present", "present", "replay", "late change", "nothing", "nothing",
        "nothing"}},
      {"object at 102",
       event(EventType::kAdded, 102),
       {"nothing", "nothing", "present", "present", "change > live", "change", "nothing", "nothing",
        "nothing"}},
      {"bookmark at 103",
       event(EventType::kBookmark, 103),
       {"nothing", "nothing", "bookmark", "bookmark", "bookmark", "bookmark", "nothing", "nothing",
        "nothing"}},
      {"bookmark that ends the present objects",
       event(EventType::kBookmark, 103, true),
       {"nothing", "nothing", "initial end > live", "initial end > live", "bookmark", "bookmark",
        "nothing", "nothing", "nothing"}},
      {"event of unknown type",
       event(EventType::kUnknown, 102),
       {"nothing", "nothing", "malformed", "malformed", "malformed", "malformed", "nothing",
        "nothing", "nothing"}},
      {"ERROR 410",
       [](Fsm& f) { return text_of(f.on_error_event(410)); },
       {"-", "-", "expired > stopped", "expired > stopped", "expired > stopped",
        "expired > stopped", "-", "-", "-"}},
      {"ERROR 500, batch ends",
       [](Fsm& f) {
         (void)f.on_error_event(500);
         return text_of(f.on_batch_end(false, kNow));
       },
       {"-", "-", "list (refused)", kStrange, kStrange, kStrange, "-", "-", "-"}},
      {"ERROR 403, batch ends",
       [](Fsm& f) { return (void)f.on_error_event(403), text_of(f.on_batch_end(false, kNow)); },
       {"-", "-", "list (refused)", kDenied, kDenied, kDenied, "-", "-", "-"}},
      {"ERROR 429, batch ends",
       [](Fsm& f) {
         (void)f.on_error_event(429);
         return text_of(f.on_batch_end(false, kNow));
       },
       {"-", "-", kStrange, kStrange, kStrange, kStrange, "-", "-", "-"}},
      {"malformed event, batch ends",
       [](Fsm& f) {
         f.on_malformed();
         return text_of(f.on_batch_end(false, kNow));
       },
       {"-", "-", kStrange, kStrange, kStrange, kStrange, "-", "-", "-"}},
      {"version like a sequence's, batch ends",
       [](Fsm& f) {
         f.on_sequence_event();
         return text_of(f.on_batch_end(false, kNow));
       },
       {"-", "-", kSequence, kSequence, kSequence, kSequence, "-", "-", "-"}},
      {"batch ends",
       [](Fsm& f) { return text_of(f.on_batch_end(false, kNow)); },
       {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"batch ends in what is no event",
       [](Fsm& f) { return text_of(f.on_batch_end(true, kNow)); },
       {"-", "-", kStrange, kStrange, kStrange, kStrange, "-", "-", "-"}},
      {"end in order",
       end(Errc::kOk, 200, Verdict::kGood),
       {"lost 200 (status) > waiting", "lost 200 (status) > waiting", kEnded, kEnded, kEnded,
        kEnded, "-", "-", "-"}},
      {"end, cut off",
       end(Errc::kClosed, 200, Verdict::kGood),
       {"lost 200 (status) > waiting", "lost 200 (status) > waiting",
        "lost 'Closed' (connect) > waiting", "lost 'Closed' (connect) > waiting",
        "lost 'Closed' (connect) > waiting", "lost 'Closed' (connect) > waiting", "-", "-", "-"}},
      {"end, no ping",
       end(Errc::kUnreachable, 200, Verdict::kGood),
       {"lost 200 (status) > waiting", "lost 200 (status) > waiting",
        "lost 'it answers no ping' (ping) > waiting", "lost 'it answers no ping' (ping) > waiting",
        "lost 'it answers no ping' (ping) > waiting", "lost 'it answers no ping' (ping) > waiting",
        "-", "-", "-"}},
      {"end without an answer",
       end(Errc::kTimeout, 0, Verdict::kDown),
       {"lost 'Timeout' (timeout) > waiting", "lost 'Timeout' (timeout) > waiting",
        "lost 'Timeout' (timeout) > waiting", "lost 'Timeout' (timeout) > waiting",
        "lost 'Timeout' (timeout) > waiting", "lost 'Timeout' (timeout) > waiting", "-", "-", "-"}},
      {"end with 400",
       end(Errc::kOk, 400, Verdict::kFinal),
       {"refused 400", "list (refused)", kEnded, kEnded, kEnded, kEnded, "-", "-", "-"}},
      {"end with 401",
       end(Errc::kOk, 401, Verdict::kDown),
       {"lost 401 (identity) > waiting", "lost 401 (identity) > waiting", kEnded, kEnded, kEnded,
        kEnded, "-", "-", "-"}},
      {"end with 403",
       end(Errc::kOk, 403, Verdict::kFinal),
       {"refused 403", "refused 403", kEnded, kEnded, kEnded, kEnded, "-", "-", "-"}},
      {"end with 404",
       end(Errc::kOk, 404, Verdict::kAbsent),
       {"expired > stopped", "absent 30000 > absent", kEnded, kEnded, kEnded, kEnded, "-", "-",
        "-"}},
      {"end with 410",
       end(Errc::kOk, 410, Verdict::kExpired),
       {"expired > stopped", "expired > stopped", kEnded, kEnded, kEnded, kEnded, "-", "-", "-"}},
      {"end with 429",
       end(Errc::kOk, 429, Verdict::kFinal),
       {"refused 429", "refused 429", kEnded, kEnded, kEnded, kEnded, "-", "-", "-"}},
      {"end with 500",
       end(Errc::kOk, 500, Verdict::kDown),
       {"lost 500 (status) > waiting", "lost 500 (status) > waiting", kEnded, kEnded, kEnded,
        kEnded, "-", "-", "-"}},
      {"refusal told, 403",
       [](Fsm& f) { return text_of(f.on_refusal_told(403, 1, kNow)); },
       {"lost 403 (status) > waiting", "lost 403 (status) > waiting", "lost 403 (status) > waiting",
        "lost 403 (status) > waiting", "lost 403 (status) > waiting", "lost 403 (status) > waiting",
        "-", "-", "-"}},
      {"loss told, again",
       [](Fsm& f) { return text_of(f.on_loss_told(true)); },
       {"-", "-", "-", "-", "-", "-", "rest 100", "-", "-"}},
      {"loss told, not again",
       [](Fsm& f) { return text_of(f.on_loss_told(false)); },
       {"-", "-", "-", "-", "-", "-", "-", "-", "-"}},
      {"list begins",
       [](Fsm& f) { return text_of(f.on_list_accepted()); },
       {"-", "accepted > initial", "-", "-", "-", "-", "-", "-", "-"}},
      {"malformed item, list batch ends",
       [](Fsm& f) {
         f.on_malformed();
         return text_of(f.on_list_batch_end(kNow));
       },
       {"-", "-", kStrangeList, kStrangeList, "-", "-", "-", "-", "-"}},
      {"present objects told, at 120",
       [](Fsm& f) { return text_of(f.on_present_told(120, false, kNow)); },
       {"-", "-", "initial end > catching up", "initial end > catching up", "-", "-", "-", "-",
        "-"}},
      {"the same, version like a sequence's",
       [](Fsm& f) { return text_of(f.on_present_told(120, true, kNow)); },
       {"-", "-", kSequence, kSequence, "-", "-", "-", "-", "-"}},
      {"the resource is lacking",
       [](Fsm& f) { return text_of(f.on_lacking()); },
       {"-", "absent 30000 > absent", "absent 30000 > absent", "absent 30000 > absent", "-", "-",
        "-", "-", "-"}},
      {"list refused with 403",
       [](Fsm& f) { return text_of(f.on_list_refused(403, kNow)); },
       {"-", "refused 403", "refused 403", "refused 403", "-", "-", "-", "-", "-"}},
      {"list refused with 422",
       [](Fsm& f) { return text_of(f.on_list_refused(422, kNow)); },
       {"-", "refused 422", "refused 422", "refused 422", "-", "-", "-", "-", "-"}},
      {"list lost",
       [](Fsm& f) { return text_of(f.on_list_lost("no end", kNow)); },
       {"-", "lost 'no end' (initial) > waiting", "lost 'no end' (initial) > waiting",
        "lost 'no end' (initial) > waiting", "-", "-", "-", "-", "-"}},
      {"another loop's stream is read",
       [](Fsm& f) {
         f.on_joined();
         return std::string("-");
       },
       {"-", "-", "-", "-", "-", "- > catching up", "-", "-", "-"}},
      {"that one is gone",
       [](Fsm& f) { return text_of(f.on_home_lost(false)); },
       {"-", "-", "-", "-", "watch > opening", "watch > opening", "-", "-", "-"}},
  };
  return kRows;
}

TEST(MemberWatchFsm, EachEventInEachState_HasItsActionAndItsNextState) {
  const std::array<std::function<Fsm()>, 9> states = {[] { return opening(); },
                                                      [] { return opening(kFromState); },
                                                      initial,
                                                      begun,
                                                      catching_up,
                                                      live,
                                                      waiting,
                                                      absent,
                                                      stopped};
  for (const Row& row : rows()) {
    for (std::size_t i = 0; i < states.size(); ++i) {
      Fsm fsm = states[i]();
      const State before = fsm.state();
      std::string becomes = row.tell(fsm);
      if (fsm.state() != before) {
        becomes += " > " + name_of(fsm.state());
      }
      EXPECT_EQ(becomes, row.becomes[i])
          << row.event << " in state " << i << ", " << name_of(before);
    }
  }
}

/// Everything that a state says by itself, after each of many random histories.
void check(const Fsm& fsm, const std::string& history) {
  const WatchStart& asked = fsm.question();
  switch (fsm.state()) {
    case State::kInitial:
      EXPECT_TRUE(asked.initial_events) << history;
      EXPECT_LE(fsm.position(), kBegun) << history;
      break;
    case State::kCatchingUp:
    case State::kLive:
      EXPECT_FALSE(asked.initial_events) << history;
      EXPECT_EQ(fsm.present(), Present::kAll) << history;
      break;
    case State::kAbsent:
      EXPECT_EQ(fsm.present(), Present::kAll) << history;
      EXPECT_TRUE(asked.initial_events) << history;
      break;
    case State::kWaiting:
      EXPECT_NE(fsm.silent_since(), TimePoint::max()) << history;
      break;
    default:
      break;
  }
  if (fsm.is_open()) {
    EXPECT_EQ(fsm.silent_since(), TimePoint::max()) << history;
    EXPECT_FALSE(fsm.was_away() || fsm.is_refused()) << history;
  } else {
    EXPECT_EQ(fsm.fault(), Fault::kNone) << history;
  }
  if (fsm.present() == Present::kSome) {
    EXPECT_EQ(fsm.position(), kBegun) << history;
    EXPECT_TRUE(fsm.is_half_told()) << history;
  }
}

TEST(MemberWatchFsm, WhateverHappens_StatesKeepTheirPromises) {
  std::mt19937 random(7);
  for (std::size_t run = 0; run < 2'000; ++run) {
    Fsm fsm(params(), std::array{kFromState, kFrom100, kFromNow}[run % 3]);
    std::string history;
    for (int step = 0; step < 40; ++step) {
      const Row& row = rows()[random() % rows().size()];
      const State state = fsm.state();
      const std::uint64_t position = fsm.position();
      const Present present = fsm.present();
      history += std::string("; ") + row.event;
      const std::string becomes = row.tell(fsm);
      if (becomes.starts_with("refused")) {
        (void)fsm.on_refusal_told(403, 1, kNow);  // as every driver does
      }
      check(fsm, history);
      EXPECT_GE(fsm.position(), position) << history;
      EXPECT_GE(fsm.present(), present) << history;
      if (state == State::kStopped) {
        EXPECT_EQ(fsm.state(), State::kStopped) << history;
        EXPECT_TRUE(becomes == "-" || becomes == "nothing") << history;
      }
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

TEST(MemberWatchFsm, APositionMovesWithEventsAndBookmarksButNeverBack) {
  Fsm fsm = catching_up();
  EXPECT_EQ(fsm.position(), 100U);
  EXPECT_EQ(fsm.on_event(EventType::kModified, 99, false), Taken::kReplay);
  EXPECT_EQ(fsm.on_event(EventType::kModified, 100, false), Taken::kReplay);
  EXPECT_EQ(fsm.position(), 100U);
  EXPECT_EQ(fsm.on_event(EventType::kBookmark, 104, false), Taken::kBookmark);
  EXPECT_EQ(fsm.state(), State::kCatchingUp);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 104, false), Taken::kReplay);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 105, false), Taken::kChange);
  EXPECT_EQ(fsm.on_event(EventType::kDeleted, 103, false), Taken::kLateChange);
  EXPECT_EQ(fsm.position(), 105U);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 105, false), Taken::kChange) << "one transaction";
}

TEST(MemberWatchFsm, WhilePresentObjectsCome_ThePositionOnlySaysThatSomeHave) {
  Fsm fsm = initial();
  EXPECT_EQ(fsm.on_event(EventType::kBookmark, 70, false), Taken::kBookmark);
  EXPECT_EQ(fsm.position(), 0U);
  EXPECT_EQ(fsm.present(), Present::kNone);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 7, false), Taken::kPresent);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 90, false), Taken::kPresent);
  EXPECT_EQ(fsm.position(), kBegun);
  EXPECT_EQ(fsm.present(), Present::kSome);
  EXPECT_EQ(fsm.on_event(EventType::kBookmark, 95, true), Taken::kInitialEnd);
  EXPECT_EQ(fsm.position(), 95U);
  EXPECT_EQ(fsm.present(), Present::kAll);
  EXPECT_FALSE(fsm.question().initial_events);
}

TEST(MemberWatchFsm, AfterALoss_ItAsksFromWhereItWasOnlyIfTheSinkHasEverything) {
  Fsm complete = waiting();
  EXPECT_EQ(complete.on_loss_told(true).kind, Action::Kind::kRest);
  EXPECT_EQ(complete.question().revision, 101U);
  Fsm half = begun();
  EXPECT_EQ(half.on_end(Errc::kClosed, 200, ShardVerdict::kGood, kNow).kind, Action::Kind::kLost);
  EXPECT_EQ(half.present(), Present::kSome);
  EXPECT_EQ(half.on_loss_told(true).kind, Action::Kind::kRest);
  EXPECT_TRUE(half.question().initial_events);
}

TEST(MemberWatchFsm, ListedObjects_AreFollowedByAWatchFromTheList) {
  Fsm fsm(params(), kFromState);
  EXPECT_EQ(text_of(fsm.on_open(true)), "list (known)");
  EXPECT_EQ(text_of(fsm.on_list_accepted()), "accepted");
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 7, false), Taken::kPresent);
  EXPECT_EQ(text_of(fsm.on_list_batch_end(kNow)), "-");
  EXPECT_EQ(text_of(fsm.on_present_told(120, false, kNow)), "initial end");
  EXPECT_EQ(fsm.position(), 120U);
  EXPECT_EQ(text_of(fsm.on_open(true)), "watch");
  EXPECT_EQ(fsm.question().revision, 120U);
}

TEST(MemberWatchFsm, RestsDoubleUntilTheShardIsHeard) {
  Fsm fsm = waiting();
  std::vector<std::string> rests;
  for (int i = 0; i < 8; ++i) {
    rests.push_back(text_of(fsm.on_loss_told(true)));
    EXPECT_EQ(text_of(fsm.on_open(false)), "watch");
    EXPECT_EQ(fsm.on_unreachable("dials", kNow).kind, Action::Kind::kLost);
  }
  EXPECT_EQ(rests, (std::vector<std::string>{"rest 100", "rest 200", "rest 400", "rest 800",
                                             "rest 1600", "rest 3200", "rest 5000", "rest 5000"}));
  EXPECT_EQ(fsm.silent_since(), kNow);
  (void)fsm.on_loss_told(true);
  (void)fsm.on_open(false);
  (void)fsm.on_accepted();
  EXPECT_EQ(fsm.silent_since(), TimePoint::max());
  (void)fsm.on_end(Errc::kOk, 200, ShardVerdict::kGood, kNow);
  EXPECT_EQ(text_of(fsm.on_loss_told(true)), "rest 100");
}

TEST(MemberWatchFsm, AShardThatRefusesOrIsBusy_IsLeftAloneForLonger) {
  Fsm fsm = opening();
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 429, ShardVerdict::kFinal, kNow)), "refused 429");
  EXPECT_EQ(text_of(fsm.on_refusal_told(429, 7, kNow)), "lost 429 (status)");
  EXPECT_EQ(text_of(fsm.on_loss_told(true)), "rest 7000");
  (void)fsm.on_open(false);
  (void)fsm.on_end(Errc::kOk, 429, ShardVerdict::kFinal, kNow);
  (void)fsm.on_refusal_told(429, 3'600, kNow);
  EXPECT_EQ(text_of(fsm.on_loss_told(true)), "rest 30000");
  (void)fsm.on_open(false);
  EXPECT_FALSE(fsm.is_refused());
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 403, ShardVerdict::kFinal, kNow)), "refused 403");
  EXPECT_TRUE(fsm.is_refused());
  (void)fsm.on_refusal_told(403, 1, kNow);
  EXPECT_EQ(text_of(fsm.on_loss_told(true)), "rest 30000");
  (void)fsm.on_open(false);
  (void)fsm.on_accepted();
  EXPECT_FALSE(fsm.is_refused());
}

TEST(MemberWatchFsm, A403OfAShardThatWasAway_IsBelievedOnlyLater) {
  Fsm fsm = opening();
  (void)fsm.on_unreachable("dials", kNow);
  (void)fsm.on_loss_told(true);
  TimePoint now = kNow;
  for (int i = 0; i < 2; ++i) {
    (void)fsm.on_open(false);
    EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 403, ShardVerdict::kFinal, now)), "lost 403 (status)");
    EXPECT_FALSE(fsm.is_refused());
    (void)fsm.on_loss_told(true);
    now += seconds(9);
  }
  (void)fsm.on_open(false);
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 403, ShardVerdict::kFinal, now)), "refused 403");
}

TEST(MemberWatchFsm, ARefusalOfTheProxysOwnCredential_IsALoss) {
  MemberWatchParams reviewed = params();
  reviewed.reviewed = true;
  Fsm fsm(reviewed, kFrom100);
  (void)fsm.on_open(false);
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 403, ShardVerdict::kFinal, kNow)),
            "lost 'it refuses the proxy's own credential' (identity)");
}

TEST(MemberWatchFsm, A401OfTheClientsOwnToken_IsTheClients) {
  MemberWatchParams bearer = params();
  bearer.bearer = true;
  Fsm fsm(bearer, kFrom100);
  (void)fsm.on_open(false);
  EXPECT_EQ(text_of(fsm.on_end(Errc::kOk, 401, ShardVerdict::kDown, kNow)), "refused 401");
  EXPECT_EQ(text_of(fsm.on_refusal_told(401, 1, kNow)), "lost 401 (identity)");
}

TEST(MemberWatchFsm, WhatCannotBeUnderstoodThreeTimesInAMinute_IsAskedForRarely) {
  Fsm fsm = live();
  TimePoint now = kNow;
  std::vector<std::string> rests;
  for (int i = 0; i < 3; ++i) {
    fsm.on_malformed();
    const Action lost = fsm.on_batch_end(false, now);
    EXPECT_EQ(lost.often, i == 2);
    rests.push_back(text_of(fsm.on_loss_told(true)));
    (void)fsm.on_open(false);
    (void)fsm.on_accepted();
    now += seconds(20);
  }
  EXPECT_EQ(rests, (std::vector<std::string>{"rest 100", "rest 100", "rest 5000"}));
}

TEST(MemberWatchFsm, BehindAFault_NothingIsTaken) {
  Fsm fsm = live();
  fsm.on_sequence_event();
  fsm.on_malformed();
  EXPECT_EQ(fsm.fault(), Fault::kSequence);
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 200, false), Taken::kNothing);
  EXPECT_EQ(text_of(fsm.on_error_event(410)), "-");
  EXPECT_EQ(fsm.position(), 101U);
}

TEST(MemberWatchFsm, AnotherCoding_IsAskedForOtherwiseOnceAndNeverAgain) {
  Fsm fsm = opening();
  EXPECT_FALSE(fsm.is_narrowed());
  EXPECT_EQ(text_of(fsm.on_other_coding("speaks JSON", kNow)), "rest");
  EXPECT_TRUE(fsm.is_narrowed());
  EXPECT_EQ(fsm.state(), State::kOpening);
  (void)fsm.on_open(false);
  EXPECT_EQ(text_of(fsm.on_other_coding("speaks JSON", kNow)), "lost 'speaks JSON' (status)");
}

TEST(MemberWatchFsm, WhatAShardLacked_IsAskedForFromTheBeginning) {
  Fsm fsm = absent();
  EXPECT_EQ(fsm.present(), Present::kAll);
  EXPECT_EQ(text_of(fsm.on_look_again()), "rest");
  EXPECT_EQ(text_of(fsm.on_open(false)), "watch");
  EXPECT_TRUE(fsm.question().initial_events);
  EXPECT_EQ(text_of(fsm.on_accepted()), "accepted");
  EXPECT_EQ(fsm.state(), State::kInitial);
}

TEST(MemberWatchFsm, WhatAShardLackedAndGaveInPart_CannotBeMadeGood) {
  Fsm fsm = absent();
  (void)fsm.on_open(false);
  (void)fsm.on_accepted();
  EXPECT_FALSE(fsm.is_half_told());
  EXPECT_EQ(fsm.on_event(EventType::kAdded, 7, false), Taken::kPresent);
  EXPECT_TRUE(fsm.is_half_told());
  EXPECT_EQ(fsm.on_end(Errc::kReset, 200, ShardVerdict::kGood, kNow).kind, Action::Kind::kLost);
  EXPECT_TRUE(fsm.is_half_told());
  (void)fsm.on_loss_told(true);
  (void)fsm.on_open(false);
  (void)fsm.on_accepted();
  EXPECT_EQ(fsm.on_event(EventType::kBookmark, 9, true), Taken::kInitialEnd);
  EXPECT_FALSE(fsm.is_half_told());
  EXPECT_FALSE(live().is_half_told());
}

TEST(MemberWatchFsm, AStreamThatIsReadFromAnotherLoop_MayTellAgainAndGoesOnAlone) {
  Fsm fsm = live();
  fsm.on_joined();
  EXPECT_EQ(fsm.on_event(EventType::kModified, 101, false), Taken::kReplay);
  EXPECT_EQ(fsm.on_event(EventType::kModified, 102, false), Taken::kChange);
  EXPECT_EQ(text_of(fsm.on_home_lost(true)), "watch");
  EXPECT_EQ(fsm.question().revision, 102U);
  EXPECT_TRUE(fsm.was_away());
}

TEST(MemberWatchFsm, StateNames_DoNotTellCatchingUpFromLive) {
  EXPECT_EQ(state_name(State::kCatchingUp), "live");
  EXPECT_EQ(state_name(State::kWaiting), "waiting");
  EXPECT_EQ(state_name(State::kStopped), "stopped");
}

}  // namespace
}  // namespace kintsugi::aggregation
