#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "workers/runtime/placement/internal/free_tree.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

using HostSlot = std::uint32_t;
using ClaimSlot = std::uint32_t;
using ZoneSlot = std::uint32_t;
inline constexpr std::uint32_t kNoSlot = std::numeric_limits<std::uint32_t>::max();

/// The hosts of a pool with one ordered index per policy. An index is built at its first use and
/// kept from then on. Slots are stable while a host is known or a claim is on it.
/// Threads: one. Cost: account O(log hosts); a changed set of hosts costs its zone one sort at the
/// next look.
class HostTable {
 public:
  static constexpr std::size_t kGroups = 64;  // rendezvous in two steps: group, then host
  static constexpr std::size_t kEighths = 8;  // a host without any room is in none

  struct State {
    Host host;
    bool known = false;
    std::int64_t held = 0;                              // capacity that claims hold
    std::int64_t placed = 0;                            // capacity of decided units
    std::int64_t entries_held = 0, entries_placed = 0;  // the same of entry_capacity
    std::vector<ClaimSlot> claims;
    std::uint64_t hash = 0;
    ZoneSlot zone = kNoSlot;         // while usable
    std::uint32_t at = 0;            // in Zone::hosts
    std::uint32_t eighth = kNoSlot;  // in Zone::buckets; kNoSlot: in none
    std::uint32_t in_group = 0;
    std::int64_t indexed_free = 0;  // as in by_free
    std::int64_t indexed_claims = 0;
    std::uint64_t mark = 0;  // of the decision that uses `entry`
    std::uint32_t entry = 0;

    [[nodiscard]] bool usable() const noexcept { return known && host.schedulable; }
    [[nodiscard]] std::int64_t free() const noexcept {
      const std::int64_t left = host.capacity - held;
      return host.closed && left > 0 ? 0 : left;
    }
    [[nodiscard]] std::int64_t entries_free() const noexcept {
      return host.entry_capacity - entries_held;
    }
    [[nodiscard]] std::int64_t all_claims() const noexcept {
      return static_cast<std::int64_t>(claims.size()) + host.other_claims;
    }
  };
  struct Bucket {
    std::uint64_t mask = 0;
    std::array<std::vector<HostSlot>, kGroups> groups;
  };
  struct Zone {
    std::string name;
    std::vector<HostSlot> hosts;  // usable ones; by ordinal and id when clean
    FreeTree tree;                // their free(), in the same order
    bool clean = false;
    StringMap<std::vector<HostSlot>> labels;
    std::array<std::unique_ptr<Bucket>, kEighths> buckets;
  };
  struct ByFree {
    std::int64_t free;
    std::int64_t claims;
    HostSlot slot;
  };
  struct ByFreeLess {
    const std::vector<State>* hosts;
    bool operator()(const ByFree& a, const ByFree& b) const noexcept;
  };
  using FreeIndex = std::set<ByFree, ByFreeLess>;

  HostTable() = default;
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  [[nodiscard]] HostSlot find(std::string_view id) const noexcept;  ///< kNoSlot: never heard of
  /// Unknown hosts get a slot too; it goes with its last claim.
  [[nodiscard]] HostSlot intern(std::string_view id);
  void set(HostSlot slot, const Host& host);
  void forget(HostSlot slot);

  [[nodiscard]] State& operator[](HostSlot slot) noexcept { return hosts_[slot]; }
  [[nodiscard]] const State& operator[](HostSlot slot) const noexcept { return hosts_[slot]; }
  [[nodiscard]] std::size_t slots() const noexcept { return hosts_.size(); }
  [[nodiscard]] std::int64_t usable() const noexcept { return usable_; }
  /// By ordinal, then id.
  [[nodiscard]] bool before(HostSlot a, HostSlot b) const noexcept;
  /// All usable hosts in that order.
  [[nodiscard]] const std::vector<HostSlot>& in_order();

  void account(HostSlot slot, std::int64_t held, std::int64_t placed);
  /// @returns the claim's place in State::claims.
  std::uint32_t add_claim(HostSlot slot, ClaimSlot claim);
  /// @returns the claim that now has that place, kNoSlot for none.
  ClaimSlot remove_claim(HostSlot slot, std::uint32_t at);

  [[nodiscard]] std::size_t zones() const noexcept { return zones_.size(); }
  /// Sorted and with its tree. Empty zones are slots waiting for a name.
  [[nodiscard]] Zone& zone(ZoneSlot slot);
  /// Index of kMostFree.
  [[nodiscard]] const FreeIndex& by_free();
  /// Fills Zone::buckets of all zones.
  void use_buckets();
  /// The most that one usable host has free.
  [[nodiscard]] std::int64_t most_free();
  [[nodiscard]] static std::size_t group_of(std::uint64_t hash) noexcept { return hash >> 58U; }

 private:
  void enter(HostSlot slot);
  void leave(HostSlot slot);
  void enter_bucket(HostSlot slot);
  void leave_bucket(HostSlot slot);
  void reindex(HostSlot slot);
  void drop_if_unused(HostSlot slot);
  [[nodiscard]] ZoneSlot zone_of(const std::string& name);

  std::vector<State> hosts_;
  std::vector<HostSlot> free_slots_;
  StringMap<HostSlot> ids_;
  std::vector<Zone> zones_;
  StringMap<ZoneSlot> zone_names_;
  std::vector<HostSlot> order_;
  bool ordered_ = false;
  std::int64_t usable_ = 0;
  bool with_free_ = false;
  bool with_buckets_ = false;
  FreeIndex by_free_{ByFreeLess{&hosts_}};
};

}  // namespace kintsugi::workers
