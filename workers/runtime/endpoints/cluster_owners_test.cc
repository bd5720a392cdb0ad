#include "workers/runtime/endpoints/cluster_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace kintsugi::workers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = OwnerAction::Kind;
using Actions = ClusterOwners::Actions;

class ClusterOwnersTest : public ::testing::Test {
 protected:
  Actions seen(UnitId unit) {
    return collect([&](Actions& out) { owners_.on_seen("c", unit, now_, out); });
  }
  Actions gone(UnitId unit) {
    return collect([&](Actions& out) { owners_.on_gone("c", unit, out); });
  }
  Actions parked(UnitId unit) {
    return collect([&](Actions& out) { owners_.on_parked("c", unit, out); });
  }
  Actions resolved(std::optional<UnitId> unit) {
    return collect([&](Actions& out) { owners_.on_resolved("c", unit, now_, out); });
  }
  /// Without what is told of units of other processes, which nobody carries out.
  Actions elsewhere(UnitId unit) {
    return collect([&](Actions& out) { owners_.on_elsewhere("c", unit, now_, out); });
  }
  template <class Call>
  Actions collect(Call call) {
    Actions out;
    call(out);
    std::erase_if(out, [](const OwnerAction& one) { return one.unit == kElsewhere; });
    return out;
  }

  ClusterOwners owners_;
  TimePoint now_{seconds(100)};
  const OwnerAction act1_{Kind::kAct, "c", 1}, act2_{Kind::kAct, "c", 2};
  const OwnerAction park1_{Kind::kPark, "c", 1}, park2_{Kind::kPark, "c", 2};
};

TEST_F(ClusterOwnersTest, RT14_TheOnlyUnitThatShowsAClusterActs) {
  EXPECT_THAT(seen(1), ElementsAre(act1_));
  EXPECT_THAT(seen(1), IsEmpty());
  EXPECT_TRUE(owners_.may_act("c", 1));
  EXPECT_TRUE(owners_.may_delete("c", 1));
  EXPECT_FALSE(owners_.may_act("c", 2));
  EXPECT_THAT(owners_.due(now_), IsEmpty());
  EXPECT_THAT(gone(1), IsEmpty());
  EXPECT_THAT(seen(2), ElementsAre(act2_));
}

TEST_F(ClusterOwnersTest, RT_T016_AMigrationHandsOverAfterTheOldUnitParkedAndDeletesNothing) {
  (void)seen(1);
  EXPECT_THAT(seen(2), ElementsAre(park2_));
  EXPECT_EQ(owners_.duplicates_total(), 1U);
  EXPECT_TRUE(owners_.may_act("c", 1));
  EXPECT_FALSE(owners_.may_delete("c", 1));
  EXPECT_FALSE(owners_.may_act("c", 2));
  EXPECT_THAT(owners_.due(now_), ElementsAre("c"));
  EXPECT_THAT(owners_.due(now_), IsEmpty());  // asked, not answered
  EXPECT_THAT(resolved(1), IsEmpty());        // not yet moved
  EXPECT_THAT(owners_.due(now_ += seconds(4)), IsEmpty());
  EXPECT_THAT(owners_.due(now_ += seconds(1)), ElementsAre("c"));
  EXPECT_THAT(resolved(2), ElementsAre(park1_));
  EXPECT_FALSE(owners_.may_act("c", 1));
  EXPECT_FALSE(owners_.may_act("c", 2));  // unit 1 may still run a step
  EXPECT_THAT(parked(2), IsEmpty());      // not the one that is waited for
  EXPECT_THAT(parked(1), ElementsAre(act2_));
  EXPECT_TRUE(owners_.may_act("c", 2));
  EXPECT_FALSE(owners_.may_delete("c", 1));
  EXPECT_FALSE(owners_.may_delete("c", 2));
  EXPECT_THAT(gone(1), IsEmpty());
  EXPECT_TRUE(owners_.may_delete("c", 2));
  EXPECT_EQ(owners_.duplicates(), 0U);
}

TEST_F(ClusterOwnersTest, RT14_AnAnswerThatTurnsBackKeepsTheOldUnit) {
  (void)seen(1);
  (void)seen(2);
  EXPECT_THAT(resolved(2), ElementsAre(park1_));
  EXPECT_THAT(resolved(std::nullopt), IsEmpty());
  EXPECT_THAT(resolved(1), ElementsAre(act1_));
  EXPECT_THAT(parked(1), IsEmpty());
  EXPECT_TRUE(owners_.may_act("c", 1));
}

TEST_F(ClusterOwnersTest, RT14_TheLastOneActsWhenTheOtherIsGone) {
  (void)seen(1);
  (void)seen(2);
  EXPECT_THAT(gone(1), ElementsAre(act2_));
  EXPECT_TRUE(owners_.may_delete("c", 2));
  (void)seen(1);
  EXPECT_THAT(collect([&](Actions& out) { owners_.on_unit_gone(2, out); }), ElementsAre(act1_));
}

TEST_F(ClusterOwnersTest, RT14_AThirdUnitIsNamedBeforeItShowsTheCluster) {
  (void)seen(1);
  (void)seen(2);
  const OwnerAction act3{Kind::kAct, "c", 3};
  EXPECT_THAT(resolved(3), ElementsAre(park1_));
  EXPECT_THAT(parked(1), ElementsAre(act3));
  EXPECT_THAT(gone(1), IsEmpty());
  EXPECT_THAT(seen(3), IsEmpty());
  EXPECT_TRUE(owners_.may_act("c", 3));
  EXPECT_THAT(gone(2), IsEmpty());
  EXPECT_TRUE(owners_.may_delete("c", 3));
}

TEST_F(ClusterOwnersTest, RT14_AUnitThatIsAskedFromElsewhereLetsGoAndComesBackByTheProxyAlone) {
  (void)seen(1);
  EXPECT_THAT(elsewhere(1), ElementsAre(park1_));
  EXPECT_FALSE(owners_.may_act("c", 1));
  EXPECT_TRUE(owners_.acts("c", 1));  // a step may still run
  EXPECT_FALSE(owners_.may_delete("c", 1));
  EXPECT_THAT(elsewhere(1), IsEmpty());
  (void)parked(1);
  EXPECT_FALSE(owners_.acts("c", 1));
  EXPECT_THAT(owners_.due(now_), ElementsAre("c"));
  EXPECT_THAT(resolved(std::nullopt), IsEmpty());  // whose it is now is none of ours
  EXPECT_FALSE(owners_.may_act("c", 1));
  EXPECT_THAT(owners_.due(now_ += seconds(5)), ElementsAre("c"));
  EXPECT_THAT(resolved(1), ElementsAre(act1_));  // it is back, with the revision that is shown
  EXPECT_TRUE(owners_.may_act("c", 1));
  EXPECT_TRUE(owners_.may_delete("c", 1));
  EXPECT_EQ(owners_.duplicates(), 0U);
}

TEST_F(ClusterOwnersTest, RT14_WhatComesBackAfterItWasGoneHasToBeAskedFor) {
  (void)seen(1);
  (void)elsewhere(1);
  (void)parked(1);
  EXPECT_THAT(gone(1), IsEmpty());
  EXPECT_EQ(owners_.duplicates(), 0U);
  EXPECT_THAT(seen(1), ElementsAre(park1_));
  EXPECT_FALSE(owners_.may_act("c", 1));
  EXPECT_THAT(owners_.due(now_ += seconds(1)), ElementsAre("c"));
  EXPECT_THAT(resolved(1), ElementsAre(act1_));
  EXPECT_TRUE(owners_.may_act("c", 1));
}

TEST_F(ClusterOwnersTest, RT14_WhoIsAskedBeforeItShowsTheClusterDoesNotBegin) {
  EXPECT_THAT(elsewhere(1), IsEmpty());
  EXPECT_FALSE(owners_.acts("c", 1));
  EXPECT_THAT(seen(1), ElementsAre(park1_));
  EXPECT_THAT(parked(1), IsEmpty());
  EXPECT_FALSE(owners_.may_act("c", 1));
  EXPECT_THAT(owners_.due(now_), ElementsAre("c"));
}

TEST_F(ClusterOwnersTest, RT14_AnotherUnitOfThisProcessIsNotConcerned) {
  (void)seen(1);
  (void)seen(2);
  EXPECT_THAT(elsewhere(2), IsEmpty());  // it waits already
  EXPECT_THAT(resolved(2), ElementsAre(park1_));
  EXPECT_THAT(elsewhere(1), IsEmpty());  // it is told already
  EXPECT_THAT(parked(1), ElementsAre(act2_));
  EXPECT_THAT(elsewhere(1), IsEmpty());
  EXPECT_TRUE(owners_.may_act("c", 2));
}

TEST_F(ClusterOwnersTest, RT14_WhoIsNamedWhileItStillParksGoesOn) {
  (void)seen(1);
  EXPECT_THAT(elsewhere(1), ElementsAre(park1_));
  (void)owners_.due(now_);
  EXPECT_THAT(resolved(1), ElementsAre(act1_));
  EXPECT_THAT(parked(1), IsEmpty());
  EXPECT_TRUE(owners_.may_act("c", 1));
  EXPECT_EQ(owners_.duplicates(), 0U);
}

TEST_F(ClusterOwnersTest, RT14_QuestionsAreLimited) {
  Actions out;
  for (int i = 0; i < 100; ++i) {
    owners_.on_seen(std::to_string(i), 1, now_, out);
    owners_.on_seen(std::to_string(i), 2, now_, out);
  }
  EXPECT_EQ(owners_.due(now_).size(), 64U);
  EXPECT_EQ(owners_.due(now_).size(), 36U);
  EXPECT_EQ(owners_.due(now_).size(), 0U);
}

/// Units as the runtime has them: a unit that was told to park may act until it says it has.
struct UnitsModel {
  std::map<std::string, std::set<UnitId>> shown;
  std::map<std::string, std::set<UnitId>> busy;  // act or are parking

  /// @param named  by the proxy's word: then units of other processes have ended, too.
  void apply(const Actions& actions, bool named = false) {
    for (const OwnerAction& action : actions) {
      if (action.kind == Kind::kAct) {
        if (named && action.unit != kElsewhere) {
          busy[action.cluster].erase(kElsewhere);
        }
        busy[action.cluster].insert(action.unit);
        ASSERT_EQ(busy[action.cluster].size(), 1U) << "two units act for " << action.cluster;
      } else if (!shown[action.cluster].contains(action.unit)) {
        busy[action.cluster].erase(action.unit);  // it has no keys that could run
      }
    }
  }
};

TEST(ClusterOwners, RT_T016_AtMostOneActsInAnyOrderOfEventsAndOneInTheEnd) {
  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int rounds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 100'000 : 3'000;
  for (int round = 0; round < rounds; ++round) {
    ClusterOwners owners;
    UnitsModel model;
    TimePoint now{seconds(1)};
    for (int step = 0; step < 60; ++step) {
      now += seconds(random() % 4);
      const std::string cluster(1, static_cast<char>('a' + random() % 2));
      const auto unit = static_cast<UnitId>(random() % 4);
      Actions out;
      bool named = false;
      switch (random() % 9) {
        case 0:
        case 1:
          owners.on_seen(cluster, unit, now, out);
          model.shown[cluster].insert(unit);
          break;
        case 2:
          if (model.shown[cluster].erase(unit) > 0) {
            model.busy[cluster].erase(unit);
            owners.on_gone(cluster, unit, out);
          }
          break;
        case 3:
          if (random() % 4 == 0) {
            for (const char* each : {"a", "b"}) {
              model.busy[each].erase(unit);
              model.shown[each].erase(unit);
            }
            owners.on_unit_gone(unit, out);
          }
          break;
        case 4:
        case 5:
          if (!owners.may_act(cluster, unit)) {
            model.busy[cluster].erase(unit);
            owners.on_parked(cluster, unit, out);
          }
          break;
        case 6:
          owners.on_elsewhere(cluster, unit, now, out);
          break;
        default:
          named = true;
          owners.on_resolved(cluster, random() % 5 == 0 ? std::nullopt : std::optional(unit), now,
                             out);
      }
      model.apply(out, named);
      if (HasFatalFailure()) {
        return;
      }
      for (const char* each : {"a", "b"}) {
        for (UnitId other = 0; other < 4; ++other) {
          if (model.shown[each].contains(other) && owners.may_act(each, other)) {
            ASSERT_TRUE(model.busy[each].contains(other)) << "it was never told";
          }
          if (owners.may_delete(each, other) && model.shown[each].contains(other)) {
            ASSERT_EQ(model.shown[each].size(), 1U);
          }
        }
      }
    }
    // The proxy names one that shows the cluster, and everybody parks who was told.
    for (const char* each : {"a", "b"}) {
      if (model.shown[each].empty()) {
        continue;
      }
      const UnitId owner = *model.shown[each].begin();
      Actions out;
      owners.on_resolved(each, owner, now, out);
      model.apply(out, true);
      for (UnitId unit = 0; unit < 4; ++unit) {
        if (!owners.may_act(each, unit)) {
          out.clear();
          model.busy[each].erase(unit);
          owners.on_parked(each, unit, out);
          model.apply(out);
        }
      }
      ASSERT_TRUE(owners.may_act(each, owner));
      ASSERT_EQ(model.busy[each], std::set<UnitId>{owner});
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
