// What statuses say: loading them, answers of writes, objects that are gone.
#include <algorithm>
#include <utility>

#include "workers/runtime/placement/internal/core.h"

namespace kintsugi::workers {
namespace {

/// More than any host can have: what a status claims beyond it is nonsense, and sums stay far from
/// the end of their type.
constexpr std::int64_t kMostHeld = std::int64_t{1} << 33;

}  // namespace

std::vector<std::pair<HostSlot, std::int64_t>> Placement::Core::normalise(
    const Record& record, std::span<const Placed> status, bool* changed) {
  std::vector<std::pair<HostSlot, std::int64_t>> list;
  list.reserve(status.size());
  std::int64_t sum = 0;
  const std::int64_t most = std::min(kMost, kMostHeld / record.size);
  for (const Placed& placed : status) {
    if (placed.n <= 0 || placed.host.empty()) {
      *changed = true;
      continue;
    }
    const std::int64_t n = std::min({placed.n, most, kMost - sum});
    *changed = *changed || n != placed.n;
    if (n == 0) {
      continue;
    }
    sum += n;
    list.emplace_back(hosts_.intern(placed.host), n);
  }
  std::sort(list.begin(), list.end());
  std::size_t out = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (out > 0 && list[out - 1].first == list[i].first) {
      list[out - 1].second = std::min(most, list[out - 1].second + list[i].second);
      *changed = true;
    } else {
      list[out++] = list[i];
    }
  }
  list.resize(out);
  return list;
}

bool Placement::Core::commit(ClaimSlot slot, std::span<const Placed> status, bool* normalised) {
  Record& record = records_[slot];
  const auto list = normalise(record, status, normalised);
  std::size_t same = 0;
  std::size_t committed = 0;
  for (const Entry& entry : record.entries) {
    if (entry.committed > 0) {
      ++committed;
      const auto found = std::lower_bound(list.begin(), list.end(),
                                          std::pair<HostSlot, std::int64_t>(entry.host, 0));
      same += found != list.end() && found->first == entry.host && found->second == entry.committed
                  ? 1
                  : 0;
    }
  }
  if (committed == same && same == list.size()) {
    return false;
  }
  for (Entry& entry : record.entries) {
    put(record, entry, entry.decided, entry.told, 0);
  }
  for (const auto& [host, n] : list) {
    Entry& entry = entry_on(slot, host);
    put(record, entry, entry.decided, entry.told, n);
  }
  return true;
}

Placement::Loaded Placement::Core::load(std::span<const Claim> claims) {
  Loaded loaded;
  keys_.reserve(keys_.size() + claims.size());
  std::vector<ClaimSlot> slots;
  slots.reserve(claims.size());
  for (const Claim& claim : claims) {
    if (claim.key.empty()) {
      loaded.invalid.push_back(claim.key);
      continue;
    }
    const ClaimSlot slot = intern(claim.key);
    const bool valid = validate(claim).has_value();
    if (valid) {
      describe(records_[slot], claim);
    } else {
      loaded.invalid.push_back(claim.key);
      records_[slot].uid = claim.uid;
      records_[slot].created = claim.created;
      records_[slot].frozen = true;
    }
    bool normalised = false;
    commit(slot, claim.committed, &normalised);
    if (normalised) {
      loaded.normalised.push_back(claim.key);
    }
    Record& record = records_[slot];
    for (Entry& entry : record.entries) {
      const std::int64_t n = hosts_[entry.host].usable() ? entry.committed : 0;
      put(record, entry, n, entry.committed, entry.committed);
    }
    drop_empty(slot);
    slots.push_back(slot);
  }
  const std::vector<HostSlot> order = hosts_.in_order();
  for (const HostSlot host : order) {
    evict(host);
  }
  for (const ClaimSlot slot : slots) {
    Record& record = records_[slot];
    const bool moved = std::any_of(record.entries.begin(), record.entries.end(),
                                   [](const Entry& e) { return e.decided != e.committed; });
    if (moved || missing(record) > 0 || record.placed != target(record)) {
      mark_due(slot);
    }
    note_pending(slot);
  }
  return loaded;
}

bool Placement::Core::adopt(std::string_view key, std::span<const Placed> decided) {
  const ClaimSlot slot = find(key);
  if (slot == kNoSlot) {
    return false;
  }
  Record& record = records_[slot];
  for (const Placed& placed : decided) {
    const HostSlot host = hosts_.find(placed.host);
    if (host == kNoSlot || !hosts_[host].usable() || placed.n <= 0 || placed.n > kMost) {
      return false;
    }
    const auto entry = std::find_if(record.entries.begin(), record.entries.end(),
                                    [host](const Entry& e) { return e.host == host; });
    const std::int64_t had = entry == record.entries.end() ? 0 : entry->held();
    if ((placed.n - had) * record.size > std::max<std::int64_t>(0, hosts_[host].free()) ||
        (had == 0 && record.entry > hosts_[host].entries_free())) {
      return false;
    }
  }
  for (Entry& entry : record.entries) {
    put(record, entry, 0, 0, entry.committed);
  }
  for (const Placed& placed : decided) {
    Entry& entry = entry_on(slot, hosts_.find(placed.host));
    put(record, entry, placed.n, placed.n, entry.committed);
  }
  drop_empty(slot);
  note_pending(slot);
  return true;
}

Delta Placement::Core::release(std::string_view key) {
  Delta delta;
  delta.key = key;
  const ClaimSlot slot = find(key);
  if (slot == kNoSlot) {
    return delta;
  }
  sort_entries(slot);
  Record& record = records_[slot];
  for (Entry& entry : record.entries) {
    const std::int64_t n = std::max(entry.told, entry.committed);
    if (n > 0) {
      delta.remove.push_back({hosts_[entry.host].host.id, n});
    }
    put(record, entry, 0, 0, 0);
  }
  drop_empty(slot);
  with_min_hosts_ -= record.min_hosts > 0 ? 1 : 0;
  record.wanted = record.min_hosts = 0;
  record.frozen = record.due = false;
  note_pending(slot);
  keys_.erase(keys_.find(key));
  free_slots_.push_back(slot);
  record.key.clear();
  return delta;
}

void Placement::Core::write_succeeded(std::string_view key, std::span<const Placed> written) {
  const ClaimSlot slot = find(key);
  if (slot == kNoSlot) {
    return;
  }
  bool normalised = false;
  commit(slot, written, &normalised);
  Record& record = records_[slot];
  for (Entry& entry : record.entries) {
    put(record, entry, entry.decided, entry.committed, entry.committed);
  }
  drop_empty(slot);
}

void Placement::Core::write_failed(std::string_view key) {
  const ClaimSlot slot = find(key);
  if (slot == kNoSlot) {
    return;
  }
  Record& record = records_[slot];
  for (Entry& entry : record.entries) {
    put(record, entry, std::min(entry.decided, entry.committed), entry.committed, entry.committed);
  }
  drop_empty(slot);
  note_pending(slot);
  mark_due(slot);
}

}  // namespace kintsugi::workers
