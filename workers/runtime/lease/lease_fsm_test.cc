#include "workers/runtime/lease/lease_fsm.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using Request = LeaseAction::Request;
using Change = LeaseAction::Change;

LeaseParams params() {
  LeaseParams out;
  out.name = "x";
  out.identity = "me";
  return out;
}

LeaseRecord record(std::string rv, std::string holder, std::int64_t transitions,
                   std::string uid = "u") {
  LeaseRecord out;
  out.name = "x";
  out.uid = std::move(uid);
  out.rv = std::move(rv);
  out.holder = std::move(holder);
  out.duration_s = 15;
  out.transitions = transitions;
  return out;
}

struct Script {
  LeaseFsm lease;
  TimePoint now{seconds(100)};
  explicit Script(LeaseParams with = params()) : lease(std::move(with)) {}

  // Becomes holder of a new Lease, epoch 1.
  void hold() {
    ASSERT_EQ(lease.start(now).request, Request::kGet);
    const LeaseAction create = lease.on_missing(now);
    ASSERT_EQ(create.request, Request::kCreate);
    ASSERT_EQ(create.write.transitions, lease.params().epoch_floor + 1);
    ASSERT_EQ(lease.on_written(record("1", "me", create.write.transitions), now).change,
              Change::kAcquired);
  }
};

TEST(LeaseFsm, RT51_TimesAreValidated) {
  EXPECT_TRUE(validate(params()));
  const auto bad = [](auto change) {
    LeaseParams out = params();
    change(out);
    return !validate(out).has_value();
  };
  EXPECT_TRUE(bad([](LeaseParams& p) { p.name.clear(); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.identity.clear(); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.renew = p.give_up; }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.renew = seconds(0); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.give_up = p.duration; }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.duration = milliseconds(15'500); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.duration = seconds(3'601); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.retry = seconds(11); }));
  EXPECT_TRUE(bad([](LeaseParams& p) { p.request_timeout = seconds(10); }));
}

TEST(LeaseFsm, RT51_RenewsEveryTwoSecondsWithThePrecondition) {
  Script s;
  s.hold();
  EXPECT_EQ(s.lease.epoch(), 1);
  EXPECT_EQ(s.lease.on_timer(s.now + milliseconds(1'999)).request, Request::kNone);
  const LeaseAction renew = s.lease.on_timer(s.now + seconds(2));
  EXPECT_EQ(renew.request, Request::kUpdate);
  EXPECT_EQ(renew.write.rv, "1");
  EXPECT_EQ(renew.write.transitions, 1);
  EXPECT_EQ(renew.write.duration_s, 15);
  const LeaseAction then = s.lease.on_written(record("2", "me", 1), s.now + milliseconds(2'500));
  EXPECT_EQ(then.wake, s.now + seconds(4));
}

TEST(LeaseFsm, RT55_GuardCountsFromSendingOfTheLastSuccess) {
  Script s;
  s.hold();
  (void)s.lease.on_timer(s.now + seconds(2));
  (void)s.lease.on_written(record("2", "me", 1), s.now + seconds(4));
  EXPECT_TRUE(s.lease.may_write(s.now + seconds(12)));
  EXPECT_FALSE(s.lease.may_write(s.now + seconds(12) + Duration(1)));
  // Whether or not anything ran meanwhile; the timer tells the rest.
  const LeaseAction woken = s.lease.on_timer(s.now + seconds(40));
  EXPECT_EQ(woken.change, Change::kLost);
  EXPECT_FALSE(s.lease.holder());
}

TEST(LeaseFsm, RT55_UnknownOutcomeIsNoSuccess) {
  Script s;
  s.hold();
  (void)s.lease.on_timer(s.now + seconds(2));
  (void)s.lease.on_failed(Duration::zero(), s.now + seconds(4));
  EXPECT_EQ(s.lease.guard_end(), s.now + seconds(10));
  const LeaseAction look = s.lease.on_timer(s.now + seconds(6));
  ASSERT_EQ(look.request, Request::kGet);
  // It did arrive: renewed once more with the revision that is there now.
  const LeaseAction renew = s.lease.on_found(record("2", "me", 1), s.now + seconds(6));
  ASSERT_EQ(renew.request, Request::kUpdate);
  EXPECT_EQ(renew.write.rv, "2");
  EXPECT_EQ(s.lease.guard_end(), s.now + seconds(10));
}

TEST(LeaseFsm, RT54_OwnExpiredRecordIsAcquiredWithAHigherEpoch) {
  Script s;
  s.hold();
  const LeaseAction lost = s.lease.on_timer(s.now + seconds(11));
  EXPECT_EQ(lost.change, Change::kLost);
  ASSERT_EQ(lost.request, Request::kUpdate);
  EXPECT_EQ(lost.write.transitions, 2);
  EXPECT_TRUE(lost.write.acquisition);
  EXPECT_EQ(s.lease.on_written(record("2", "me", 2), s.now + seconds(11)).change,
            Change::kAcquired);
  EXPECT_EQ(s.lease.epoch(), 2);
}

TEST(LeaseFsm, RT54_AnswerOlderThanTheGuardIsNoAcquisition) {
  Script s;
  (void)s.lease.start(s.now);
  (void)s.lease.on_missing(s.now);
  const LeaseAction late = s.lease.on_written(record("1", "me", 1), s.now + seconds(11));
  EXPECT_EQ(late.change, Change::kNone);
  EXPECT_FALSE(s.lease.holder());
  ASSERT_EQ(late.request, Request::kUpdate);
  EXPECT_EQ(late.write.transitions, 2);
}

TEST(LeaseFsm, RT52_HolderIsDeadWhenItsRecordStoodForItsDurationByOurClock) {
  Script s;
  (void)s.lease.start(s.now);
  LeaseAction next = s.lease.on_found(record("5", "other", 9), s.now);
  EXPECT_EQ(next.request, Request::kNone);
  // It renews once more after 10 s; what its text says about time does not matter.
  next = s.lease.on_observed(record("6", "other", 9), s.now + seconds(10));
  EXPECT_EQ(next.wake, s.now + seconds(25));
  const LeaseAction early = s.lease.on_timer(s.now + milliseconds(24'999));
  EXPECT_EQ(early.request, Request::kNone);
  const LeaseAction take = s.lease.on_timer(s.now + seconds(25));
  ASSERT_EQ(take.request, Request::kUpdate);
  EXPECT_EQ(take.write.rv, "6");
  EXPECT_EQ(take.write.transitions, 10);
}

TEST(LeaseFsm, RT52_WithoutAWatchItLooksEverySecond) {
  Script s;
  (void)s.lease.start(s.now);
  TimePoint now = s.now;
  LeaseAction next = s.lease.on_found(record("5", "other", 9), now);
  for (int looks = 0; looks < 5; ++looks) {
    EXPECT_GE(next.wake - now, Duration(seconds(1)));
    EXPECT_LE(next.wake - now, Duration(milliseconds(1'200)));
    now = next.wake;
    next = s.lease.on_timer(now);
    ASSERT_EQ(next.request, Request::kGet);
    next = s.lease.on_found(record("5", "other", 9), now);
  }
}

TEST(LeaseFsm, Section18_BadDurationOrTransitionsExpireAfterTheConfiguredDuration) {
  for (const bool negative : {false, true}) {
    Script s;
    (void)s.lease.start(s.now);
    LeaseRecord bad = record("5", "other", negative ? -4 : 2);
    bad.duration_s = negative ? 1 : 0;
    (void)s.lease.on_found(bad, s.now);
    (void)s.lease.on_observed(bad, s.now + seconds(1));
    EXPECT_EQ(s.lease.on_timer(s.now + milliseconds(14'999)).request, Request::kNone);
    const LeaseAction take = s.lease.on_timer(s.now + seconds(15));
    ASSERT_EQ(take.request, Request::kUpdate);
    EXPECT_EQ(take.write.transitions, negative ? 1 : 3);
  }
}

TEST(LeaseFsm, RT54_DeletedLeaseComesBackAboveTheJournalAndThePeers) {
  LeaseParams with = params();
  with.epoch_floor = 6;
  Script s(with);
  (void)s.lease.start(s.now);
  (void)s.lease.on_peer_epoch(11, s.now);
  const LeaseAction create = s.lease.on_missing(s.now);
  ASSERT_EQ(create.request, Request::kCreate);
  EXPECT_EQ(create.write.transitions, 12);
}

TEST(LeaseFsm, RT54_DeletionUnderTheHolderEndsItAndStartsWithAHigherEpoch) {
  Script s;
  s.hold();
  ASSERT_EQ(s.lease.on_observed_deleted(s.now + seconds(1)).request, Request::kGet);
  const LeaseAction lost = s.lease.on_missing(s.now + seconds(1));
  EXPECT_EQ(lost.change, Change::kLost);
  ASSERT_EQ(lost.request, Request::kCreate);
  EXPECT_EQ(lost.write.transitions, 2);
}

TEST(LeaseFsm, RT52_CandidateMakesADeletedLeaseOnlyAfterItsHolderCannotAct) {
  Script s;
  (void)s.lease.start(s.now);
  (void)s.lease.on_found(record("5", "other", 9), s.now);
  ASSERT_EQ(s.lease.on_observed_deleted(s.now + seconds(3)).request, Request::kGet);
  EXPECT_EQ(s.lease.on_missing(s.now + seconds(3)).request, Request::kNone);
  ASSERT_EQ(s.lease.on_timer(s.now + seconds(15)).request, Request::kCreate);
}

TEST(LeaseFsm, RT54_PeerWithAHigherEpochRaisesTheHolderOnlyUnderTheGuard) {
  Script s;
  s.hold();
  const LeaseAction raise = s.lease.on_peer_epoch(7, s.now + seconds(1));
  ASSERT_EQ(raise.request, Request::kUpdate);
  EXPECT_EQ(raise.write.transitions, 8);
  EXPECT_EQ(raise.write.rv, "1");
  EXPECT_EQ(s.lease.on_written(record("2", "me", 8), s.now + seconds(1)).change, Change::kRaised);
  EXPECT_EQ(s.lease.epoch(), 8);
  EXPECT_EQ(s.lease.on_peer_epoch(5, s.now + seconds(1)).request, Request::kNone);
  EXPECT_EQ(s.lease.on_peer_epoch(kMaxLeaseEpoch, s.now + seconds(1)).request, Request::kNone);
  EXPECT_EQ(s.lease.counters().epochs_refused, 1U);
  // Behind the guard it is no holder any more: an acquisition, not a raise.
  const LeaseAction late = s.lease.on_peer_epoch(20, s.now + seconds(30));
  EXPECT_EQ(late.change, Change::kLost);
  EXPECT_TRUE(late.write.acquisition);
  EXPECT_EQ(late.write.transitions, 21);
}

TEST(LeaseFsm, RT54_LastEpochIsNotPassed) {
  Script s;
  (void)s.lease.start(s.now);
  const LeaseAction none = s.lease.on_found(record("5", "", kMaxLeaseEpoch), s.now);
  EXPECT_EQ(none.request, Request::kNone);
  EXPECT_GT(none.wake, s.now);
  EXPECT_EQ(s.lease.counters().exhausted, 1U);
}

TEST(LeaseFsm, RT56_ReleaseWritesAnEmptyHolderAndStopsAtOnce) {
  Script s;
  s.hold();
  const LeaseAction give = s.lease.release(s.now + seconds(1));
  EXPECT_FALSE(s.lease.may_write(s.now + seconds(1)));
  ASSERT_EQ(give.request, Request::kUpdate);
  EXPECT_EQ(give.write.holder, "");
  EXPECT_EQ(give.write.duration_s, 1);
  EXPECT_EQ(give.write.transitions, 1);
  EXPECT_EQ(s.lease.on_written(record("2", "", 1), s.now + seconds(1)).change, Change::kReleased);
  EXPECT_TRUE(s.lease.done());
}

TEST(LeaseFsm, RT56_ReleasedRecordIsTakenAtOnce) {
  Script s;
  (void)s.lease.start(s.now);
  (void)s.lease.on_found(record("5", "other", 9), s.now);
  const LeaseAction take = s.lease.on_observed(record("6", "", 9), s.now + seconds(1));
  ASSERT_EQ(take.request, Request::kUpdate);
  EXPECT_EQ(take.write.transitions, 10);
}

TEST(LeaseFsm, RT56_ReleaseEndsWithoutAServerToo) {
  Script s;
  s.hold();
  LeaseAction next = s.lease.release(s.now);
  TimePoint now = s.now;
  for (int i = 0; i < 20 && !s.lease.done(); ++i) {
    now += seconds(2);
    next = s.lease.on_failed(Duration::zero(), now);
    if (next.request == Request::kNone && next.wake != TimePoint::max()) {
      now = next.wake;
      next = s.lease.on_timer(now);
    }
  }
  EXPECT_TRUE(s.lease.done());
  EXPECT_EQ(next.change, Change::kReleased);
  EXPECT_LE(now - s.now, Duration(seconds(13)));
}

TEST(LeaseFsm, Section13_ConflictIsReadAtOnceOnceThenWithARest) {
  Script s;
  s.hold();
  (void)s.lease.on_timer(s.now + seconds(2));
  ASSERT_EQ(s.lease.on_conflict(s.now + seconds(2)).request, Request::kGet);
  ASSERT_EQ(s.lease.on_found(record("3", "me", 1), s.now + seconds(2)).request, Request::kUpdate);
  const LeaseAction rest = s.lease.on_conflict(s.now + seconds(2));
  EXPECT_EQ(rest.request, Request::kNone);
  EXPECT_GE(rest.wake, s.now + seconds(3));
}

TEST(LeaseFsm, Section13_RetryAfterIsWaitedFor) {
  Script s;
  (void)s.lease.start(s.now);
  EXPECT_EQ(s.lease.on_failed(seconds(3), s.now).wake, s.now + seconds(3));
}

TEST(LeaseFsm, RT54_TakenByAnotherIsLostAtOnce) {
  Script s;
  s.hold();
  (void)s.lease.on_timer(s.now + seconds(2));
  (void)s.lease.on_conflict(s.now + seconds(2));
  EXPECT_EQ(s.lease.on_found(record("3", "other", 2), s.now + seconds(2)).change, Change::kLost);
  EXPECT_FALSE(s.lease.may_write(s.now + seconds(2)));
}

TEST(LeaseFsm, RT65_UrgentAnnotationIsWrittenAtOnceAndOthersStay) {
  Script s;
  s.hold();
  (void)s.lease.on_timer(s.now + seconds(2));
  LeaseRecord stored = record("2", "me", 1);
  stored.annotations = {{"theirs", "1"}};
  (void)s.lease.on_written(stored, s.now + seconds(2));
  EXPECT_EQ(s.lease.annotate("ack", "3", false, s.now + seconds(3)).request, Request::kNone);
  const LeaseAction write = s.lease.hurry(s.now + seconds(3));
  ASSERT_EQ(write.request, Request::kUpdate);
  const std::vector<std::pair<std::string, std::string>> all{{"ack", "3"}, {"theirs", "1"}};
  EXPECT_EQ(write.write.annotations, all);
}

}  // namespace
}  // namespace kintsugi::workers
