#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "workers/runtime/lease/lease_record.h"
#include "workers/runtime/ring/internal/ring_report.h"
#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {

struct RingCoordinatorParams {
  std::string role;
  Duration lease_duration = seconds(15);  ///< of members whose Lease does not tell
  Duration retry = seconds(1);            ///< after a failure
  Duration request_timeout = seconds(2);
  Duration over_limit = seconds(60);  ///< a member above its limit for so long is relieved (RT-64)
  std::uint32_t known_epoch = 0;      ///< highest epoch of any partition in the journal
};

/// What a coordinator wants from the API; at most one at a time, each answered once.
struct RingRequest {
  enum class Kind : std::uint8_t {
    kNone,
    kListLeases,   ///< all of kLeaseNamespace, no resourceVersion: on_list
    kReadRing,     ///< GET of the ConfigMap, no resourceVersion: on_ring_read, on_ring_missing
    kCreateRing,   ///< `table`: on_ring_written
    kUpdateRing,   ///< `table` with precondition rv: on_ring_written
    kDeleteLease,  ///< `name` with preconditions uid and resourceVersion: on_lease_deleted
  };               // each of them also: on_refused
  Kind kind = Kind::kNone;
  std::string name;
  std::string uid;
  std::string rv;
  RingTable table;
};

/// Decides who owns which partition, while its process holds the Lease `ring-<role>-coordinator`.
/// Source: RT-61 … RT-68, section 18; who gets what is assign() of placement/ring_policy.h.
///
/// A partition leaves a member that lives only after that member acknowledged a table that names
/// another `next`. A member is dead only when it released its Lease as the last thing it did, or
/// when its Lease, unchanged for its duration by our monotonic clock, was deleted under the
/// preconditions uid and resourceVersion: so no renewal can have come between, and a member that
/// wakes later has another uid, which owns nothing. A Lease that is missing proves only that no
/// renewal comes any more; its member counts as alive for a whole duration from when that is known
/// (a watch's deletion of that uid, or a list asked for after the member was known).
/// A table that is missing, garbage or older than what is known is written anew without owners and
/// with all epochs raised; owners come when all members that may act have acknowledged it.
/// Watch events are hints: what the server has is read again before a table is given up.
/// Each writing has a precondition and a new generation, so a coordinator that was deposed and does
/// not know it fails. It watches before it is elected, so that it knows the ages of Leases by then.
/// No I/O, no clock. Threads: one at a time. Memory: 40 KiB and 300 B a member. Cost: a decision
/// is that of assign(), and only follows a change.
class RingCoordinatorFsm {
 public:
  explicit RingCoordinatorFsm(RingCoordinatorParams params);

  // What watches see, whether elected or not; any order.
  void on_lease_seen(const LeaseRecord& lease, TimePoint now);
  void on_lease_gone_seen(std::string_view name, std::string_view uid, TimePoint now);
  void on_ring_seen(std::string_view rv, std::string_view text, TimePoint now);
  void on_ring_gone_seen();

  /// The coordinator Lease was acquired with this epoch, or lost.
  void elected(std::int64_t epoch);
  void deposed();
  /// Keys per partition: 1,024 of them; not to be called more often than every few seconds.
  void set_weights(const std::array<std::uint32_t, kRingPartitions>& weights);

  // Answers.
  void on_list(const std::vector<LeaseRecord>& leases, TimePoint now);
  void on_ring_read(std::string_view rv, std::string_view text, TimePoint now);
  void on_ring_missing(TimePoint now);
  void on_ring_written(std::string_view rv, TimePoint now);
  void on_lease_deleted(TimePoint now);
  enum class Refusal : std::uint8_t {
    kConflict,
    kMissing,
    kFailed,  ///< anything else, with an unknown outcome too
  };
  void on_refused(Refusal why, Duration retry_after, TimePoint now);

  /// The next request, if any. To be called after each of the above and at wake().
  [[nodiscard]] RingRequest step(TimePoint now);
  /// When to call step again without any input; as of the last step.
  [[nodiscard]] TimePoint wake() const noexcept { return wake_; }

  [[nodiscard]] bool in_office() const noexcept { return elected_; }
  [[nodiscard]] const RingTable& table() const noexcept { return table_; }
  struct Counters {
    std::uint64_t writes = 0, conflicts = 0, failures = 0, rebuilds = 0, deaths = 0;
    std::uint64_t moves = 0;      ///< partitions that got another owner
    std::uint64_t garbage = 0;    ///< tables that could not be used
    std::uint64_t exhausted = 0;  ///< decisions without an epoch or generation left
    std::uint64_t overflow = 0;   ///< Leases beyond the limit, not looked at
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  struct Seen {
    LeaseRecord lease;  // without annotations
    RingReport report;
    TimePoint since{};  // when it was first seen as it is
    TimePoint retry{};  // no deletion before
  };
  struct Candidate;  // a member of the next table
  struct Draft;
  [[nodiscard]] bool released(const Seen& seen) const noexcept;
  [[nodiscard]] TimePoint expiry(const Seen& seen) const noexcept;
  [[nodiscard]] const Seen* lease_of(const RingTableMember& member) const noexcept;
  void note_gone(std::string_view uid, Duration patience, TimePoint now);
  void bury(std::string_view uid);
  [[nodiscard]] bool buried(std::string_view uid) const noexcept;
  void take(std::string_view identity, const LeaseRecord& lease, TimePoint now);
  void erase_lease(std::string_view identity, TimePoint now);
  void adopt(RingTable&& table, std::string_view rv);
  [[nodiscard]] RingRequest next_deletion(TimePoint now);
  [[nodiscard]] bool reports_contradict() const noexcept;
  [[nodiscard]] bool first_ever() const noexcept;
  [[nodiscard]] std::uint32_t highest_epoch() const noexcept;
  [[nodiscard]] std::uint64_t highest_generation() const noexcept;
  [[nodiscard]] bool may_fill(const Draft& draft, TimePoint now);
  void gather(Draft& draft, TimePoint now);
  void wish(Draft& draft, TimePoint now);
  void fill_slots(Draft& draft, TimePoint now);
  [[nodiscard]] bool new_epoch(RingSlot& slot, std::uint64_t above);
  void raise_epochs(Draft& draft);
  [[nodiscard]] std::optional<RingTable> decide(TimePoint now);
  [[nodiscard]] TimePoint next_expiry() const noexcept;
  void later(TimePoint when) noexcept;

  RingCoordinatorParams params_;
  StringMap<Seen> leases_;           // by identity
  StringMap<TimePoint> gone_;        // uids without Lease: when they may be taken for dead
  std::vector<std::string> buried_;  // uids that are proven dead, the latest
  std::array<std::uint32_t, kRingPartitions> weights_{};
  StringMap<TimePoint> above_;                          // uids above their limit, since when
  RingTable table_;                                     // the last valid one
  std::string rv_;                                      // of the ConfigMap, "": there is none
  std::uint64_t known_generation_ = 0;                  // of any report
  bool broken_ = false;                                 // the server has something else than table_
  std::array<std::uint64_t, kRingPartitions> since_{};  // generation that set `next`
  std::uint64_t confirm_ = 0;  // generation that unconfirmed members have to acknowledge
  bool elected_ = false;
  std::int64_t office_ = 0;  // epoch of the coordinator Lease
  bool listed_ = false;
  TimePoint listed_at_{};  // first list in this office
  bool need_list_ = true;
  bool need_ring_ = true;
  std::uint64_t doubted_ = 0;  // generation that was read again because reports contradict it
  RingRequest under_way_;      // kind kNone: nothing is
  TimePoint asked_at_{};       // sending of the last request
  TimePoint rest_until_{};
  TimePoint decide_at_ = TimePoint::min();
  TimePoint wake_ = TimePoint::max();
  Counters counters_;
};

}  // namespace kintsugi::workers
