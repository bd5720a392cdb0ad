#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "workers/messaging/model/by_number.h"
#include "workers/messaging/placing/address_scheduler.h"
#include "workers/messaging/placing/internal/slot_list.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// What stands behind AddressScheduler; its header has the contract. The placement
/// library is asked where something new fits: it knows what each broker has free and how many
/// addresses are there, but no address, since 100,000 of its claims would be a third of a worker's
/// memory. A broker that takes nothing new has nothing free. Threads: one.
class AddressScheduler::Core {
 public:
  Core();

  void set_scale(std::int64_t min, std::int64_t max);
  void set_broker(const BrokerView& view);
  void broker_gone(std::string_view host);
  void set(ObjectId object, const AddressDemand& demand);
  void remove(ObjectId object);
  [[nodiscard]] std::vector<ObjectId> decide();
  [[nodiscard]] AddressPlacing placing(ObjectId object) const;
  [[nodiscard]] bool is_on(ObjectId object, std::string_view host) const noexcept;
  [[nodiscard]] std::int64_t brokers_wanted() const;
  [[nodiscard]] BrokerUse use(std::string_view host) const;
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return pending_.size(); }
  void each_waiting(const std::function<void(PlacingReason)>& visit) const {
    for (const Age& age : pending_) {
      visit(find(age.object)->reason);
    }
  }
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

 private:
  static constexpr ObjectId kNone = 0xffffffffU;
  struct Broker {
    BrokerView view;
    bool known = false;                            // false: gone, some address has it still
    bool seen = false;                             // was connected once
    std::int64_t used = 0;                         // units of its addresses
    std::int64_t zeros = 0;                        // addresses without a request
    std::int64_t queues = 0;                       // addresses
    std::int64_t mebibytes = 0;                    // of requests, each rounded up: never overflows
    std::uint64_t bytes = 0;                       // of requests, modulo 2^64
    std::int64_t told_room = -1, told_queues = 0;  // that the library knows; -1: nothing
    [[nodiscard]] bool open() const noexcept { return known && view.connected && !view.excluded; }
  };
  struct Item {
    Age age;
    std::int64_t memory = 0;
    std::array<ObjectId, 2> targets{kNone, kNone};
    SlotList hosts;
    ObjectId pinned = kNone;
    std::uint8_t least = 1, most = 1;  // partitions
    AddressType type = AddressType::kQueue;
    PlacingReason reason = PlacingReason::kWaitingForBroker;
    bool reschedule = false;
    bool every = false;     // on each broker: has no claim
    bool homeless = false;  // fits nowhere: another broker would help
    bool is_new = true;
    bool untold = false;  // where its status said, and never told of
  };
  /// An address with what has to be decided with it.
  struct Unit {
    std::vector<ObjectId> fresh;   // targets without a broker
    std::vector<ObjectId> placed;  // targets with one
  };

  [[nodiscard]] Item* find(ObjectId object) noexcept;
  [[nodiscard]] const Item* find(ObjectId object) const noexcept;
  [[nodiscard]] BrokerSlot intern(std::string_view host);
  void drop_unused(BrokerSlot slot);

  // Units.
  [[nodiscard]] static std::int64_t share(std::int64_t memory, std::int64_t hosts,
                                          std::int64_t least, std::int64_t most) noexcept;
  [[nodiscard]] std::int64_t share_of(const Item& item, std::int64_t hosts) const noexcept {
    return share(item.memory, hosts, item.least, item.most);
  }
  [[nodiscard]] std::int64_t units(std::int64_t bytes) const noexcept;
  [[nodiscard]] std::int64_t room(const Broker& broker) const noexcept;
  [[nodiscard]] bool needs_rescale(const Broker& broker) const noexcept;
  void rescale();
  /// Tells the library what a broker has free.
  /// @param close  takes nothing.
  void push(BrokerSlot slot, bool close = false);
  void account(const Item& item, int sign);
  /// Makes `hosts` the place of an item, whatever it takes.
  void put(Item& item, std::span<const BrokerSlot> hosts);

  // Decisions.
  void try_place(Item& item);
  void place_pinned(Item& item);
  void place_extended(Item& item);
  void place_new(Item& item);
  [[nodiscard]] bool place_unit(Item& item, const Unit& unit);
  void settle(Item& item, PlacingReason reason, bool homeless = false);
  void settle_homeless(Item& item);
  void moved(const Item& item);
  [[nodiscard]] std::vector<BrokerSlot> hosts_of_sources(const Item& item) const;
  [[nodiscard]] Unit unit_of(const Item& item) const;
  [[nodiscard]] bool has_gone(const Item& item) const noexcept;
  /// n other brokers with so many units free each; empty: there are not so many.
  [[nodiscard]] std::vector<BrokerSlot> pick(std::int64_t size, std::int64_t n,
                                             std::span<const BrokerSlot> not_these);
  [[nodiscard]] bool before(BrokerSlot a, BrokerSlot b) const noexcept;
  void everywhere_changed();
  [[nodiscard]] std::int64_t known_brokers() const noexcept;
  [[nodiscard]] bool may_grow() const noexcept;

  std::int64_t min_ = 0, max_ = 0;
  int shift_ = 0;  // a unit is 2^shift bytes
  std::unique_ptr<Placement> library_;
  std::vector<Broker> brokers_;
  std::vector<BrokerSlot> free_slots_;
  StringMap<BrokerSlot> slots_;
  ByNumber<Item> items_;
  std::set<std::pair<ObjectId, ObjectId>> followers_;  // (pinned to, item)
  std::set<std::pair<ObjectId, ObjectId>> sources_;    // (target, item)
  std::set<ObjectId> everywhere_;
  std::int64_t everywhere_bytes_ = 0;  // requests of these, at each broker; saturated
  std::set<Age> due_, pending_, changed_;
  std::size_t homeless_ = 0;
  std::uint64_t moves_ = 0;
  bool room_ = false;  // since the last decide(): who waits may find a place
};

}  // namespace kintsugi::workers
