#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "workers/runtime/placement/internal/host_table.h"

namespace kintsugi::workers {

/// What a claim has on one host. It holds the most of the three numbers.
struct Entry {
  HostSlot host = kNoSlot;
  std::uint32_t at = 0;        // in HostTable::State::claims
  std::int64_t decided = 0;    // now
  std::int64_t told = 0;       // by the last delta
  std::int64_t committed = 0;  // by the status

  [[nodiscard]] std::int64_t held() const noexcept {
    return decided > told ? (decided > committed ? decided : committed)
                          : (told > committed ? told : committed);
  }
};

/// What a decision needs to know of its claim.
struct Want {
  Policy policy = Policy::kSpread;
  std::int64_t size = 1;
  std::int64_t entry = 0;  ///< entry_size
  bool one_per_host = false;
  std::uint64_t hash = 0;
  std::string_view affinity;
  std::optional<HostSlot> pinned;  ///< kNoSlot: of a host nobody knows
  HostSlot bound = kNoSlot;        ///< kSpread: only hosts before this one; kNoSlot: all
};

/// Order in which the two claims and hosts meet when all else is equal (rendezvous).
[[nodiscard]] std::uint64_t rendezvous(std::uint64_t claim, std::uint64_t other) noexcept;

/// Finds the best feasible host for one unit after the other of one decision (10.2, step 6).
/// Between begin and the last call the hosts' room changes only by what took() reports, and only
/// downwards. Threads: one.
class Picker {
 public:
  explicit Picker(HostTable& hosts) : hosts_(hosts) {}

  void begin(const Want& want, std::span<const Entry> entries);
  /// Only hosts without a unit of the claim, or all. Costs a look at all zones when it changes.
  void only_unused(bool on);
  /// kNoSlot: none is feasible.
  [[nodiscard]] HostSlot best();
  /// kSpread: the best one of this zone.
  [[nodiscard]] HostSlot best_in(ZoneSlot zone);
  /// The claim has `entry.decided` units on that host now, one more than before.
  void took(const Entry& entry);
  /// Index among the entries: those of begin, then those that took() brought; kNoSlot: none.
  [[nodiscard]] std::uint32_t entry_of(HostSlot slot) const noexcept {
    return hosts_[slot].mark == mark_ ? hosts_[slot].entry : kNoSlot;
  }
  /// Units of the claim in a zone.
  [[nodiscard]] std::int64_t in_zone(ZoneSlot zone) const noexcept { return zones_[zone].count; }

 private:
  using Rank = std::array<std::uint64_t, 5>;  // smaller is better; [0] is filled by best()
  struct Used {
    Rank rank;
    HostSlot host;
  };
  struct ZoneState {
    std::int64_t count = 0;
    bool looked = false;
    HostSlot candidate = kNoSlot;
    Rank rank{};
    std::size_t next = 0;  // all before are used or full
    std::size_t end = 0;
    std::vector<Used> used;  // a heap, best first
  };
  [[nodiscard]] bool feasible(HostSlot slot) const noexcept {
    return hosts_[slot].usable() && hosts_[slot].free() >= want_.size && fits(slot);
  }
  /// There is room for the claim's entry, or it has one there that has a place.
  [[nodiscard]] bool fits(HostSlot slot) const noexcept {
    if (want_.entry == 0) {
      return true;
    }
    const HostTable::State& host = hosts_[slot];
    if (host.mark != mark_) {
      return host.entries_free() >= want_.entry;
    }
    return units_[host.entry] > 0 || host.entries_free() >= (held_[host.entry] ? 0 : want_.entry);
  }
  [[nodiscard]] bool unused(HostSlot slot) const noexcept {
    return hosts_[slot].mark != mark_ || units_[hosts_[slot].entry] == 0;
  }
  [[nodiscard]] bool worse(const Used& a, const Used& b) const noexcept;
  void push_used(const Entry& entry);
  void look(ZoneSlot zone);
  void look_spread(ZoneSlot zone);
  void look_apart(ZoneSlot zone);
  [[nodiscard]] HostSlot best_free();
  [[nodiscard]] HostSlot best_zone();
  [[nodiscard]] HostSlot best_pinned() const noexcept;

  HostTable& hosts_;
  Want want_;
  bool only_unused_ = false;
  std::uint64_t mark_ = 0;
  std::vector<std::int64_t> units_;   // decided ones, by entry
  std::vector<HostSlot> entry_host_;  // by entry
  std::vector<bool> held_;            // by entry: something was there when the decision began
  std::vector<ZoneState> zones_;
  std::array<std::uint64_t, HostTable::kGroups> group_rank_{};
  std::array<std::uint8_t, HostTable::kGroups> groups_{};  // best first
};

}  // namespace kintsugi::workers
