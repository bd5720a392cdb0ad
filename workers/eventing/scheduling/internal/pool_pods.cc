// Pods that come, change and go, the start, and what the autoscaler looks at.
#include <algorithm>
#include <utility>

#include "workers/eventing/model/placeable.h"
#include "workers/eventing/scheduling/internal/pool_core.h"

namespace kintsugi::workers {
namespace {

constexpr std::int64_t kMostOnAPod = 2147483647;

}  // namespace

bool PoolScheduler::Core::alive(std::string_view pod) const {
  const auto at = pods_.find(pod);
  return at != pods_.end() && works(at->second);
}

/// Tells the placement library what the pod is now.
Expected<void> PoolScheduler::Core::show(Pod& pod, TimePoint now) {
  const std::string& name = pod.api.name;
  Host host;
  host.id = name;
  host.ordinal = pod.ordinal;
  host.zone = pod.api.zone;
  host.capacity = pod.api.capacity.value_or(settings.capacity);
  host.entry_capacity = settings.contract_bytes;
  const bool there = works(pod);
  if (there) {
    pod.missing_since.reset();
  } else if (!pod.missing_since) {
    pod.missing_since = now;
  }
  const bool unwanted = beyond(pod) || (pod.exists && pod.api.cordoned);
  const bool keeps = !there && !unwanted && now - *pod.missing_since < settings.reschedule &&
                     (pod.named > 0 || placement.held(name) > 0);
  if (keeps) {
    missing_.insert(name);
  } else {
    missing_.erase(name);
  }
  if (!keeps && (!there || (unwanted && !pod.exists))) {
    placement.host_gone(name);
    return {};
  }
  host.schedulable = !unwanted;
  host.closed = keeps;
  if (keeps) {  // whatever it has: how much it may have is known when it is there again
    host.capacity = std::min(kMostOnAPod, std::max(pod.named, placement.held(name)));
    host.entry_capacity = Host().entry_capacity;
  }
  Expected<void> set = placement.host_changed(host);
  if (!set) {
    host.capacity = settings.capacity;
    if (Expected<void> again = placement.host_changed(host); !again) {
      return again;
    }
  }
  return set;
}

void PoolScheduler::Core::forget_if_unused(const std::string& name) {
  const auto at = pods_.find(name);
  if (at != pods_.end() && !at->second.exists && !missing_.contains(name)) {
    pods_.erase(at);
  }
}

void PoolScheduler::Core::set_replicas(std::int64_t replicas, TimePoint now) {
  const std::optional<std::int64_t> before = std::exchange(replicas_, replicas);
  if (before == replicas) {
    return;
  }
  for (auto& [name, pod] : pods_) {
    if (beyond(pod) != (before && pod.ordinal >= *before)) {
      (void)show(pod, now);  // its capacity was judged when it came
    }
  }
}

Expected<void> PoolScheduler::Core::set_pod(const DispatcherPod& pod, TimePoint now) {
  const auto ordinal = pod_ordinal(settings.stateful_set, pod.name);
  if (!ordinal) {
    return fail(Errc::kInvalid, pod.name + " is no pod of " + settings.stateful_set);
  }
  Pod& known = pods_[pod.name];
  const bool worked = works(known);
  const std::string zone = known.api.zone;
  known.api = pod;
  known.ordinal = *ordinal;
  known.exists = true;
  if (pod.zone.empty()) {
    known.api.zone = zone;  // it has lost its node, not its place
  }
  changes_.pods.insert(pod.name);
  Expected<void> shown = show(known, now);
  if (worked && !works(known)) {
    pod_stopped(pod.name);
  }
  return shown;
}

void PoolScheduler::Core::pod_gone(std::string_view name, TimePoint now) {
  const auto at = pods_.find(name);
  if (at == pods_.end()) {
    return;
  }
  const std::string pod = at->first;
  at->second.exists = false;
  (void)show(at->second, now);
  pod_stopped(pod);
  forget_if_unused(pod);
}

/// Moves do not go where no consumer can be, and do not wait for its word.
void PoolScheduler::Core::pod_stopped(const std::string& pod) {
  const std::vector<std::string> keys(moving.begin(), moving.end());
  for (const std::string& key : keys) {
    Group& group = groups.find(key)->second;
    const GroupMove& move = *group.move;
    if (move.step() <= MoveStep::kJoining && !group.in_flight &&
        placed_on(move.to(), pod) > placed_on(move.from(), pod)) {
      undo_move(group);
    } else if (group.move->pod_gone(pod)) {
      stepped(group);
    }
  }
}

void PoolScheduler::Core::pods_pass(TimePoint now) {
  const std::vector<std::string> names(missing_.begin(), missing_.end());
  for (const std::string& name : names) {
    Pod& pod = pods_.find(name)->second;
    if (now - *pod.missing_since >= settings.reschedule || placement.held(name) == 0) {
      (void)show(pod, now);
      forget_if_unused(name);
    }
  }
}

std::optional<TimePoint> PoolScheduler::Core::next_timer() const {
  std::optional<TimePoint> at;
  const auto take = [&at](TimePoint time) { at = std::min(at.value_or(time), time); };
  for (const std::string& name : missing_) {
    take(*pods_.find(name)->second.missing_since + settings.reschedule);
  }
  for (const std::string& key : moving) {
    if (const auto due = groups.find(key)->second.move->due()) {
      take(*due);
    }
  }
  return at;
}

PoolScheduler::Loaded PoolScheduler::Core::load(std::span<const PoolGroup> all,
                                                std::span<const MoveRow> moves, TimePoint now) {
  std::set<std::string, std::less<>> named;
  for (const PoolGroup& group : all) {
    Group& one = groups[group.key];
    one.claim = group;
    one.target = group.status;
    for (const Placed& placed : group.status) {
      const auto ordinal = pod_ordinal(settings.stateful_set, placed.host);
      if (ordinal) {
        Pod& pod = pods_[placed.host];
        pod.api.name = placed.host;
        pod.ordinal = *ordinal;
        pod.named =
            std::min(kMostOnAPod, pod.named + std::clamp<std::int64_t>(placed.n, 0, kMostOnAPod));
        named.insert(placed.host);
      }
    }
  }
  for (const std::string& name : named) {
    (void)show(pods_.find(name)->second, now);
  }
  std::vector<Claim> claims;
  claims.reserve(groups.size());
  for (const auto& [key, group] : groups) {
    claims.push_back(claim_of(group));
  }
  Placement::Loaded read = placement.load(claims);
  Loaded out{std::move(read.normalised), std::move(read.invalid), 0};
  for (const std::string& name : named) {
    pods_.find(name)->second.named = 0;
    forget_if_unused(name);
  }
  for (const MoveRow& row : moves) {
    const auto at = groups.find(row.key);
    auto move = GroupMove::parse(row.row, now, settings.moves);
    changes_.moves.insert(row.key);
    if (at == groups.end() || !move ||
        canonical_placements(move->from()) != canonical_placements(at->second.claim.status) ||
        !placement.adopt(row.key, move->to())) {
      continue;  // its status has got further, or it cannot go on: its row goes
    }
    Group& group = at->second;
    group.target = move->to();
    group.write = true;
    group.move = std::move(move);
    moving.insert(row.key);
    changes_.groups.insert(row.key);
    ++out.moves;
  }
  loaded = true;
  for (auto& [key, group] : groups) {
    update_contract(group);
    group.pending = placement.pending(key);
  }
  return out;
}

AutoscalerView PoolScheduler::Core::view() {
  AutoscalerView out;
  out.replicas = replicas_.value_or(0);
  out.pending_room = !pending_room.empty();
  out.moving = !moving.empty();
  std::set<std::int64_t> cordoned;
  std::int64_t there = 0;
  for (const auto& [name, pod] : pods_) {
    if (pod.exists && pod.api.cordoned) {
      cordoned.insert(pod.ordinal);
    }
    there += (works(pod) || (pod.exists && pod.api.cordoned)) && !beyond(pod) ? 1 : 0;
    if (placement.held(name) > 0) {
      out.used = std::max<std::int64_t>(out.used, std::int64_t{pod.ordinal} + 1);
    }
  }
  out.coming = replicas_ && there < *replicas_;
  out.wanted = placement.required_hosts().hosts;
  for (const std::int64_t ordinal : cordoned) {  // ascending: each below is one that holds nothing
    out.wanted += ordinal < out.wanted ? 1 : 0;
  }
  return out;
}

}  // namespace kintsugi::workers
