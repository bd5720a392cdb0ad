#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "krm/json.h"
#include "workers/runtime/lease/lease_fsm.h"
#include "workers/runtime/ring/internal/ring_coordinator_fsm.h"
#include "workers/runtime/ring/internal/ring_member_fsm.h"

namespace kintsugi::workers {

struct RingNodeParams {
  std::string role;
  std::string identity;  ///< lease_identity() with random bytes of this node alone
  Duration duration = seconds(15);
  Duration renew = seconds(2);
  Duration give_up = seconds(10);
  Duration retry = seconds(1);
  Duration request_timeout = seconds(2);
  Duration over_limit = seconds(60);
  std::int64_t coordinator_epoch = 0;  ///< the journal's last one
  std::uint32_t partition_epoch = 0;   ///< the journal's highest one
  std::uint64_t seed = 1;
};

/// One request to the API of the unit's lease cluster, in namespace kLeaseNamespace.
struct RingOp {
  /// At most one op of each channel is under way.
  enum class Channel : std::uint8_t { kMember, kCoordinator, kRing };
  enum class Kind : std::uint8_t {
    kGetLease,     ///< GET leases/<name>
    kCreateLease,  ///< POST leases, body lease_body(lease, wall clock)
    kUpdateLease,  ///< PUT leases/<name>, the same body
    kDeleteLease,  ///< DELETE leases/<name>, body DeleteOptions with preconditions uid, rv
    kListLeases,   ///< GET leases, all pages, no resourceVersion
    kGetRing,      ///< GET configmaps/<name>, no resourceVersion
    kCreateRing,   ///< POST configmaps, body
    kUpdateRing,   ///< PUT configmaps/<name>, body
  };
  Channel channel = Channel::kMember;
  Kind kind = Kind::kGetLease;
  std::string name;
  std::string uid;   ///< of kDeleteLease
  std::string rv;    ///< of kDeleteLease
  LeaseWrite lease;  ///< of kCreateLease and kUpdateLease
  krm::Json body;    ///< of all other writes
  Duration timeout{};
};

/// What became of an op. Each op gets exactly one, at the latest after its timeout.
struct RingAnswer {
  enum class Kind : std::uint8_t { kOk, kMissing, kConflict, kFailed };
  Kind kind = Kind::kFailed;
  Duration retry_after{};           ///< of kFailed; 0: none
  std::vector<LeaseRecord> leases;  ///< one, or those of a list
  std::string rv;                   ///< of the ConfigMap
  std::string text;                 ///< data.ring of it
};

/// Makes the answer of a response. @param status  HTTP, 0: none came. @param retry_after  seconds,
/// 0: none. @param body  the whole one; of a list with pages: one list with all items.
[[nodiscard]] RingAnswer ring_answer(RingOp::Kind kind, int status, int retry_after,
                                     std::string_view body);

/// What the driver has to do, in this order: events, then ops, then set the timer.
struct RingOutput {
  RingMemberFsm::Events events;
  std::vector<RingOp> ops;
  TimePoint wake = TimePoint::max();  ///< call on_timer then; replaces the earlier one
  bool left = false;                  ///< leave() is complete: nothing more will come
  /// What others ask of this member (kLetGoAnnotation on its Lease), when that is another text.
  std::optional<std::string> asked;
};

/// One process in the ring of one role in one unit: its member Lease, its candidacy as coordinator,
/// its partitions. Source: sections 7 and 8. The driver sends ops, feeds a watch of the namespace's
/// Leases and of the ConfigMap, and runs one timer; it decides nothing.
///
/// Before an op of a channel other than kMember is sent, and before every write of a reconciler,
/// may_send / may_write are asked at that moment. Ops may be sent at any time after; what the
/// server makes of old ones is caught by preconditions.
/// Threads: one at a time. Memory: 100 KiB. Lifetime: one node per identity; after leave() another
/// identity is needed.
class RingNode {
 public:
  explicit RingNode(const RingNodeParams& params);
  /// As validate(LeaseParams), and the role is 1..32 lower-case letters, digits or dashes.
  [[nodiscard]] static Expected<void> validate(const RingNodeParams& params);

  [[nodiscard]] RingOutput start(TimePoint now);
  [[nodiscard]] RingOutput on_answer(RingOp::Channel channel, RingAnswer answer, TimePoint now);
  [[nodiscard]] RingOutput on_timer(TimePoint now);
  /// Watch events of kLeaseNamespace; Leases of others are left out here. Also of each item of the
  /// watch's own list.
  [[nodiscard]] RingOutput on_lease_event(const LeaseRecord& lease, TimePoint now);
  [[nodiscard]] RingOutput on_lease_deleted(std::string_view name, std::string_view uid,
                                            TimePoint now);
  [[nodiscard]] RingOutput on_ring_event(std::string_view rv, std::string_view text, TimePoint now);
  [[nodiscard]] RingOutput on_ring_deleted(TimePoint now);
  /// The steps of a partition after kDrain are finished and flushed.
  [[nodiscard]] RingOutput on_drained(PartitionId partition, TimePoint now);
  /// A peer refused a write for the partition and named a higher epoch.
  [[nodiscard]] RingOutput on_peer_epoch(PartitionId partition, std::uint32_t epoch, TimePoint now);
  [[nodiscard]] RingOutput set_weights(const std::array<std::uint32_t, kRingPartitions>& weights,
                                       TimePoint now);
  /// The answer to RingOutput::asked: kLetGoneAnnotation of the own Lease, at once.
  [[nodiscard]] RingOutput let_gone(std::string_view text, TimePoint now);
  /// Drains all, then gives the Leases back; `left` in the output that ends it. Afterwards, and
  /// when the driver's patience ends before, the node may be destroyed.
  [[nodiscard]] RingOutput leave(TimePoint now);

  /// RT-66: a new step of the partition may start.
  [[nodiscard]] bool may_start(PartitionId partition, TimePoint now) const noexcept {
    return member_lease_.may_write(now) && member_.active(partition);
  }
  /// A write of a step that started with this epoch may be sent (section 6.5).
  [[nodiscard]] bool may_write(PartitionId partition, std::uint32_t epoch,
                               TimePoint now) const noexcept {
    return member_lease_.may_write(now) && member_.holds(partition) &&
           member_.epoch(partition) == epoch;
  }
  /// Whether an op may still be sent. When not: on_answer with kFailed.
  [[nodiscard]] bool may_send(const RingOp& op, TimePoint now) const noexcept;

  [[nodiscard]] const RingMemberFsm& member() const noexcept { return member_; }
  [[nodiscard]] const RingCoordinatorFsm& coordinator() const noexcept { return coordinator_; }
  [[nodiscard]] const LeaseFsm& member_lease() const noexcept { return member_lease_; }
  [[nodiscard]] const LeaseFsm& coordinator_lease() const noexcept { return coordinator_lease_; }

 private:
  void on_member_action(LeaseAction&& action, RingOutput& out, TimePoint now);
  void on_coordinator_action(LeaseAction&& action, RingOutput& out);
  void on_ring_answer(RingAnswer&& answer, TimePoint now);
  void on_table_text(std::string_view text, TimePoint now, RingOutput& out);
  void note_asked(std::string_view text, RingOutput& out);
  [[nodiscard]] RingOutput begin(TimePoint now);
  [[nodiscard]] RingOutput finish(RingOutput&& out, TimePoint now);

  RingNodeParams params_;
  LeaseFsm member_lease_;
  LeaseFsm coordinator_lease_;
  RingMemberFsm member_;
  RingCoordinatorFsm coordinator_;
  RingOp::Kind ring_op_ = RingOp::Kind::kGetRing;
  TimePoint member_wake_ = TimePoint::max();
  TimePoint coordinator_wake_ = TimePoint::max();
  RingReport reported_;
  std::string asked_;
  bool leaving_ = false;
};

}  // namespace kintsugi::workers
