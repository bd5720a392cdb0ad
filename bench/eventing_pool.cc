// Times the scheduler of dispatcher pools: `bench_eventing_pool [pods] [groups]`, by default 10,000
// each, of 20 units and 4.5 units on average, entries of 2 KiB in contracts. The start from
// statuses with the decisions that it makes (0), 10,000 decisions with their answered writes one by
// one (a new group, grown by 2, shrunk by 1), a pod that is gone for good, and one look of the
// autoscaler.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "workers/eventing/scheduling/pool_scheduler.h"

namespace {

using namespace kintsugi;
using namespace kintsugi::workers;

double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

void add_pods(PoolScheduler& pool, int pods, TimePoint now) {
  pool.set_replicas(pods, now);
  for (int i = 0; i < pods; ++i) {
    DispatcherPod pod;
    pod.name = "kafka-broker-dispatcher-" + std::to_string(i);
    pod.zone = "zone-" + std::to_string(i % 3);
    pod.bound = true;
    std::ignore = pool.set_pod(pod, now);
  }
}

PoolGroup group_of(const std::string& name, int i) {
  PoolGroup group;
  group.key = "2x7f3kq0sz1m|default/" + name;
  group.uid = "uid-" + name;
  group.created = i;
  group.wanted = 1 + i * 7 % 8;
  group.partitions = 12;
  group.entry_bytes = 2'048;
  return group;
}

/// Writes what is decided. @returns how many statuses changed
std::size_t write_all(PoolScheduler& pool, const PoolChanges& changes) {
  std::size_t written = 0;
  for (const std::string& key : changes.groups) {
    const auto place = pool.place(key);
    if (place && place->write) {
      const std::vector<Placed> what = pool.begin_write(key);
      pool.written(key, what);
      ++written;
    }
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  const int pods = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int groups = argc > 2 ? std::atoi(argv[2]) : 10000;
  const TimePoint now = Clock::now();
  PoolSettings settings;
  settings.stateful_set = "kafka-broker-dispatcher";
  std::vector<PoolGroup> all;
  {
    PoolScheduler first(settings);
    add_pods(first, pods, now);
    first.load({}, {}, now);
    for (int i = 0; i < groups; ++i) {
      all.push_back(group_of("group-" + std::to_string(i), i));
      first.set(all.back());
    }
    write_all(first, first.decide(now));
    for (PoolGroup& group : all) {
      group.status = first.place(group.key)->placements;
    }
  }
  PoolScheduler pool(settings);
  const auto start = Clock::now();
  add_pods(pool, pods, now);
  pool.load(all, {}, now);
  const std::size_t moved = write_all(pool, pool.decide(now));
  const double loaded = micros(start) / 1000;

  std::vector<double> took;
  for (int i = 0; i < 10000; ++i) {
    PoolGroup group = group_of("new-" + std::to_string(i), i);
    for (const std::int64_t wanted : {group.wanted, group.wanted + 2, group.wanted + 1}) {
      group.wanted = wanted;
      const auto from = Clock::now();
      pool.set(group);
      const PoolChanges changes = pool.decide(now);
      took.push_back(micros(from));
      write_all(pool, changes);
      group.status = pool.place(group.key)->placements;
    }
    if (i % 4 != 0) {
      pool.remove(group.key);
    }
  }
  std::sort(took.begin(), took.end());
  const auto at = [&](double share) {
    return took[static_cast<std::size_t>(share * static_cast<double>(took.size() - 1))];
  };
  const std::string lost = "kafka-broker-dispatcher-0";
  const std::size_t on_it = pool.groups_on(lost).size();
  pool.pod_gone(lost, now);
  const auto gone = Clock::now();
  const std::size_t placed = write_all(pool, pool.decide(now + settings.reschedule));
  const double replaced = micros(gone);
  const auto looks = Clock::now();
  const AutoscalerView view = pool.view();
  const double looked = micros(looks);
  std::printf(
      "%d pods, %d groups: decision p50 %.1f us, p99 %.1f us, most %.1f us; start %.1f ms with %zu "
      "statuses changed; pod of %zu groups gone: %zu placed elsewhere in %.0f us; a look of the "
      "autoscaler %.0f us (%lld pods wanted)\n",
      pods, groups, at(0.5), at(0.99), took.back(), loaded, moved, on_it, placed, replaced, looked,
      static_cast<long long>(view.wanted));
  return 0;
}
