#include "workers/runtime/endpoints/cluster_owners.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

bool has_unit(const std::vector<UnitId>& units, UnitId unit) noexcept {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

}  // namespace

void ClusterOwners::on_seen(std::string_view cluster, UnitId unit, TimePoint now, Actions& out) {
  if (const auto it = duplicates_.find(cluster); it != duplicates_.end()) {
    Duplicate& entry = it->second;
    if (has_unit(entry.seen, unit)) {
      return;
    }
    entry.seen.push_back(unit);
    entry.ask_at = now;
    if (entry.owner == unit) {
      return;  // it was named before it showed anything, and acts already or after the hand-over
    }
    ++total_;
    out.push_back({OwnerAction::Kind::kPark, std::string(cluster), unit});
    return;
  }
  const auto it = single_.find(cluster);
  if (it == single_.end()) {
    single_.emplace(cluster, unit);
    out.push_back({OwnerAction::Kind::kAct, std::string(cluster), unit});
    return;
  }
  const UnitId first = it->second;
  if (first == unit) {
    return;
  }
  single_.erase(it);
  duplicates_.emplace(cluster, Duplicate{{first, unit}, first, first, false, now});
  ++total_;
  out.push_back({OwnerAction::Kind::kPark, std::string(cluster), unit});
}

/// Tells what brings the acting unit nearer to the owner.
void ClusterOwners::follow(std::string_view cluster, Duplicate& entry, Actions& out) const {
  if (!entry.acting) {
    entry.acting = entry.owner;
    out.push_back({OwnerAction::Kind::kAct, std::string(cluster), entry.owner});
  } else if (*entry.acting != entry.owner) {
    out.push_back({OwnerAction::Kind::kPark, std::string(cluster), *entry.acting});
  }
}

/// One unit is left, and it acts: nothing to ask any more.
void ClusterOwners::settle(const std::string& cluster) {
  const auto it = duplicates_.find(cluster);
  if (it == duplicates_.end()) {
    return;
  }
  const Duplicate& entry = it->second;
  if (entry.seen.size() == 1 && entry.owner == entry.seen.front() && entry.acting == entry.owner) {
    single_.emplace(cluster, entry.owner);
    duplicates_.erase(it);
  }
}

void ClusterOwners::leave(const std::string& cluster, UnitId unit, Actions& out) {
  const auto it = duplicates_.find(cluster);
  Duplicate& entry = it->second;
  std::erase(entry.seen, unit);
  if (entry.acting == unit) {
    entry.acting.reset();  // none of its keys runs
  }
  if (entry.seen.empty()) {
    if (entry.acting) {  // it was named and never showed the cluster
      out.push_back({OwnerAction::Kind::kPark, cluster, *entry.acting});
    }
    duplicates_.erase(it);
    return;
  }
  if (entry.owner == unit) {
    entry.owner = entry.seen.front();  // until the proxy says
    entry.ask_at = {};
    if (entry.acting == entry.owner) {  // it was to hand over to the unit that left
      out.push_back({OwnerAction::Kind::kAct, cluster, entry.owner});
    }
  }
  if (!entry.acting) {
    follow(cluster, entry, out);
  }
  settle(cluster);
}

void ClusterOwners::on_gone(std::string_view cluster, UnitId unit, Actions& out) {
  if (const auto it = duplicates_.find(cluster); it != duplicates_.end()) {
    if (has_unit(it->second.seen, unit)) {
      leave(std::string(cluster), unit, out);
    }
    return;
  }
  if (const auto it = single_.find(cluster); it != single_.end() && it->second == unit) {
    single_.erase(it);
  }
}

void ClusterOwners::on_unit_gone(UnitId unit, Actions& out) {
  std::erase_if(single_, [unit](const auto& entry) { return entry.second == unit; });
  std::vector<std::string> clusters;
  for (auto& [cluster, entry] : duplicates_) {
    if (has_unit(entry.seen, unit) || entry.acting == unit || entry.owner == unit) {
      clusters.push_back(cluster);
    }
  }
  std::sort(clusters.begin(), clusters.end());
  for (const std::string& cluster : clusters) {
    leave(cluster, unit, out);
  }
}

void ClusterOwners::on_parked(std::string_view cluster, UnitId unit, Actions& out) {
  const auto it = duplicates_.find(cluster);
  if (it == duplicates_.end() || it->second.acting != unit || it->second.owner == unit) {
    return;
  }
  it->second.acting.reset();
  follow(cluster, it->second, out);
  settle(std::string(cluster));
}

void ClusterOwners::on_elsewhere(std::string_view cluster, UnitId unit, TimePoint now,
                                 Actions& out) {
  auto found = duplicates_.find(cluster);
  if (found == duplicates_.end()) {
    const auto it = single_.find(cluster);
    if (it == single_.end()) {
      single_.emplace(cluster, kElsewhere);  // whoever comes to show it has to ask
      return;
    }
    if (it->second != unit) {
      return;
    }
    single_.erase(it);
    found = duplicates_.emplace(cluster, Duplicate{{unit}, unit, unit, false, now}).first;
  }
  Duplicate& entry = found->second;
  if (entry.owner != unit) {
    return;  // it does not act, or is told to park already
  }
  const bool was_acting = entry.acting == unit;  // else another one is told to park already
  if (!has_unit(entry.seen, kElsewhere)) {
    entry.seen.push_back(kElsewhere);
  }
  entry.owner = kElsewhere;
  entry.ask_at = now;
  ++total_;
  if (was_acting) {
    follow(cluster, entry, out);
  }
}

bool ClusterOwners::acts(std::string_view cluster, UnitId unit) const noexcept {
  if (const auto it = duplicates_.find(cluster); it != duplicates_.end()) {
    return it->second.acting == unit;
  }
  const auto it = single_.find(cluster);
  return it != single_.end() && it->second == unit;
}

bool ClusterOwners::may_act(std::string_view cluster, UnitId unit) const noexcept {
  if (const auto it = duplicates_.find(cluster); it != duplicates_.end()) {
    return it->second.acting == unit && it->second.owner == unit;
  }
  const auto it = single_.find(cluster);
  return it == single_.end() || it->second == unit;
}

bool ClusterOwners::may_delete(std::string_view cluster, UnitId unit) const noexcept {
  return !duplicates_.contains(cluster) && may_act(cluster, unit);
}

std::vector<std::string> ClusterOwners::due(TimePoint now, std::size_t limit) {
  std::vector<std::string> clusters;
  for (auto& [cluster, entry] : duplicates_) {
    if (clusters.size() >= limit) {
      break;
    }
    if (!entry.asking && entry.ask_at <= now) {
      entry.asking = true;
      clusters.push_back(cluster);
    }
  }
  return clusters;
}

void ClusterOwners::on_resolved(std::string_view cluster, std::optional<UnitId> owner,
                                TimePoint now, Actions& out) {
  const auto it = duplicates_.find(cluster);
  if (it == duplicates_.end()) {
    return;
  }
  Duplicate& entry = it->second;
  entry.asking = false;
  entry.ask_at = now + kAskAgain;
  if (!owner || *owner == entry.owner) {
    return;
  }
  std::erase(entry.seen, kElsewhere);  // it was mistaken, or has let go itself
  if (entry.acting == kElsewhere) {
    entry.owner = *owner;
    entry.acting.reset();
    follow(cluster, entry, out);
    settle(std::string(cluster));
    return;
  }
  const bool returns = entry.acting == owner;
  const bool was_acting = entry.acting == entry.owner;  // else it is told to park already
  entry.owner = *owner;
  if (returns) {  // named again before it had parked
    out.push_back({OwnerAction::Kind::kAct, std::string(cluster), *owner});
    settle(std::string(cluster));
  } else if (was_acting) {
    follow(cluster, entry, out);
  }
}

}  // namespace kintsugi::workers
