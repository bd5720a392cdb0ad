// Where addresses go.
#include <algorithm>
#include <tuple>

#include "workers/messaging/placing/internal/core.h"

namespace kintsugi::workers {

namespace {
constexpr std::size_t kMostUnit = 64;  // addresses that are decided together
constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;
}  // namespace

bool AddressScheduler::Core::has_gone(const Item& item) const noexcept {
  const auto hosts = item.hosts.view();
  return std::any_of(hosts.begin(), hosts.end(),
                     [this](BrokerSlot slot) { return !brokers_[slot].known; });
}

std::int64_t AddressScheduler::Core::known_brokers() const noexcept {
  return std::count_if(brokers_.begin(), brokers_.end(), [](const Broker& b) { return b.known; });
}

/// Whether all brokers that there are had their chance.
bool AddressScheduler::Core::may_grow() const noexcept {
  return std::all_of(brokers_.begin(), brokers_.end(),
                     [](const Broker& b) { return !b.known || b.seen || b.view.excluded; });
}

void AddressScheduler::Core::settle(Item& item, PlacingReason reason, bool homeless) {
  if (item.reason != reason) {
    changed_.insert(item.age);
  }
  item.reason = reason;
  homeless_ += homeless ? 1 : 0;
  homeless_ -= item.homeless ? 1 : 0;
  item.homeless = homeless;
  if (reason == PlacingReason::kScheduled ||
      (reason == PlacingReason::kBrokerGone && !item.reschedule)) {
    pending_.erase(item.age);
  } else {
    pending_.insert(item.age);
  }
}

/// It fits nowhere. What has a place keeps it.
void AddressScheduler::Core::settle_homeless(Item& item) {
  const bool none =
      std::none_of(brokers_.begin(), brokers_.end(), [](const Broker& b) { return b.open(); });
  const std::int64_t n = known_brokers();
  PlacingReason reason = n < max_ || !may_grow() || (none && n > 0)
                             ? PlacingReason::kWaitingForBroker
                             : PlacingReason::kMaxBrokersReached;
  if (has_gone(item)) {
    reason = PlacingReason::kBrokerGone;
  }
  settle(item, reason, true);
}

/// Its brokers are others: who depends on it is looked at again.
void AddressScheduler::Core::moved(const Item& item) {
  changed_.insert(item.age);
  const ObjectId object = item.age.object;
  for (auto at = followers_.lower_bound({object, 0}); at != followers_.end() && at->first == object;
       ++at) {
    due_.insert(items_.at(at->second).age);
  }
  for (const ObjectId target : item.targets) {
    const Item* other = find(target);
    if (other == nullptr || other->every) {
      continue;
    }
    const auto hosts = item.hosts.view();
    if (std::any_of(hosts.begin(), hosts.end(),
                    [other](BrokerSlot slot) { return !other->hosts.has(slot); })) {
      due_.insert(other->age);
    }
  }
}

std::vector<BrokerSlot> AddressScheduler::Core::hosts_of_sources(const Item& item) const {
  std::vector<BrokerSlot> all;
  const ObjectId object = item.age.object;
  for (auto at = sources_.lower_bound({object, 0}); at != sources_.end() && at->first == object;
       ++at) {
    for (const BrokerSlot slot : items_.at(at->second).hosts.view()) {
      if (brokers_[slot].known && std::find(all.begin(), all.end(), slot) == all.end()) {
        all.push_back(slot);
      }
    }
  }
  return all;
}

AddressScheduler::Core::Unit AddressScheduler::Core::unit_of(const Item& item) const {
  Unit unit;
  std::vector<ObjectId> seen{item.age.object};
  for (std::size_t i = 0; i < seen.size() && seen.size() < kMostUnit; ++i) {
    for (const ObjectId target : find(seen[i])->targets) {
      const Item* other = find(target);
      if (other == nullptr || other->every || other->pinned != kNone ||
          std::find(seen.begin(), seen.end(), target) != seen.end()) {
        continue;
      }
      seen.push_back(target);
      (other->hosts.empty() ? unit.fresh : unit.placed).push_back(target);
    }
  }
  return unit;
}

std::vector<BrokerSlot> AddressScheduler::Core::pick(std::int64_t size, std::int64_t n,
                                                     std::span<const BrokerSlot> not_these) {
  std::vector<BrokerSlot> hosts;
  if (size > kMostSize) {
    return hosts;
  }
  for (const BrokerSlot slot : not_these) {
    push(slot, true);
  }
  Claim claim;
  claim.key = "?";  // of no address: what the library knows of the others stays
  claim.wanted = claim.min_hosts = n;
  claim.unit_size = size;
  claim.policy = Policy::kMostFree;
  claim.one_per_host = claim.all_or_nothing = true;
  const Expected<Delta> delta = library_->schedule(claim);
  if (delta && delta->pending == 0) {
    for (const Placed& placed : delta->placements) {
      hosts.push_back(slots_.find(placed.host)->second);
    }
  }
  (void)library_->release(claim.key);
  for (const BrokerSlot slot : not_these) {
    push(slot);
  }
  return hosts;
}

void AddressScheduler::Core::place_pinned(Item& item) {
  const Item* owner = find(item.pinned);
  const bool topic = owner != nullptr ? owner->type == AddressType::kTopic
                                      : item.type == AddressType::kSubscription;
  if (owner == nullptr || owner->hosts.empty()) {
    if (item.hosts.empty()) {
      settle(item, topic ? PlacingReason::kWaitingForTopic : PlacingReason::kWaitingForSpace);
    }
    return;
  }
  if (std::any_of(item.hosts.view().begin(), item.hosts.view().end(),
                  [owner](BrokerSlot slot) { return owner->hosts.has(slot); })) {
    settle(item, has_gone(item) ? PlacingReason::kBrokerGone : PlacingReason::kScheduled);
    return;
  }
  if (!item.hosts.empty() && !has_gone(item)) {
    settle(item, PlacingReason::kScheduled);  // what its status says stays
    return;
  }
  const BrokerSlot slot = owner->hosts.view().front();
  const Broker& broker = brokers_[slot];
  if (!broker.open()) {
    settle(item,
           item.hosts.empty() ? PlacingReason::kBrokerNotConnected : PlacingReason::kBrokerGone);
    return;
  }
  if (room(broker) < units(share_of(item, 1))) {
    settle(item, item.hosts.empty() ? PlacingReason::kBrokerFull : PlacingReason::kBrokerGone);
    return;
  }
  moves_ += item.hosts.empty() ? 0 : 1;
  put(item, std::vector<BrokerSlot>{slot});
  settle(item, PlacingReason::kScheduled);
  moved(item);
}

/// It has brokers: lost ones are replaced, and those of its sources and missing partitions added.
/// There are never fewer than before, so that its share of each does not grow.
void AddressScheduler::Core::place_extended(Item& item) {
  const std::vector<BrokerSlot> had(item.hosts.view().begin(), item.hosts.view().end());
  std::vector<BrokerSlot> next;
  for (const BrokerSlot slot : had) {
    if (brokers_[slot].known || !item.reschedule) {
      next.push_back(slot);
    }
  }
  const std::size_t stayed = next.size();
  const std::size_t lost = had.size() - stayed;
  const auto count = [&item, stayed, lost](std::size_t added) {
    return static_cast<std::int64_t>(
        std::max<std::size_t>(item.least, stayed + std::max(lost, added)));
  };
  bool full = false;
  for (const BrokerSlot slot : hosts_of_sources(item)) {
    if (item.hosts.has(slot)) {
      continue;
    }
    if (room(brokers_[slot]) < units(share_of(item, count(1)))) {
      full = true;
    } else {
      next.push_back(slot);
    }
  }
  const std::int64_t n = count(next.size() - stayed);
  const std::int64_t more = n - static_cast<std::int64_t>(next.size());
  bool homeless = false;
  if (more > 0) {
    std::vector<BrokerSlot> taken = had;
    taken.insert(taken.end(), next.begin() + static_cast<std::ptrdiff_t>(stayed), next.end());
    const std::vector<BrokerSlot> picked = pick(units(share_of(item, n)), more, taken);
    homeless = picked.empty();
    if (homeless) {
      next = std::move(taken);
    } else {
      next.insert(next.end(), picked.begin(), picked.end());
    }
  }
  if (next.size() != had.size() ||
      !std::all_of(next.begin(), next.end(), [&](BrokerSlot s) { return item.hosts.has(s); })) {
    put(item, next);
    moved(item);
    room_ = room_ || lost > 0;
    moves_ += lost > 0 && !homeless ? 1 : 0;
  }
  if (full) {
    settle(item, PlacingReason::kBrokerFull);
  } else if (homeless) {
    settle_homeless(item);
  } else {
    settle(item, has_gone(item) ? PlacingReason::kBrokerGone : PlacingReason::kScheduled);
  }
}

/// Together with its targets. False: they fit nowhere.
bool AddressScheduler::Core::place_unit(Item& item, const Unit& unit) {
  std::int64_t least = item.least;
  for (const ObjectId target : unit.fresh) {
    least = std::max<std::int64_t>(least, find(target)->least);
  }
  const std::int64_t most = std::max<std::int64_t>(least, item.most);
  std::vector<BrokerSlot> common;  // brokers that all placed targets are on
  if (!unit.placed.empty()) {
    for (const BrokerSlot slot : find(unit.placed.front())->hosts.view()) {
      if (brokers_[slot].open() &&
          std::all_of(unit.placed.begin(), unit.placed.end(),
                      [&](ObjectId target) { return find(target)->hosts.has(slot); })) {
        common.push_back(slot);
      }
    }
    std::sort(common.begin(), common.end(), [this](BrokerSlot a, BrokerSlot b) {
      const Broker& x = brokers_[a];
      const Broker& y = brokers_[b];
      const std::int64_t more = room(x) - room(y);
      return more != 0 ? more > 0
                       : std::tie(x.queues, x.view.host) < std::tie(y.queues, y.view.host);
    });
  }
  std::vector<BrokerSlot> hosts;
  for (int everywhere = unit.placed.empty() ? 1 : 0; everywhere < 2 && hosts.empty();
       ++everywhere) {
    for (std::int64_t n = least; n <= most && hosts.empty(); ++n) {
      std::int64_t size = units(share_of(item, n));
      for (const ObjectId target : unit.fresh) {
        size += units(share_of(*find(target), n));
      }
      if (everywhere == 0) {
        const auto fits = std::find_if(common.begin(), common.end(), [&](BrokerSlot slot) {
          return room(brokers_[slot]) < size;  // the freest first
        });
        if (fits - common.begin() >= n) {
          hosts.assign(common.begin(), common.begin() + n);
        }
        continue;
      }
      for (const ObjectId target : unit.placed) {
        const Item& other = *find(target);
        size += units(share_of(other, static_cast<std::int64_t>(other.hosts.size()) + n));
      }
      hosts = pick(size, n, {});
    }
  }
  if (hosts.empty()) {
    return false;
  }
  const auto all = static_cast<std::int64_t>(hosts.size());
  const auto own = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(all, item.most));
  put(item, std::span(hosts).first(static_cast<std::size_t>(own)));
  settle(item, PlacingReason::kScheduled);
  for (const ObjectId target : unit.fresh) {
    Item& other = *find(target);
    put(other, hosts);
    settle(other, PlacingReason::kScheduled);
    moved(other);
    due_.insert(other.age);  // others may refer to it, too
  }
  for (const ObjectId target : unit.placed) {
    Item& other = *find(target);
    std::vector<BrokerSlot> more(other.hosts.view().begin(), other.hosts.view().end());
    for (const BrokerSlot slot : item.hosts.view()) {
      if (!other.hosts.has(slot)) {
        more.push_back(slot);
      }
    }
    if (more.size() > other.hosts.size()) {
      put(other, more);
      moved(other);
    }
  }
  moved(item);
  return true;
}

void AddressScheduler::Core::place_new(Item& item) {
  const std::vector<BrokerSlot> sources = hosts_of_sources(item);
  if (!sources.empty()) {
    const auto n = static_cast<std::int64_t>(std::max<std::size_t>(item.least, sources.size()));
    const std::int64_t size = units(share_of(item, n));
    if (std::any_of(sources.begin(), sources.end(),
                    [&](BrokerSlot slot) { return room(brokers_[slot]) < size; })) {
      settle(item, PlacingReason::kBrokerFull);
      return;
    }
    put(item, sources);
    moved(item);
    place_extended(item);
    return;
  }
  const Unit unit = unit_of(item);
  if (!place_unit(item, unit)) {
    settle_homeless(item);
  }
}

void AddressScheduler::Core::try_place(Item& item) {
  if (item.every) {
    changed_.insert(item.age);
    if (known_brokers() > 0) {
      settle(item, PlacingReason::kScheduled);
    } else {
      settle_homeless(item);
    }
  } else if (item.pinned != kNone) {
    place_pinned(item);
  } else if (item.hosts.empty()) {
    place_new(item);
  } else {
    place_extended(item);
  }
}

std::vector<ObjectId> AddressScheduler::Core::decide() {
  // What is decided here frees no room but where a lost broker is replaced: a second round at most.
  for (int round = 0; round < 2 && (room_ || !due_.empty()); ++round) {
    if (room_) {
      room_ = false;
      due_.insert(pending_.begin(), pending_.end());
    }
    std::int64_t most = -1;  // units that some broker has free, -1: to be looked up
    for (std::size_t steps = 0; !due_.empty() && steps < 4 * items_.size() + 64; ++steps) {
      const Age age = *due_.begin();
      due_.erase(due_.begin());
      Item& item = *find(age.object);
      if (item.homeless && item.hosts.empty() && !item.every && item.targets[0] == kNone) {
        if (most < 0) {
          most = 0;
          for (const Broker& broker : brokers_) {
            most = std::max(most, broker.open() ? room(broker) : 0);
          }
        }
        if (units(share_of(item, item.most)) > most) {
          settle_homeless(item);
          continue;
        }
      }
      try_place(item);
      most = item.homeless ? most : -1;
    }
  }
  std::vector<ObjectId> changed;
  changed.reserve(changed_.size());
  for (const Age& age : changed_) {
    Item& item = *find(age.object);
    if (!item.untold || item.reason != PlacingReason::kScheduled) {
      item.untold = false;
      changed.push_back(age.object);
    }
  }
  changed_.clear();
  return changed;
}

bool AddressScheduler::Core::is_on(ObjectId object, std::string_view host) const noexcept {
  const Item* item = find(object);
  const auto slot = slots_.find(host);
  if (item == nullptr || slot == slots_.end()) {
    return false;
  }
  return item->every ? brokers_[slot->second].known : item->hosts.has(slot->second);
}

AddressPlacing AddressScheduler::Core::placing(ObjectId object) const {
  AddressPlacing placing;
  const Item* item = find(object);
  if (item == nullptr) {
    return placing;
  }
  placing.reason = item->reason;
  std::vector<BrokerSlot> slots(item->hosts.view().begin(), item->hosts.view().end());
  if (item->every) {
    for (const auto& [host, slot] : slots_) {
      if (brokers_[slot].known) {
        slots.push_back(slot);
      }
    }
  }
  std::sort(slots.begin(), slots.end(),
            [this](BrokerSlot a, BrokerSlot b) { return before(a, b); });
  std::string gone;
  for (const BrokerSlot slot : slots) {
    placing.hosts.push_back(brokers_[slot].view.host);
    if (!brokers_[slot].known) {
      gone += (gone.empty() ? "" : ", ") + brokers_[slot].view.host;
    }
  }
  const auto brokers = [this] {
    return std::to_string(known_brokers()) + " of at most " + std::to_string(max_) + " brokers";
  };
  switch (item->reason) {
    case PlacingReason::kScheduled:
      break;
    case PlacingReason::kBrokerGone:
      placing.message = "broker " + gone + " is gone";
      break;
    case PlacingReason::kMaxBrokersReached:
    case PlacingReason::kWaitingForBroker:
      placing.message = "no room for " + std::to_string(item->memory) + " bytes on " +
                        std::to_string(item->least) + " brokers: there are " + brokers();
      break;
    case PlacingReason::kWaitingForTopic:
      placing.message = "its topic has no broker yet";
      break;
    case PlacingReason::kWaitingForSpace:
      placing.message = "its space has no broker yet";
      break;
    case PlacingReason::kBrokerFull:
    case PlacingReason::kBrokerNotConnected: {
      std::string host;
      if (const Item* owner = find(item->pinned); owner != nullptr && !owner->hosts.empty()) {
        host = brokers_[owner->hosts.view().front()].view.host;
      }
      placing.message =
          item->reason == PlacingReason::kBrokerFull
              ? (host.empty() ? "a broker of those that refer to it" : "broker " + host) +
                    " has no room for it"
              : "broker " + host + " takes nothing now";
      break;
    }
  }
  return placing;
}

std::int64_t AddressScheduler::Core::brokers_wanted() const {
  const std::int64_t n = known_brokers();
  if (homeless_ > 0) {
    return std::max(min_, may_grow() && n < max_ ? n + 1 : n);
  }
  std::vector<const Broker*> known;
  for (const Broker& broker : brokers_) {
    if (broker.known) {
      known.push_back(&broker);
    }
  }
  std::sort(known.begin(), known.end(),
            [](const Broker* a, const Broker* b) { return a->view.index < b->view.index; });
  std::int64_t wanted = n;
  while (wanted > min_ && everywhere_.empty() &&
         known[static_cast<std::size_t>(wanted - 1)]->queues == 0) {
    --wanted;
  }
  return std::max(min_, wanted);
}

}  // namespace kintsugi::workers
