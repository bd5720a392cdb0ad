// The decision about one claim (10.2).
#include <algorithm>
#include <map>

#include "workers/runtime/placement/internal/core.h"

namespace kintsugi::workers {

void Placement::Core::sort_entries(ClaimSlot slot) {
  std::vector<Entry>& entries = records_[slot].entries;
  std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
    return a.host != b.host && hosts_.before(a.host, b.host);
  });
}

/// From the highest ordinal down; an all-or-nothing claim stays on as many hosts as it needs.
void Placement::Core::shrink(ClaimSlot slot, std::int64_t goal) {
  Record& record = records_[slot];
  if (record.policy == Policy::kAntiAffinity) {
    shrink_apart(record, goal);
    return;
  }
  sort_entries(slot);
  std::int64_t used = std::count_if(record.entries.begin(), record.entries.end(),
                                    [](const Entry& e) { return e.decided > 0; });
  for (auto entry = record.entries.rbegin(); entry != record.entries.rend(); ++entry) {
    const std::int64_t keep = entry->decided > 0 && used <= apart(record) ? 1 : 0;
    const std::int64_t take = std::min(record.placed - goal, entry->decided - keep);
    if (take > 0) {
      decide(record, *entry, entry->decided - take);
      used -= entry->decided == 0 ? 1 : 0;
    }
  }
}

/// Of the zone with the most units, from the highest ordinal down: the least skew is lost.
void Placement::Core::shrink_apart(Record& record, std::int64_t goal) {
  while (record.placed > goal) {
    std::map<ZoneSlot, std::int64_t> zones;
    for (const Entry& entry : record.entries) {
      if (entry.decided > 0) {
        zones[hosts_[entry.host].zone] += entry.decided;
      }
    }
    Entry* worst = nullptr;
    for (Entry& entry : record.entries) {
      if (entry.decided == 0) {
        continue;
      }
      const std::int64_t count = zones[hosts_[entry.host].zone];
      const std::int64_t most = worst == nullptr ? 0 : zones[hosts_[worst->host].zone];
      if (count > most || (count == most && hosts_.before(worst->host, entry.host))) {
        worst = &entry;
      }
    }
    decide(record, *worst, worst->decided - 1);
  }
}

/// Takes back what the claim holds still: where the status has it, or where it was reserved.
void Placement::Core::restore(Record& record, std::int64_t goal) {
  for (Entry& entry : record.entries) {
    const HostTable::State& host = hosts_[entry.host];
    if (!host.usable()) {
      continue;
    }
    // Neither a pin nor a limit moves what the status has.
    const bool elsewhere = !record.pinned.empty() && record.pinned != host.host.id;
    const std::int64_t most = elsewhere ? 0 : record.one_per_host ? 1 : entry.held();
    const std::int64_t back =
        std::max(entry.committed, std::min(most, entry.held())) - entry.decided;
    const std::int64_t fits = (host.host.capacity - host.placed) / record.size;
    if (entry.decided == 0 && record.entry > host.host.entry_capacity - host.entries_placed) {
      continue;
    }
    const std::int64_t n = std::min({back, fits, goal - record.placed});
    if (n > 0) {
      decide(record, entry, entry.decided + n);
    }
  }
}

/// Takes back what the status of a claim that is not whole has, as load() ranks it: younger claims
/// give way where hosts do not hold all that statuses say.
void Placement::Core::reclaim(ClaimSlot slot) {
  Record& record = records_[slot];
  for (std::size_t i = 0; i < record.entries.size(); ++i) {
    const HostSlot host = record.entries[i].host;
    const HostTable::State& state = hosts_[host];
    if (!state.usable() || record.entries[i].committed <= record.entries[i].decided) {
      continue;
    }
    std::int64_t room = state.host.capacity;
    std::int64_t entries = state.host.entry_capacity;
    for (const ClaimSlot other : state.claims) {
      if (other != slot && older(records_[other], record)) {
        const std::int64_t units = entry_on(other, host).decided;
        room -= units * records_[other].size;
        entries -= units > 0 ? records_[other].entry : 0;
      }
    }
    const std::int64_t n =
        record.entry > entries ? 0 : std::min(record.entries[i].committed, room / record.size);
    if (n > record.entries[i].decided) {
      decide(record, record.entries[i], n);
      evict(host);
    }
  }
}

Want Placement::Core::want_of(const Record& record, HostSlot bound) const noexcept {
  Want want;
  want.policy = record.policy;
  want.size = record.size;
  want.entry = record.entry;
  want.one_per_host = record.one_per_host;
  want.hash = record.hash;
  want.affinity = record.affinity;
  want.bound = bound;
  if (!record.pinned.empty()) {
    want.pinned = hosts_.find(record.pinned);
  }
  return want;
}

void Placement::Core::grow(ClaimSlot slot, std::int64_t goal) {
  Record& record = records_[slot];
  goal = std::min(goal, params_.max_units);
  if (record.placed >= goal) {
    return;
  }
  picker_.begin(want_of(record, kNoSlot), record.entries);
  std::int64_t used = std::count_if(record.entries.begin(), record.entries.end(),
                                    [](const Entry& e) { return e.decided > 0; });
  while (record.placed < goal) {
    picker_.only_unused(used < apart(record));
    const HostSlot host = picker_.best();
    if (host == kNoSlot) {
      return;
    }
    const std::uint32_t at = picker_.entry_of(host);
    Entry& entry = at == kNoSlot ? entry_on(slot, host) : record.entries[at];
    used += entry.decided == 0 ? 1 : 0;
    decide(record, entry, entry.decided + 1);
    picker_.took(entry);
  }
}

Pending Placement::Core::reason(const Record& record) {
  if (missing(record) == 0) {
    return Pending::kNone;
  }
  if (hosts_.usable() == 0) {
    return Pending::kNoHosts;
  }
  if (record.all_or_nothing) {
    return Pending::kTooFew;
  }
  if (record.placed >= params_.max_units) {
    return Pending::kUnitLimit;
  }
  if (!record.pinned.empty()) {
    return Pending::kPinned;
  }
  if (hosts_.most_free() < record.size) {
    return Pending::kNoRoom;
  }
  return record.entry > 0 && !record.one_per_host ? Pending::kEntryRoom : Pending::kHostLimit;
}

Delta Placement::Core::answer(ClaimSlot slot, bool from_committed) {
  sort_entries(slot);
  Record& record = records_[slot];
  Delta delta;
  delta.key = record.key;
  for (Entry& entry : record.entries) {
    const std::string& host = hosts_[entry.host].host.id;
    const std::int64_t more = entry.decided - (from_committed ? entry.committed : entry.told);
    if (more > 0) {
      delta.add.push_back({host, more});
    } else if (more < 0) {
      delta.remove.push_back({host, -more});
    }
    if (entry.decided > 0) {
      delta.placements.push_back({host, entry.decided});
    }
    delta.write = delta.write || entry.decided != entry.committed;
    put(record, entry, entry.decided, entry.decided, entry.committed);
  }
  drop_empty(slot);
  const std::int64_t goal = target(record);
  delta.pending = goal - record.placed;
  delta.reason = reason(record);
  note_pending(slot);
  return delta;
}

/// Nothing of an all-or-nothing claim counts as placed while it is not whole, whatever it holds.
std::int64_t Placement::Core::missing(const Record& record) const noexcept {
  const std::int64_t goal = target(record);
  if (record.all_or_nothing && !whole(record)) {
    return goal;
  }
  return std::max<std::int64_t>(0, goal - record.placed);
}

bool Placement::Core::whole(const Record& record) const noexcept {
  std::int64_t used = 0;
  bool moved = false;
  for (const Entry& entry : record.entries) {
    used += entry.decided > 0 ? 1 : 0;
    moved = moved || entry.decided != entry.committed;
  }
  const std::int64_t goal = target(record);
  return record.placed == goal && (!moved || goal == 0 || used >= apart(record));
}

Expected<Delta> Placement::Core::schedule(const Claim& claim) {
  if (Expected<void> valid = validate(claim); !valid) {
    return fail(std::move(valid).error());
  }
  const ClaimSlot slot = intern(claim.key);
  describe(records_[slot], claim);
  bool normalised = false;
  const bool fresh = commit(slot, claim.committed, &normalised);
  Record& record = records_[slot];
  for (Entry& entry : record.entries) {
    const std::int64_t n = fresh ? entry.committed : entry.decided;
    decide(record, entry, hosts_[entry.host].usable() ? n : 0);
  }
  sort_entries(slot);
  for (std::size_t i = 0; i < record.entries.size(); ++i) {
    evict(record.entries[i].host);
  }
  const std::int64_t goal = target(record);
  if (record.all_or_nothing && !whole(record)) {
    reclaim(slot);
    restore(record, kMost);  // the status stays until the claim is whole: so does its place
  } else if (record.placed < goal) {
    restore(record, goal);
  }
  const bool freed = freed_;
  std::vector<std::int64_t> before;
  for (const Entry& entry : record.entries) {
    before.push_back(fresh ? std::min(entry.decided, entry.committed) : entry.decided);
  }
  if (record.placed > goal) {
    shrink(slot, goal);
  } else {
    grow(slot, goal);
  }
  if (record.all_or_nothing && !whole(record)) {
    for (std::size_t i = 0; i < record.entries.size(); ++i) {
      decide(record, record.entries[i], i < before.size() ? before[i] : 0);
    }
    freed_ = freed;  // what was only tried is no room for others
    for (Entry& entry : record.entries) {
      put(record, entry, entry.decided, fresh ? entry.committed : entry.told, entry.committed);
    }
    drop_empty(slot);
    if (fresh) {
      return schedule(claim);  // once more, without the reservation
    }
    note_pending(slot);
    Delta delta;
    delta.key = claim.key;
    delta.pending = goal;
    delta.reason = reason(record);
    return delta;
  }
  Delta delta = answer(slot, fresh);
  delta.write = delta.write || delta.placements != claim.committed;
  return delta;
}

std::vector<Placed> Placement::Core::placements(std::string_view key) const {
  std::vector<Placed> list;
  const ClaimSlot slot = find(key);
  if (slot == kNoSlot || (records_[slot].all_or_nothing && !whole(records_[slot]))) {
    return list;
  }
  std::vector<Entry> entries = records_[slot].entries;
  std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
    return a.host != b.host && hosts_.before(a.host, b.host);
  });
  for (const Entry& entry : entries) {
    if (entry.decided > 0) {
      list.push_back({hosts_[entry.host].host.id, entry.decided});
    }
  }
  return list;
}

std::int64_t Placement::Core::pending(std::string_view key) const {
  const ClaimSlot slot = find(key);
  return slot == kNoSlot ? 0 : missing(records_[slot]);
}

std::int64_t Placement::Core::room(std::string_view host) const {
  const HostSlot slot = hosts_.find(host);
  return slot == kNoSlot || !hosts_[slot].known ? 0 : hosts_[slot].free();
}

std::int64_t Placement::Core::held(std::string_view host) const {
  const HostSlot slot = hosts_.find(host);
  return slot == kNoSlot ? 0 : hosts_[slot].held;
}

}  // namespace kintsugi::workers
