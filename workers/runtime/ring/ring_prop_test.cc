#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "workers/runtime/ring/internal/ring_world.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMost = 6;

// Everything at once; RingWorld checks at each step that nobody acts beside another.
void live_through(std::uint64_t seed, bool by_hand) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&random](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most - 1)(random);
  };
  RingWorld::Faults faults;
  faults.jitter = milliseconds(1 + pick(400));
  faults.slow = 0.03;
  faults.lose_request = 0.03;
  faults.lose_answer = 0.03;
  faults.drain = milliseconds(1 + pick(4'000));
  RingWorld world(seed, faults);
  std::vector<std::size_t> here;
  const auto join = [&] {
    const double rate = 0.98 + 0.04 * static_cast<double>(pick(1'000)) / 1'000;
    here.push_back(world.add(seconds(pick(100'000)), rate, seconds(pick(7'200)) - seconds(3'600)));
  };
  join();
  for (int step = 0; step < 25 && !::testing::Test::HasFailure(); ++step) {
    const std::size_t who = here.empty() ? 0 : pick(here.size());
    switch (pick(by_hand ? 11 : 8)) {
      case 0:
      case 1:
        if (here.size() < kMost) {
          join();
        }
        break;
      case 2:
        if (here.size() > 1) {
          world.kill(here[who]);
          here.erase(here.begin() + static_cast<std::ptrdiff_t>(who));
        }
        break;
      case 3:
        if (here.size() > 1) {
          world.leave(here[who]);
          here.erase(here.begin() + static_cast<std::ptrdiff_t>(who));
        }
        break;
      case 4:
        world.pause(here[who], milliseconds(pick(40'000)));
        break;
      case 5:
        world.cut(here[who], milliseconds(pick(40'000)));
        break;
      case 6:
        world.stall_watch(here[who], milliseconds(pick(40'000)));
        break;
      case 7:
        world.peer_epoch(here[who], static_cast<PartitionId>(pick(kRingPartitions)),
                         static_cast<std::uint32_t>(pick(100)));
        break;
      case 8:
        world.delete_ring();
        break;
      case 9:
        // Not an older table: when all who know the newer one die before they report it, nobody
        // can tell; then only the peers are in the way of its epochs (RT-57).
        world.replace_ring("{");
        break;
      default: {
        auto lease = world.leases().begin();
        if (!world.leases().empty()) {
          std::advance(lease, pick(world.leases().size()));
          world.delete_lease(std::string(lease->first));
        }
        break;
      }
    }
    world.run(milliseconds(pick(15'000)));
  }
  if (::testing::Test::HasFailure()) {
    return;
  }
  // Faults end: it settles, each partition with one of those who stayed, none without any.
  world.faults() = {};
  ASSERT_TRUE(world.run_until(seconds(180), [&world] { return world.settled(); }));
  world.run(seconds(90));
  ASSERT_TRUE(world.settled());
  for (const std::size_t index : here) {
    EXPECT_GT(world.count(index), 0U) << "worker " << index;
  }
  const std::uint64_t writes = world.ring_writes();
  world.run(seconds(120));
  EXPECT_EQ(world.ring_writes(), writes) << "it does not come to rest";
}

std::uint64_t rounds(std::uint64_t few, std::uint64_t many) {
  return std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? many : few;
}

TEST(RingProperties, RT66_WhateverProcessesAndNetworkDo_NobodyActsBesideAnother) {
  for (std::uint64_t seed = 1; seed <= rounds(10, 2'000) && !HasFailure(); ++seed) {
    live_through(seed, false);
  }
}

TEST(RingProperties, RT67_WhateverIsDeletedOrReplacedByHand_NobodyActsBesideAnother) {
  for (std::uint64_t seed = 10'001; seed <= 10'000 + rounds(10, 2'000) && !HasFailure(); ++seed) {
    live_through(seed, true);
  }
}

}  // namespace
}  // namespace kintsugi::workers
