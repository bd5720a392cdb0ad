#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kintsugi::workers {

/// Somewhere units of work can run: a pod, a broker, a droplet.
struct Host {
  std::string id;
  std::int32_t ordinal = 0;
  std::string zone;           ///< "": unknown; all of these are one zone
  std::int64_t capacity = 0;  ///< 0 .. 2^31-1, in the same measure as Claim::unit_size
  bool schedulable = true;
  std::vector<std::string> labels;  ///< what Claim::affinity may name
  /// Claims on it that this pool is not told of and `capacity` leaves out; kMostFree counts them.
  std::int64_t other_claims = 0;
  /// Of what claims take once, Claim::entry_size; 0 .. 2^53.
  std::int64_t entry_capacity = std::int64_t{1} << 53;
  bool closed = false;  ///< keeps what it has, gets nothing new
};

/// n units on one host. On the wire {podName, vreplicas}.
struct Placed {
  std::string host;
  std::int64_t n = 0;
  bool operator==(const Placed&) const = default;
};

/// How the best host is found (10.2); the first difference decides.
enum class Policy : std::uint8_t {
  kSpread,    ///< fewest of the claim in the zone, on the host, reserved host, ordinal, rendezvous
  kMostFree,  ///< not used by the claim, most free capacity, fewest claims, id
  kAntiAffinity,  ///< fewest of the claim in the zone, affinity, eighths of load, rendezvous; 1 a
                  ///< host
};

/// Something that wants units placed. All counts are 0 .. 2^31-1, unit_size at least 1.
struct Claim {
  std::string key;
  std::int64_t created = 0;  ///< any measure; larger is younger
  std::string uid;
  std::int64_t wanted = 0;
  std::optional<std::int64_t> max_allowed;  ///< maxAllowedVReplicas
  std::int64_t min_hosts = 0;  ///< raises the target, also from 0; a claim to be emptied says 0
  std::int64_t unit_size = 1;
  /// Taken of Host::entry_capacity on each host where it has units, however many; 0 .. 2^53.
  std::int64_t entry_size = 0;
  Policy policy = Policy::kSpread;
  bool one_per_host = false;      ///< kAntiAffinity: always
  bool all_or_nothing = false;    ///< whole, on min_hosts different hosts, or not at all
  std::string affinity;           ///< a host label, "" for none
  std::string pinned;             ///< the only host allowed, "" for any
  std::vector<Placed> committed;  ///< what the status says, in its order
};

/// Why units are pending.
enum class Pending : std::uint8_t {
  kNone,
  kNoHosts,    ///< no schedulable host
  kNoRoom,     ///< no schedulable host has room for one more unit
  kHostLimit,  ///< hosts with room have a unit of this claim already
  kPinned,     ///< the pinned host is unknown, unschedulable or full
  kTooFew,     ///< all-or-nothing: not whole, or on too few different hosts
  kUnitLimit,  ///< more than Params::max_units
  kEntryRoom,  ///< no host with room for a unit has room for its entry_size
};
/// CamelCase, for conditions; "" for kNone.
[[nodiscard]] std::string_view pending_name(Pending reason) noexcept;

/// What one operation changed of one claim.
struct Delta {
  std::string key;
  std::vector<Placed> add;  ///< against what the last delta (or the status, if newer) said; each
  std::vector<Placed>
      remove;  ///< host once, ordinals ascending. Hosts that are gone may be in here.
  std::int64_t pending = 0;
  Pending reason = Pending::kNone;
  std::vector<Placed> placements;  ///< what the status is to say, if `write`; ordinals ascending
  bool write = false;              ///< the status says something else; false: leave it alone
  [[nodiscard]] bool empty() const noexcept { return add.empty() && remove.empty(); }
};

/// How many hosts hold all targets (P-11).
struct RequiredHosts {
  std::int64_t hosts = 0;     ///< schedulable ones, those of the lowest ordinals
  std::int64_t ordinals = 0;  ///< replicas of a StatefulSet whose pods the hosts are: 1 + the
                              ///< ordinal of the last of them, plus those that do not exist yet
};

/// Places the units of all claims of one ring key on its hosts. Section 10, P-1 to P-13.
/// Order of use: host_changed for all hosts, load for all claims, then schedule for what take_due
/// names and for what changes. Per decision: schedule, status write with rv precondition, then
/// write_succeeded or write_failed; after a conflict schedule again with the status re-read, which
/// keeps the reservation while the object wants it (10.4).
/// A host's room is what no claim holds; a claim holds on each host the most of what its status
/// says, what its last delta said and what is decided now, so that no answer of a write overbooks.
/// Claims of different policies may share hosts. Everything is deterministic: ties end at ids.
/// Memory: about 300 B per claim and 200 B per host and their strings. No I/O, no clock.
/// Cost: one unit takes O(zones + log hosts) with kSpread (hosts of one zone and ordinal, and those
/// that have room for the unit but not for its entry, are looked at one by one), O(log hosts) with
/// kMostFree, about hosts/64 with kAntiAffinity. Threads: one. Lifetime: arguments are copied.
/// Errors: kInvalid names the field.
class Placement {
 public:
  struct Params {
    std::int64_t min_hosts = 0;           ///< least answer of required_hosts
    std::int64_t new_host_capacity = 20;  ///< of hosts that required_hosts has to invent
    std::int64_t max_units = 65536;       ///< placed for one claim; the rest is pending
    std::int64_t new_host_entries = std::int64_t{1} << 53;  ///< entry_capacity of these
  };
  explicit Placement(Params params);
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  /// A new or changed host. What no longer fits (youngest claims first: created descending, then
  /// uid) or may no longer be there is taken off at once; the claims are due.
  /// @error kInvalid  capacity out of range, no id; the host stays as it was.
  Expected<void> host_changed(const Host& host);
  /// Unknown ids are ignored.
  void host_gone(std::string_view id);

  struct Loaded {
    std::vector<std::string> normalised;  ///< keys whose placements were merged, capped or dropped
    std::vector<std::string> invalid;     ///< keys of invalid claims: their placements are kept
  };
  /// Takes over what is committed. Hosts that are full of more than they hold lose the youngest
  /// claims' units, whatever the order here. Claims that are not as they should be become due.
  Loaded load(std::span<const Claim> claims);

  /// Decides about a new, changed or due claim.
  /// @error kInvalid  a count or size out of range, no key; the old placement stays.
  [[nodiscard]] Expected<Delta> schedule(const Claim& claim);
  /// Takes up a decision of before a restart that no status has yet: as if the last delta had said
  /// so. @returns false: it does not fit, or names a host that takes nothing; nothing is changed
  bool adopt(std::string_view key, std::span<const Placed> decided);
  /// The object is gone. The delta removes everything; the room is free at once.
  Delta release(std::string_view key);

  /// The status now says `written` (Delta::placements).
  void write_succeeded(std::string_view key, std::span<const Placed> written);
  /// It still says what it said and nobody is going to write again: the reservation is dropped.
  void write_failed(std::string_view key);

  /// Keys to schedule, oldest claim first, each once: their units were taken off, their target
  /// changed with the number of hosts, or they are pending and somewhere became room.
  [[nodiscard]] std::vector<std::string> take_due();

  [[nodiscard]] RequiredHosts required_hosts();
  /// Moves at most `budget` units of kSpread claims where that takes 2 or more off a difference,
  /// zones before hosts, onto the first required_hosts hosts. Claims whose last delta was not
  /// answered are left alone. Both ends hold the unit until the write succeeded.
  [[nodiscard]] std::vector<Delta> rebalance(std::int64_t budget);
  /// Moves at most `budget` units of kSpread claims off the hosts behind the first required_hosts,
  /// highest ordinal first.
  [[nodiscard]] std::vector<Delta> compact(std::int64_t budget);
  /// Units to move per tick: max(1, 5 % of the placed ones).
  [[nodiscard]] std::int64_t tick_budget() const noexcept;

  /// As decided now; ordinals ascending. Empty for an unknown key.
  [[nodiscard]] std::vector<Placed> placements(std::string_view key) const;
  /// Target less placed, 0 for an unknown key.
  [[nodiscard]] std::int64_t pending(std::string_view key) const;
  /// Capacity that nobody holds; negative after a cut, 0 for an unknown host.
  [[nodiscard]] std::int64_t room(std::string_view host) const;
  /// Capacity that claims hold there, also of a host that is gone.
  [[nodiscard]] std::int64_t held(std::string_view host) const;
  [[nodiscard]] std::size_t claims() const noexcept;
  [[nodiscard]] std::int64_t placed_units() const noexcept;
  [[nodiscard]] std::size_t pending_claims() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kintsugi::workers
