#include "workers/runtime/unit/internal/drains.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::workers {
namespace {

std::string key_of(PartitionId partition) {
  for (int i = 0;; ++i) {
    if (std::string key = "c|ns/infra" + std::to_string(i); partition_of(key) == partition) {
      return key;
    }
  }
}

struct Bench {
  std::vector<std::string> keys;  ///< what a role holds
  std::vector<std::string> log;
  std::size_t acknowledged = 0, most = kRingPartitions;

  void give(const PartitionSet& idle) {
    give_away(
        idle,
        [this](const auto& goes) {
          std::erase_if(keys, [&](const std::string& key) {
            if (goes(key)) {
              log.push_back("closed " + key);
              return true;
            }
            return false;
          });
        },
        [this](PartitionId partition) {
          log.push_back("acknowledged " + std::to_string(partition));
          return ++acknowledged < most;
        });
  }
};

TEST(Drains, RT_65_WhatIsHeldForAPartitionEndsBeforeItIsAcknowledged) {
  Drains drains;
  Bench bench;
  const std::string first = key_of(3), second = key_of(900), other = key_of(4);
  bench.keys = {first, second, other};
  for (const PartitionId one : {PartitionId{3}, PartitionId{900}, PartitionId{17}}) {
    drains.add(one);
  }
  PartitionSet busy;
  busy.set(900);
  bench.give(drains.take_idle(busy));
  EXPECT_EQ(bench.log,
            (std::vector<std::string>{"closed " + first, "acknowledged 3", "acknowledged 17"}));
  EXPECT_TRUE(drains.any()) << "a reconcile of one still runs";
  bench.log.clear();
  bench.give(drains.take_idle(busy));
  EXPECT_TRUE(bench.log.empty());
  busy.reset();
  bench.give(drains.take_idle(busy));
  EXPECT_EQ(bench.log, (std::vector<std::string>{"closed " + second, "acknowledged 900"}));
  EXPECT_FALSE(drains.any());
  EXPECT_EQ(bench.keys, std::vector<std::string>{other});
}

TEST(Drains, RT_65_APartitionThatComesBackOrIsStoppedIsNotAcknowledged) {
  Drains drains;
  drains.add(5);
  drains.add(6);
  drains.remove(5);
  const PartitionSet idle = drains.take_idle({});
  EXPECT_EQ(idle.count(), 1U);
  EXPECT_TRUE(idle.test(6));
  EXPECT_TRUE(drains.take_idle({}).none());
}

TEST(Drains, RT_65_NothingFollowsWhereTheDriverIsGone) {
  Drains drains;
  for (PartitionId p = 0; p < kRingPartitions; ++p) {
    drains.add(p);
  }
  Bench bench;
  bench.most = 2;
  bench.give(drains.take_idle({}));
  EXPECT_EQ(bench.acknowledged, 2U);
  give_away(PartitionSet().set(1), {}, [&](PartitionId) { return ++bench.acknowledged > 0; });
  EXPECT_EQ(bench.acknowledged, 3U) << "a role may hold nothing";
}

}  // namespace
}  // namespace kintsugi::workers
