#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "workers/runtime/placement/internal/host_table.h"
#include "workers/runtime/placement/internal/picker.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// What stands behind Placement; its header has the contract. Threads: one.
class Placement::Core {
 public:
  explicit Core(Params params) : params_(params), picker_(hosts_) {}

  Expected<void> host_changed(const Host& host);
  void host_gone(std::string_view id);
  Loaded load(std::span<const Claim> claims);
  Expected<Delta> schedule(const Claim& claim);
  bool adopt(std::string_view key, std::span<const Placed> decided);
  Delta release(std::string_view key);
  void write_succeeded(std::string_view key, std::span<const Placed> written);
  void write_failed(std::string_view key);
  std::vector<std::string> take_due();
  RequiredHosts required_hosts();
  std::vector<Delta> rebalance(std::int64_t budget);
  std::vector<Delta> compact(std::int64_t budget);
  [[nodiscard]] std::vector<Placed> placements(std::string_view key) const;
  [[nodiscard]] std::int64_t pending(std::string_view key) const;
  [[nodiscard]] std::int64_t room(std::string_view host) const;
  [[nodiscard]] std::int64_t held(std::string_view host) const;
  [[nodiscard]] std::size_t claims() const noexcept { return keys_.size(); }
  [[nodiscard]] std::int64_t placed_units() const noexcept { return placed_units_; }
  [[nodiscard]] std::size_t pending_claims() const noexcept { return pending_.size(); }

 private:
  struct Record {
    std::string key;
    std::string uid;
    std::string affinity;
    std::string pinned;
    std::int64_t created = 0;
    std::int64_t wanted = 0;
    std::int64_t max_allowed = kMost;
    std::int64_t min_hosts = 0;
    std::int64_t size = 1;
    std::int64_t entry = 0;  // entry_size
    std::uint64_t hash = 0;
    std::int64_t placed = 0;  // units decided
    std::vector<Entry> entries;
    std::uint32_t pending_at = kNoSlot;  // in pending_
    Policy policy = Policy::kSpread;
    bool one_per_host = false;
    bool all_or_nothing = false;
    bool frozen = false;  // invalid when loaded: keeps what it has
    bool due = false;
  };
  static constexpr std::int64_t kMost = 2147483647;
  static constexpr std::int64_t kMostEntry = std::int64_t{1} << 53;

  [[nodiscard]] static Expected<void> validate(const Claim& claim);
  [[nodiscard]] ClaimSlot find(std::string_view key) const noexcept;
  [[nodiscard]] ClaimSlot intern(std::string_view key);
  [[nodiscard]] std::int64_t target(const Record& record) const noexcept;
  [[nodiscard]] std::int64_t apart(const Record& record) const noexcept;
  void describe(Record& record, const Claim& claim);
  void resize(Record& record, std::int64_t size, std::int64_t entry);
  /// Makes `status` the committed placement. @returns whether it was another one.
  bool commit(ClaimSlot slot, std::span<const Placed> status, bool* normalised);
  [[nodiscard]] std::vector<std::pair<HostSlot, std::int64_t>> normalise(
      const Record& record, std::span<const Placed> status, bool* changed);

  [[nodiscard]] Entry& entry_on(ClaimSlot slot, HostSlot host);
  void put(Record& record, Entry& entry, std::int64_t decided, std::int64_t told,
           std::int64_t committed);
  void decide(Record& record, Entry& entry, std::int64_t decided) {
    put(record, entry, decided, entry.told, entry.committed);
  }
  void drop_empty(ClaimSlot slot);
  [[nodiscard]] bool older(const Record& a, const Record& b) const noexcept;
  void mark_due(ClaimSlot slot);
  void note_pending(ClaimSlot slot);
  void update_targets(std::int64_t before);
  void leave_host(HostSlot host);
  void evict(HostSlot host);

  void sort_entries(ClaimSlot slot);
  void shrink(ClaimSlot slot, std::int64_t goal);
  void shrink_apart(Record& record, std::int64_t goal);
  void restore(Record& record, std::int64_t goal);
  void reclaim(ClaimSlot slot);
  void grow(ClaimSlot slot, std::int64_t goal);
  [[nodiscard]] Want want_of(const Record& record, HostSlot bound) const noexcept;
  [[nodiscard]] Pending reason(const Record& record);
  /// Against the status or the last delta; from now on this is the last delta.
  [[nodiscard]] Delta answer(ClaimSlot slot, bool from_committed);
  [[nodiscard]] std::int64_t missing(const Record& record) const noexcept;
  [[nodiscard]] bool whole(const Record& record) const noexcept;

  [[nodiscard]] HostSlot first_surplus_host();
  [[nodiscard]] bool movable(const Record& record) const noexcept;
  [[nodiscard]] std::vector<ClaimSlot> movable_by_age();
  void move_unit(ClaimSlot slot, HostSlot from, HostSlot to);
  void begin_move(const Record& record, HostSlot bound);
  [[nodiscard]] const Entry* fullest(const Record& record, ZoneSlot zone) const noexcept;
  [[nodiscard]] std::int64_t emptiest(const Record& record, ZoneSlot zone);
  [[nodiscard]] bool rebalance_zones(ClaimSlot slot, HostSlot bound);
  [[nodiscard]] bool rebalance_hosts(ClaimSlot slot, HostSlot bound);
  [[nodiscard]] std::vector<Delta> moved_deltas(std::vector<ClaimSlot> moved);

  Params params_;
  HostTable hosts_;
  Picker picker_;
  std::vector<Record> records_;
  std::vector<ClaimSlot> free_slots_;
  StringMap<ClaimSlot> keys_;
  std::vector<ClaimSlot> pending_;
  std::vector<ClaimSlot> due_;
  std::size_t with_min_hosts_ = 0;
  std::int64_t placed_units_ = 0;
  bool freed_ = false;  // some host got room since take_due
};

}  // namespace kintsugi::workers
