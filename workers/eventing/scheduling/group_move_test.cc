#include "workers/eventing/scheduling/group_move.h"

#include <gtest/gtest.h>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

using Pods = std::vector<Placed>;

const Pods kOldPods{{"p0", 10}, {"p1", 5}}, kNewPods{{"p0", 8}, {"p1", 5}, {"p2", 2}},
    kUnion{{"p0", 10}, {"p1", 5}, {"p2", 2}};
const TimePoint kMoveStart = TimePoint() + seconds(1'000);

TEST(GroupMove, NewPodsFirst_ThenOldOnes_ThenTheStatus) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  EXPECT_EQ(move.step(), MoveStep::kAdding);
  EXPECT_EQ(move.contract(), kUnion);
  EXPECT_FALSE(move.seen("p2", placements_digest(kOldPods)));  // an older contract
  EXPECT_FALSE(move.seen("p0", placements_digest(kUnion)));    // it gets nothing
  EXPECT_FALSE(move.joined("p2", 2));                          // not yet asked
  EXPECT_TRUE(move.seen("p2", placements_digest(kUnion)));
  EXPECT_EQ(move.step(), MoveStep::kJoining);
  EXPECT_EQ(move.contract(), kUnion);
  EXPECT_FALSE(move.joined("p2", 1));
  EXPECT_TRUE(move.joined("p2", 2));
  EXPECT_EQ(move.step(), MoveStep::kRemoving);
  EXPECT_EQ(move.contract(), kNewPods);
  EXPECT_FALSE(move.seen("p0", placements_digest(kNewPods)));
  EXPECT_FALSE(move.seen("p1", placements_digest(kNewPods)));
  EXPECT_FALSE(move.seen("p2", placements_digest(kUnion)));
  EXPECT_TRUE(move.seen("p2", placements_digest(kNewPods)));
  EXPECT_EQ(move.step(), MoveStep::kCommitting);
  EXPECT_EQ(move.contract(), kNewPods);
  EXPECT_FALSE(move.due());
  EXPECT_FALSE(move.unconfirmed());
}

TEST(GroupMove, AtNoStepAnyPodHasLessThanBeforeAndAfter) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  while (true) {
    for (const Placed& placed : kOldPods) {
      EXPECT_GE(placed_on(move.contract(), placed.host),
                std::min(placed.n, placed_on(kNewPods, placed.host)));
    }
    EXPECT_GE(sum_of_placements(move.contract()), sum_of_placements(kNewPods));
    if (move.step() == MoveStep::kCommitting) {
      break;
    }
    for (const Placed& placed : kUnion) {
      move.seen(placed.host, placements_digest(move.contract()));
      move.joined(placed.host, placed.n);
    }
  }
}

TEST(GroupMove, ARestartGoesOnWhereItWas) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  for (const MoveStep step :
       {MoveStep::kAdding, MoveStep::kJoining, MoveStep::kRemoving, MoveStep::kCommitting}) {
    ASSERT_EQ(move.step(), step);
    auto again = GroupMove::parse(move.encode(), kMoveStart + seconds(500));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->step(), step);
    EXPECT_EQ(again->contract(), move.contract());
    EXPECT_EQ(again->from(), kOldPods);
    EXPECT_EQ(again->to(), kNewPods);
    EXPECT_FALSE(again->elapsed(kMoveStart + seconds(501)));  // its patience is new
    move = std::move(*again);
    for (const Placed& placed : kUnion) {
      const bool asked = move.step() == step;
      move.seen(placed.host, asked ? placements_digest(move.contract()) : "");
      if (step == MoveStep::kJoining) {
        move.joined(placed.host, placed.n);
      }
    }
  }
}

TEST(GroupMove, RowsThatAreNoneAreNotRead) {
  for (const char* row :
       {"", "{}", "[]", "null", R"({"step":"Adding"})", R"({"from":{},"step":"Flying","to":{}})"}) {
    EXPECT_FALSE(GroupMove::parse(row, kMoveStart)) << row;
  }
}

TEST(GroupMove, ContractsThatNobodyWritesAreGivenUp) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  EXPECT_EQ(move.due(), kMoveStart + seconds(30));
  EXPECT_FALSE(move.elapsed(kMoveStart + milliseconds(29'999)));
  EXPECT_FALSE(move.given_up());
  EXPECT_FALSE(move.elapsed(kMoveStart + seconds(30)));
  EXPECT_TRUE(move.given_up());
  EXPECT_EQ(move.contract(), kUnion);
}

TEST(GroupMove, ConsumersThatDoNotReportAreWaitedForHalfAMinute) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  ASSERT_TRUE(move.seen("p2", placements_digest(kUnion)));
  EXPECT_FALSE(move.elapsed(kMoveStart + seconds(29)));  // the step's time begins here
  EXPECT_FALSE(move.elapsed(kMoveStart + seconds(58)));
  EXPECT_TRUE(move.elapsed(kMoveStart + seconds(59)));
  EXPECT_EQ(move.step(), MoveStep::kRemoving);
  EXPECT_TRUE(move.unconfirmed());
  EXPECT_TRUE(move.elapsed(kMoveStart + seconds(89)));  // an old pod's contract follows anyhow
  EXPECT_EQ(move.step(), MoveStep::kCommitting);
}

TEST(GroupMove, NobodyWaitsForAPodThatIsGone) {
  GroupMove move(kOldPods, kNewPods, kMoveStart);
  EXPECT_FALSE(move.pod_gone("p0"));
  ASSERT_TRUE(move.seen("p2", placements_digest(kUnion)));
  ASSERT_TRUE(move.joined("p2", 3));
  EXPECT_FALSE(move.pod_gone("p0"));
  EXPECT_FALSE(move.seen("p1", placements_digest(kNewPods)));
  EXPECT_TRUE(move.seen("p2", placements_digest(kNewPods)));
  EXPECT_EQ(move.step(), MoveStep::kCommitting);
}

}  // namespace
}  // namespace kintsugi::workers
