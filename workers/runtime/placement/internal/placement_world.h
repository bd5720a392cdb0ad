#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// For tests: the value, where there has to be one.
template <class T>
T must(Expected<T> result) {
  if (!result) {
    throw std::logic_error(result.error().to_string());
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

/// For tests: hosts and objects with their statuses around one Placement, and random events of
/// both.
struct World {
  using Counts = std::map<std::string, std::int64_t>;

  explicit World(std::uint64_t seed, Placement::Params params = {}) : random(seed), pool(params) {}

  std::mt19937_64 random;
  Placement pool;
  std::map<std::string, Host> hosts;
  std::map<std::string, Claim> claims;                      // committed: the status
  std::function<void()> after;                              // each call of the pool
  std::function<void(const Claim&, const Delta&)> decided;  // before the status is written
  bool only_spread = false;
  bool with_entries = false;  // hosts and claims have the second capacity
  int names = 0;

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class Map>
  auto any(Map& map) {
    return std::next(map.begin(), pick(0, static_cast<std::int64_t>(map.size()) - 1));
  }
  void called() const {
    if (after) {
      after();
    }
  }

  [[nodiscard]] std::int64_t usable() const {
    return std::count_if(hosts.begin(), hosts.end(),
                         [](const auto& host) { return host.second.schedulable; });
  }
  [[nodiscard]] std::int64_t target(const Claim& claim) const {
    std::int64_t t = std::max(claim.wanted, std::min(claim.min_hosts, usable()));
    t = std::min(t, claim.max_allowed.value_or(t));
    return t;
  }
  static Counts counts(const std::vector<Placed>& list) {
    Counts sums;
    for (const Placed& placed : list) {
      sums[placed.host] += placed.n;
    }
    return sums;
  }
  static std::int64_t sum(const std::vector<Placed>& list) {
    std::int64_t n = 0;
    for (const Placed& placed : list) {
      n += placed.n;
    }
    return n;
  }

  Host random_host() {
    Host host;
    host.ordinal = names++;
    host.id = "h" + std::to_string(host.ordinal);
    host.zone = std::string(1, static_cast<char>('a' + pick(0, 2)));
    host.capacity = pick(0, 9);
    host.schedulable = chance(85);
    if (chance(30)) {
      host.labels = {"net"};
    }
    if (with_entries) {
      host.entry_capacity = pick(0, 20);
      host.closed = chance(10);
    }
    return host;
  }
  Claim random_claim() {
    Claim claim;
    claim.key = "c" + std::to_string(names++);
    claim.uid = "u" + std::to_string(pick(0, 1000000)) + claim.key;
    claim.created = pick(0, 5);
    claim.policy = only_spread ? Policy::kSpread : static_cast<Policy>(pick(0, 2));
    claim.unit_size = chance(75) ? 1 : pick(2, 3);
    claim.one_per_host = chance(15);
    claim.entry_size = with_entries && chance(80) ? pick(0, 12) : 0;
    claim.all_or_nothing = chance(20);
    claim.affinity = chance(30) ? "net" : "";
    if (chance(5) && !hosts.empty()) {
      claim.pinned = any(hosts)->first;
    }
    reconsider(claim);
    return claim;
  }
  void reconsider(Claim& claim) {
    claim.wanted = pick(0, 7);
    claim.min_hosts = chance(30) ? pick(1, 4) : 0;
    claim.max_allowed.reset();
    if (chance(40)) {
      claim.max_allowed = pick(0, 8);
    }
  }

  void put_host(const Host& host) {
    hosts[host.id] = host;
    must(pool.host_changed(host));
    called();
  }
  void lose_host(std::string id) {  // a copy: it may be the key that goes
    hosts.erase(id);
    pool.host_gone(id);
    called();
  }
  void write(const Delta& delta) {
    if (delta.write) {
      claims.at(delta.key).committed = delta.placements;
      pool.write_succeeded(delta.key, delta.placements);
      called();
    }
  }
  Delta schedule(const std::string& key) {
    const Claim& claim = claims.at(key);
    Delta delta = must(pool.schedule(claim));
    called();
    if (decided) {
      decided(claim, delta);
    }
    return delta;
  }
  void release(std::string key) {
    claims.erase(key);
    pool.release(key);
    called();
  }
  /// Schedules all that is due until nothing is. False: it does not end.
  bool settle() {
    for (int round = 0; round < 100; ++round) {
      const std::vector<std::string> due = pool.take_due();
      if (due.empty()) {
        return true;
      }
      for (const std::string& key : due) {
        write(schedule(key));
      }
    }
    return false;
  }
  /// One event.
  void step() {
    const std::int64_t what = pick(0, 99);
    if (hosts.empty() || (what < 12 && hosts.size() < 9)) {
      put_host(random_host());
    } else if (what < 17) {
      lose_host(any(hosts)->first);
    } else if (what < 27) {
      Host host = any(hosts)->second;
      host.schedulable = !host.schedulable;
      put_host(host);
    } else if (what < 37) {
      Host host = any(hosts)->second;
      if (with_entries && chance(50)) {
        host.entry_capacity = pick(0, 20);
        host.closed = chance(30);
      } else {
        host.capacity = pick(0, 12);
      }
      put_host(host);
    } else if (what < 60 || claims.empty()) {
      const Claim claim = random_claim();
      claims[claim.key] = claim;
      write(schedule(claim.key));
    } else if (what < 75) {
      const auto claim = any(claims);
      reconsider(claim->second);
      if (with_entries && chance(30)) {
        claim->second.entry_size = pick(0, 12);
      }
      write(schedule(claim->first));
    } else if (what < 85) {
      release(any(claims)->first);
    } else if (what < 90) {
      for (const Delta& delta : pool.rebalance(pick(0, 5))) {
        write(delta);
      }
    } else if (what < 95) {
      for (const Delta& delta : pool.compact(pick(0, 5))) {
        write(delta);
      }
    } else {  // somebody else writes the status
      Claim& claim = any(claims)->second;
      claim.committed.clear();
      // Of an all-or-nothing claim it stays as it is while the claim is not whole.
      for (std::int64_t i = pick(0, claim.all_or_nothing ? 1 : 3); i > 0; --i) {
        claim.committed.push_back(
            {chance(10) ? "nowhere" : any(hosts)->first, pick(claim.all_or_nothing ? 1 : -1, 4)});
      }
      write(schedule(claim.key));
    }
  }
};

/// For tests: how many random histories a property gets.
inline std::uint64_t histories() {
  return std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 100000 : 300;
}

/// For tests: random histories, or the one of KINTSUGI_SEED; `check` after every settled event.
/// Stops at the first failing seed.
inline void run_histories(const std::function<void(World&)>& prepare,
                          const std::function<void(World&)>& check, int steps = 25) {
  const char* only = std::getenv("KINTSUGI_SEED");
  const std::uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
  const std::uint64_t last = only != nullptr ? first : histories();
  for (std::uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    prepare(world);
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      world.step();
      ASSERT_TRUE(world.settle());
      check(world);
    }
  }
  std::printf("%lu random histories\n", static_cast<unsigned long>(histories()));
}

inline void nothing(World& world) { (void)world; }

}  // namespace kintsugi::workers
