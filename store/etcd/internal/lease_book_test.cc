#include "store/etcd/internal/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::store::etcd {
namespace {

using Kind = LeaseAction::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const TimePoint kStart{seconds(1'000)};

/// One that competes, at a time that the test moves.
class One {
 public:
  explicit One(std::string self = "me") : book(std::move(self)) {}
  std::vector<Kind> taken() {
    std::vector<Kind> kinds;
    for (const LeaseAction& action : out) {
      kinds.push_back(action.kind);
      last = action;
    }
    out.clear();
    return kinds;
  }
  void pass(Duration time) {
    now += time;
    book.on_time(now, out);
  }
  /// Has looked, and found another one's record.
  void follow(std::uint64_t record = 10, std::uint64_t epoch = 5) {
    book.on_time(now, out);
    EXPECT_THAT(taken(), ElementsAre(Kind::kLook));
    book.on_found({record, epoch, "other"}, now, out);
    EXPECT_THAT(taken(), IsEmpty());
  }
  void hold() {
    book.on_time(now, out);
    book.on_found({}, now, out);
    EXPECT_THAT(taken(), ElementsAre(Kind::kLook, Kind::kTake));
    book.on_written(20, now, out);
    EXPECT_THAT(taken(), ElementsAre(Kind::kHeld));
    EXPECT_EQ(last.at.epoch, 20U);
  }

  LeaseBook book;
  LeaseActions out;
  LeaseAction last;
  TimePoint now = kStart;
};

TEST(LeaseBook, GR_207_NobodyHasIt_IsTakenAtOnceAndRenewed) {
  One one;
  one.hold();
  one.pass(milliseconds(399));
  EXPECT_THAT(one.taken(), IsEmpty());
  one.pass(milliseconds(1));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew));
  EXPECT_EQ(one.last.at.record, 20U);
  one.book.on_written(33, one.now, one.out);
  one.pass(milliseconds(400));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew));
  EXPECT_EQ(one.last.at.record, 33U);
  EXPECT_EQ(one.last.at.epoch, 20U) << "the fence stays";
}

TEST(LeaseBook, GR_207_TakenOverWhenTheRecordRests) {
  One one;
  one.follow();
  one.pass(milliseconds(1'400));
  one.book.on_record(11, "other", one.now, one.out);
  one.pass(milliseconds(1'499));
  EXPECT_THAT(one.taken(), IsEmpty());
  one.pass(milliseconds(1));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake));
  EXPECT_EQ(one.last.at.record, 11U);
  EXPECT_EQ(one.last.at.epoch, 5U);
}

TEST(LeaseBook, GR_207_ARecordThatTheWatchHidIsFoundByTheTransaction) {
  One one;
  one.follow();
  one.pass(milliseconds(1'500));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake));
  one.book.on_found({14, 5, "other"}, one.now, one.out);
  EXPECT_THAT(one.taken(), IsEmpty());
  one.pass(milliseconds(1'500));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake));
  EXPECT_EQ(one.last.at.record, 14U);
}

TEST(LeaseBook, GR_207_LeftInOrder_IsTakenAtOnce) {
  One one;
  one.follow();
  one.book.on_record(11, "", one.now, one.out);
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake));
}

TEST(LeaseBook, GR_207_TheHolderStopsBeforeOthersBegin) {
  One one;
  one.hold();
  one.pass(milliseconds(400));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew));
  one.book.on_failed(one.now, one.out);
  one.pass(milliseconds(799));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew));
  EXPECT_EQ(one.book.next_time(), kStart + milliseconds(1'200));
  one.pass(milliseconds(1));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kLost));
  // The answer comes after all: the record is ours, the duty has to be taken anew.
  one.book.on_written(40, one.now, one.out);
  EXPECT_FALSE(one.book.is_held());
  one.pass(milliseconds(100));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake));
}

TEST(LeaseBook, GR_207_ARenewalWithoutAnAnswerThatWasDone) {
  One one;
  one.hold();
  one.pass(milliseconds(400));
  one.book.on_failed(one.now, one.out);
  one.pass(milliseconds(100));
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew, Kind::kRenew));
  one.book.on_found({31, 20, "me"}, one.now, one.out);
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kRenew));
  EXPECT_EQ(one.last.at.record, 31U);
  EXPECT_TRUE(one.book.is_held());
}

TEST(LeaseBook, GR_208_AnotherEpochEndsIt) {
  One by_answer;
  by_answer.hold();
  by_answer.pass(milliseconds(400));
  by_answer.book.on_found({31, 31, "other"}, by_answer.now, by_answer.out);
  EXPECT_THAT(by_answer.taken(), ElementsAre(Kind::kRenew, Kind::kLost));
  One by_watch;
  by_watch.hold();
  by_watch.book.on_record(31, "other", by_watch.now, by_watch.out);
  by_watch.book.on_epoch(31, by_watch.now, by_watch.out);
  EXPECT_THAT(by_watch.taken(), ElementsAre(Kind::kLost));
  by_watch.pass(milliseconds(1'500));
  EXPECT_THAT(by_watch.taken(), ElementsAre(Kind::kTake));
  EXPECT_EQ(by_watch.last.at.epoch, 31U);
}

TEST(LeaseBook, GR_208_ATakeoverThatWasToldTooLateIsNone) {
  One one;
  one.book.on_time(one.now, one.out);
  one.book.on_found({}, one.now, one.out);
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kLook, Kind::kTake));
  one.now += milliseconds(1'200);
  one.book.on_written(20, one.now, one.out);
  EXPECT_THAT(one.taken(), ElementsAre(Kind::kTake)) << "with what is known now";
  EXPECT_EQ(one.last.at.epoch, 20U);
}

TEST(LeaseBook, GR_207_ReleasedOnlyByItsHolder) {
  One holder;
  holder.hold();
  holder.book.release(holder.out);
  EXPECT_THAT(holder.taken(), ElementsAre(Kind::kRelease));
  One other;
  other.follow();
  other.book.release(other.out);
  EXPECT_THAT(other.taken(), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::store::etcd
