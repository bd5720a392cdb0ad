#include <gtest/gtest.h>

#include <set>

#include "workers/runtime/placement/internal/placement_world.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {
namespace {

World::Counts used(const World& world) {
  World::Counts sums;
  for (const auto& [key, claim] : world.claims) {
    for (const Placed& placed : world.pool.placements(key)) {
      sums[placed.host] += placed.n * claim.unit_size;
    }
  }
  return sums;
}

TEST(Placement, RT_T080_P1_NoHostHasMoreThanItHolds) {
  run_histories(
      [](World& world) {
        world.after = [&world] {
          for (const auto& [host, n] : used(world)) {
            ASSERT_LE(n, world.hosts.at(host).capacity) << host;
          }
        };
      },
      nothing);
}

TEST(Placement, RT_T080_P1_NorMoreEntries) {
  run_histories(
      [](World& world) {
        world.with_entries = true;
        world.after = [&world] {
          World::Counts entries;
          for (const auto& [key, claim] : world.claims) {
            for (const Placed& placed : world.pool.placements(key)) {
              entries[placed.host] += claim.entry_size;
            }
          }
          for (const auto& [host, n] : entries) {
            ASSERT_LE(n, world.hosts.at(host).entry_capacity) << host;
          }
          for (const auto& [host, n] : used(world)) {
            ASSERT_LE(n, world.hosts.at(host).capacity) << host;
          }
        };
      },
      [](World& world) {  // P-3 and P-4 hold with them, too
        Placement again{{}};
        for (const auto& [id, host] : world.hosts) {
          must(again.host_changed(host));
        }
        std::vector<Claim> all;
        for (const auto& [key, claim] : world.claims) {
          all.push_back(claim);
        }
        again.load(all);
        for (const Claim& claim : all) {
          ASSERT_TRUE(must(world.pool.schedule(claim)).empty()) << claim.key;
          ASSERT_TRUE(must(again.schedule(claim)).empty()) << claim.key;
        }
      });
}

TEST(Placement, RT_T081_P2_PlacedAndPendingAreTheTargetInOrder) {
  run_histories(
      [](World& world) {
        world.decided = [&world](const Claim& claim, const Delta& delta) {
          const auto placed = world.pool.placements(claim.key);
          ASSERT_EQ(World::sum(placed) + delta.pending, world.target(claim));
          ASSERT_EQ(delta.pending, world.pool.pending(claim.key));
          ASSERT_EQ(delta.pending > 0, delta.reason != Pending::kNone);
          if (delta.write) {
            ASSERT_EQ(placed, delta.placements);
          }
          for (const auto& list : {placed, delta.add, delta.remove}) {
            for (const Placed& entry : list) {
              ASSERT_GT(entry.n, 0);
            }
          }
          for (std::size_t i = 1; i < placed.size(); ++i) {
            ASSERT_LT(world.hosts.at(placed[i - 1].host).ordinal,
                      world.hosts.at(placed[i].host).ordinal);
          }
        };
      },
      nothing);
}

TEST(Placement, RT_T081_P2_DeltasAddUpToTheStatus) {
  run_histories(
      [](World& world) {
        world.decided = [](const Claim& claim, const Delta& delta) {
          World::Counts sums;
          for (const Placed& placed : claim.committed) {
            if (placed.n > 0) {
              sums[placed.host] += placed.n;
            }
          }
          for (const Placed& placed : delta.add) {
            sums[placed.host] += placed.n;
          }
          for (const Placed& placed : delta.remove) {
            sums[placed.host] -= placed.n;
          }
          std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
          if (delta.write) {
            ASSERT_EQ(sums, World::counts(delta.placements));
          } else {
            ASSERT_TRUE(delta.empty());
          }
        };
      },
      nothing);
}

TEST(Placement, RT_T082_P3_ASecondDecisionChangesNothing) {
  run_histories(
      [](World& world) {
        world.decided = [&world](const Claim& claim, const Delta& delta) {
          const Delta again = must(world.pool.schedule(claim));
          ASSERT_TRUE(again.empty());
          ASSERT_EQ(again.pending, delta.pending);
          ASSERT_EQ(again.write, delta.write);
          ASSERT_EQ(again.placements, delta.placements);
        };
      },
      [](World& world) {
        for (const auto& [key, claim] : world.claims) {
          const Delta delta = must(world.pool.schedule(claim));
          ASSERT_TRUE(delta.empty() && !delta.write) << key;
        }
      });
}

TEST(Placement, RT_T083_P4_ARestartMovesNothingWhateverTheOrder) {
  run_histories(nothing, [](World& world) {
    if (!world.chance(30)) {
      return;
    }
    std::vector<Host> hosts;
    std::vector<Claim> claims;
    for (const auto& [id, host] : world.hosts) {
      hosts.push_back(host);
    }
    for (const auto& [key, claim] : world.claims) {
      claims.push_back(claim);
    }
    std::shuffle(hosts.begin(), hosts.end(), world.random);
    std::shuffle(claims.begin(), claims.end(), world.random);
    Placement pool{Placement::Params{}};
    for (const Host& host : hosts) {
      must(pool.host_changed(host));
    }
    EXPECT_TRUE(pool.load(claims).normalised.empty());
    std::shuffle(claims.begin(), claims.end(), world.random);
    for (const Claim& claim : claims) {
      const Delta delta = must(pool.schedule(claim));
      ASSERT_TRUE(delta.empty() && !delta.write) << claim.key;
      ASSERT_EQ(delta.pending, world.pool.pending(claim.key));
      ASSERT_EQ(pool.placements(claim.key), world.pool.placements(claim.key));
    }
  });
}

TEST(Placement, RT_T084_P5_ALostHostMovesOnlyItsUnits) {
  run_histories(nothing, [](World& world) {
    if (!world.chance(20) || world.hosts.empty()) {
      return;
    }
    const std::string lost = world.any(world.hosts)->first;
    const auto before = world.claims;
    std::set<std::string> waited;
    for (const auto& [key, claim] : before) {
      if (world.pool.pending(key) > 0) {
        waited.insert(key);
      }
    }
    world.lose_host(lost);
    ASSERT_TRUE(world.settle());
    const bool fell = std::any_of(before.begin(), before.end(), [&world](const auto& entry) {
      return entry.second.min_hosts > world.usable();
    });
    for (const auto& [key, claim] : before) {
      if (claim.min_hosts > world.usable()) {
        continue;  // its target fell
      }
      World::Counts was = World::counts(claim.committed);
      World::Counts is = World::counts(world.claims.at(key).committed);
      std::int64_t moved = is[lost];
      for (const auto& [host, n] : is) {
        ASSERT_GE(n, host == lost ? 0 : was[host]) << key << " " << host;
        moved += host == lost ? 0 : n - was[host];
      }
      for (const auto& [host, n] : was) {
        ASSERT_TRUE(host == lost || is[host] >= n) << key << " " << host;
      }
      if (!fell || !waited.contains(key)) {  // else it may have got what others no longer want
        ASSERT_LE(moved, was[lost]) << key;
      }
    }
  });
}

TEST(Placement, RT_T084_P5_GrowthAndShrinkMoveNothingElse) {
  run_histories(nothing, [](World& world) {
    if (!world.chance(30) || world.claims.empty()) {
      return;
    }
    const auto chosen = world.any(world.claims);
    if (chosen->second.all_or_nothing && world.pool.pending(chosen->first) > 0) {
      return;  // another size may be one that fits as a whole
    }
    const auto before = world.claims;
    const bool grows = world.chance(50);
    chosen->second.wanted +=
        grows ? world.pick(1, 4) : -std::min<std::int64_t>(chosen->second.wanted, 2);
    const Delta delta = world.schedule(chosen->first);
    ASSERT_TRUE(grows ? delta.remove.empty() : delta.add.empty());
    world.write(delta);
    for (const auto& [key, claim] : world.claims) {
      if (key != chosen->first) {
        ASSERT_EQ(claim.committed, before.at(key).committed);
      }
    }
    ASSERT_TRUE(world.settle());
  });
}

TEST(Placement, RT_T085_P6_TheSameSetGivesTheSameResult) {
  for (std::uint64_t seed = 1; seed <= histories() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World one(seed);
    World two(seed);
    std::vector<Host> hosts;
    for (std::int64_t i = one.pick(1, 7); i > 0; --i) {
      hosts.push_back(one.random_host());
    }
    for (const Host& host : hosts) {
      one.put_host(host);
    }
    std::vector<Claim> claims;
    for (std::int64_t i = one.pick(1, 8); i > 0; --i) {
      Claim claim = one.random_claim();
      for (const Host& host : hosts) {
        if (one.chance(60)) {
          claim.committed.push_back({host.id, one.pick(1, 4)});
        }
      }
      claims.push_back(claim);
      one.claims[claim.key] = two.claims[claim.key] = claim;
    }
    one.pool.load(claims);
    std::shuffle(hosts.begin(), hosts.end(), one.random);
    std::shuffle(claims.begin(), claims.end(), one.random);
    const bool hosts_late = one.chance(30);
    for (int round = 0; round < 2; ++round) {
      if ((round == 0) == hosts_late) {
        two.pool.load(claims);
      } else {
        for (const Host& host : hosts) {
          two.put_host(host);
        }
      }
    }
    SCOPED_TRACE(hosts_late ? "hosts late" : "hosts first");
    if (hosts_late) {
      two.pool.load(claims);  // what stood on unknown hosts counts again
    }
    ASSERT_TRUE(one.settle() && two.settle());
    for (const auto& [key, claim] : one.claims) {
      ASSERT_EQ(one.pool.placements(key), two.pool.placements(key)) << key;
      ASSERT_EQ(claim.committed, two.claims.at(key).committed) << key;
    }
    const auto moves = one.pool.rebalance(3);
    const auto others = two.pool.rebalance(3);
    ASSERT_EQ(moves.size(), others.size());
    for (std::size_t i = 0; i < moves.size(); ++i) {
      ASSERT_EQ(moves[i].key, others[i].key);
      ASSERT_EQ(moves[i].placements, others[i].placements);
    }
  }
}

TEST(Placement, RT_T086_P7_NothingIsPlacedWhereItMayNotBe) {
  run_histories(
      [](World& world) {
        world.after = [&world] {
          for (const auto& [key, claim] : world.claims) {
            for (const Placed& placed : world.pool.placements(key)) {
              const auto host = world.hosts.find(placed.host);
              ASSERT_TRUE(host != world.hosts.end() && host->second.schedulable) << placed.host;
            }
          }
        };
        world.decided = [&world](const Claim& claim, const Delta& delta) {
          for (const Placed& placed : delta.add) {
            ASSERT_TRUE(world.hosts.at(placed.host).schedulable);
            ASSERT_TRUE(claim.pinned.empty() || claim.pinned == placed.host);
          }
        };
      },
      [](World& world) {
        World::Counts held;
        for (const auto& [key, claim] : world.claims) {
          for (const Placed& placed : claim.committed) {
            held[placed.host] += placed.n * claim.unit_size;
          }
        }
        for (const auto& [id, host] : world.hosts) {
          ASSERT_EQ(world.pool.room(id), host.capacity - held[id]) << "kept for nobody: " << id;
        }
        ASSERT_EQ(world.pool.claims(), world.claims.size());
      });
}

TEST(Placement, RT_T087_P8_NeverMoreThanIsAllowed) {
  run_histories(
      [](World& world) {
        world.decided = [&world](const Claim& claim, const Delta& delta) {
          if (claim.max_allowed) {
            ASSERT_LE(World::sum(world.pool.placements(claim.key)), *claim.max_allowed);
            ASSERT_LE(World::sum(delta.placements), *claim.max_allowed);
          }
        };
      },
      nothing);
}

TEST(Placement, RT_T088_P9_FreshUnitsSpreadOverZonesAndHosts) {
  for (std::uint64_t seed = 1; seed <= histories() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    std::map<std::string, World::Counts> zones;
    for (std::int64_t i = world.pick(1, 9); i > 0; --i) {
      Host host = world.random_host();
      host.capacity = 40;
      host.schedulable = true;
      zones[host.zone][host.id] = 0;
      world.put_host(host);
    }
    Claim claim;
    claim.key = claim.uid = "c";
    claim.wanted = world.pick(0, 40);
    for (const Placed& placed : must(world.pool.schedule(claim)).placements) {
      zones[world.hosts.at(placed.host).zone][placed.host] = placed.n;
    }
    std::set<std::int64_t> sums;
    for (const auto& [zone, hosts] : zones) {
      std::set<std::int64_t> counts;
      std::int64_t sum = 0;
      for (const auto& [host, n] : hosts) {
        counts.insert(n);
        sum += n;
      }
      ASSERT_LE(*counts.rbegin() - *counts.begin(), 1) << zone;
      sums.insert(sum);
    }
    ASSERT_LE(*sums.rbegin() - *sums.begin(), 1);
  }
}

TEST(Placement, RT_T089_P10_AllOrNothingIsNeverPartial) {
  run_histories(
      [](World& world) {
        world.after = [&world] {
          for (const auto& [key, claim] : world.claims) {
            if (claim.all_or_nothing && world.pool.pending(key) > 0) {
              ASSERT_TRUE(world.pool.placements(key).empty()) << key;
            }
          }
        };
        world.decided = [](const Claim& claim, const Delta& delta) {
          if (claim.all_or_nothing && delta.pending > 0) {
            ASSERT_TRUE(delta.empty() && !delta.write);
          }
        };
      },
      nothing);
}

TEST(Placement, RT_T092_P13_WritesUnderWayNeverOverbook) {
  for (std::uint64_t seed = 1; seed <= histories() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    std::map<std::string, Delta> flying;
    for (std::int64_t i = world.pick(1, 6); i > 0; --i) {
      world.put_host(world.random_host());
    }
    for (int step = 0; step < 40 && !HasFailure(); ++step) {
      if (world.claims.empty() || world.chance(20)) {
        const Claim claim = world.random_claim();
        world.claims[claim.key] = claim;
      }
      const auto chosen = world.any(world.claims);
      const std::string key = chosen->first;
      if (const auto flight = flying.find(key); flight != flying.end()) {
        if (world.chance(60)) {
          world.claims[key].committed = flight->second.placements;
          world.pool.write_succeeded(key, flight->second.placements);
        } else if (world.chance(50)) {
          world.pool.write_failed(key);
        } else {  // a conflict: somebody wrote the spec; decided again from the status re-read
          world.reconsider(chosen->second);
        }
        flying.erase(flight);
      } else if (world.chance(10)) {
        world.pool.release(key);
        world.claims.erase(key);
        continue;
      } else if (world.chance(30)) {
        world.reconsider(chosen->second);
      }
      if (!flying.contains(key)) {
        Delta delta = must(world.pool.schedule(world.claims[key]));
        if (delta.write) {
          flying[key] = std::move(delta);
        }
      }
      World::Counts worst;
      for (const auto& [name, claim] : world.claims) {
        World::Counts most = World::counts(claim.committed);
        if (const auto flight = flying.find(name); flight != flying.end()) {
          for (const Placed& placed : flight->second.placements) {
            most[placed.host] = std::max(most[placed.host], placed.n);
          }
        }
        for (const auto& [host, n] : most) {
          worst[host] += n * claim.unit_size;
        }
      }
      for (const auto& [host, n] : worst) {
        ASSERT_LE(n, world.hosts.at(host).capacity) << host;
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
