#include "store/etcd/internal/write_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kintsugi::store::etcd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr AnswerClass kAgain{AnswerClass::Outcome::kNotDone, Errc::kOk};
constexpr AnswerClass kWhoKnows{AnswerClass::Outcome::kUnknown, Errc::kOk};

Verdict done(Revision revision) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kDone;
  verdict.revision = revision;
  return verdict;
}
Verdict verdict_of(Verdict::Kind kind, Revision revision = 0) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.revision = revision;
  return verdict;
}

/// Feeds a book and tells its actions as words.
class Bench {
 public:
  explicit Bench(WriteParams params = {}) : book_(params) {}

  std::vector<std::string> add(std::uint64_t number, std::vector<KeyUse> uses) {
    return told([&](WriteActions& out) {
      book_.add(number, std::move(uses), now_, now_ + seconds(10), out);
    });
  }
  std::vector<std::string> verdict(std::uint64_t number, const Verdict& what, bool writes = true) {
    return told([&](WriteActions& out) { book_.on_verdict(number, what, writes, now_, out); });
  }
  std::vector<std::string> failure(std::uint64_t number, const AnswerClass& what) {
    return told([&](WriteActions& out) { book_.on_failure(number, what, now_, out); });
  }
  std::vector<std::string> published(Revision position) {
    return told([&](WriteActions& out) { book_.on_published(position, now_, out); });
  }
  std::vector<std::string> seat(Revision revision) {
    return told([&](WriteActions& out) { book_.on_seat(revision, now_, out); });
  }
  std::vector<std::string> resync() {
    return told([&](WriteActions& out) { book_.on_resync(now_, out); });
  }
  std::vector<std::string> pass(Duration time) {
    now_ += time;
    return told([&](WriteActions& out) { book_.on_time(now_, out); });
  }
  WriteBook& book() { return book_; }

  template <typename Call>
  static std::vector<std::string> told(const Call& call) {
    WriteActions actions;
    call(actions);
    std::vector<std::string> out;
    for (const WriteAction& action : actions) {
      const std::string number = " " + std::to_string(action.number);
      switch (action.kind) {
        case WriteAction::Kind::kSend:
          out.push_back("send" + number);
          break;
        case WriteAction::Kind::kTakeSeat:
          out.push_back("seat");
          break;
        case WriteAction::Kind::kAwait:
          out.push_back("await " + std::to_string(action.revision));
          break;
        case WriteAction::Kind::kAnswer:
          out.push_back("answer" + number + " " +
                        (!action.result ? std::string(errc_name(action.result.error().code()))
                         : action.result->conflict
                             ? "conflict " + std::to_string(action.result->actual)
                             : std::to_string(action.result->revision)));
          break;
      }
    }
    return out;
  }

 private:
  WriteBook book_;
  TimePoint now_{seconds(1'000)};
};

TEST(WriteBook, GR_103_AnswersOnceSubscribersHaveTheRevision) {
  Bench bench;
  EXPECT_THAT(bench.add(1, {{"a"}}), ElementsAre("seat"));
  EXPECT_THAT(bench.seat(5), ElementsAre("await 5", "send 1"));
  EXPECT_THAT(bench.published(5), IsEmpty());
  EXPECT_THAT(bench.verdict(1, done(7)), IsEmpty());
  EXPECT_THAT(bench.published(6), IsEmpty());
  EXPECT_THAT(bench.published(8), ElementsAre("answer 1 7"));
  EXPECT_EQ(bench.book().size(), 0U);
}

TEST(WriteBook, GR_103_TheWatchMayBeBeforeTheAnswer) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  bench.book().on_seen(1, 7);
  EXPECT_THAT(bench.published(7), ElementsAre("answer 1 7"));
  EXPECT_THAT(bench.verdict(1, done(7)), IsEmpty());
  EXPECT_EQ(bench.book().in_flight(), 0U);
}

TEST(WriteBook, GR_103_DurableButUnseen_IsSuccessAtTheDeadline) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  bench.verdict(1, done(7));
  EXPECT_THAT(bench.pass(seconds(10)), ElementsAre("answer 1 7"));
  EXPECT_EQ(bench.book().stats().durable_unseen, 1U);
}

TEST(WriteBook, GR_104_OneKeyInOrder_OthersPipelined) {
  Bench bench;
  bench.add(1, {{"a"}});
  EXPECT_THAT(bench.seat(5), ElementsAre("await 5", "send 1"));
  EXPECT_THAT(bench.add(2, {{"a"}}), IsEmpty());
  EXPECT_THAT(bench.add(3, {{"b"}}), ElementsAre("send 3"));
  EXPECT_THAT(bench.add(4, {{"c"}, {"g", true}}), ElementsAre("send 4"));
  EXPECT_THAT(bench.add(5, {{"d"}, {"g", true}}), ElementsAre("send 5")) << "guards are shared";
  EXPECT_THAT(bench.add(6, {{"g"}}), IsEmpty()) << "but not with who writes the key";
  bench.verdict(1, done(7));
  EXPECT_THAT(bench.published(7), ElementsAre("answer 1 7", "send 2"));
  bench.verdict(4, done(8));
  bench.verdict(5, done(9));
  EXPECT_THAT(bench.published(9), ElementsAre("answer 4 8", "answer 5 9", "send 6"));
}

TEST(WriteBook, GR_104_AtMostAWindowIsInFlight) {
  WriteParams params;
  params.window = 2;
  Bench bench(params);
  bench.add(1, {{"a"}});
  bench.seat(5);
  EXPECT_THAT(bench.add(2, {{"b"}}), ElementsAre("send 2"));
  EXPECT_THAT(bench.add(3, {{"c"}}), IsEmpty());
  bench.verdict(2, done(7));
  EXPECT_THAT(bench.published(7), ElementsAre("answer 2 7", "send 3"));
}

TEST(WriteBook, GR_107_WhatWasNotDoneIsSentAgain) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  EXPECT_THAT(bench.failure(1, kAgain), IsEmpty());
  EXPECT_EQ(bench.book().in_flight(), 0U);
  EXPECT_THAT(bench.pass(milliseconds(9)), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("send 1"));
  bench.failure(1, kAgain);
  EXPECT_THAT(bench.pass(milliseconds(19)), IsEmpty()) << "the pause grows";
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("send 1"));
  EXPECT_THAT(bench.failure(1, {AnswerClass::Outcome::kNotDone, Errc::kFull}),
              ElementsAre("answer 1 Full"));
}

TEST(WriteBook, GR_108_NothingIsKnownAtTheDeadline) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  EXPECT_THAT(bench.failure(1, kWhoKnows), ElementsAre("seat"));
  EXPECT_THAT(bench.pass(seconds(10)), ElementsAre("answer 1 Timeout"));
  EXPECT_THAT(bench.add(2, {{"a"}}), IsEmpty()) << "the first may still be on its way";
  EXPECT_THAT(bench.seat(9), ElementsAre("await 9", "send 2"));
  bench.failure(2, kAgain);
  EXPECT_THAT(bench.pass(seconds(10)), ElementsAre("answer 2 Unavailable")) << "never done";
}

TEST(WriteBook, GR_109_UnknownButExecuted_IsFoundByItsId) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  EXPECT_THAT(bench.failure(1, kWhoKnows), ElementsAre("seat"));
  EXPECT_THAT(bench.seat(9), ElementsAre("await 9"));
  bench.book().on_seen(1, 8);
  EXPECT_THAT(bench.published(9), ElementsAre("answer 1 8"));
  EXPECT_EQ(bench.book().stats().unknown, 1U);
  EXPECT_EQ(bench.book().stats().resolved, 1U);
}

TEST(WriteBook, GR_109_UnknownAndNotExecuted_IsSentAnewUnderTheNewSeat) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.add(2, {{"b"}});
  bench.seat(5);
  bench.failure(1, kWhoKnows);
  EXPECT_THAT(bench.verdict(2, verdict_of(Verdict::Kind::kSeatGone)), IsEmpty());
  EXPECT_THAT(bench.add(3, {{"c"}}), IsEmpty()) << "nobody sends under a seat that goes";
  EXPECT_THAT(bench.seat(9), ElementsAre("await 9", "send 2", "send 3"));
  EXPECT_THAT(bench.published(8), IsEmpty()) << "it could still come";
  EXPECT_THAT(bench.published(9), ElementsAre("send 1"));
  bench.verdict(1, done(10));
  EXPECT_THAT(bench.published(10), ElementsAre("answer 1 10"));
}

TEST(WriteBook, GR_109_AnOldAttemptIsFencedAlready_WhenTheSeatHasChangedSince) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.add(2, {{"b"}});
  bench.seat(5);
  bench.failure(1, kWhoKnows);
  bench.seat(9);
  EXPECT_THAT(bench.failure(2, kWhoKnows), ElementsAre("await 9")) << "no further seat";
  EXPECT_THAT(bench.published(9), ElementsAre("send 2", "send 1"));
}

TEST(WriteBook, GR_109_HistoryGone_IsSaidAsItIs) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.add(2, {{"b"}});
  bench.seat(5);
  bench.failure(1, kWhoKnows);
  EXPECT_THAT(bench.resync(), ElementsAre("answer 1 Timeout"));
  bench.verdict(2, done(8));
  EXPECT_THAT(bench.published(8), ElementsAre("answer 2 8"));
}

TEST(WriteBook, GR_109_HistoryGone_IsRememberedOfWhatIsStillUnderWay) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.add(2, {{"b"}});
  bench.add(3, {{"c"}});
  bench.seat(5);
  EXPECT_THAT(bench.resync(), IsEmpty());
  EXPECT_THAT(bench.failure(1, kWhoKnows), ElementsAre("seat", "answer 1 Timeout"))
      << "its event may have been among those that were lost";
  EXPECT_THAT(bench.failure(2, kAgain), IsEmpty());
  bench.seat(9);
  EXPECT_THAT(bench.pass(seconds(1)), ElementsAre("send 2"));
  EXPECT_THAT(bench.failure(2, kWhoKnows), ElementsAre("seat")) << "sent since";
  bench.book().on_seen(3, 10);
  EXPECT_THAT(bench.published(10), ElementsAre("answer 3 10"));
}

TEST(WriteBook, GR_110_WhatWasSeenWasDone_WhateverIsSaidOfIt) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.add(2, {{"b"}});
  bench.seat(5);
  bench.book().on_seen(1, 8);
  EXPECT_THAT(bench.failure(1, {AnswerClass::Outcome::kNotDone, Errc::kFull}), IsEmpty());
  EXPECT_THAT(bench.failure(2, {AnswerClass::Outcome::kNotDone, Errc::kFull}),
              ElementsAre("answer 2 Full"));
  EXPECT_THAT(bench.published(8), ElementsAre("answer 1 8"));
}

TEST(WriteBook, ConflictsAreAnsweredWhenTheirCauseCanBeRead) {
  Bench bench;
  bench.add(1, {{"a"}});
  bench.seat(5);
  Verdict conflict = verdict_of(Verdict::Kind::kConflict, 9);
  conflict.actual = 8;
  EXPECT_THAT(bench.verdict(1, conflict), ElementsAre("await 9"));
  EXPECT_THAT(bench.published(9), ElementsAre("answer 1 conflict 8"));
}

TEST(WriteBook, DeletesFollowTheKeyForAWhile) {
  WriteParams params;
  params.delete_tries = 3;
  Bench bench(params);
  bench.add(1, {{"a"}});
  bench.seat(5);
  EXPECT_THAT(bench.verdict(1, verdict_of(Verdict::Kind::kDeleteAgain)), ElementsAre("send 1"));
  EXPECT_THAT(bench.verdict(1, verdict_of(Verdict::Kind::kDeleteAgain)), ElementsAre("send 1"));
  EXPECT_THAT(bench.verdict(1, verdict_of(Verdict::Kind::kDeleteAgain)),
              ElementsAre("answer 1 Overloaded"));
}

TEST(WriteBook, WhenNothingIsWritten_ThePositionIsTheAnswer) {
  Bench bench;
  bench.add(1, {{"a", true}});
  bench.seat(5);
  bench.published(6);
  EXPECT_THAT(bench.verdict(1, done(9), false), ElementsAre("answer 1 6"));
}

TEST(WriteBook, Stop_AnswersEverybodyInEveryState) {
  Bench bench;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    bench.add(number, {{number == 2 ? "1" : std::to_string(number)}});
  }
  bench.seat(5);
  bench.verdict(3, done(8));
  bench.failure(4, kAgain);
  bench.failure(5, kWhoKnows);
  const auto told = Bench::told([&](WriteActions& out) { bench.book().stop(out); });
  EXPECT_EQ(told.size(), 5U);
  EXPECT_EQ(bench.book().size(), 0U);
  EXPECT_EQ(bench.book().in_flight(), 0U);
}

/// An etcd that answers or not, before or after it has done what it was asked, or much later; the
/// watch tells everything in order.
TEST(WriteBook, GR_109_NothingIsDoneTwiceOrLost_WhateverHappensToAnswers) {
  const char* const said = std::getenv("KINTSUGI_SEED");
  const auto seed =
      said != nullptr ? static_cast<unsigned>(std::atoi(said)) : std::random_device()();
  SCOPED_TRACE("KINTSUGI_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const auto chance = [&random](unsigned percent) { return random() % 100 < percent; };
  WriteBook book;
  TimePoint now{seconds(1'000)};
  Revision revision = 10, position = 0;
  Revision seat = 0;
  struct Sent {
    std::uint64_t number;
    Revision seat;
  };
  std::vector<Sent> late;
  std::map<std::uint64_t, std::vector<Revision>> executed;
  std::map<std::uint64_t, std::string> answers;
  std::vector<std::pair<Revision, std::uint64_t>> events;
  WriteActions todo;
  const auto execute = [&](const Sent& what) {
    if (what.seat != seat) {
      return Revision{0};
    }
    executed[what.number].push_back(++revision);
    events.emplace_back(revision, what.number);
    return revision;
  };
  std::uint64_t next = 0;
  Revision seat_of_book = 0;
  for (int turn = 0; turn < 20'000 || book.size() > 0; ++turn) {
    now += milliseconds(5);
    if (turn < 20'000 && book.size() < 50) {
      book.add(++next, {{std::to_string(random() % 5)}}, now, now + seconds(3'000), todo);
    }
    if (!late.empty() && chance(20)) {
      const Sent what = late.front();
      late.erase(late.begin());
      execute(what);
    }
    while (!events.empty() && chance(70)) {
      const auto [at, number] = events.front();
      events.erase(events.begin());
      book.on_seen(number, at);
      position = at;
    }
    if (events.empty()) {
      position = revision;
    }
    book.on_published(position, now, todo);
    book.on_time(now, todo);
    while (!todo.empty()) {
      WriteActions actions;
      std::swap(actions, todo);
      for (WriteAction& action : actions) {
        if (action.kind == WriteAction::Kind::kTakeSeat) {
          seat = ++revision;
          seat_of_book = seat;
          book.on_seat(seat, now, todo);
        } else if (action.kind == WriteAction::Kind::kAnswer) {
          ASSERT_EQ(answers.count(action.number), 0U) << "answered twice";
          answers[action.number] =
              action.result ? std::to_string(action.result->revision) : "error";
        } else if (action.kind == WriteAction::Kind::kSend) {
          const Sent what{action.number, seat_of_book};
          if (chance(5)) {
            book.on_failure(action.number, kAgain, now, todo);
          } else if (chance(5)) {
            late.push_back(what);
            book.on_failure(action.number, kWhoKnows, now, todo);
          } else {
            const Revision at = execute(what);
            if (chance(5)) {
              book.on_failure(action.number, kWhoKnows, now, todo);
            } else {
              book.on_verdict(action.number,
                              at == 0 ? verdict_of(Verdict::Kind::kSeatGone) : done(at), true, now,
                              todo);
            }
          }
        }
      }
    }
  }
  while (!late.empty()) {
    execute(late.back());
    late.pop_back();
  }
  EXPECT_EQ(answers.size(), next);
  for (const auto& [number, answer] : answers) {
    ASSERT_EQ(executed[number].size(), 1U) << number;
    EXPECT_EQ(answer, std::to_string(executed[number][0]));
  }
  EXPECT_GT(book.stats().unknown, 100U);
}

}  // namespace
}  // namespace kintsugi::store::etcd
