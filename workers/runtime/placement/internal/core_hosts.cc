// Hosts that come, change and go, and what that takes off them (10.2, steps 2 and 3).
#include <algorithm>
#include <utility>

#include "workers/runtime/placement/internal/core.h"

namespace kintsugi::workers {

/// min_hosts raises a target to the number of usable hosts at most.
void Placement::Core::update_targets(std::int64_t before) {
  if (with_min_hosts_ == 0 || before == hosts_.usable()) {
    return;
  }
  for (const auto& [key, slot] : keys_) {
    if (records_[slot].min_hosts > std::min(before, hosts_.usable())) {
      note_pending(slot);
      mark_due(slot);
    }
  }
}

void Placement::Core::leave_host(HostSlot host) {
  for (const ClaimSlot slot : hosts_[host].claims) {
    Record& record = records_[slot];
    Entry& entry = entry_on(slot, host);
    if (entry.decided > 0) {
      decide(record, entry, 0);
      mark_due(slot);
      note_pending(slot);
    }
  }
}

/// The oldest claims keep what fits: what is too large for the rest of the host makes no younger
/// one give way.
void Placement::Core::evict(HostSlot host) {
  const HostTable::State& state = hosts_[host];
  if (!state.usable() ||
      (state.placed <= state.host.capacity && state.entries_placed <= state.host.entry_capacity)) {
    return;
  }
  std::vector<ClaimSlot> order = state.claims;
  std::sort(order.begin(), order.end(),
            [this](ClaimSlot a, ClaimSlot b) { return a != b && older(records_[a], records_[b]); });
  std::int64_t room = state.host.capacity;
  std::int64_t entries = state.host.entry_capacity;
  for (const ClaimSlot slot : order) {
    Record& record = records_[slot];
    Entry& entry = entry_on(slot, host);
    const std::int64_t keep =
        record.entry > entries ? 0 : std::min(entry.decided, room / record.size);
    room -= keep * record.size;
    entries -= keep > 0 ? record.entry : 0;
    if (keep < entry.decided) {
      decide(record, entry, keep);
      mark_due(slot);
      note_pending(slot);
    }
  }
}

Expected<void> Placement::Core::host_changed(const Host& host) {
  if (host.id.empty()) {
    return fail(Errc::kInvalid, "host: no id");
  }
  if (host.capacity < 0 || host.capacity > kMost) {
    return fail(Errc::kInvalid, "capacity of " + host.id + ": " + std::to_string(host.capacity) +
                                    " is not in 0..2147483647");
  }
  if (host.entry_capacity < 0 || host.entry_capacity > kMostEntry) {
    return fail(Errc::kInvalid, "entry capacity of " + host.id + ": " +
                                    std::to_string(host.entry_capacity) + " is not in 0..2^53");
  }
  const std::int64_t before = hosts_.usable();
  const HostSlot slot = hosts_.intern(host.id);
  const HostTable::State& state = hosts_[slot];
  const std::int64_t room = state.usable() ? state.host.capacity : -1;
  const std::int64_t entries = state.usable() ? state.host.entry_capacity : -1;
  const bool opens = state.host.closed && !host.closed;
  hosts_.set(slot, host);
  if (hosts_[slot].usable()) {
    evict(slot);
    freed_ = freed_ || opens || host.capacity > room || host.entry_capacity > entries;
  } else {
    leave_host(slot);
  }
  update_targets(before);
  return {};
}

void Placement::Core::host_gone(std::string_view id) {
  const HostSlot slot = hosts_.find(id);
  if (slot == kNoSlot) {
    return;
  }
  const std::int64_t before = hosts_.usable();
  leave_host(slot);
  hosts_.forget(slot);
  update_targets(before);
}

}  // namespace kintsugi::workers
