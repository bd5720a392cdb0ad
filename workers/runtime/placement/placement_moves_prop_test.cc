#include <gtest/gtest.h>

#include "workers/runtime/placement/internal/placement_world.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {
namespace {

TEST(Placement, RT_T090_P11_RequiredHostsIsTheSmallestNumberThatHolds) {
  for (std::uint64_t seed = 1; seed <= histories() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Placement::Params params;
    params.min_hosts = static_cast<std::int64_t>(seed % 3);
    params.new_host_capacity = 4;
    World world(seed, params);
    for (std::int64_t i = world.pick(0, 8); i > 0; --i) {
      world.put_host(world.random_host());
    }
    std::int64_t sum = 0;
    for (std::int64_t i = world.pick(0, 6); i > 0; --i) {
      Claim claim = world.random_claim();
      claim.policy = Policy::kSpread;
      claim.one_per_host = claim.all_or_nothing = false;
      world.claims[claim.key] = claim;
      world.schedule(claim.key);
      sum += world.target(claim) * claim.unit_size;
    }
    std::map<std::int32_t, std::int64_t> order;
    for (const auto& [id, host] : world.hosts) {
      if (host.schedulable) {
        order[host.ordinal] = host.capacity;
      }
    }
    std::int64_t expected = 0;
    for (const auto& [ordinal, capacity] : order) {
      if (sum <= 0) {
        break;
      }
      sum -= capacity;
      ++expected;
    }
    while (sum > 0) {
      sum -= params.new_host_capacity;
      ++expected;
    }
    ASSERT_EQ(world.pool.required_hosts().hosts, std::max(expected, params.min_hosts));
  }
}

/// Fewest moves from `have` to any state with zones and hosts of a zone within 1 of each other.
std::int64_t fewest_moves(const std::vector<std::int64_t>& have, const std::vector<int>& zone) {
  std::int64_t total = 0;
  for (const std::int64_t n : have) {
    total += n;
  }
  std::int64_t best = total;
  std::vector<std::int64_t> goal(have.size());
  const std::function<void(std::size_t, std::int64_t)> visit = [&](std::size_t i,
                                                                   std::int64_t left) {
    if (i + 1 < goal.size()) {
      for (goal[i] = 0; goal[i] <= left; ++goal[i]) {
        visit(i + 1, left - goal[i]);
      }
      return;
    }
    goal[i] = left;
    std::map<int, std::int64_t> sums;
    std::int64_t moves = 0;
    for (std::size_t a = 0; a < goal.size(); ++a) {
      sums[zone[a]] += goal[a];
      moves += std::max<std::int64_t>(0, have[a] - goal[a]);
      for (std::size_t b = 0; b < goal.size(); ++b) {
        if (zone[a] == zone[b] && goal[a] > goal[b] + 1) {
          return;
        }
      }
    }
    for (const auto& [a, n] : sums) {
      for (const auto& [b, m] : sums) {
        if (n > m + 1) {
          return;
        }
      }
    }
    best = std::min(best, moves);
  };
  visit(0, total);
  return best;
}

TEST(Placement, RT_T091_P12_RebalanceIsFrugal) {
  for (std::uint64_t seed = 1; seed <= histories() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    const std::int64_t n = world.pick(2, 5);
    Placement::Params params;
    params.min_hosts = n;  // all but one more, which nothing may move to
    World pool(seed, params);
    std::vector<int> zone;
    std::vector<std::int64_t> have;
    Claim claim;
    claim.key = claim.uid = "c";
    for (std::int64_t i = 0; i <= n; ++i) {
      Host host = world.random_host();
      host.capacity = 20;
      host.schedulable = true;
      pool.put_host(host);
      if (i < n) {
        zone.push_back(host.zone[0]);
        have.push_back(world.pick(0, 3));
        if (have.back() > 0) {
          claim.committed.push_back({host.id, have.back()});
        }
        claim.wanted += have.back();
      }
    }
    pool.claims["c"] = claim;
    pool.pool.load(std::vector<Claim>{claim});
    ASSERT_TRUE(pool.settle());
    const std::int64_t budget = pool.pick(1, 3);
    std::int64_t moves = 0;
    for (int round = 0; round < 50; ++round) {
      const auto deltas = pool.pool.rebalance(budget);
      if (deltas.empty()) {
        break;
      }
      ASSERT_EQ(deltas.size(), 1U);
      ASSERT_LE(World::sum(deltas[0].add), budget);
      ASSERT_EQ(World::sum(deltas[0].add), World::sum(deltas[0].remove));
      ASSERT_TRUE(pool.pool.rebalance(budget).empty()) << "a write is not answered yet";
      moves += World::sum(deltas[0].add);
      if (budget == 1) {
        World::Counts zones;
        World::Counts was = World::counts(pool.claims["c"].committed);
        for (const auto& [host, count] : was) {
          zones[pool.hosts.at(host).zone] += count;
        }
        const std::string from = deltas[0].remove[0].host;
        const std::string to = deltas[0].add[0].host;
        const std::string a = pool.hosts.at(from).zone;
        const std::string b = pool.hosts.at(to).zone;
        ASSERT_TRUE(zones[a] - zones[b] >= 2 || was[from] - was[to] >= 2);
        ASSERT_TRUE(a == b || zones[a] > zones[b]);
      }
      ASSERT_LT(pool.hosts.at(deltas[0].add[0].host).ordinal, n);
      pool.write(deltas[0]);
    }
    ASSERT_EQ(moves, fewest_moves(have, zone));
  }
}

TEST(Placement, RT_T091_P12_CompactEmptiesTheHostsBehind) {
  run_histories([](World& world) { world.only_spread = true; },
                [](World& world) {
                  const std::int64_t n = world.pool.required_hosts().hosts;
                  const std::int64_t budget = world.pick(0, 4);
                  std::map<std::int32_t, std::string> order;
                  for (const auto& [id, host] : world.hosts) {
                    if (host.schedulable) {
                      order[host.ordinal] = id;
                    }
                  }
                  std::map<std::string, std::int64_t> rank;
                  std::int64_t i = 0;
                  for (const auto& [ordinal, id] : order) {
                    rank[id] = i++;
                  }
                  std::int64_t moves = 0;
                  for (const Delta& delta : world.pool.compact(budget)) {
                    for (const Placed& placed : delta.add) {
                      ASSERT_LT(rank.at(placed.host), n);
                      moves += placed.n;
                    }
                    for (const Placed& placed : delta.remove) {
                      ASSERT_GE(rank.at(placed.host), n);
                    }
                    world.write(delta);
                  }
                  ASSERT_LE(moves, budget);
                  ASSERT_TRUE(world.settle());
                });
}

}  // namespace
}  // namespace kintsugi::workers
