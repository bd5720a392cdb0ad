// How many hosts are needed, and moves that nobody's loss forces: rebalance, compact.
#include <algorithm>

#include "workers/runtime/placement/internal/core.h"

namespace kintsugi::workers {

RequiredHosts Placement::Core::required_hosts() {
  constexpr std::int64_t kEnough = std::int64_t{1} << 61;
  std::int64_t need = 0;
  std::int64_t entries = 0;  // at least: of each claim one
  std::int64_t different = 0;
  for (const auto& [key, slot] : keys_) {
    const Record& record = records_[slot];
    const std::int64_t goal = target(record);
    need = std::min(kEnough, need + goal * record.size);
    entries = std::min(kEnough, entries + (goal > 0 ? record.entry : 0));
    const std::int64_t least = record.one_per_host ? goal : std::min(goal, apart(record));
    different = std::max(different, least);
  }
  const std::vector<HostSlot>& order = hosts_.in_order();
  const auto known = static_cast<std::int64_t>(order.size());
  std::int64_t n = 0;
  for (; n < known && (need > 0 || entries > 0); ++n) {
    const Host& host = hosts_[order[static_cast<std::size_t>(n)]].host;
    need -= host.capacity;
    entries -= host.entry_capacity;
  }
  const auto more = [](std::int64_t rest, std::int64_t each) {
    return rest > 0 && each > 0 ? (rest + each - 1) / each : 0;
  };
  n += std::max(more(need, params_.new_host_capacity), more(entries, params_.new_host_entries));
  RequiredHosts required;
  required.hosts = std::max({n, different, params_.min_hosts});
  if (required.hosts > known) {
    std::int64_t ordinals = 0;
    for (HostSlot slot = 0; slot < hosts_.slots(); ++slot) {
      if (hosts_[slot].known) {
        ordinals = std::max(ordinals, std::int64_t{hosts_[slot].host.ordinal} + 1);
      }
    }
    required.ordinals = ordinals + required.hosts - known;
  } else if (required.hosts > 0) {
    required.ordinals =
        std::int64_t{hosts_[order[static_cast<std::size_t>(required.hosts - 1)]].host.ordinal} + 1;
  }
  return required;
}

HostSlot Placement::Core::first_surplus_host() {
  const auto n = static_cast<std::size_t>(required_hosts().hosts);
  const std::vector<HostSlot>& order = hosts_.in_order();
  return n < order.size() ? order[n] : kNoSlot;
}

bool Placement::Core::movable(const Record& record) const noexcept {
  return record.policy == Policy::kSpread && record.pinned.empty() && !record.frozen &&
         missing(record) == 0 &&
         std::all_of(record.entries.begin(), record.entries.end(), [](const Entry& e) {
           return e.decided == e.committed && e.told == e.committed;
         });
}

/// Movable claims, oldest first, their entries in order.
std::vector<ClaimSlot> Placement::Core::movable_by_age() {
  std::vector<ClaimSlot> slots;
  slots.reserve(keys_.size());
  for (const auto& [key, slot] : keys_) {
    if (movable(records_[slot])) {
      sort_entries(slot);
      slots.push_back(slot);
    }
  }
  std::sort(slots.begin(), slots.end(),
            [this](ClaimSlot a, ClaimSlot b) { return a != b && older(records_[a], records_[b]); });
  return slots;
}

void Placement::Core::move_unit(ClaimSlot slot, HostSlot from, HostSlot to) {
  Record& record = records_[slot];
  Entry& taken = entry_on(slot, from);
  decide(record, taken, taken.decided - 1);
  Entry& given = entry_on(slot, to);
  decide(record, given, given.decided + 1);
}

void Placement::Core::begin_move(const Record& record, HostSlot bound) {
  picker_.begin(want_of(record, bound), record.entries);
  picker_.only_unused(record.all_or_nothing);
}

/// The fullest host of the claim, in one zone; of equals the last. nullptr: none.
const Entry* Placement::Core::fullest(const Record& record, ZoneSlot zone) const noexcept {
  const Entry* most = nullptr;
  for (const Entry& entry : record.entries) {
    if (entry.decided == 0 || hosts_[entry.host].zone != zone) {
      continue;
    }
    if (most == nullptr || entry.decided > most->decided ||
        (entry.decided == most->decided && hosts_.before(most->host, entry.host))) {
      most = &entry;
    }
  }
  return most;
}

/// What the claim has on the host of a zone that would take its next unit; much, if none would.
std::int64_t Placement::Core::emptiest(const Record& record, ZoneSlot zone) {
  const HostSlot host = picker_.best_in(zone);
  if (host == kNoSlot) {
    return kMost;
  }
  const std::uint32_t at = picker_.entry_of(host);
  return at == kNoSlot ? 0 : record.entries[at].decided;
}

bool Placement::Core::rebalance_zones(ClaimSlot slot, HostSlot bound) {
  const Record& record = records_[slot];
  begin_move(record, bound);
  const HostSlot to = picker_.best();
  if (to == kNoSlot) {
    return false;
  }
  // Of zones equally full the one that is least even inside: the move serves both.
  ZoneSlot full = hosts_[to].zone;
  std::int64_t gap = 0;
  for (const Entry& entry : record.entries) {
    const ZoneSlot zone = hosts_[entry.host].zone;
    if (entry.decided == 0 || picker_.in_zone(zone) < picker_.in_zone(full)) {
      continue;
    }
    const std::int64_t here = fullest(record, zone)->decided - emptiest(record, zone);
    if (picker_.in_zone(zone) > picker_.in_zone(full) || here > gap) {
      full = zone;
      gap = here;
    }
  }
  if (picker_.in_zone(full) - picker_.in_zone(hosts_[to].zone) < 2) {
    return false;
  }
  move_unit(slot, fullest(record, full)->host, to);
  return true;
}

bool Placement::Core::rebalance_hosts(ClaimSlot slot, HostSlot bound) {
  const Record& record = records_[slot];
  begin_move(record, bound);
  // A zone with one unit more than another gives it that one, where both are uneven inside.
  const auto uneven = [&](ZoneSlot zone) {
    const Entry* most = fullest(record, zone);
    return most != nullptr && most->decided - emptiest(record, zone) >= 2;
  };
  std::vector<ZoneSlot> zones;
  for (const Entry& entry : record.entries) {
    const ZoneSlot zone = hosts_[entry.host].zone;
    if (entry.decided >= 2 && std::find(zones.begin(), zones.end(), zone) == zones.end() &&
        uneven(zone)) {
      zones.push_back(zone);
    }
  }
  if (zones.empty()) {
    return false;
  }
  for (const ZoneSlot from : zones) {
    for (const ZoneSlot to : zones) {
      const Entry* most = fullest(record, from);
      if (picker_.in_zone(from) == picker_.in_zone(to) + 1 &&
          most->decided - emptiest(record, to) >= 2) {
        move_unit(slot, most->host, picker_.best_in(to));
        return true;
      }
    }
  }
  move_unit(slot, fullest(record, zones.front())->host, picker_.best_in(zones.front()));
  return true;
}

std::vector<Delta> Placement::Core::moved_deltas(std::vector<ClaimSlot> moved) {
  std::sort(moved.begin(), moved.end(),
            [this](ClaimSlot a, ClaimSlot b) { return a != b && older(records_[a], records_[b]); });
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  std::vector<Delta> deltas;
  deltas.reserve(moved.size());
  for (const ClaimSlot slot : moved) {
    deltas.push_back(answer(slot, false));
  }
  return deltas;
}

std::vector<Delta> Placement::Core::rebalance(std::int64_t budget) {
  const HostSlot bound = first_surplus_host();
  const std::vector<ClaimSlot> claims = movable_by_age();
  std::vector<ClaimSlot> moved;
  for (const bool zones : {true, false}) {
    for (const ClaimSlot slot : claims) {
      while (budget > 0 && (zones ? rebalance_zones(slot, bound) : rebalance_hosts(slot, bound))) {
        --budget;
        moved.push_back(slot);
      }
    }
  }
  return moved_deltas(std::move(moved));
}

std::vector<Delta> Placement::Core::compact(std::int64_t budget) {
  const HostSlot bound = first_surplus_host();
  if (bound == kNoSlot || budget <= 0) {
    return {};
  }
  std::vector<bool> may(records_.size());
  for (const auto& [key, slot] : keys_) {
    may[slot] = movable(records_[slot]);
  }
  std::vector<ClaimSlot> moved;
  const std::vector<HostSlot> order = hosts_.in_order();
  for (auto host = order.rbegin(); host != order.rend() && !hosts_.before(*host, bound); ++host) {
    std::vector<ClaimSlot> claims = hosts_[*host].claims;
    std::sort(claims.begin(), claims.end(), [this](ClaimSlot a, ClaimSlot b) {
      return a != b && older(records_[b], records_[a]);
    });
    for (const ClaimSlot slot : claims) {
      while (may[slot] && budget > 0 && entry_on(slot, *host).decided > 0) {
        begin_move(records_[slot], bound);
        const HostSlot to = picker_.best();
        if (to == kNoSlot) {
          break;
        }
        move_unit(slot, *host, to);
        --budget;
        moved.push_back(slot);
      }
    }
  }
  return moved_deltas(std::move(moved));
}

}  // namespace kintsugi::workers
