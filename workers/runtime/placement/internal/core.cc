// Claims: what is known of them, what they have where, which are due.
#include "workers/runtime/placement/internal/core.h"

#include <algorithm>
#include <utility>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace kintsugi::workers {
Expected<void> Placement::Core::validate(const Claim& claim) {
  const auto check = [](std::string_view field, std::int64_t value, std::int64_t least,
                        std::int64_t most = kMost) {
    return value >= least && value <= most
               ? std::string()
               : std::string(field) + ": " + std::to_string(value) + " is not in " +
                     std::to_string(least) + ".." + std::to_string(most);
  };
  if (claim.key.empty()) {
    return fail(Errc::kInvalid, "key: empty");
  }
  for (const std::string& problem :
       {check("wanted", claim.wanted, 0),
        check("maxAllowedVReplicas", claim.max_allowed.value_or(0), 0),
        check("minHosts", claim.min_hosts, 0), check("unitSize", claim.unit_size, 1),
        check("entrySize", claim.entry_size, 0, kMostEntry)}) {
    if (!problem.empty()) {
      return fail(Errc::kInvalid, problem);
    }
  }
  return {};
}

ClaimSlot Placement::Core::find(std::string_view key) const noexcept {
  const auto found = keys_.find(key);
  return found == keys_.end() ? kNoSlot : found->second;
}

ClaimSlot Placement::Core::intern(std::string_view key) {
  if (const ClaimSlot slot = find(key); slot != kNoSlot) {
    return slot;
  }
  ClaimSlot slot = kNoSlot;
  if (free_slots_.empty()) {
    slot = static_cast<ClaimSlot>(records_.size());
    records_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    records_[slot] = Record();
  }
  records_[slot].key = key;
  keys_.emplace(key, slot);
  return slot;
}

std::int64_t Placement::Core::target(const Record& record) const noexcept {
  if (record.frozen) {
    return record.placed;
  }
  const std::int64_t wanted = std::min(record.wanted, record.max_allowed);
  const std::int64_t raised = std::max(wanted, std::min(record.min_hosts, hosts_.usable()));
  return std::min(raised, record.max_allowed);
}

/// On how many different hosts a claim has to be.
std::int64_t Placement::Core::apart(const Record& record) const noexcept {
  return record.all_or_nothing ? std::min(record.min_hosts, record.max_allowed) : 0;
}

void Placement::Core::describe(Record& record, const Claim& claim) {
  with_min_hosts_ -= record.min_hosts > 0 ? 1 : 0;
  with_min_hosts_ += claim.min_hosts > 0 ? 1 : 0;
  if (record.size != claim.unit_size || record.entry != claim.entry_size) {
    resize(record, claim.unit_size, claim.entry_size);
  }
  record.uid = claim.uid;
  record.affinity = claim.affinity;
  record.pinned = claim.pinned;
  record.created = claim.created;
  record.wanted = claim.wanted;
  record.max_allowed = claim.max_allowed.value_or(kMost);
  record.min_hosts = claim.min_hosts;
  record.policy = claim.policy;
  record.one_per_host = claim.one_per_host || claim.policy == Policy::kAntiAffinity;
  record.all_or_nothing = claim.all_or_nothing;
  record.frozen = false;
  const std::string& name = claim.uid.empty() ? claim.key : claim.uid;
  record.hash = XXH64(name.data(), name.size(), 0);
}

void Placement::Core::resize(Record& record, std::int64_t size, std::int64_t entry_size) {
  const std::int64_t more = size - record.size;
  const std::int64_t more_entry = entry_size - record.entry;
  record.size = size;
  record.entry = entry_size;
  for (const Entry& entry : record.entries) {
    hosts_.account(entry.host, entry.held() * more, entry.decided * more);
    hosts_[entry.host].entries_held += entry.held() > 0 ? more_entry : 0;
    hosts_[entry.host].entries_placed += entry.decided > 0 ? more_entry : 0;
  }
  freed_ = freed_ || more < 0 || more_entry < 0;
}

Entry& Placement::Core::entry_on(ClaimSlot slot, HostSlot host) {
  Record& record = records_[slot];
  for (Entry& entry : record.entries) {
    if (entry.host == host) {
      return entry;
    }
  }
  record.entries.push_back({host, hosts_.add_claim(host, slot), 0, 0, 0});
  return record.entries.back();
}

void Placement::Core::put(Record& record, Entry& entry, std::int64_t decided, std::int64_t told,
                          std::int64_t committed) {
  const std::int64_t before = entry.held();
  const std::int64_t more = decided - entry.decided;
  const bool was = entry.decided > 0;
  entry.decided = decided;
  entry.told = told;
  entry.committed = committed;
  record.placed += more;
  placed_units_ += more;
  hosts_.account(entry.host, (entry.held() - before) * record.size, more * record.size);
  if (record.entry != 0) {
    HostTable::State& host = hosts_[entry.host];
    host.entries_held += record.entry * ((entry.held() > 0 ? 1 : 0) - (before > 0 ? 1 : 0));
    host.entries_placed += record.entry * ((decided > 0 ? 1 : 0) - (was ? 1 : 0));
  }
  // A decided unit less is room for a claim that holds its place there, but is not whole.
  freed_ = freed_ || entry.held() < before || more < 0;
}

void Placement::Core::drop_empty(ClaimSlot slot) {
  std::vector<Entry>& entries = records_[slot].entries;
  for (std::size_t i = 0; i < entries.size();) {
    if (entries[i].held() != 0) {
      ++i;
      continue;
    }
    const Entry gone = entries[i];
    entries[i] = entries.back();
    entries.pop_back();
    const ClaimSlot moved = hosts_.remove_claim(gone.host, gone.at);
    if (moved != kNoSlot) {
      for (Entry& entry : records_[moved].entries) {
        if (entry.host == gone.host) {
          entry.at = gone.at;
        }
      }
    }
  }
}

bool Placement::Core::older(const Record& a, const Record& b) const noexcept {
  if (a.created != b.created) {
    return a.created < b.created;
  }
  return a.uid != b.uid ? a.uid > b.uid : a.key > b.key;
}

void Placement::Core::mark_due(ClaimSlot slot) {
  if (!records_[slot].due) {
    records_[slot].due = true;
    due_.push_back(slot);
  }
}

void Placement::Core::note_pending(ClaimSlot slot) {
  Record& record = records_[slot];
  const bool pending = missing(record) > 0;
  if (pending && record.pending_at == kNoSlot) {
    record.pending_at = static_cast<std::uint32_t>(pending_.size());
    pending_.push_back(slot);
  } else if (!pending && record.pending_at != kNoSlot) {
    records_[pending_.back()].pending_at = record.pending_at;
    pending_[record.pending_at] = pending_.back();
    pending_.pop_back();
    record.pending_at = kNoSlot;
  }
}

std::vector<std::string> Placement::Core::take_due() {
  if (freed_) {
    for (const ClaimSlot slot : pending_) {
      mark_due(slot);
    }
    freed_ = false;
  }
  std::vector<ClaimSlot> slots;
  for (const ClaimSlot slot : due_) {
    if (records_[slot].due) {
      records_[slot].due = false;
      slots.push_back(slot);
    }
  }
  due_.clear();
  std::sort(slots.begin(), slots.end(),
            [this](ClaimSlot a, ClaimSlot b) { return a != b && older(records_[a], records_[b]); });
  std::vector<std::string> keys;
  keys.reserve(slots.size());
  for (const ClaimSlot slot : slots) {
    keys.push_back(records_[slot].key);
  }
  return keys;
}

}  // namespace kintsugi::workers
