#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "workers/runtime/queue/duration_histogram.h"
#include "workers/runtime/ring/internal/ring_report.h"
#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {

/// What a member has to do with one of its partitions, in this order as given.
struct RingEvent {
  enum class Kind : std::uint8_t {
    kStart,  ///< it is ours with this epoch: load, then work
    kEpoch,  ///< still ours, with a higher epoch: use it from now on
    kDrain,  ///< start no steps, let the running ones finish, flush, then on_drained(partition)
    kStop,   ///< no longer ours: cut what runs; its on_drained must not come any more
  };
  Kind kind = Kind::kStart;
  PartitionId partition = 0;
  std::uint32_t epoch = 0;
  bool operator==(const RingEvent&) const = default;
};

/// Which partitions this process holds. Source: RT-54, RT-65, RT-66, section 18.
/// It does not ask the lease guard; RingNode does. No I/O, no clock. Threads: one at a time.
/// Memory: 48 KiB. Cost: O(partitions) a table, O(1) a question.
class RingMemberFsm {
 public:
  using Events = std::vector<RingEvent>;
  static constexpr Duration kDrainLimit = seconds(10);

  /// @param known_epoch  highest epoch of any partition that the journal has; 0: none.
  explicit RingMemberFsm(std::string identity, std::uint32_t known_epoch = 0);

  /// A table was read, in any order. One that cannot follow the accepted one is left out; its
  /// generation goes into the report.
  /// @error kCorrupt  of check_successor(); not for the same table again.
  [[nodiscard]] Expected<void> on_table(const RingTable& table, TimePoint now, Events& out);
  /// The own Lease is held, with this uid; or it is lost: everything stops at once.
  void on_lease_held(std::string_view uid, TimePoint now, Events& out);
  void on_lease_lost(Events& out);
  void on_drained(PartitionId partition, TimePoint now, Events& out);
  void on_timer(TimePoint now, Events& out);
  /// A peer refused our writes for the partition and named its epoch. Ignored when ours is higher.
  void on_peer_epoch(PartitionId partition, std::uint32_t epoch);
  /// Gives up everything and takes nothing more.
  void leave(TimePoint now, Events& out);

  /// A new step may start, or a running one may go on, as far as the ring says.
  [[nodiscard]] bool active(PartitionId partition) const noexcept {
    return holds_[partition].state == Hold::kActive;
  }
  [[nodiscard]] bool holds(PartitionId partition) const noexcept {
    return holds_[partition].state != Hold::kNone;
  }
  /// Of a partition that is held, 0 of another.
  [[nodiscard]] std::uint32_t epoch(PartitionId partition) const noexcept {
    return holds(partition) ? holds_[partition].epoch : 0;
  }
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] bool left() const noexcept { return leaving_ && held_ == 0; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return table_.generation; }
  /// The accepted table names us: what it does not give us another one has.
  [[nodiscard]] bool listed() const noexcept { return me_ != kNoMember; }
  [[nodiscard]] TimePoint wake() const noexcept;
  /// Of partitions that other members gave us: from the table that named us next to the one by
  /// which they are ours.
  [[nodiscard]] const DurationHistogram& handovers() const noexcept { return handovers_; }

  /// For the own Lease.
  [[nodiscard]] RingReport report() const;
  /// Somebody waits for the report: it must not wait for the next renewal.
  [[nodiscard]] bool report_urgent() const noexcept;

 private:
  enum class Hold : std::uint8_t { kNone, kActive, kDraining };
  struct Held {
    Hold state = Hold::kNone;
    std::uint32_t epoch = 0;
    TimePoint until{};  // of draining
  };
  void apply(TimePoint now, Events& out);
  void stop(std::size_t partition, Events& out);
  void settle();

  std::string identity_;
  std::string uid_;  // "": no Lease
  std::uint32_t known_epoch_;
  RingTable table_;
  std::uint16_t me_ = kNoMember;
  std::array<Held, kRingPartitions> holds_{};
  std::array<TimePoint, kRingPartitions> named_{};  // since when we are next
  DurationHistogram handovers_;
  std::size_t held_ = 0;
  std::size_t draining_ = 0;
  bool leaving_ = false;
  std::uint64_t ack_ = 0;
  std::uint64_t rejected_ = 0;
  bool taken_ = false;  // the accepted table takes something from us, or asks whether we follow it
  std::vector<std::pair<PartitionId, std::uint32_t>> raise_;
};

}  // namespace kintsugi::workers
