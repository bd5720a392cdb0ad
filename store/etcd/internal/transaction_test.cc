#include "store/etcd/internal/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/members.h"
#include "store/etcd/internal/stored_value.h"
#include "store/etcd/internal/version.h"
#include "store/raise.h"
#include "store/testing/test_store.h"

namespace kintsugi::store::etcd {
namespace {

using ::testing::ElementsAre;

class TransactionTest : public ::testing::Test {
 protected:
  Plan plan_of(std::vector<Op> ops) {
    ops_ = std::move(ops);
    const PlanInput input{
        ops_,           keys_,
        seat_,          100,
        "0123456789ab", [](std::string_view key) { return key == "there" ? Revision{107} : 0; },
        corrected_,     without_deletions_};
    auto made = plan(input);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  static std::vector<std::string> words(const Plan& made) {
    std::vector<std::string> out;
    for (const Compare& compare : made.request.compares) {
      out.push_back("if " + compare.key + "@" + std::to_string(compare.mod_revision));
    }
    for (const TxnOp& op : made.request.success) {
      out.push_back((op.kind == TxnOp::Kind::kPut ? "put " : "delete ") + op.key);
    }
    return out;
  }
  /// What the other branch tells: modified revisions of etcd.
  static TxnResponse failed(const std::vector<std::uint64_t>& found) {
    TxnResponse response;
    response.header.revision = 50;
    for (const std::uint64_t revision : found) {
      RangeResponse& range = response.ranges.emplace_back();
      if (revision != 0) {
        range.kvs.emplace_back().mod_revision = revision;
      }
    }
    return response;
  }

  Keys keys_{"/p/"};
  Seat seat_{"/p/seat/r", 3};
  std::vector<Op> ops_;
  std::vector<std::optional<Revision>> corrected_;
  bool without_deletions_ = false;
};

TEST_F(TransactionTest, ExpectationsAreCompares_RevisionsAreEtcds) {
  const Plan made =
      plan_of({put("a", "1", 0), put("b", "2", 105), put("c", "3"), unchanged("g", 104)});
  EXPECT_THAT(words(made), ElementsAre("if /p/seat/r@3", "if /p/x/a@0", "if /p/x/b@5",
                                       "if /p/x/g@4", "put /p/x/a", "put /p/x/b", "put /p/x/c"));
  EXPECT_TRUE(made.writes);
  EXPECT_EQ(made.request.failure.size(), made.request.compares.size());
  const auto opened = open_value("/p/x/a", made.request.success[0].value);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->value, "1");
}

TEST_F(TransactionTest, DeletesPutTheLastStatesFirst) {
  const Plan made = plan_of({erase("a", 105, "last"), put("b", "2")});
  EXPECT_THAT(words(made), ElementsAre("if /p/seat/r@3", "if /p/x/a@5", "put /p/d", "delete /p/x/a",
                                       "put /p/x/b"));
  const auto opened = open_value("/p/d", made.request.success[0].value);
  ASSERT_TRUE(opened);
  EXPECT_EQ(decode_deletions(opened->value)->at(0).second, "last");
}

TEST_F(TransactionTest, DeletesWithoutExpectation_FollowWhatIsKnown) {
  EXPECT_THAT(words(plan_of({erase("there")})),
              ElementsAre("if /p/seat/r@3", "if /p/x/there@7", "put /p/d", "delete /p/x/there"));
  const Plan nothing = plan_of({erase("absent")});
  EXPECT_THAT(words(nothing), ElementsAre("if /p/seat/r@3", "if /p/x/absent@0"));
  EXPECT_FALSE(nothing.writes);
  corrected_ = {Revision{109}};
  EXPECT_THAT(words(plan_of({erase("there")})).at(1), "if /p/x/there@9");
}

TEST_F(TransactionTest, GR_110_WithoutSpace_DeletesAreAlone) {
  without_deletions_ = true;
  EXPECT_THAT(words(plan_of({erase("there", {}, "last")})),
              ElementsAre("if /p/seat/r@3", "if /p/x/there@7", "delete /p/x/there"));
}

TEST_F(TransactionTest, AnswersTellTheFirstThatFailed) {
  const Plan made = plan_of({put("z", "0"), put("a", "1", 0), put("b", "2", 105)});
  TxnResponse fine;
  fine.succeeded = true;
  fine.header.revision = 50;
  EXPECT_EQ(judge(made, ops_, 100, fine).kind, Verdict::Kind::kDone);
  EXPECT_EQ(judge(made, ops_, 100, fine).revision, 150U);

  Verdict verdict = judge(made, ops_, 100, failed({3, 8, 9}));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kConflict);
  EXPECT_EQ(verdict.op, 1U);
  EXPECT_EQ(verdict.actual, 108U);
  verdict = judge(made, ops_, 100, failed({3, 0, 0}));
  EXPECT_EQ(verdict.op, 2U);
  EXPECT_EQ(verdict.actual, 0U);
  EXPECT_EQ(judge(made, ops_, 100, failed({4, 0, 5})).kind, Verdict::Kind::kSeatGone);
  EXPECT_EQ(judge(made, ops_, 100, failed({4, 0, 6})).kind, Verdict::Kind::kConflict);
  EXPECT_EQ(judge(made, ops_, 100, failed({3})).kind, Verdict::Kind::kMalformed);
  EXPECT_EQ(judge(made, ops_, 100, TxnResponse()).kind, Verdict::Kind::kMalformed);
}

TEST_F(TransactionTest, ADeleteWithoutExpectationGoesAgain) {
  const Plan made = plan_of({erase("there"), put("b", "2", 105)});
  const Verdict again = judge(made, ops_, 100, failed({3, 8, 5}));
  EXPECT_EQ(again.kind, Verdict::Kind::kDeleteAgain);
  EXPECT_EQ(again.op, 0U);
  EXPECT_EQ(again.actual, 108U);
  EXPECT_EQ(judge(made, ops_, 100, failed({3, 8, 6})).kind, Verdict::Kind::kConflict);
}

TEST_F(TransactionTest, AJumpIsRefused) {
  const std::vector<Op> ops = {put("a", "1"), raise_to(1'000)};
  const PlanInput input{ops, keys_, seat_, 0, "0123456789ab", nullptr, corrected_, false};
  EXPECT_EQ(plan(input).error().code(), Errc::kInvalid);
}

TEST(AnswerClass, GR_107_TellsWhatWasNotDone) {
  using Outcome = AnswerClass::Outcome;
  struct Case {
    GrpcCode code;
    const char* message;
    Outcome outcome;
    Errc error;
  };
  for (const Case& one : {
           Case{GrpcCode::kUnavailable, "etcdserver: no leader", Outcome::kNotDone, Errc::kOk},
           Case{GrpcCode::kResourceExhausted, "etcdserver: too many requests", Outcome::kNotDone,
                Errc::kOk},
           Case{GrpcCode::kInvalidArgument, "etcdserver: request is too large", Outcome::kNotDone,
                Errc::kRequestEntityTooLarge},
           Case{GrpcCode::kInvalidArgument, "etcdserver: duplicate key given in txn request",
                Outcome::kNotDone, Errc::kInternal},
           Case{GrpcCode::kPermissionDenied, "etcdserver: permission denied", Outcome::kNotDone,
                Errc::kUnavailable},
           Case{GrpcCode::kResourceExhausted, "etcdserver: mvcc: database space exceeded",
                Outcome::kNotDone, Errc::kFull},
           Case{GrpcCode::kUnavailable, "etcdserver: request timed out", Outcome::kUnknown,
                Errc::kOk},
           Case{GrpcCode::kUnavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
                Outcome::kUnknown, Errc::kOk},
           Case{GrpcCode::kUnavailable, "etcdserver: leader changed", Outcome::kUnknown, Errc::kOk},
           Case{GrpcCode::kUnavailable, "etcdserver: server stopped", Outcome::kUnknown, Errc::kOk},
           Case{GrpcCode::kDeadlineExceeded, "context deadline exceeded", Outcome::kUnknown,
                Errc::kOk},
           Case{GrpcCode::kUnknown, "what", Outcome::kUnknown, Errc::kOk},
       }) {
    const AnswerClass what = classify(GrpcStatus{one.code, one.message});
    EXPECT_EQ(what.outcome, one.outcome) << one.message;
    EXPECT_EQ(what.error, one.error) << one.message;
  }
  EXPECT_TRUE(classify(GrpcStatus{GrpcCode::kInvalidArgument, "etcdserver: user name is empty"})
                  .renew_token);
  EXPECT_TRUE(classify(GrpcStatus{GrpcCode::kUnauthenticated, "etcdserver: invalid auth token"})
                  .renew_token);
}

TEST(AnswerClass, GR_107_TellsTransportsApart) {
  for (const Errc cause : {Errc::kRefused, Errc::kUnreachable, Errc::kNotProcessed}) {
    EXPECT_EQ(classify(cause).outcome, AnswerClass::Outcome::kNotDone);
  }
  for (const Errc cause : {Errc::kDeadline, Errc::kReset, Errc::kClosed, Errc::kTls,
                           Errc::kProtocol, Errc::kCancelled}) {
    EXPECT_EQ(classify(cause).outcome, AnswerClass::Outcome::kUnknown);
  }
}

TEST(Version, GR_124_SomeAreRefused) {
  const auto supported = [](const char* text) {
    const auto version = Version::parse(text);
    return version && version->is_supported();
  };
  for (const char* good : {"3.4.22", "3.4.23", "3.5.3", "3.5.21", "3.6.0", "3.7.1-rc.0"}) {
    EXPECT_TRUE(supported(good)) << good;
  }
  for (const char* bad :
       {"3.4.21", "3.5.0", "3.5.1", "3.5.2", "3.3.27", "2.3.8", "4.0.0", "", "3.5"}) {
    EXPECT_FALSE(supported(bad)) << bad;
  }
}

TEST(Version, GR_113_OldOnesAreNotBelievedAboutProgress) {
  for (const char* good : {"3.4.31", "3.5.13", "3.6.0"}) {
    EXPECT_TRUE(Version::parse(good)->tells_progress()) << good;
  }
  for (const char* bad : {"3.4.30", "3.4.23", "3.5.12"}) {
    EXPECT_FALSE(Version::parse(bad)->tells_progress()) << bad;
  }
}

TEST(MemberChoice, GR_114_OneThatFailedComesLastForTenSeconds) {
  const TimePoint now{seconds(1'000)};
  MemberChoice choice(3);
  EXPECT_EQ(choice.pick(now), 0U);
  EXPECT_EQ(choice.other_than(0, now), 1U);
  choice.on_failed(0, now);
  EXPECT_EQ(choice.pick(now), 1U);
  EXPECT_EQ(choice.other_than(1, now), 2U);
  choice.on_failed(1, now + seconds(1));
  choice.on_failed(2, now + seconds(2));
  EXPECT_EQ(choice.pick(now + seconds(3)), 0U) << "it has rested longest";
  EXPECT_EQ(choice.pick(now + seconds(13)), choice.pick(now + seconds(13)));
  choice.on_answered(2);
  EXPECT_EQ(choice.pick(now + seconds(3)), 2U);
  MemberChoice alone(1);
  alone.on_failed(0, now);
  EXPECT_EQ(alone.pick(now), 0U);
  EXPECT_EQ(alone.other_than(0, now), 0U);
}

}  // namespace
}  // namespace kintsugi::store::etcd
