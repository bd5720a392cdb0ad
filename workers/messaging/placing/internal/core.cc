// Brokers and addresses: what is known, and what it takes.
#include "workers/messaging/placing/internal/core.h"

#include <algorithm>
#include <limits>

namespace kintsugi::workers {

namespace {
constexpr std::int64_t kMostUnits = std::int64_t{1} << 28;  // of a broker's capacity
constexpr std::int64_t kTooMany = std::int64_t{1} << 40;    // fits nowhere
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::size_t kMostRecorded = 1'024;
constexpr std::int64_t kMostPartitions = 255;

std::int64_t mebibytes(std::int64_t bytes) noexcept {
  return bytes / kMebibyte + (bytes % kMebibyte != 0 ? 1 : 0);
}
}  // namespace

AddressScheduler::Core::Core() : library_(std::make_unique<Placement>(Placement::Params{})) {}

AddressScheduler::Core::Item* AddressScheduler::Core::find(ObjectId object) noexcept {
  return items_.find(object);
}

const AddressScheduler::Core::Item* AddressScheduler::Core::find(ObjectId object) const noexcept {
  return items_.find(object);
}

BrokerSlot AddressScheduler::Core::intern(std::string_view host) {
  if (const auto found = slots_.find(host); found != slots_.end()) {
    return found->second;
  }
  BrokerSlot slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<BrokerSlot>(brokers_.size());
    brokers_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    brokers_[slot] = Broker();
  }
  brokers_[slot].view.host = host;
  slots_.emplace(host, slot);
  return slot;
}

void AddressScheduler::Core::drop_unused(BrokerSlot slot) {
  Broker& broker = brokers_[slot];
  if (broker.known || broker.queues > 0) {
    return;
  }
  library_->host_gone(broker.view.host);
  slots_.erase(slots_.find(broker.view.host));
  free_slots_.push_back(slot);
  broker = Broker();
}

std::int64_t AddressScheduler::Core::share(std::int64_t memory, std::int64_t hosts,
                                           std::int64_t least, std::int64_t most) noexcept {
  const std::int64_t n = std::clamp(hosts, least, most);
  return memory / n + (memory % n != 0 ? 1 : 0);
}

/// Even for a request and 1 without: a broker has 2 of the library's units for each of ours, one
/// more, and one for each address without a request. So these always fit, and take no room.
std::int64_t AddressScheduler::Core::units(std::int64_t bytes) const noexcept {
  const std::int64_t whole = bytes >> shift_;
  if (whole >= kTooMany) {
    return 2 * kTooMany;
  }
  return bytes == 0 ? 1 : 2 * (whole + ((whole << shift_) != bytes ? 1 : 0));
}

/// Units that are free; -1 when the broker takes nothing.
std::int64_t AddressScheduler::Core::room(const Broker& broker) const noexcept {
  if (!broker.known) {
    return -1;
  }
  const std::int64_t bytes = std::max<std::int64_t>(0, broker.view.capacity - everywhere_bytes_);
  return 2 * (bytes >> shift_) + 1 + broker.zeros - broker.used;
}

bool AddressScheduler::Core::needs_rescale(const Broker& broker) const noexcept {
  const std::int64_t most_mebibytes =
      shift_ < 20 ? 2 * kMostUnits >> (20 - shift_) : 2 * kMostUnits << (shift_ - 20);
  return (broker.view.capacity >> shift_) > kMostUnits || broker.mebibytes > most_mebibytes;
}

void AddressScheduler::Core::rescale() {
  while (shift_ < 40 && std::any_of(brokers_.begin(), brokers_.end(),
                                    [this](const Broker& b) { return needs_rescale(b); })) {
    ++shift_;
  }
  library_ = std::make_unique<Placement>(Placement::Params{});
  for (Broker& broker : brokers_) {
    broker.used = broker.zeros = broker.queues = broker.mebibytes = 0;
    broker.bytes = 0;
    broker.told_room = -1;
  }
  items_.each([this](const Item& item) { account(item, 1); });
  for (const auto& [host, slot] : slots_) {
    push(slot);
  }
}

void AddressScheduler::Core::push(BrokerSlot slot, bool close) {
  Broker& broker = brokers_[slot];
  const std::int64_t free = broker.open() && !close ? std::max<std::int64_t>(0, room(broker)) : 0;
  const std::int64_t capacity =
      std::min<std::int64_t>(free, std::numeric_limits<std::int32_t>::max());
  if (capacity == broker.told_room && broker.queues == broker.told_queues) {
    return;
  }
  broker.told_room = capacity;
  broker.told_queues = broker.queues;
  Host host;
  host.id = broker.view.host;
  host.ordinal = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(broker.view.index, 0, std::numeric_limits<std::int32_t>::max()));
  host.capacity = capacity;
  host.other_claims = broker.queues;
  (void)library_->host_changed(host);
}

void AddressScheduler::Core::account(const Item& item, int sign) {
  const std::int64_t bytes = share_of(item, static_cast<std::int64_t>(item.hosts.size()));
  for (const BrokerSlot slot : item.hosts.view()) {
    Broker& broker = brokers_[slot];
    broker.used += sign * units(bytes);
    broker.zeros += bytes == 0 ? sign : 0;
    broker.queues += sign;
    broker.mebibytes += sign * mebibytes(bytes);
    broker.bytes +=
        sign > 0 ? static_cast<std::uint64_t>(bytes) : ~static_cast<std::uint64_t>(bytes) + 1;
  }
}

void AddressScheduler::Core::put(Item& item, std::span<const BrokerSlot> hosts) {
  std::vector<BrokerSlot> next(hosts.begin(), hosts.end());
  const std::vector<BrokerSlot> old(item.hosts.view().begin(), item.hosts.view().end());
  std::sort(next.begin(), next.end(), [this](BrokerSlot a, BrokerSlot b) { return before(a, b); });
  item.untold = item.untold && next.size() == old.size() &&
                std::all_of(next.begin(), next.end(),
                            [&item](BrokerSlot slot) { return item.hosts.has(slot); });
  account(item, -1);
  item.hosts.assign(next);
  account(item, 1);
  if (std::any_of(next.begin(), next.end(),
                  [this](BrokerSlot slot) { return needs_rescale(brokers_[slot]); })) {
    rescale();
  } else {
    for (const BrokerSlot slot : next) {
      push(slot);
    }
    for (const BrokerSlot slot : old) {
      push(slot);
    }
  }
  for (const BrokerSlot slot : old) {
    drop_unused(slot);
  }
}

bool AddressScheduler::Core::before(BrokerSlot a, BrokerSlot b) const noexcept {
  const Broker& x = brokers_[a];
  const Broker& y = brokers_[b];
  if (x.known != y.known) {
    return x.known;
  }
  return x.view.index != y.view.index ? x.view.index < y.view.index : x.view.host < y.view.host;
}

void AddressScheduler::Core::set_scale(std::int64_t min, std::int64_t max) {
  room_ = room_ || min != min_ || max != max_;
  min_ = min;
  max_ = std::max(min, max);
}

void AddressScheduler::Core::everywhere_changed() {
  for (const ObjectId object : everywhere_) {
    due_.insert(items_.at(object).age);
  }
  for (const auto& [host, slot] : slots_) {
    push(slot);
  }
}

void AddressScheduler::Core::set_broker(const BrokerView& view) {
  if (brokers_.size() >= std::numeric_limits<BrokerSlot>::max() && !slots_.contains(view.host)) {
    return;
  }
  const BrokerSlot slot = intern(view.host);
  Broker& broker = brokers_[slot];
  const bool back = !broker.known;
  broker.view = view;
  broker.view.capacity = std::max<std::int64_t>(0, view.capacity);
  broker.known = true;
  broker.seen = broker.seen || view.connected;
  broker.told_room = -1;  // the index may be another one
  if (needs_rescale(broker)) {
    rescale();
  }
  push(slot);
  room_ = true;
  if (!back) {
    return;
  }
  everywhere_changed();
  if (broker.queues > 0) {
    items_.each([this, slot](const Item& item) {
      if (item.hosts.has(slot)) {
        due_.insert(item.age);
        moved(item);
      }
    });
  }
}

void AddressScheduler::Core::broker_gone(std::string_view host) {
  const auto found = slots_.find(host);
  if (found == slots_.end() || !brokers_[found->second].known) {
    return;
  }
  const BrokerSlot slot = found->second;
  brokers_[slot].known = false;
  brokers_[slot].view.connected = false;
  push(slot);
  room_ = true;
  everywhere_changed();
  if (brokers_[slot].queues > 0) {
    items_.each([this, slot](const Item& item) {
      if (item.hosts.has(slot)) {
        due_.insert(item.age);
      }
    });
  }
  drop_unused(slot);
}

void AddressScheduler::Core::set(ObjectId object, const AddressDemand& demand) {
  Item& item = items_[object];
  if (!item.is_new && item.age != demand.age) {
    due_.erase(item.age);
    homeless_ -= item.homeless ? 1 : 0;
    item.homeless = false;
    pending_.erase(item.age);
    changed_.erase(item.age);
  }
  for (const ObjectId target : item.targets) {
    sources_.erase({target, object});
  }
  followers_.erase({item.pinned, object});
  if (item.every) {
    everywhere_.erase(object);
    everywhere_bytes_ -= item.memory;
  }
  account(item, -1);
  item.age = demand.age;
  item.age.object = object;
  item.type = demand.type;
  item.memory = std::max<std::int64_t>(0, demand.memory);
  item.least = static_cast<std::uint8_t>(
      std::clamp<std::int64_t>(demand.partitions_min, 1, kMostPartitions));
  item.most = static_cast<std::uint8_t>(
      std::clamp<std::int64_t>(demand.partitions_max, item.least, kMostPartitions));
  item.pinned = demand.pinned_to.value_or(kNone);
  item.reschedule = demand.reschedule;
  item.targets = {kNone, kNone};
  item.every = item.type == AddressType::kDeadLetter && item.pinned == kNone;
  std::size_t n = 0;
  for (const ObjectId target : demand.targets) {
    if (n < item.targets.size() && target != object && !item.every &&
        std::find(item.targets.begin(), item.targets.end(), target) == item.targets.end()) {
      item.targets[n++] = target;
      sources_.emplace(target, object);
    }
  }
  if (item.pinned != kNone) {
    followers_.emplace(item.pinned, object);
  }
  account(item, 1);
  std::vector<BrokerSlot> hosts(item.hosts.view().begin(), item.hosts.view().end());
  if (item.every) {
    hosts.clear();
    everywhere_.insert(object);
    item.memory = std::min(item.memory, kMost - everywhere_bytes_);
    everywhere_bytes_ += item.memory;
    for (const auto& [host, slot] : slots_) {
      push(slot);
    }
  } else if (!demand.recorded.empty()) {
    hosts.clear();
    for (const std::string& host : demand.recorded) {
      if (hosts.size() < kMostRecorded &&
          (slots_.contains(host) || brokers_.size() < std::numeric_limits<BrokerSlot>::max())) {
        const BrokerSlot slot = intern(host);
        if (std::find(hosts.begin(), hosts.end(), slot) == hosts.end()) {
          hosts.push_back(slot);
        }
      }
    }
  }
  const bool placed = !hosts.empty() || !item.hosts.empty();
  if (placed) {
    put(item, hosts);
  }
  if (item.is_new) {
    item.is_new = false;
    item.untold = !demand.recorded.empty();
    changed_.insert(item.age);
  }
  if (placed) {
    settle(item, has_gone(item) ? PlacingReason::kBrokerGone : PlacingReason::kScheduled);
    moved(item);
    room_ = true;
  }
  due_.insert(item.age);
}

void AddressScheduler::Core::remove(ObjectId object) {
  Item* item = find(object);
  if (item == nullptr) {
    return;
  }
  if (!item->hosts.empty()) {
    put(*item, {});
  }
  if (item->every) {
    everywhere_.erase(object);
    everywhere_bytes_ -= item->memory;
    for (const auto& [host, slot] : slots_) {
      push(slot);
    }
  }
  homeless_ -= item->homeless ? 1 : 0;
  for (const ObjectId target : item->targets) {
    sources_.erase({target, object});
  }
  followers_.erase({item->pinned, object});
  due_.erase(item->age);
  pending_.erase(item->age);
  changed_.erase(item->age);
  items_.erase(object);
  room_ = true;
}

AddressScheduler::BrokerUse AddressScheduler::Core::use(std::string_view host) const {
  const auto found = slots_.find(host);
  if (found == slots_.end()) {
    return {};
  }
  const Broker& broker = brokers_[found->second];
  BrokerUse use;
  use.queues = broker.queues;
  const std::uint64_t most = static_cast<std::uint64_t>(kMost);
  const std::uint64_t bytes = broker.bytes;
  use.memory = broker.mebibytes >= kMost / kMebibyte || bytes > most
                   ? kMost
                   : static_cast<std::int64_t>(bytes);
  if (broker.known) {
    use.queues += static_cast<std::int64_t>(everywhere_.size());
    use.memory += std::min(everywhere_bytes_, kMost - use.memory);
  }
  return use;
}

}  // namespace kintsugi::workers
