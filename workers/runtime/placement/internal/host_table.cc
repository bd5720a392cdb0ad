#include "workers/runtime/placement/internal/host_table.h"

#include <algorithm>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace kintsugi::workers {

bool HostTable::ByFreeLess::operator()(const ByFree& a, const ByFree& b) const noexcept {
  if (a.free != b.free) {
    return a.free > b.free;
  }
  if (a.claims != b.claims) {
    return a.claims < b.claims;
  }
  return a.slot != b.slot && (*hosts)[a.slot].host.id < (*hosts)[b.slot].host.id;
}

HostSlot HostTable::find(std::string_view id) const noexcept {
  const auto found = ids_.find(id);
  return found == ids_.end() ? kNoSlot : found->second;
}

HostSlot HostTable::intern(std::string_view id) {
  if (const HostSlot slot = find(id); slot != kNoSlot) {
    return slot;
  }
  HostSlot slot = kNoSlot;
  if (free_slots_.empty()) {
    slot = static_cast<HostSlot>(hosts_.size());
    hosts_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    hosts_[slot] = State();
  }
  hosts_[slot].host.id = id;
  hosts_[slot].host.schedulable = false;
  hosts_[slot].hash = XXH64(id.data(), id.size(), 0);
  ids_.emplace(id, slot);
  return slot;
}

void HostTable::set(HostSlot slot, const Host& host) {
  State& state = hosts_[slot];
  if (state.usable()) {
    leave(slot);
  }
  state.host = host;
  state.known = true;
  if (state.usable()) {
    enter(slot);
  }
}

void HostTable::forget(HostSlot slot) {
  if (hosts_[slot].usable()) {
    leave(slot);
  }
  hosts_[slot].known = false;
  hosts_[slot].host.schedulable = false;
  drop_if_unused(slot);
}

void HostTable::drop_if_unused(HostSlot slot) {
  State& state = hosts_[slot];
  if (state.known || !state.claims.empty()) {
    return;
  }
  if (const auto found = ids_.find(state.host.id); found != ids_.end()) {
    ids_.erase(found);
    free_slots_.push_back(slot);
  }
}

bool HostTable::before(HostSlot a, HostSlot b) const noexcept {
  const Host& x = hosts_[a].host;
  const Host& y = hosts_[b].host;
  return x.ordinal != y.ordinal ? x.ordinal < y.ordinal : x.id < y.id;
}

const std::vector<HostSlot>& HostTable::in_order() {
  if (!ordered_) {
    order_.clear();
    for (const Zone& zone : zones_) {
      order_.insert(order_.end(), zone.hosts.begin(), zone.hosts.end());
    }
    std::sort(order_.begin(), order_.end(),
              [this](HostSlot a, HostSlot b) { return before(a, b); });
    ordered_ = true;
  }
  return order_;
}

ZoneSlot HostTable::zone_of(const std::string& name) {
  if (const auto found = zone_names_.find(name); found != zone_names_.end()) {
    return found->second;
  }
  auto slot = static_cast<ZoneSlot>(zones_.size());
  for (ZoneSlot i = 0; i < zones_.size(); ++i) {
    if (zones_[i].hosts.empty()) {
      zone_names_.erase(zones_[i].name);
      slot = i;
      break;
    }
  }
  if (slot == zones_.size()) {
    zones_.emplace_back();
  }
  zones_[slot].name = name;
  zone_names_.emplace(name, slot);
  return slot;
}

void HostTable::enter(HostSlot slot) {
  const ZoneSlot where = zone_of(hosts_[slot].host.zone);
  State& state = hosts_[slot];
  Zone& zone = zones_[where];
  state.zone = where;
  state.at = static_cast<std::uint32_t>(zone.hosts.size());
  zone.hosts.push_back(slot);
  zone.clean = false;
  ordered_ = false;
  ++usable_;
  for (const std::string& label : state.host.labels) {
    zone.labels[label].push_back(slot);
  }
  if (with_buckets_) {
    enter_bucket(slot);
  }
  if (with_free_) {
    state.indexed_free = state.free();
    state.indexed_claims = state.all_claims();
    by_free_.insert({state.indexed_free, state.indexed_claims, slot});
  }
}

void HostTable::leave(HostSlot slot) {
  State& state = hosts_[slot];
  Zone& zone = zones_[state.zone];
  const HostSlot last = zone.hosts.back();
  zone.hosts[state.at] = last;
  hosts_[last].at = state.at;
  zone.hosts.pop_back();
  zone.clean = false;
  ordered_ = false;
  --usable_;
  for (const std::string& label : state.host.labels) {
    const auto found = zone.labels.find(label);
    if (found != zone.labels.end()) {
      std::erase(found->second, slot);
      if (found->second.empty()) {
        zone.labels.erase(found);
      }
    }
  }
  leave_bucket(slot);
  if (with_free_) {
    by_free_.erase({state.indexed_free, state.indexed_claims, slot});
  }
  state.zone = kNoSlot;
}

void HostTable::enter_bucket(HostSlot slot) {
  State& state = hosts_[slot];
  if (state.free() <= 0) {
    return;
  }
  state.eighth = static_cast<std::uint32_t>(state.held * 8 / state.host.capacity);
  std::unique_ptr<Bucket>& bucket = zones_[state.zone].buckets[state.eighth];
  if (!bucket) {
    bucket = std::make_unique<Bucket>();
  }
  const std::size_t group = group_of(state.hash);
  state.in_group = static_cast<std::uint32_t>(bucket->groups[group].size());
  bucket->groups[group].push_back(slot);
  bucket->mask |= std::uint64_t{1} << group;
}

void HostTable::leave_bucket(HostSlot slot) {
  State& state = hosts_[slot];
  if (state.eighth == kNoSlot) {
    return;
  }
  Bucket& bucket = *zones_[state.zone].buckets[state.eighth];
  const std::size_t group = group_of(state.hash);
  std::vector<HostSlot>& members = bucket.groups[group];
  members[state.in_group] = members.back();
  hosts_[members.back()].in_group = state.in_group;
  members.pop_back();
  if (members.empty()) {
    bucket.mask &= ~(std::uint64_t{1} << group);
  }
  state.eighth = kNoSlot;
}

void HostTable::reindex(HostSlot slot) {
  State& state = hosts_[slot];
  if (!state.usable()) {
    return;
  }
  Zone& zone = zones_[state.zone];
  if (zone.clean) {
    zone.tree.set(state.at, state.free());
  }
  if (with_buckets_) {
    const bool in = state.eighth != kNoSlot;
    const bool fits = state.free() > 0;
    if (in != fits || (in && state.held * 8 / state.host.capacity != state.eighth)) {
      leave_bucket(slot);
      enter_bucket(slot);
    }
  }
  if (with_free_ &&
      (state.indexed_free != state.free() || state.indexed_claims != state.all_claims())) {
    auto node = by_free_.extract({state.indexed_free, state.indexed_claims, slot});
    state.indexed_free = state.free();
    state.indexed_claims = state.all_claims();
    node.value() = {state.indexed_free, state.indexed_claims, slot};
    by_free_.insert(std::move(node));
  }
}

void HostTable::account(HostSlot slot, std::int64_t held, std::int64_t placed) {
  hosts_[slot].placed += placed;
  if (held != 0) {
    hosts_[slot].held += held;
    reindex(slot);
  }
}

std::uint32_t HostTable::add_claim(HostSlot slot, ClaimSlot claim) {
  hosts_[slot].claims.push_back(claim);
  reindex(slot);
  return static_cast<std::uint32_t>(hosts_[slot].claims.size() - 1);
}

ClaimSlot HostTable::remove_claim(HostSlot slot, std::uint32_t at) {
  std::vector<ClaimSlot>& claims = hosts_[slot].claims;
  const ClaimSlot last = claims.back();
  claims[at] = last;
  claims.pop_back();
  const ClaimSlot moved = at < claims.size() ? last : kNoSlot;
  reindex(slot);
  drop_if_unused(slot);
  return moved;
}

HostTable::Zone& HostTable::zone(ZoneSlot slot) {
  Zone& zone = zones_[slot];
  if (!zone.clean) {
    std::sort(zone.hosts.begin(), zone.hosts.end(),
              [this](HostSlot a, HostSlot b) { return before(a, b); });
    std::vector<std::int64_t> free(zone.hosts.size());
    for (std::uint32_t i = 0; i < zone.hosts.size(); ++i) {
      hosts_[zone.hosts[i]].at = i;
      free[i] = hosts_[zone.hosts[i]].free();
    }
    zone.tree.assign(free);
    zone.clean = true;
  }
  return zone;
}

const HostTable::FreeIndex& HostTable::by_free() {
  if (!with_free_) {
    with_free_ = true;
    for (const HostSlot slot : in_order()) {
      State& state = hosts_[slot];
      state.indexed_free = state.free();
      state.indexed_claims = state.all_claims();
      by_free_.insert({state.indexed_free, state.indexed_claims, slot});
    }
  }
  return by_free_;
}

void HostTable::use_buckets() {
  if (!with_buckets_) {
    with_buckets_ = true;
    for (const HostSlot slot : in_order()) {
      enter_bucket(slot);
    }
  }
}

std::int64_t HostTable::most_free() {
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (ZoneSlot i = 0; i < zones_.size(); ++i) {
    most = std::max(most, zone(i).tree.most());
  }
  return most;
}

}  // namespace kintsugi::workers
