#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workers/eventing/model/placeable.h"
#include "workers/eventing/scheduling/autoscaler.h"
#include "workers/eventing/scheduling/pool_scheduler.h"

namespace kintsugi::workers {

/// For tests: an API server, a StatefulSet with its pods and dispatchers around one PoolScheduler
/// and its Autoscaler. Time is what the test makes it.
struct PoolWorld {
  explicit PoolWorld(PoolSettings params = {}, AutoscalerSettings scaling = {})
      : settings(with_name(std::move(params))), scaling_settings(scaling) {
    restart();
  }

  PoolSettings settings;
  AutoscalerSettings scaling_settings;
  std::unique_ptr<PoolScheduler> pool;
  std::unique_ptr<Autoscaler> scaler;
  TimePoint now = TimePoint() + seconds(1'000);

  std::map<std::string, PoolGroup> api;        // statuses as the server has them
  std::map<std::string, DispatcherPod> pods;   // that exist
  std::map<std::string, std::string> journal;  // rows of moves
  std::map<std::string, std::map<std::string, std::vector<Placed>>> contracts;  // pod -> group
  std::int64_t replicas = 0;
  std::vector<std::int64_t> scales;  // as they were written
  std::size_t status_writes = 0, contract_writes = 0;
  bool members_join = true, contracts_follow = true, pods_start = true;
  std::string zones = "";  // of pod i: the letter i of these, "" for unknown

  static PoolSettings with_name(PoolSettings params) {
    params.stateful_set = "d";
    if (params.capacity == 20) {
      params.capacity = 10;
    }
    return params;
  }
  static std::string pod_name(std::int64_t ordinal) { return "d-" + std::to_string(ordinal); }

  /// The worker dies, and another one begins with what the API and the journal have.
  void restart(bool journal_lost = false) {
    pool = std::make_unique<PoolScheduler>(settings);
    scaler = std::make_unique<Autoscaler>(scaling_settings);
    if (journal_lost) {
      journal.clear();
    }
    pool->set_replicas(replicas, now);
    for (const auto& [name, pod] : pods) {
      std::ignore = pool->set_pod(pod, now);
    }
    std::vector<PoolGroup> groups;
    for (const auto& [key, group] : api) {
      groups.push_back(group);
    }
    std::vector<PoolScheduler::MoveRow> rows;
    for (const auto& [key, row] : journal) {
      rows.push_back({key, row});
    }
    pool->load(groups, rows, now);
  }

  DispatcherPod pod(std::int64_t ordinal) const {
    DispatcherPod out;
    out.name = pod_name(ordinal);
    out.bound = true;
    const auto at = static_cast<std::size_t>(ordinal);
    out.zone = at < zones.size() ? std::string(1, zones[at]) : std::string();
    return out;
  }
  void put(const DispatcherPod& pod) {
    pods[pod.name] = pod;
    std::ignore = pool->set_pod(pod, now);
  }
  void lose(std::int64_t ordinal) {
    const std::string name = pod_name(ordinal);
    pods.erase(name);
    contracts.erase(name);
    pool->pod_gone(name, now);
  }
  void cordon(std::int64_t ordinal, bool on = true) {
    DispatcherPod one = pods.at(pod_name(ordinal));
    one.cordoned = on;
    put(one);
  }
  /// What the StatefulSet's controller does.
  void scale(std::int64_t to) {
    replicas = to;
    pool->set_replicas(to, now);
    for (std::int64_t i = 0; pods_start && i < to; ++i) {
      if (!pods.contains(pod_name(i))) {
        put(pod(i));
      }
    }
    const auto all = pods;
    for (const auto& [name, one] : all) {
      if (pod_ordinal("d", name).value() >= to) {
        lose(pod_ordinal("d", name).value());
      }
    }
  }

  PoolGroup& group(const std::string& key, std::int64_t wanted, std::int64_t created = 0,
                   std::optional<std::int64_t> partitions = std::nullopt) {
    PoolGroup& out = api[key];
    out.key = out.uid = key;
    out.wanted = partitions ? std::min(wanted, *partitions) : wanted;
    out.partitions = partitions;
    out.created = created;
    pool->set(out);
    return out;
  }
  void drop(const std::string& key) {
    api.erase(key);
    pool->remove(key);
  }

  std::int64_t on_pod(const std::string& name) const {
    std::int64_t sum = 0;
    for (const auto& [key, group] : api) {
      sum += placed_on(group.status, name);
    }
    return sum;
  }
  std::string text(const std::string& key) const {
    std::string out;
    for (const Placed& placed : api.at(key).status) {
      out += (out.empty() ? "" : " ") + std::to_string(placed.n) + "@" + placed.host.substr(2);
    }
    return out;
  }
  std::int64_t contract_sum(const std::string& pod_name) const {
    std::int64_t sum = 0;
    const auto at = contracts.find(pod_name);
    if (at != contracts.end()) {
      for (const auto& [key, placements] : at->second) {
        sum += placed_on(placements, pod_name);
      }
    }
    return sum;
  }

  /// The server takes a status.
  void store(const std::string& key, const std::vector<Placed>& placements) {
    ++status_writes;
    api.at(key).status = placements;
    for (const Placed& placed : placements) {
      const auto at = pods.find(placed.host);
      const std::int64_t capacity =
          at == pods.end() ? settings.capacity : at->second.capacity.value_or(settings.capacity);
      if (check_capacity) {
        EXPECT_LE(on_pod(placed.host), capacity) << key << " on " << placed.host;
      }
    }
  }
  bool check_capacity = true;

  /// The pod's reconciler: its contract as it is to be, and what the pod then says.
  void write_contract(const std::string& name) {
    if (!pods.contains(name) || !contracts_follow) {
      return;
    }
    std::map<std::string, std::vector<Placed>> wish;
    for (const std::string& key : pool->groups_on(name)) {
      wish[key] = pool->contract(key);
    }
    if (contracts[name] != wish) {
      contracts[name] = wish;
      ++contract_writes;
    }
  }
  void tell(const std::string& name) {
    const auto at = contracts.find(name);
    if (at == contracts.end() || !pods.contains(name) || !pods.at(name).bound) {
      return;
    }
    const auto held = at->second;
    SeenDecisions seen;
    for (const auto& [key, placements] : held) {
      seen[key] = {1, placements_digest(placements)};
    }
    pool->told(name, seen);
    for (const auto& [key, placements] : held) {
      if (members_join) {
        pool->joined(name, key, placed_on(placements, name));
      }
    }
  }
  void note_moves(const PoolChanges& changes) {
    for (const std::string& key : changes.moves) {
      if (const auto row = pool->move_row(key)) {
        journal[key] = *row;
      } else {
        journal.erase(key);
      }
    }
  }
  /// One pass of what the controllers do. @returns whether there was anything to do
  bool pass() {
    const auto all = pods;
    for (const auto& [name, one] : all) {
      tell(name);
    }
    const PoolChanges changes = pool->decide(now);
    note_moves(changes);
    for (const std::string& name : changes.pods) {
      write_contract(name);
    }
    for (const std::string& key : changes.groups) {
      write(key);
    }
    return !changes.empty();
  }
  void write(const std::string& key) {
    const auto place = pool->place(key);
    if (place && place->write) {
      const std::vector<Placed> what = pool->begin_write(key);
      store(key, what);
      pool->written(key, what);
    }
  }
  void settle() {
    for (int i = 0; i < 1'000; ++i) {
      if (!pass()) {
        return;
      }
    }
    ADD_FAILURE() << "it does not come to rest";
  }
  /// The autoscaler looks, and what it wants is done. @returns whether it wanted anything
  bool look() {
    const AutoscalerStep step = scaler->look(pool->view(), now);
    if (step.scale_to) {
      scales.push_back(*step.scale_to);
      scale(*step.scale_to);
      scaler->answered();
    }
    if (step.compact) {
      scaler->moved(pool->compact(now), now);
    } else if (step.rebalance) {
      scaler->moved(pool->rebalance(now), now);
    }
    settle();
    return step.scale_to || step.compact || step.rebalance;
  }
  /// Everything that happens by itself until then.
  void run(Duration time) {
    const TimePoint end = now + time;
    settle();
    for (int i = 0; i < 100'000; ++i) {
      while (look()) {
      }
      std::optional<TimePoint> next = scaler->next_timer();
      if (const auto other = pool->next_timer(); other && (!next || *other < *next)) {
        next = other;
      }
      if (!next || *next > end) {
        break;
      }
      now = std::max(*next, now + milliseconds(1));
      settle();
    }
    now = end;
    settle();
  }
};

}  // namespace kintsugi::workers
