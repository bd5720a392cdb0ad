// Times the placement library: `bench_placement [hosts] [claims] [capacity]`, by default 10,000,
// 10,000 and 20 units (the claims want 4.5 each). One line per policy: a pool of that size is
// loaded from what it placed before (load and verify, with the moves that makes: 0), then 10,000
// decisions with their answered writes are timed one by one: a new claim, the claim grown by 2,
// shrunk by 1, released.
#include "workers/runtime/placement/placement.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace kintsugi::workers;
using Clock = std::chrono::steady_clock;

double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

Delta decide(Placement& pool, const Claim& claim) {
  auto delta = pool.schedule(claim);
  if (!delta) {
    std::fprintf(stderr, "%s\n", delta.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*delta);
}

void write(Placement& pool, Claim& claim, const Delta& delta) {
  if (delta.write) {
    claim.committed = delta.placements;
    pool.write_succeeded(claim.key, delta.placements);
  }
}

Host host_of(int i, int capacity) {
  Host host;
  host.id = "dispatcher-" + std::to_string(i);
  host.ordinal = i;
  host.zone = "zone-" + std::to_string(i % 3);
  host.capacity = capacity;
  host.labels = {"net-" + std::to_string(i % 500)};
  return host;
}

Claim claim_of(const std::string& name, Policy policy, int i) {
  Claim claim;
  claim.key = "cluster|default/" + name;
  claim.uid = "uid-" + name;
  claim.created = i;
  claim.wanted = 1 + i * 7 % 8;
  claim.policy = policy;
  claim.affinity = "net-" + std::to_string(i % 1000);
  return claim;
}

void run(Policy policy, const char* name, int hosts, int claims, int capacity) {
  Placement first{Placement::Params{}};
  std::vector<Claim> all;
  for (int i = 0; i < hosts; ++i) {
    (void)first.host_changed(host_of(i, capacity));
  }
  for (int i = 0; i < claims; ++i) {
    all.push_back(claim_of("group-" + std::to_string(i), policy, i));
    write(first, all.back(), decide(first, all.back()));
  }
  Placement pool{Placement::Params{}};
  for (int i = 0; i < hosts; ++i) {
    (void)pool.host_changed(host_of(i, capacity));
  }
  const auto start = Clock::now();
  pool.load(all);
  const double loaded = micros(start) / 1000;
  std::size_t moves = 0;
  for (const Claim& claim : all) {
    moves += decide(pool, claim).empty() ? 0 : 1;
  }
  const double verified = micros(start) / 1000;

  std::vector<double> took;
  for (int i = 0; i < 10000; ++i) {
    Claim claim = claim_of("new-" + std::to_string(i), policy, i);
    for (const std::int64_t wanted : {claim.wanted, claim.wanted + 2, claim.wanted + 1}) {
      claim.wanted = wanted;
      const auto from = Clock::now();
      const Delta delta = decide(pool, claim);
      took.push_back(micros(from));
      write(pool, claim, delta);
    }
    if (i % 4 != 0) {
      pool.release(claim.key);
    }
  }
  std::sort(took.begin(), took.end());
  const auto at = [&](double share) {
    return took[static_cast<std::size_t>(share * static_cast<double>(took.size() - 1))];
  };
  const auto tick = Clock::now();
  const std::size_t rebalanced = pool.rebalance(pool.tick_budget()).size();
  const double rebalance = micros(tick) / 1000;
  std::printf(
      "%-13s %d hosts, %d claims: decision p50 %.1f us, p99 %.1f us, most %.1f us; "
      "load %.1f ms, with verification %.1f ms, %zu moves; rebalance %.1f ms (%zu claims)\n",
      name, hosts, claims, at(0.5), at(0.99), took.back(), loaded, verified, moves, rebalance,
      rebalanced);
}

}  // namespace

int main(int argc, char** argv) {
  const int hosts = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int claims = argc > 2 ? std::atoi(argv[2]) : 10000;
  const int capacity = argc > 3 ? std::atoi(argv[3]) : 20;
  run(Policy::kSpread, "spread", hosts, claims, capacity);
  run(Policy::kMostFree, "most-free", hosts, claims, capacity);
  run(Policy::kAntiAffinity, "anti-affinity", hosts, claims, capacity);
  return 0;
}
