#include "workers/eventing/scheduling/pool_scheduler.h"

#include <gtest/gtest.h>

#include "workers/eventing/scheduling/internal/pool_world.h"

namespace kintsugi::workers {
namespace {

using Pods = std::vector<Placed>;

PoolWorld with_pods(std::int64_t n, PoolSettings settings = {}, AutoscalerSettings scaling = {}) {
  PoolWorld world(std::move(settings), scaling);
  world.scale(n);
  world.settle();
  return world;
}

TEST(PoolScheduler, PodsHaveOrdinals) {
  EXPECT_EQ(pod_ordinal("d", "d-0"), 0);
  EXPECT_EQ(pod_ordinal("d", "d-12"), 12);
  for (const char* other :
       {"d", "d-", "d-01", "d-x", "e-1", "dd-1", "d-1-2", "d-99999999999", ""}) {
    EXPECT_FALSE(pod_ordinal("d", other)) << other;
  }
}

TEST(PoolScheduler, KN_T001_WithoutPodsOneIsMade) {
  PoolWorld world;
  world.group("g", 1);
  world.settle();
  EXPECT_EQ(world.text("g"), "");
  EXPECT_EQ(world.pool->place("g")->message,
            "1 of 1 vreplicas have no place: there is no pod that takes any");
  world.run(seconds(1));
  EXPECT_EQ(world.scales, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(world.text("g"), "1@0");
}

TEST(PoolScheduler, KN_T002_FifteenOnOnePod_ThenTwo_ThenEven) {
  PoolWorld world = with_pods(1);
  world.group("g", 15);
  world.settle();
  EXPECT_EQ(world.text("g"), "10@0");
  EXPECT_EQ(world.pool->place("g")->pending, 5);
  EXPECT_EQ(world.pool->place("g")->message,
            "5 of 15 vreplicas have no place: no pod has room for one more");
  world.run(seconds(1));
  EXPECT_EQ(world.scales, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(world.text("g"), "10@0 5@1");
  world.run(seconds(90));
  EXPECT_EQ(world.text("g"), "10@0 5@1");
  world.run(seconds(20));
  EXPECT_EQ(world.text("g"), "8@0 7@1");
}

TEST(PoolScheduler, KN_T003_KN_T004_UnitsSpread) {
  PoolWorld two = with_pods(2);
  two.group("g", 15);
  two.settle();
  EXPECT_EQ(two.text("g"), "8@0 7@1");
  PoolWorld five = with_pods(5);
  five.group("g", 4);
  five.settle();
  EXPECT_EQ(five.text("g"), "1@0 1@1 1@2 1@3");
}

TEST(PoolScheduler, KN_T005_GrowthMovesNothing) {
  PoolWorld world = with_pods(3);
  world.group("g", 3).status = {{"d-0", 1}};
  world.restart();
  world.settle();
  EXPECT_EQ(world.text("g"), "1@0 1@1 1@2");
  EXPECT_EQ(world.pool->moves_total(), 0U);
}

TEST(PoolScheduler, KN_T006_ShrinkingTakesFromTheHighestOrdinal) {
  PoolWorld world = with_pods(2);
  world.group("g", 15);
  world.settle();
  world.group("g", 5);
  world.settle();
  EXPECT_EQ(world.text("g"), "5@0");
  EXPECT_TRUE(world.scales.empty());
}

TEST(PoolScheduler, KN_T007_NothingWantedLeavesNothing) {
  PoolWorld world = with_pods(2);
  world.group("g", 4);
  world.settle();
  world.group("g", 0);
  world.settle();
  EXPECT_EQ(world.text("g"), "");
  EXPECT_EQ(world.pool->place("g")->pending, 0);
  EXPECT_EQ(world.pool->place("g")->message, "");
  EXPECT_TRUE(world.pool->groups_on("d-0").empty());
}

TEST(PoolScheduler, KN_T008_KN_T009_ACordonedPodLosesItsUnits_WithoutAGap) {
  PoolWorld world = with_pods(3);
  world.group("g", 6);
  world.settle();
  ASSERT_EQ(world.text("g"), "2@0 2@1 2@2");
  world.members_join = false;
  world.cordon(0);
  world.settle();
  EXPECT_EQ(world.text("g"), "2@0 2@1 2@2");  // the new ones have not joined
  EXPECT_EQ(world.pool->place("g")->move, MoveStep::kJoining);
  std::string waits;
  for (const PoolScheduler::Joining& one : world.pool->joining()) {
    waits += one.key + "@" + one.pod + " ";
  }
  EXPECT_EQ(waits, "g@d-1 g@d-2 ");
  EXPECT_EQ(world.contract_sum("d-0"), 2);
  EXPECT_EQ(world.contract_sum("d-1"), 3);
  world.members_join = true;
  world.settle();
  EXPECT_EQ(world.text("g"), "3@1 3@2");
  EXPECT_TRUE(world.pool->joining().empty());
  EXPECT_EQ(world.contract_sum("d-0"), 0);
  world.group("h", 6);  // and gets none
  world.settle();
  EXPECT_EQ(world.text("h"), "3@1 3@2");
}

TEST(PoolScheduler, KN_T010_APendingPodIsNotUsed) {
  PoolWorld world = with_pods(2);
  world.scale(2);
  DispatcherPod pending = world.pod(2);
  pending.bound = false;
  world.replicas = 3;
  world.pool->set_replicas(3, world.now);
  world.put(pending);
  world.group("g", 6);
  world.settle();
  EXPECT_EQ(world.text("g"), "3@0 3@1");
  pending.bound = true;
  world.put(pending);
  world.group("h", 3);
  world.settle();
  EXPECT_EQ(world.text("h"), "1@0 1@1 1@2");
  EXPECT_EQ(world.text("g"), "3@0 3@1");
}

TEST(PoolScheduler, KN_T011_APodThatComesAgainKeepsItsUnits) {
  PoolWorld world = with_pods(2);
  world.group("g", 6);
  world.settle();
  const std::size_t writes = world.status_writes;
  world.lose(1);
  world.settle();
  EXPECT_EQ(world.text("g"), "3@0 3@1");
  world.group("h", 4);  // what is gone takes nothing meanwhile
  world.settle();
  EXPECT_EQ(world.text("h"), "4@0");
  world.now += seconds(100);
  world.put(world.pod(1));
  world.settle();
  EXPECT_EQ(world.text("g"), "3@0 3@1");
  EXPECT_EQ(world.contract_sum("d-1"), 3);  // its contract was made anew
  EXPECT_EQ(world.status_writes, writes + 1);
  EXPECT_EQ(world.pool->moves_total(), 0U);
}

TEST(PoolScheduler, KN_T030_APodThatStaysAwayLosesThemAfterFiveMinutes) {
  PoolWorld world = with_pods(2);
  world.group("g", 6);
  world.settle();
  world.lose(1);
  world.settle();
  EXPECT_EQ(world.pool->next_timer(), world.now + seconds(300));
  world.now += milliseconds(299'999);
  world.settle();
  EXPECT_EQ(world.text("g"), "3@0 3@1");
  world.now += milliseconds(1);
  world.settle();
  EXPECT_EQ(world.text("g"), "6@0");
  EXPECT_FALSE(world.pool->next_timer());
}

TEST(PoolScheduler, KN_T030_OneWithoutAReplicaLosesThemAtOnce) {
  PoolWorld world = with_pods(2);
  world.group("g", 6);
  world.settle();
  world.scale(1);
  world.settle();
  EXPECT_EQ(world.text("g"), "6@0");
}

TEST(PoolScheduler, KN_T012_ASmallerPodLosesTheYoungest) {
  PoolWorld world = with_pods(1);
  world.group("old", 4, 1);
  world.group("mid", 3, 2);
  world.group("new", 2, 3);
  world.settle();
  ASSERT_EQ(world.on_pod("d-0"), 9);
  world.check_capacity = false;  // others' statuses follow one by one
  DispatcherPod small = world.pod(0);
  small.capacity = 6;
  world.put(small);
  world.settle();
  EXPECT_EQ(world.text("old"), "4@0");
  EXPECT_EQ(world.text("mid"), "2@0");
  EXPECT_EQ(world.text("new"), "");
  EXPECT_EQ(world.on_pod("d-0"), 6);
}

TEST(PoolScheduler, ACapacityThatCannotBeIsThePools) {
  PoolWorld world = with_pods(1);
  DispatcherPod odd = world.pod(0);
  odd.capacity = -4;
  EXPECT_FALSE(world.pool->set_pod(odd, world.now));
  world.pods[odd.name] = world.pod(0);
  world.group("g", 12);
  world.settle();
  EXPECT_EQ(world.text("g"), "10@0");
  DispatcherPod stranger = world.pod(0);
  stranger.name = "other-0";
  EXPECT_FALSE(world.pool->set_pod(stranger, world.now));
}

TEST(PoolScheduler, KN_T013_TwoAtOnceDoNotShareARoom) {
  PoolWorld world = with_pods(2);
  world.group("a", 8);
  world.group("b", 8);
  std::ignore = world.pool->decide(world.now);
  const Pods a = world.pool->begin_write("a"), b = world.pool->begin_write("b");
  world.store("b", b);  // answers come in any order
  world.pool->written("b", b);
  world.store("a", a);
  world.pool->written("a", a);
  world.settle();
  EXPECT_EQ(world.text("a"), "4@0 4@1");
  EXPECT_EQ(world.text("b"), "4@0 4@1");
}

TEST(PoolScheduler, KN_T014_AHundredGroupsNeedFivePods) {
  PoolSettings settings;
  settings.capacity = 21;
  PoolWorld world(settings);
  for (int i = 0; i < 105; ++i) {
    world.group("g" + std::to_string(i), 1, i);
  }
  world.run(seconds(10));
  EXPECT_EQ(world.replicas, 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(world.on_pod(PoolWorld::pod_name(i)), 21);
  }
}

TEST(PoolScheduler, KN_T015_AStatusOfTooMuchIsPutRight) {
  PoolWorld world = with_pods(2);
  world.group("g", 14).status = {{"d-0", 14}};
  world.restart();
  world.settle();
  EXPECT_EQ(world.text("g"), "10@0 4@1");
  world.group("g", 14).status = {{"d-0", 14}};  // edited while it runs
  world.pool->set(world.api.at("g"));
  world.settle();
  EXPECT_EQ(world.text("g"), "10@0 4@1");
}

TEST(PoolScheduler, KN_T016_KN_T017_ARestartMovesNothing) {
  PoolWorld world = with_pods(10);
  for (int i = 0; i < 50; ++i) {
    world.group("g" + std::to_string(i), 1 + i % 3, i);
  }
  world.settle();
  const auto before = world.api;
  const std::size_t writes = world.status_writes;
  world.restart();
  world.settle();
  for (const auto& [key, group] : before) {
    EXPECT_EQ(world.api.at(key).status, group.status);
  }
  EXPECT_EQ(world.status_writes, writes);
  EXPECT_EQ(world.pool->moves_total(), 0U);
}

TEST(PoolScheduler, NothingIsDecidedBeforeAllIsLoaded) {
  PoolScheduler pool({.stateful_set = "d"});
  PoolGroup group;
  group.key = group.uid = "g";
  group.wanted = 1;
  EXPECT_FALSE(pool.is_loaded());
  pool.set(group);
  EXPECT_TRUE(pool.decide(TimePoint()).empty());
  EXPECT_FALSE(pool.place("g")->write);
  pool.load(std::vector<PoolGroup>{group}, {}, TimePoint());
  EXPECT_EQ(pool.decide(TimePoint()).groups, std::set<std::string>{"g"});
}

TEST(PoolScheduler, KN_T018_ADecisionThatWasNotWrittenIsForgottenByARestart) {
  PoolWorld world = with_pods(1);
  world.group("a", 8);
  std::ignore = world.pool->decide(world.now);
  ASSERT_TRUE(world.pool->place("a")->write);
  world.restart();
  world.group("b", 2, -1);
  world.settle();
  EXPECT_EQ(world.text("b"), "2@0");
  EXPECT_EQ(world.text("a"), "8@0");
}

TEST(PoolScheduler, KN_T019_AnOldStatusAtTheStartOverbooksNothing) {
  PoolWorld world = with_pods(1);
  world.group("a", 8);
  world.settle();
  const auto real = world.api;
  world.api.at("a").status.clear();  // the list is older than the last write
  world.group("b", 8);
  world.restart();
  world.api = real;
  world.group("b", 8);
  std::ignore = world.pool->decide(world.now);
  const auto place = world.pool->place("a");
  ASSERT_TRUE(place->write);
  std::ignore = world.pool->begin_write("a");  // 409
  world.pool->set(world.api.at("a"));
  world.pool->not_written("a");
  world.write("b");
  world.settle();
  EXPECT_EQ(world.text("a"), "8@0");
  EXPECT_EQ(world.text("b"), "2@0");
}

TEST(PoolScheduler, AConflictKeepsWhatIsReserved) {
  PoolWorld world = with_pods(1);
  world.group("a", 8);
  std::ignore = world.pool->decide(world.now);
  std::ignore = world.pool->begin_write("a");
  world.group("b", 8);
  world.pool->not_written("a");
  world.settle();
  EXPECT_EQ(world.text("a"), "8@0");
  EXPECT_EQ(world.text("b"), "2@0");
}

TEST(PoolScheduler, KN_T020_WhoGoesWhilePendingLeavesTheRoom) {
  PoolWorld world = with_pods(1);
  world.group("first", 10, 1);
  world.group("second", 5, 2);
  world.group("third", 5, 3);
  world.settle();
  EXPECT_EQ(world.text("second"), "");
  world.drop("second");
  world.drop("first");
  world.settle();
  EXPECT_EQ(world.text("third"), "5@0");
  EXPECT_EQ(world.pool->pending_groups(), 0U);
}

TEST(PoolScheduler, KN_T021_KN_T022_PartitionsBoundIt) {
  PoolWorld world = with_pods(2);
  world.group("g", 10, 0, 3);
  world.settle();
  EXPECT_EQ(world.text("g"), "2@0 1@1");
  world.group("g", 10, 0, 6);
  world.settle();
  EXPECT_EQ(world.text("g"), "3@0 3@1");
}

TEST(PoolScheduler, KN_T033_ContractsHaveABound) {
  PoolSettings settings;
  settings.capacity = 500;
  AutoscalerSettings one;
  one.max_replicas = 1;
  for (const bool bounded : {true, false}) {
    PoolWorld world(settings, bounded ? one : AutoscalerSettings());
    for (int i = 0; i < 200; ++i) {
      PoolGroup& group = world.group("g" + std::to_string(i), 1, i);
      group.entry_bytes = 8 << 10;
      world.pool->set(group);
    }
    world.run(seconds(10));
    EXPECT_EQ(world.on_pod("d-0"), 112);
    EXPECT_EQ(world.text("g111"), "1@0");
    EXPECT_EQ(world.text("g112"), bounded ? "" : "1@1");
    const std::size_t writes = world.status_writes;
    if (bounded) {
      EXPECT_EQ(world.pool->place("g112")->message,
                "1 of 1 vreplicas have no place: no pod's contract has room for 8192 bytes more");
      EXPECT_EQ(world.pool->place("g112")->why, Pending::kEntryRoom);
    } else {
      EXPECT_EQ(world.scales, (std::vector<std::int64_t>{2}));
    }
    PoolGroup& huge = world.group("huge", 1);
    huge.entry_bytes = 1 << 20;
    world.pool->set(huge);
    world.run(seconds(10));
    EXPECT_TRUE(world.pool->place("huge")->too_large);
    EXPECT_EQ(world.pool->place("huge")->message,
              "its entry of 1048576 bytes is larger than a contract may be: 921600");
    EXPECT_EQ(world.text("huge"), "");
    EXPECT_EQ(world.status_writes, writes);  // no loop of writes that fail
  }
}

TEST(PoolScheduler, KN_T043_KN_T047_FewerPodsAfterThePeriod) {
  PoolWorld world = with_pods(3);
  world.group("g", 5);
  world.run(seconds(99));
  EXPECT_EQ(world.text("g"), "2@0 2@1 1@2");
  EXPECT_TRUE(world.scales.empty());
  world.run(seconds(60));
  EXPECT_EQ(world.text("g"), "5@0");
  EXPECT_EQ(world.scales, (std::vector<std::int64_t>{1}));
}

TEST(PoolScheduler, KN_T044_OrdinalsWithoutAReplicaAreEmptied) {
  PoolWorld world = with_pods(2);
  world.group("a", 6).status = {{"d-2", 6}};
  world.group("b", 6, 1).status = {{"d-0", 6}};
  DispatcherPod third = world.pod(2);  // the StatefulSet is about to take it away
  world.pods[third.name] = third;
  world.restart();
  world.settle();
  EXPECT_EQ(world.on_pod("d-2"), 0);
  EXPECT_EQ(world.on_pod("d-0") + world.on_pod("d-1"), 12);
  EXPECT_EQ(world.text("b"), "6@0");
}

TEST(PoolScheduler, KN_T045_ACordonedPodIsNoRoom) {
  PoolWorld world = with_pods(2);
  world.group("g", 15);
  world.settle();
  world.cordon(1);
  world.run(seconds(30));
  EXPECT_EQ(world.scales, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(sum_of_placements(world.api.at("g").status), 15);
  EXPECT_EQ(world.on_pod("d-1"), 0);
}

TEST(PoolScheduler, KN_T046_KN_T047_ALeastNumberOfPods) {
  PoolSettings settings;
  settings.min_replicas = 3;
  PoolWorld world(settings);
  world.group("many", 1, 0, 12);
  world.group("few", 1, 0, 2);
  world.run(seconds(10));
  EXPECT_EQ(world.replicas, 3);
  EXPECT_EQ(world.text("many"), "1@0 1@1 1@2");
  EXPECT_EQ(world.text("few"), "1@0 1@1");
  world.settings.min_replicas = 1;  // another configuration, and a restart
  world.restart();
  world.run(seconds(200));
  EXPECT_EQ(world.replicas, 1);
  EXPECT_EQ(world.text("many"), "1@0");
}

TEST(PoolScheduler, KN_T048_ZonesShareEvenly) {
  PoolWorld world;
  world.zones = "aab";
  world.scale(3);
  world.group("g", 4);
  world.settle();
  EXPECT_EQ(world.on_pod("d-2"), 2);
  EXPECT_EQ(world.on_pod("d-0") + world.on_pod("d-1"), 2);
}

TEST(PoolScheduler, KN_T049_AnEvictionThatMeetsAnotherWrite) {
  PoolWorld world = with_pods(3);
  world.group("g", 6);
  world.settle();
  world.cordon(2);
  for (int i = 0; i < 6 && world.pool->place("g")->move != MoveStep::kCommitting; ++i) {
    const PoolChanges changes = world.pool->decide(world.now);
    world.note_moves(changes);
    for (const auto& [name, pod] : world.pods) {
      world.write_contract(name);
      world.tell(name);
    }
  }
  ASSERT_EQ(world.pool->place("g")->move, MoveStep::kCommitting);
  std::ignore = world.pool->begin_write("g");
  PoolGroup& group = world.api.at("g");  // a user has made it 9 meanwhile: 409
  group.wanted = 9;
  world.pool->set(group);
  world.pool->not_written("g");
  world.settle();
  EXPECT_EQ(sum_of_placements(group.status), 9);
  EXPECT_EQ(world.on_pod("d-2"), 0);
  EXPECT_FALSE(world.pool->place("g")->move);
  EXPECT_TRUE(world.journal.empty());
}

TEST(PoolScheduler, AMoveGoesOnAfterARestart_AtEveryStep) {
  for (const MoveStep step :
       {MoveStep::kAdding, MoveStep::kJoining, MoveStep::kRemoving, MoveStep::kCommitting}) {
    for (const bool journal_lost : {false, true}) {
      PoolWorld world = with_pods(2);
      world.group("g", 6).status = {{"d-0", 6}};
      world.group("other", 10, 5);
      world.restart();
      world.settle();
      ASSERT_EQ(world.pool->rebalance(world.now), 1U);
      world.members_join = step > MoveStep::kJoining;
      for (int i = 0; i < 20 && world.pool->place("g")->move != step; ++i) {
        world.note_moves(world.pool->decide(world.now));
        for (const auto& [name, pod] : world.pods) {
          world.write_contract(name);
          if (world.pool->place("g")->move != step) {
            world.tell(name);
          }
        }
      }
      world.note_moves(world.pool->decide(world.now));
      ASSERT_EQ(world.pool->place("g")->move, step);
      ASSERT_EQ(world.journal.size(), 1U);
      world.members_join = true;
      world.restart(journal_lost);
      EXPECT_EQ(world.pool->moving(), journal_lost ? 0U : 1U);
      if (!journal_lost) {
        EXPECT_EQ(world.pool->place("g")->move, step);
      }
      world.settle();
      EXPECT_EQ(world.text("g"), journal_lost ? "6@0" : "5@0 1@1");
      EXPECT_EQ(world.contract_sum("d-0"), world.on_pod("d-0"));
      EXPECT_EQ(world.contract_sum("d-1"), world.on_pod("d-1"));
      EXPECT_TRUE(world.journal.empty());
    }
  }
}

TEST(PoolScheduler, AMoveToAPodThatStopsIsUndone) {
  PoolWorld world = with_pods(2);
  world.group("g", 6).status = {{"d-0", 6}};
  world.group("other", 10, 5);
  world.restart();
  world.settle();
  world.members_join = false;
  ASSERT_EQ(world.pool->rebalance(world.now), 1U);
  world.settle();
  ASSERT_EQ(world.pool->place("g")->move, MoveStep::kJoining);
  world.lose(1);
  world.settle();
  EXPECT_FALSE(world.pool->place("g")->move);
  EXPECT_EQ(world.text("g"), "6@0");
  EXPECT_EQ(world.contract_sum("d-0"), 10);
  EXPECT_TRUE(world.journal.empty());
}

TEST(PoolScheduler, KN_T068_WhatChangesNothingIsToldToNobody) {
  PoolWorld world = with_pods(2);
  world.group("g", 6);
  world.settle();
  world.pool->set(world.api.at("g"));
  EXPECT_TRUE(world.pool->decide(world.now).empty());
}

}  // namespace
}  // namespace kintsugi::workers
