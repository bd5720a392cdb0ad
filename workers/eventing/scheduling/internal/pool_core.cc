// Groups: what is decided for them, and how statuses and contracts follow.
#include "workers/eventing/scheduling/internal/pool_core.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {

PoolScheduler::Core::Core(PoolSettings params)
    : settings(std::move(params)),
      placement({.min_hosts = settings.min_replicas,
                 .new_host_capacity = settings.capacity,
                 .new_host_entries = settings.contract_bytes}) {}

void PoolScheduler::Core::mark_due(Group& group) {
  if (!group.due) {
    group.due = true;
    due_.push_back(group.claim.key);
  }
}

void PoolScheduler::Core::set(const PoolGroup& fresh) {
  auto [at, is_new] = groups.try_emplace(fresh.key);
  Group& group = at->second;
  const bool other_status = is_new || group.claim.status != fresh.status;
  group.claim = fresh;
  if (other_status && group.move && !group.in_flight &&
      canonical_placements(fresh.status) != canonical_placements(group.move->from())) {
    end_move(group);  // somebody else has written: the move began at what is no more
  }
  update_contract(group);
  mark_due(group);
}

void PoolScheduler::Core::remove(std::string_view key) {
  const auto at = groups.find(key);
  if (at == groups.end()) {
    return;
  }
  Group& group = at->second;
  end_move(group);
  group.claim.status.clear();
  update_contract(group);
  changes_.groups.erase(at->first);
  pending_room.erase(at->first);
  placement.release(key);
  groups.erase(at);
}

/// Its status is being written, or its old pods are losing it: what is new waits for the end.
bool PoolScheduler::Core::is_busy(const Group& group) const noexcept {
  return group.in_flight || (group.move && group.move->step() >= MoveStep::kRemoving);
}

Claim PoolScheduler::Core::claim_of(const Group& group) const {
  Claim claim;
  claim.key = group.claim.key;
  claim.uid = group.claim.uid;
  claim.created = group.claim.created;
  claim.committed = group.claim.status;
  if (group.claim.entry_bytes > settings.contract_bytes) {
    return claim;  // it fits in no contract: it has no place
  }
  claim.wanted = group.claim.wanted;
  claim.max_allowed = group.claim.partitions;
  claim.min_hosts = group.claim.wanted > 0 ? settings.min_replicas : 0;
  claim.entry_size = group.claim.entry_bytes;
  return claim;
}

PoolChanges PoolScheduler::Core::decide(TimePoint now) {
  if (!loaded) {
    return {};
  }
  pods_pass(now);
  moves_pass(now);
  // What one decision takes off another group is due after it: at most a few rounds.
  for (int round = 0; round < 8; ++round) {
    for (const std::string& key : placement.take_due()) {
      if (const auto at = groups.find(key); at != groups.end()) {
        mark_due(at->second);
      }
    }
    if (due_.empty()) {
      break;
    }
    std::vector<Group*> order;
    for (const std::string& key : std::exchange(due_, {})) {
      if (const auto at = groups.find(key); at != groups.end() && at->second.due) {
        order.push_back(&at->second);
      }
    }
    std::sort(order.begin(), order.end(), [](const Group* a, const Group* b) {
      const PoolGroup &x = a->claim, &y = b->claim;
      return std::tie(x.created, x.uid, x.key) < std::tie(y.created, y.uid, y.key);
    });
    bool progress = false;
    for (Group* const group : order) {
      if (is_busy(*group)) {
        due_.push_back(group->claim.key);  // still due
        continue;
      }
      group->due = false;
      decide_one(*group, now);
      progress = true;
    }
    if (!progress) {
      break;
    }
  }
  return std::exchange(changes_, {});
}

void PoolScheduler::Core::decide_one(Group& group, TimePoint now) {
  group.too_large = group.claim.entry_bytes > settings.contract_bytes;
  auto delta = placement.schedule(claim_of(group));
  if (!delta) {
    group.fault = delta.error().message();
    changes_.groups.insert(group.claim.key);
    return;
  }
  group.fault.clear();
  const bool same = !delta->write && !group.write && group.target == delta->placements &&
                    group.pending == delta->pending && group.why == delta->reason;
  group.target = delta->placements;
  group.pending = delta->pending;
  group.why = delta->reason;
  group.write = delta->write;
  note_place(group);
  if (!group.write) {
    end_move(group);
  } else if (group.move && group.move->to() == group.target) {
    // It is on its way there already.
  } else if (leaves_live_pod(group, group.target)) {
    begin_move(group, group.target, now);
  } else {
    end_move(group);
  }
  update_contract(group);
  if (!same) {
    changes_.groups.insert(group.claim.key);
  }
}

void PoolScheduler::Core::note_place(Group& group) {
  const bool room =
      group.pending > 0 && (group.why == Pending::kNoHosts || group.why == Pending::kNoRoom ||
                            group.why == Pending::kEntryRoom);
  if (room) {
    pending_room.insert(group.claim.key);
  } else {
    pending_room.erase(group.claim.key);
  }
}

/// Units go from a pod whose consumers work to another one.
bool PoolScheduler::Core::leaves_live_pod(const Group& group, const std::vector<Placed>& to) const {
  bool leaves = false, comes = false;
  for (const Placed& was : group.claim.status) {
    leaves = leaves || (alive(was.host) && placed_on(to, was.host) < was.n);
  }
  for (const Placed& is : to) {
    comes = comes || placed_on(group.claim.status, is.host) < is.n;
  }
  return leaves && comes;
}

void PoolScheduler::Core::begin_move(Group& group, std::vector<Placed> to, TimePoint now) {
  group.move.emplace(group.claim.status, std::move(to), now, settings.moves);
  moving.insert(group.claim.key);
  changes_.moves.insert(group.claim.key);
  ++moves_total;
}

void PoolScheduler::Core::end_move(Group& group) {
  if (group.move) {
    group.move.reset();
    moving.erase(group.claim.key);
    changes_.moves.insert(group.claim.key);
  }
}

void PoolScheduler::Core::update_contract(Group& group) {
  const std::vector<Placed>& wish = group.move ? group.move->contract() : group.claim.status;
  if (group.contract == wish) {
    return;
  }
  // Every pod of either is told: the digest that it shows is that of the whole.
  for (const Placed& old : group.contract) {
    changes_.pods.insert(old.host);
    if (placed_on(wish, old.host) == 0) {
      const auto at = on_pods_.find(old.host);
      at->second.erase(group.claim.key);
      if (at->second.empty()) {
        on_pods_.erase(at);
      }
    }
  }
  for (const Placed& placed : wish) {
    changes_.pods.insert(placed.host);
    on_pods_[placed.host].insert(group.claim.key);
  }
  group.contract = wish;
}

void PoolScheduler::Core::stepped(Group& group) {
  changes_.moves.insert(group.claim.key);
  if (group.move->step() == MoveStep::kCommitting) {
    changes_.groups.insert(group.claim.key);
  }
  update_contract(group);
  if (group.move->step() == MoveStep::kRemoving) {
    for (const auto* const side : {&group.move->from(), &group.move->to()}) {
      for (const Placed& placed : *side) {
        if (!alive(placed.host) && group.move->pod_gone(placed.host)) {
          stepped(group);
          return;
        }
      }
    }
  }
}

void PoolScheduler::Core::told(std::string_view pod, const SeenDecisions& seen) {
  const std::vector<std::string> keys(moving.begin(), moving.end());
  for (const std::string& key : keys) {
    Group& group = groups.find(key)->second;
    const auto at = seen.find(key);
    if (at == seen.end() ? placed_on(group.move->to(), pod) == 0 && group.move->pod_gone(pod)
                         : at->second.digest && group.move->seen(pod, *at->second.digest)) {
      stepped(group);
    }
  }
}

void PoolScheduler::Core::joined(std::string_view pod, std::string_view key, std::int64_t members) {
  const auto at = groups.find(key);
  if (at != groups.end() && at->second.move && at->second.move->joined(pod, members)) {
    stepped(at->second);
  }
}

void PoolScheduler::Core::moves_pass(TimePoint now) {
  const std::vector<std::string> keys(moving.begin(), moving.end());
  for (const std::string& key : keys) {
    Group& group = groups.find(key)->second;
    while (group.move && group.move->elapsed(now)) {
      stepped(group);
    }
    if (group.move && group.move->given_up()) {
      undo_move(group);
    }
  }
}

/// What is reserved for it is free, and the group is due.
void PoolScheduler::Core::undo_move(Group& group) {
  end_move(group);
  placement.write_failed(group.claim.key);
  update_contract(group);
}

std::vector<Placed> PoolScheduler::Core::begin_write(std::string_view key) {
  Group& group = groups.find(key)->second;
  group.in_flight = true;
  return group.target;
}

void PoolScheduler::Core::written(std::string_view key, std::span<const Placed> placements) {
  const auto at = groups.find(key);
  if (at == groups.end()) {
    return;
  }
  Group& group = at->second;
  group.in_flight = false;
  group.claim.status.assign(placements.begin(), placements.end());
  group.write = group.target != group.claim.status;
  placement.write_succeeded(key, placements);
  end_move(group);
  update_contract(group);
  changes_.groups.insert(group.claim.key);  // its conditions follow
}

void PoolScheduler::Core::not_written(std::string_view key) {
  if (const auto at = groups.find(key); at != groups.end()) {
    Group& group = at->second;
    group.in_flight = false;
    if (group.move &&
        canonical_placements(group.claim.status) != canonical_placements(group.move->from())) {
      end_move(group);
      update_contract(group);
    }
    changes_.groups.insert(group.claim.key);
  }
}

std::size_t PoolScheduler::Core::start_moves(const std::vector<Delta>& deltas, TimePoint now) {
  for (const Delta& delta : deltas) {
    Group& group = groups.find(delta.key)->second;
    group.target = delta.placements;
    group.write = delta.write;
    begin_move(group, delta.placements, now);
    update_contract(group);
  }
  return deltas.size();
}

}  // namespace kintsugi::workers
