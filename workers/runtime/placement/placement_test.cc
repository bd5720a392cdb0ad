#include "workers/runtime/placement/placement.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "workers/runtime/placement/internal/picker.h"
#include "workers/runtime/placement/internal/placement_world.h"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace kintsugi::workers {
namespace {

using List = std::vector<Placed>;

Host pod(std::int32_t ordinal, std::int64_t capacity, std::string zone = "") {
  Host host;
  host.id = "p" + std::to_string(ordinal);
  host.ordinal = ordinal;
  host.capacity = capacity;
  host.zone = std::move(zone);
  return host;
}

Claim group(const std::string& key, std::int64_t wanted, std::int64_t created = 0) {
  Claim claim;
  claim.key = claim.uid = key;
  claim.wanted = wanted;
  claim.created = created;
  return claim;
}

std::string text(const List& list) {
  std::string all;
  for (const Placed& placed : list) {
    all += std::to_string(placed.n) + "@" + placed.host + " ";
  }
  return all;
}

/// Decides, and writes the status.
Delta apply(Placement& pool, Claim& claim) {
  Delta delta = must(pool.schedule(claim));
  if (delta.write) {
    claim.committed = delta.placements;
    pool.write_succeeded(claim.key, delta.placements);
  }
  return delta;
}

TEST(Placement, TwoPodsGetFifteenAsEightAndSeven) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(pod(1, 10)));
  Claim claim = group("g", 15);
  const Delta delta = apply(pool, claim);
  EXPECT_EQ(text(delta.placements), "8@p0 7@p1 ");
  EXPECT_EQ(text(delta.add), "8@p0 7@p1 ");
  EXPECT_TRUE(delta.remove.empty());
  EXPECT_EQ(delta.pending, 0);
  claim.wanted = 10;  // from the highest ordinal down
  EXPECT_EQ(text(apply(pool, claim).placements), "8@p0 2@p1 ");
}

TEST(Placement, APodThatIsAddedTakesWhatIsPendingThenTheRebalancerEvens) {
  Placement pool{{.new_host_capacity = 10}};
  must(pool.host_changed(pod(0, 10)));
  Claim claim = group("g", 15);
  Delta delta = apply(pool, claim);
  EXPECT_EQ(text(delta.placements), "10@p0 ");
  EXPECT_EQ(delta.pending, 5);
  EXPECT_EQ(pending_name(delta.reason), "NoRoom");
  EXPECT_EQ(pool.required_hosts().hosts, 2);
  EXPECT_EQ(pool.required_hosts().ordinals, 2);
  std::ignore = pool.take_due();
  must(pool.host_changed(pod(1, 10)));
  EXPECT_EQ(pool.take_due(), std::vector<std::string>{"g"});
  EXPECT_EQ(text(apply(pool, claim).placements), "10@p0 5@p1 ");
  auto moves = pool.rebalance(1);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(text(moves[0].placements), "9@p0 6@p1 ");
  pool.write_succeeded("g", moves[0].placements);
  moves = pool.rebalance(100);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(text(moves[0].remove) + text(moves[0].add), "1@p0 1@p1 ");
  pool.write_succeeded("g", moves[0].placements);
  EXPECT_TRUE(pool.rebalance(100).empty());
  EXPECT_EQ(pool.tick_budget(), 1);
}

TEST(Placement, ACordonedPodDoesNotCountAsRoom) {
  Placement pool{{.new_host_capacity = 10}};
  Host cordoned = pod(1, 10);
  cordoned.schedulable = false;
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(cordoned));
  Claim claim = group("g", 15);
  EXPECT_EQ(apply(pool, claim).pending, 5);
  EXPECT_EQ(pool.required_hosts().hosts, 2);
  EXPECT_EQ(pool.required_hosts().ordinals, 3);  // p1 exists, p2 is the one to come
}

TEST(Placement, WithoutHostsEverythingIsPendingAndOneIsRequired) {
  Placement pool{{}};
  Claim claim = group("g", 1);
  const Delta delta = apply(pool, claim);
  EXPECT_EQ(delta.pending, 1);
  EXPECT_EQ(delta.reason, Pending::kNoHosts);
  EXPECT_FALSE(delta.write);
  EXPECT_EQ(pool.required_hosts().hosts, 1);
  EXPECT_EQ(pool.required_hosts().ordinals, 1);
}

TEST(Placement, MinHostsRaiseTheTargetUpToWhatIsAllowed) {
  Placement pool{{}};
  for (int i = 0; i < 3; ++i) {
    must(pool.host_changed(pod(i, 20)));
  }
  Claim many = group("many", 1);
  many.min_hosts = 3;
  many.max_allowed = 12;
  EXPECT_EQ(text(apply(pool, many).placements), "1@p0 1@p1 1@p2 ");
  Claim few = group("few", 1);
  few.min_hosts = 3;
  few.max_allowed = 2;
  EXPECT_EQ(text(apply(pool, few).placements), "1@p0 1@p1 ");
  must(pool.host_changed(pod(3, 20)));
  EXPECT_TRUE(pool.take_due().empty());
  pool.host_gone("p3");
  pool.host_gone("p2");
  EXPECT_EQ(pool.take_due(), (std::vector<std::string>{"many", "few"}));
  EXPECT_EQ(text(apply(pool, many).placements), "1@p0 1@p1 ");
}

TEST(Placement, AFullHostLosesTheYoungestClaims) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 20)));
  Claim old = group("old", 8, 1);
  Claim young = group("young", 8, 2);
  apply(pool, young);
  apply(pool, old);
  std::ignore = pool.take_due();
  must(pool.host_changed(pod(0, 10)));
  EXPECT_EQ(text(pool.placements("old")), "8@p0 ");
  EXPECT_EQ(text(pool.placements("young")), "2@p0 ");
  EXPECT_EQ(pool.take_due(), std::vector<std::string>{"young"});
  const Delta delta = apply(pool, young);
  EXPECT_EQ(text(delta.remove), "6@p0 ");
  EXPECT_EQ(delta.pending, 6);
}

TEST(Placement, AHostThatComesBackBeforeTheWriteKeepsItsUnits) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(pod(1, 10)));
  Claim claim = group("g", 4);
  apply(pool, claim);
  pool.host_gone("p1");
  EXPECT_EQ(text(pool.placements("g")), "2@p0 ");
  must(pool.host_changed(pod(1, 10)));
  const Delta delta = apply(pool, claim);
  EXPECT_TRUE(delta.empty() && !delta.write);
  EXPECT_EQ(text(pool.placements("g")), "2@p0 2@p1 ");
}

TEST(Placement, CompactionEmptiesTheHighestOrdinals) {
  Placement pool{{}};
  std::vector<Claim> claims;
  for (int i = 0; i < 3; ++i) {
    must(pool.host_changed(pod(i, 20)));
  }
  Claim claim = group("g", 5);
  claim.committed = {{"p0", 2}, {"p1", 2}, {"p2", 1}};
  pool.load(std::span(&claim, 1));
  ASSERT_EQ(pool.required_hosts().hosts, 1);
  auto moves = pool.compact(2);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(text(moves[0].placements), "4@p0 1@p1 ");
  EXPECT_EQ(pool.room("p2"), 19) << "held until the write is answered";
  pool.write_succeeded("g", moves[0].placements);
  EXPECT_EQ(pool.room("p2"), 20);
  moves = pool.compact(2);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(text(moves[0].placements), "5@p0 ");
}

TEST(Placement, MostFreeTakesTheEmptiestThenTheLeastUsedThenTheFirstName) {
  Placement pool{{}};
  for (const char* id : {"b2", "b1", "b0"}) {
    Host host = pod(0, 100);
    host.id = id;
    must(pool.host_changed(host));
  }
  const auto place = [&](const std::string& key, std::int64_t size) {
    Claim claim = group(key, 1);
    claim.policy = Policy::kMostFree;
    claim.unit_size = size;
    return text(apply(pool, claim).placements);
  };
  EXPECT_EQ(place("a", 10), "1@b0 ");
  EXPECT_EQ(place("b", 20), "1@b1 ");
  EXPECT_EQ(place("c", 30), "1@b2 ");
  EXPECT_EQ(place("d", 10), "1@b0 ");
  EXPECT_EQ(place("e", 1), "1@b1 ") << "as free as b0, but of one claim";
  Claim partitions = group("p", 4);
  partitions.policy = Policy::kMostFree;
  partitions.one_per_host = true;
  const Delta delta = apply(pool, partitions);
  EXPECT_EQ(delta.placements.size(), 3U);
  EXPECT_EQ(delta.reason, Pending::kHostLimit);
}

TEST(Placement, AllOrNothingWaitsForEnoughHosts) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(pod(1, 10)));
  Claim claim = group("g", 3);
  claim.policy = Policy::kMostFree;
  claim.all_or_nothing = true;
  claim.min_hosts = 3;
  Delta delta = apply(pool, claim);
  EXPECT_TRUE(delta.empty());
  EXPECT_EQ(delta.pending, 3);
  EXPECT_EQ(delta.reason, Pending::kTooFew);
  EXPECT_EQ(pool.required_hosts().hosts, 3);
  must(pool.host_changed(pod(2, 10)));
  delta = apply(pool, claim);
  EXPECT_EQ(text(delta.placements), "1@p0 1@p1 1@p2 ");
  pool.host_gone("p1");  // what is left stays in the status until the claim can be whole again
  delta = apply(pool, claim);
  EXPECT_TRUE(delta.empty() && !delta.write);
  EXPECT_EQ(delta.pending, 3);
  EXPECT_EQ(pool.room("p0"), 9);
  must(pool.host_changed(pod(3, 10)));
  delta = apply(pool, claim);
  EXPECT_EQ(text(delta.add) + text(delta.remove), "1@p3 1@p1 ");
}

TEST(Placement, RT_T083_P4_WhatIsNotWholeHoldsItsPlaceByAgeBeforeAndAfterARestart) {
  Claim old_one = group("old", 5), young = group("young", 1);
  old_one.created = 1;
  old_one.unit_size = 3;
  old_one.all_or_nothing = true;
  young.created = 2;
  Placement pool{{}};
  const auto settle = [&] {
    for (std::vector<std::string> due = pool.take_due(); !due.empty(); due = pool.take_due()) {
      for (const std::string& key : due) {
        apply(pool, key == "old" ? old_one : young);
      }
    }
  };
  must(pool.host_changed(pod(0, 2)));
  apply(pool, young);
  old_one.committed = {{"p0", 4}};  // more than the host holds: nobody placed that
  apply(pool, old_one);
  settle();
  EXPECT_EQ(text(young.committed), "1@p0 ") << "no unit of the old one fits";
  must(pool.host_changed(pod(0, 6)));
  settle();
  EXPECT_EQ(text(young.committed), "") << "two units fit, and it is the older one";
  EXPECT_EQ(pool.pending("old"), 5);
  Placement again{{}};
  must(again.host_changed(pod(0, 6)));
  const std::vector<Claim> claims{young, old_one};
  (void)again.load(claims);
  for (const Claim& claim : claims) {
    const Delta delta = must(again.schedule(claim));
    EXPECT_TRUE(delta.empty() && !delta.write) << claim.key;
  }
}

TEST(Placement, AntiAffinityKeepsOneAHostAndPrefersTheLabel) {
  Placement pool{{}};
  for (int i = 0; i < 6; ++i) {
    Host host = pod(i, 128, i < 3 ? "a" : "b");
    if (i == 2 || i == 4) {
      host.labels = {"net-1"};
    }
    must(pool.host_changed(host));
  }
  Claim claim = group("g", 2);
  claim.policy = Policy::kAntiAffinity;
  claim.affinity = "net-1";
  EXPECT_EQ(text(apply(pool, claim).placements), "1@p2 1@p4 ");
  claim.wanted = 9;
  const Delta delta = apply(pool, claim);
  EXPECT_EQ(delta.placements.size(), 6U);
  EXPECT_EQ(delta.pending, 3);
  EXPECT_EQ(delta.reason, Pending::kHostLimit);
  EXPECT_EQ(pool.required_hosts().hosts, 9);
  claim.wanted = 3;
  EXPECT_EQ(apply(pool, claim).placements.size(), 3U);
}

TEST(Placement, APinnedClaimGoesNowhereElse) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(pod(1, 2)));
  Claim claim = group("g", 3);
  claim.pinned = "p1";
  Delta delta = apply(pool, claim);
  EXPECT_EQ(text(delta.placements), "2@p1 ");
  EXPECT_EQ(delta.reason, Pending::kPinned);
  claim = group("h", 1);
  claim.pinned = "never heard of";
  EXPECT_EQ(apply(pool, claim).reason, Pending::kPinned);
}

TEST(Placement, UnitsOfOneClaimAreBounded) {
  Placement pool{{.max_units = 100}};
  must(pool.host_changed(pod(0, 2147483647)));
  Claim claim = group("g", 2147483647);
  const Delta delta = apply(pool, claim);
  EXPECT_EQ(text(delta.placements), "100@p0 ");
  EXPECT_EQ(delta.pending, 2147483547);
  EXPECT_EQ(delta.reason, Pending::kUnitLimit);
}

TEST(Placement, BadInput_AnInvalidClaimKeepsItsOldPlacement) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  Claim claim = group("g", 4);
  apply(pool, claim);
  const auto refused = [&](const std::function<void(Claim&)>& spoil, std::string_view field) {
    Claim bad = claim;
    spoil(bad);
    const auto result = pool.schedule(bad);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::kInvalid);
    EXPECT_EQ(result.error().message().substr(0, field.size()), field);
    EXPECT_EQ(text(pool.placements("g")), "4@p0 ");
    EXPECT_TRUE(must(pool.schedule(claim)).empty());
  };
  refused([](Claim& c) { c.wanted = -1; }, "wanted: -1");
  refused([](Claim& c) { c.wanted = 2147483648; }, "wanted: 2147483648");
  refused([](Claim& c) { c.max_allowed = -1; }, "maxAllowedVReplicas: -1");
  refused([](Claim& c) { c.max_allowed = 2147483648; }, "maxAllowedVReplicas");
  refused([](Claim& c) { c.min_hosts = -2; }, "minHosts");
  refused([](Claim& c) { c.unit_size = 0; }, "unitSize");
  refused([](Claim& c) { c.unit_size = 2147483648; }, "unitSize");
  refused([](Claim& c) { c.key.clear(); }, "key");
  EXPECT_EQ(pool.claims(), 1U);
}

TEST(Placement, BadInput_AnInvalidHostStaysAsItWas) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  EXPECT_EQ(pool.host_changed(pod(0, -1)).error().code(), Errc::kInvalid);
  EXPECT_EQ(pool.host_changed(pod(0, 2147483648)).error().code(), Errc::kInvalid);
  EXPECT_EQ(pool.host_changed(Host()).error().code(), Errc::kInvalid);
  EXPECT_EQ(pool.room("p0"), 10);
}

TEST(Placement, BadInput_PlacementsAreNormalisedOnLoad) {
  Placement pool{{}};
  must(pool.host_changed(pod(0, 10)));
  must(pool.host_changed(pod(1, 10)));
  Claim twice = group("twice", 5);
  twice.committed = {{"p1", 1}, {"p0", 2}, {"p1", 2}};
  Claim negative = group("negative", 1);
  negative.committed = {{"p0", -3}, {"p0", 0}, {"p1", 1}};
  Claim huge = group("huge", 3, 5);
  huge.committed = {{"p0", 2147483647}, {"p1", 2147483647}, {"gone", 7}};
  Claim wrong = group("wrong", -1);
  wrong.committed = {{"p0", 1}};
  std::vector<Claim> claims = {twice, negative, huge, wrong};
  const auto loaded = pool.load(claims);
  EXPECT_EQ(loaded.normalised, (std::vector<std::string>{"twice", "negative", "huge"}));
  EXPECT_EQ(loaded.invalid, std::vector<std::string>{"wrong"});
  EXPECT_EQ(text(pool.placements("wrong")), "1@p0 ");
  EXPECT_EQ(pool.pending("wrong"), 0);
  Delta delta = apply(pool, twice);
  EXPECT_TRUE(delta.empty());
  EXPECT_TRUE(delta.write) << "in order, each host once";
  EXPECT_EQ(text(delta.placements), "2@p0 3@p1 ");
  delta = apply(pool, negative);
  EXPECT_EQ(text(delta.placements), "1@p1 ");
  delta = apply(pool, huge);
  EXPECT_EQ(World::sum(delta.placements), 3);
  EXPECT_EQ(pool.room("p0") + pool.room("p1"), 20 - 5 - 1 - 3 - 1);
}

TEST(Placement, RT_T093_ARestartWith2000ClaimsMovesNothing) {
  World world(93);
  Placement::Params params;
  for (int i = 0; i < 120; ++i) {
    world.put_host(pod(i, 100, std::string(1, static_cast<char>('a' + i % 3))));
  }
  for (int i = 0; i < 2000; ++i) {
    Claim claim = group("c" + std::to_string(i), world.pick(0, 9), world.pick(0, 50));
    claim.policy = static_cast<Policy>(i % 3);
    world.claims[claim.key] = claim;
    world.write(world.schedule(claim.key));
  }
  for (int i = 0; i < 12; ++i) {
    world.lose_host("p" + std::to_string(i * 7));
  }
  ASSERT_TRUE(world.settle());
  Placement again{params};
  std::vector<Claim> claims;
  for (const auto& [key, claim] : world.claims) {
    claims.push_back(claim);
  }
  for (const auto& [id, host] : world.hosts) {
    must(again.host_changed(host));
  }
  std::shuffle(claims.begin(), claims.end(), world.random);
  again.load(claims);
  for (const Claim& claim : claims) {
    const Delta delta = must(again.schedule(claim));
    ASSERT_TRUE(delta.empty() && !delta.write) << claim.key;
  }
}

TEST(Placement, RT_T094_ALostHostLeavesOtherStatusesAsTheyAre) {
  World world(94);
  for (int i = 0; i < 20; ++i) {
    world.put_host(pod(i, 200));
  }
  for (int i = 0; i < 500; ++i) {
    const Claim claim = group("c" + std::to_string(i), world.pick(1, 4));
    world.claims[claim.key] = claim;
    world.write(world.schedule(claim.key));
  }
  const auto before = world.claims;
  world.lose_host("p0");
  ASSERT_TRUE(world.settle());
  int moved = 0;
  for (const auto& [key, claim] : before) {
    const bool was_there = World::counts(claim.committed).contains("p0");
    moved += was_there ? 1 : 0;
    EXPECT_EQ(claim.committed == world.claims[key].committed, !was_there) << key;
  }
  EXPECT_GT(moved, 0);
}

TEST(Placement, RT_T095_ConflictsOnEverySecondWriteBookNothingTwice) {
  World world(95);
  for (int i = 0; i < 10; ++i) {
    world.put_host(pod(i, 30));
  }
  int tries = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 60; ++i) {
      const std::string key = "c" + std::to_string(i);
      if (round == 0) {
        world.claims[key] = group(key, 0);
      }
      world.claims[key].wanted = world.pick(0, 5);
      for (;;) {
        const Delta delta = world.schedule(key);
        if (++tries % 2 == 0 && delta.write) {
          // 409: somebody wrote the object; sometimes what it wants is another thing now.
          world.claims[key].wanted = world.chance(50) ? world.pick(0, 5) : world.claims[key].wanted;
          const Delta again = must(world.pool.schedule(world.claims[key]));
          if (world.claims[key].wanted == World::sum(delta.placements)) {
            EXPECT_EQ(again.placements, delta.placements) << "the reservation is kept";
          }
          continue;
        }
        world.write(delta);
        break;
      }
    }
  }
  World::Counts sums;
  for (const auto& [key, claim] : world.claims) {
    EXPECT_EQ(World::sum(claim.committed), claim.wanted);
    for (const Placed& placed : claim.committed) {
      sums[placed.host] += placed.n;
    }
  }
  for (const auto& [id, host] : world.hosts) {
    EXPECT_LE(sums[id], 30);
    EXPECT_EQ(world.pool.room(id), 30 - sums[id]);
  }
}

/// The rules of 10.2 written down once more, with a look at every host for every unit.
List place_by_scan(const World& world, const Claim& claim) {
  const std::uint64_t hash = XXH64(claim.uid.data(), claim.uid.size(), 0);
  std::map<std::string, std::int64_t> mine;
  std::map<std::string, std::int64_t> room;
  std::map<std::string, std::int64_t> claims;
  for (const auto& [id, host] : world.hosts) {
    room[id] = world.pool.room(id);
    for (const auto& [key, other] : world.claims) {
      claims[id] += World::counts(other.committed).contains(id) ? 1 : 0;
    }
  }
  const bool once = claim.one_per_host || claim.policy == Policy::kAntiAffinity;
  for (std::int64_t i = 0; i < world.target(claim); ++i) {
    using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::uint64_t,
                            std::uint64_t, std::string>;
    std::optional<Rank> best;
    for (const auto& [id, host] : world.hosts) {
      if (!host.schedulable || room[id] < claim.unit_size || (once && mine[id] > 0) ||
          (!claim.pinned.empty() && claim.pinned != id)) {
        continue;
      }
      std::int64_t zone = 0;
      for (const auto& [other, n] : mine) {
        zone += world.hosts.at(other).zone == host.zone ? n : 0;
      }
      const std::uint64_t own = XXH64(id.data(), id.size(), 0);
      Rank rank;
      switch (claim.policy) {
        case Policy::kSpread:
          rank = {zone, mine[id], mine[id] > 0 ? 0 : 1, host.ordinal, 0, ~rendezvous(hash, own),
                  id};
          break;
        case Policy::kMostFree:
          rank = {mine[id] > 0 ? 1 : 0, -room[id], claims[id], 0, 0, 0, id};
          break;
        case Policy::kAntiAffinity:
          rank = {zone,
                  host.labels.empty() || claim.affinity != host.labels[0] ? 1 : 0,
                  (host.capacity - room[id]) * 8 / host.capacity,
                  0,
                  ~rendezvous(hash, (own >> 58U) + 1),
                  ~rendezvous(hash, own),
                  id};
          break;
      }
      if (!best || rank < *best) {
        best = rank;
      }
    }
    if (!best) {
      break;
    }
    const std::string& id = std::get<6>(*best);
    claims[id] += mine[id] == 0 ? 1 : 0;
    ++mine[id];
    room[id] -= claim.unit_size;
  }
  std::map<std::int32_t, Placed> order;
  for (const auto& [id, n] : mine) {
    if (n > 0) {
      order[world.hosts.at(id).ordinal] = {id, n};
    }
  }
  List list;
  for (const auto& [ordinal, placed] : order) {
    list.push_back(placed);
  }
  return list;
}

TEST(Placement, TheIndexesFindWhatAScanOfAllHostsFinds) {
  const std::uint64_t seeds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 20000 : 300;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int step = 0; step < 20 && !HasFailure(); ++step) {
      world.step();
      ASSERT_TRUE(world.settle());
      Claim claim = world.random_claim();
      claim.all_or_nothing = false;
      const List expected = place_by_scan(world, claim);
      const Delta delta = must(world.pool.schedule(claim));
      ASSERT_EQ(text(delta.placements), text(expected));
      world.pool.write_failed(claim.key);
      world.pool.release(claim.key);
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
