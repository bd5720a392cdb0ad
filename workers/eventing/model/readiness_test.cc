#include "workers/eventing/model/readiness.h"

#include <gtest/gtest.h>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

/// An object on two pods that both have seen it; a test takes away from that.
struct TwoPods {
  std::vector<Placed> placements{{"d-0", 2}, {"d-1", 1}};
  std::vector<std::string> digests{placements_digest(placements)};
  SeenDecisions seen[2];
  std::vector<PodSight> pods;
  ReadinessFacts facts;

  TwoPods() {
    facts.key = "c1|ns/a";
    facts.generation = facts.observed_generation = 5;
    facts.wanted = 3;
    facts.sinks_resolved = facts.offsets_initialised = true;
    for (SeenDecisions& one : seen) {
      one["c1|ns/a"] = {5, digests.front()};
      pods.push_back({true, {}, false, &one});
    }
  }
  Readiness judge() {
    facts.placements = placements;
    facts.pods = pods;
    facts.digests = digests;
    return judge_readiness(facts);
  }
  void lose(std::size_t pod, Duration ago) { pods[pod] = {false, ago, false, nullptr}; }
};

TEST(Readiness, KN_8_WhenEveryPodHasSeenIt_ItIsReady) {
  TwoPods it;
  const Readiness now = it.judge();
  EXPECT_TRUE(now.ready);
  EXPECT_EQ(now.reason, ReadyReason::kReady);
  EXPECT_EQ(now.bound, 2U);
  EXPECT_FALSE(now.look_again);
  it.seen[1].at("c1|ns/a").generation = 6;  // ahead is as good
  EXPECT_TRUE(it.judge().ready);
}

TEST(Readiness, KN_T026_AnEntryThatIsMissingOnOneOfTwoPods) {
  TwoPods it;
  it.seen[1].clear();
  EXPECT_FALSE(it.judge().ready);
  EXPECT_EQ(it.judge().reason, ReadyReason::kBindInProgress);
  EXPECT_EQ(it.judge().message, "1 of 2 pods have the placement");
  it.facts.was_ready = true;
  EXPECT_FALSE(it.judge().ready);
  it.seen[1]["c2|ns/a"] = it.seen[0]["c1|ns/a"];  // another workspace's
  EXPECT_FALSE(it.judge().ready);
}

TEST(Readiness, KN_T027_AnEntryThatIsOlder) {
  TwoPods it;
  it.seen[0].at("c1|ns/a").generation = 4;
  EXPECT_EQ(it.judge().reason, ReadyReason::kBindInProgress);
  it.seen[0].at("c1|ns/a").generation = 5;
  EXPECT_TRUE(it.judge().ready);
}

TEST(Readiness, KN_T028_AGenerationAheadOfTheObservedOne) {
  TwoPods it;
  it.facts.generation = 6;
  EXPECT_FALSE(it.judge().ready);
  EXPECT_EQ(it.judge().reason, ReadyReason::kGenerationBehind);
  EXPECT_EQ(it.judge().message, "generation 6, observed 5");
}

TEST(Readiness, KN_T029_APlacementThatMovedWithoutAGeneration) {
  TwoPods it;
  it.placements = {{"d-0", 1}, {"d-1", 2}};
  it.digests = {placements_digest(it.placements)};
  EXPECT_EQ(it.judge().reason, ReadyReason::kBindInProgress);
  it.seen[0].at("c1|ns/a").digest = it.digests.front();
  EXPECT_FALSE(it.judge().ready);
  it.seen[1].at("c1|ns/a").digest = it.digests.front();
  EXPECT_TRUE(it.judge().ready);
}

TEST(Readiness, WhileUnitsMove_WhatIsBetweenCountsToo) {
  TwoPods it;
  const std::vector<Placed> both{{"d-0", 2}, {"d-1", 2}};
  it.seen[1].at("c1|ns/a").digest = placements_digest(both);
  EXPECT_FALSE(it.judge().ready);
  it.digests.push_back(placements_digest(both));
  EXPECT_TRUE(it.judge().ready);
}

TEST(Readiness, KN_T051_ThePodOfASeedIsJudgedByTheGenerationAlone) {
  TwoPods it;
  it.seen[0].at("c1|ns/a").digest.reset();
  EXPECT_TRUE(it.judge().ready);
  it.seen[0].at("c1|ns/a").generation = 4;
  EXPECT_FALSE(it.judge().ready);
}

TEST(Readiness, APodWithoutAnnotationHasSeenNothing) {
  TwoPods it;
  it.pods[1].seen = nullptr;
  EXPECT_EQ(it.judge().reason, ReadyReason::kPodNotSeen);
}

TEST(Readiness, KN_T030_KD_3_APodThatIsGone) {
  TwoPods it;
  it.lose(1, seconds(0));
  EXPECT_EQ(it.judge().reason, ReadyReason::kPodMissing);  // nobody becomes Ready without it

  it.facts.was_ready = true;  // but who was, stays so for a minute
  it.lose(1, milliseconds(59'999));
  Readiness now = it.judge();
  EXPECT_TRUE(now.ready);
  EXPECT_EQ(now.message, "1 of 2 pods have the placement");
  EXPECT_EQ(now.look_again, milliseconds(1));
  EXPECT_TRUE(now.reschedule.empty());

  it.lose(1, seconds(60));
  now = it.judge();
  EXPECT_FALSE(now.ready);
  EXPECT_EQ(now.reason, ReadyReason::kPodMissing);
  EXPECT_EQ(now.look_again, seconds(240));
  EXPECT_TRUE(now.reschedule.empty());

  it.lose(1, seconds(300));
  EXPECT_EQ(it.judge().reschedule, std::vector<std::size_t>{1});
  EXPECT_FALSE(it.judge().look_again);
  EXPECT_FALSE(it.judge().ready);  // it is ignored when it is in no placement any more

  it.placements = {{"d-0", 3}};
  it.pods.pop_back();
  it.digests = {placements_digest(it.placements)};
  it.seen[0].at("c1|ns/a").digest = it.digests.front();
  EXPECT_TRUE(it.judge().ready);
}

TEST(Readiness, KN_T030_OfAnOrdinalBeyondTheReplicasThereIsNoWaiting) {
  TwoPods it;
  it.lose(1, seconds(0));
  it.pods[1].beyond = true;
  EXPECT_EQ(it.judge().reschedule, std::vector<std::size_t>{1});
}

TEST(Readiness, SinksOffsetsAndTheWholePlacementAreNeeded) {
  TwoPods it;
  it.facts.wanted = 4;
  EXPECT_EQ(it.judge().reason, ReadyReason::kPartial);
  EXPECT_EQ(it.judge().message, "3 of 4 vreplicas are placed");
  it.facts.offsets_initialised = false;
  EXPECT_EQ(it.judge().reason, ReadyReason::kOffsets);
  it.facts.sinks_resolved = false;
  EXPECT_EQ(it.judge().reason, ReadyReason::kSinks);
}

TEST(Readiness, KN_T007_NothingWantedAndNothingPlacedIsReady) {
  TwoPods it;
  it.placements.clear();
  it.pods.clear();
  it.facts.wanted = 0;
  EXPECT_TRUE(it.judge().ready);
}

}  // namespace
}  // namespace kintsugi::workers
