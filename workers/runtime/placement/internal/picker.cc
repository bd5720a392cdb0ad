#include "workers/runtime/placement/internal/picker.h"

#include <algorithm>
#include <numeric>

namespace kintsugi::workers {
namespace {

/// Ordinals in the order of unsigned numbers.
std::uint64_t ascending(std::int32_t ordinal) noexcept {
  return static_cast<std::uint64_t>(std::int64_t{ordinal} + (std::int64_t{1} << 32));
}

}  // namespace

std::uint64_t rendezvous(std::uint64_t claim, std::uint64_t other) noexcept {
  std::uint64_t z = claim ^ (other * 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 33U)) * 0xFF51AFD7ED558CCDULL;
  z = (z ^ (z >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
  return z ^ (z >> 33U);
}

bool Picker::worse(const Used& a, const Used& b) const noexcept {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  return a.host != b.host && hosts_[a.host].host.id > hosts_[b.host].host.id;
}

void Picker::begin(const Want& want, std::span<const Entry> entries) {
  want_ = want;
  only_unused_ = false;
  ++mark_;
  units_.clear();
  entry_host_.clear();
  held_.clear();
  zones_.resize(hosts_.zones());
  if (want_.policy != Policy::kMostFree) {
    for (ZoneSlot z = 0; z < zones_.size(); ++z) {
      ZoneState& zone = zones_[z];
      zone.count = 0;
      zone.looked = false;
      zone.next = 0;
      zone.used.clear();
      if (want_.policy == Policy::kSpread) {
        const std::vector<HostSlot>& in = hosts_.zone(z).hosts;
        zone.end = in.size();
        if (want_.bound != kNoSlot) {
          zone.end = static_cast<std::size_t>(
              std::lower_bound(in.begin(), in.end(), want_.bound,
                               [this](HostSlot a, HostSlot b) { return hosts_.before(a, b); }) -
              in.begin());
        }
      }
    }
  }
  if (want_.policy == Policy::kAntiAffinity) {
    hosts_.use_buckets();
    for (std::size_t g = 0; g < HostTable::kGroups; ++g) {
      group_rank_[g] = ~rendezvous(want_.hash, g + 1);
    }
    std::iota(groups_.begin(), groups_.end(), std::uint8_t{0});
    std::sort(groups_.begin(), groups_.end(), [this](std::uint8_t a, std::uint8_t b) {
      return group_rank_[a] != group_rank_[b] ? group_rank_[a] < group_rank_[b] : a < b;
    });
  }
  for (const Entry& entry : entries) {
    HostTable::State& host = hosts_[entry.host];
    host.mark = mark_;
    host.entry = static_cast<std::uint32_t>(units_.size());
    units_.push_back(entry.decided);
    entry_host_.push_back(entry.host);
    held_.push_back(entry.held() > 0);
    if (entry.decided > 0 && host.usable() && want_.policy != Policy::kMostFree) {
      zones_[host.zone].count += entry.decided;
      push_used(entry);
    }
  }
}

void Picker::only_unused(bool on) {
  if (only_unused_ != on) {
    only_unused_ = on;
    for (ZoneState& zone : zones_) {
      zone.looked = false;
    }
  }
}

void Picker::push_used(const Entry& entry) {
  if (want_.policy != Policy::kSpread || want_.one_per_host) {
    return;
  }
  const HostTable::State& host = hosts_[entry.host];
  if (host.at >= zones_[host.zone].end) {
    return;
  }
  std::vector<Used>& used = zones_[host.zone].used;
  used.push_back(
      {{0, static_cast<std::uint64_t>(entry.decided), entry.decided > entry.committed ? 0U : 1U,
        ascending(host.host.ordinal), ~rendezvous(want_.hash, host.hash)},
       entry.host});
  std::push_heap(used.begin(), used.end(),
                 [this](const Used& a, const Used& b) { return worse(a, b); });
}

void Picker::look_spread(ZoneSlot z) {
  ZoneState& zone = zones_[z];
  const HostTable::Zone& table = hosts_.zone(z);
  const auto find = [&](std::size_t from) {
    std::size_t i = table.tree.first(from, want_.size);
    while (i < zone.end && !(unused(table.hosts[i]) && fits(table.hosts[i]))) {
      i = table.tree.first(i + 1, want_.size);
    }
    return i;
  };
  zone.next = find(zone.next);
  if (zone.next < zone.end) {
    for (std::size_t i = zone.next; i < zone.end; i = find(i + 1)) {
      const HostTable::State& host = hosts_[table.hosts[i]];
      const Rank rank{0, 0, 1, ascending(host.host.ordinal), ~rendezvous(want_.hash, host.hash)};
      if (zone.candidate != kNoSlot && rank[3] != zone.rank[3]) {
        break;
      }
      if (zone.candidate == kNoSlot || rank < zone.rank) {
        zone.candidate = table.hosts[i];
        zone.rank = rank;
      }
    }
    return;
  }
  const auto less = [this](const Used& a, const Used& b) { return worse(a, b); };
  while (!only_unused_ && !zone.used.empty()) {
    if (feasible(zone.used.front().host)) {
      zone.candidate = zone.used.front().host;
      zone.rank = zone.used.front().rank;
      return;
    }
    std::pop_heap(zone.used.begin(), zone.used.end(), less);
    zone.used.pop_back();
  }
}

void Picker::look_apart(ZoneSlot z) {
  ZoneState& zone = zones_[z];
  const HostTable::Zone& table = hosts_.zone(z);
  const auto consider = [&](HostSlot slot, std::uint64_t miss) {
    const HostTable::State& host = hosts_[slot];
    if (!feasible(slot) || !unused(slot)) {
      return;
    }
    const Rank rank{0, miss, host.eighth, group_rank_[HostTable::group_of(host.hash)],
                    ~rendezvous(want_.hash, host.hash)};
    const bool better =
        zone.candidate == kNoSlot || rank < zone.rank ||
        (rank == zone.rank && hosts_[slot].host.id < hosts_[zone.candidate].host.id);
    if (better) {
      zone.candidate = slot;
      zone.rank = rank;
    }
  };
  if (!want_.affinity.empty()) {
    if (const auto found = table.labels.find(want_.affinity); found != table.labels.end()) {
      for (const HostSlot slot : found->second) {
        consider(slot, 0);
      }
    }
  }
  for (std::size_t e = 0; e < HostTable::kEighths && zone.candidate == kNoSlot; ++e) {
    const HostTable::Bucket* bucket = table.buckets[e].get();
    if (bucket == nullptr || bucket->mask == 0) {
      continue;
    }
    for (std::size_t i = 0; i < groups_.size() && zone.candidate == kNoSlot; ++i) {
      for (const HostSlot slot : bucket->groups[groups_[i]]) {
        consider(slot, 1);
      }
    }
  }
}

void Picker::look(ZoneSlot z) {
  ZoneState& zone = zones_[z];
  if (zone.looked) {
    return;
  }
  zone.looked = true;
  zone.candidate = kNoSlot;
  if (want_.policy == Policy::kSpread) {
    look_spread(z);
  } else {
    look_apart(z);
  }
}

HostSlot Picker::best_in(ZoneSlot zone) {
  look(zone);
  return zones_[zone].candidate;
}

HostSlot Picker::best_zone() {
  HostSlot best = kNoSlot;
  Rank best_rank{};
  for (ZoneSlot z = 0; z < zones_.size(); ++z) {
    const auto count = static_cast<std::uint64_t>(zones_[z].count);
    if (best != kNoSlot && count > best_rank[0]) {
      continue;
    }
    const HostSlot candidate = best_in(z);
    if (candidate == kNoSlot) {
      continue;
    }
    Rank rank = zones_[z].rank;
    rank[0] = count;
    if (best == kNoSlot || rank < best_rank ||
        (rank == best_rank && hosts_[candidate].host.id < hosts_[best].host.id)) {
      best = candidate;
      best_rank = rank;
    }
  }
  return best;
}

HostSlot Picker::best_free() {
  const HostTable::FreeIndex& index = hosts_.by_free();
  for (const HostTable::ByFree& next : index) {
    if (next.free < want_.size) {
      break;
    }
    if (unused(next.slot) && fits(next.slot)) {
      return next.slot;
    }
  }
  if (want_.one_per_host || only_unused_) {
    return kNoSlot;
  }
  HostSlot best = kNoSlot;
  const HostTable::ByFreeLess less = index.key_comp();
  const auto key = [this](HostSlot slot) {
    return HostTable::ByFree{hosts_[slot].free(), hosts_[slot].all_claims(), slot};
  };
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const HostSlot slot = entry_host_[i];
    if (units_[i] > 0 && feasible(slot) && (best == kNoSlot || less(key(slot), key(best)))) {
      best = slot;
    }
  }
  return best;
}

HostSlot Picker::best_pinned() const noexcept {
  const HostSlot slot = *want_.pinned;
  if (slot == kNoSlot || !feasible(slot)) {
    return kNoSlot;
  }
  return (want_.one_per_host || only_unused_) && !unused(slot) ? kNoSlot : slot;
}

HostSlot Picker::best() {
  if (want_.pinned) {
    return best_pinned();
  }
  return want_.policy == Policy::kMostFree ? best_free() : best_zone();
}

void Picker::took(const Entry& entry) {
  HostTable::State& host = hosts_[entry.host];
  if (host.mark != mark_) {
    host.mark = mark_;
    host.entry = static_cast<std::uint32_t>(units_.size());
    units_.push_back(0);
    entry_host_.push_back(entry.host);
    held_.push_back(true);
  }
  units_[host.entry] = entry.decided;
  if (want_.policy == Policy::kMostFree) {
    return;
  }
  ZoneState& zone = zones_[host.zone];
  ++zone.count;
  if (want_.policy == Policy::kSpread && !zone.used.empty() &&
      zone.used.front().host == entry.host) {
    std::pop_heap(zone.used.begin(), zone.used.end(),
                  [this](const Used& a, const Used& b) { return worse(a, b); });
    zone.used.pop_back();
  }
  push_used(entry);
  zone.looked = false;
}

}  // namespace kintsugi::workers
