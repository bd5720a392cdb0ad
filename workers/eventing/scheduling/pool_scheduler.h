#pragma once

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

#include "base/error.h"
#include "base/time.h"
#include "workers/eventing/model/pod_annotation.h"
#include "workers/eventing/scheduling/autoscaler.h"
#include "workers/eventing/scheduling/group_move.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

struct PoolSettings {
  std::string stateful_set;       ///< its pods are "<name>-<ordinal>"
  std::int64_t capacity = 20;     ///< POD_CAPACITY: units of a pod, 1 .. 2^31-1
  std::int64_t min_replicas = 0;  ///< DISPATCHERS_MIN_REPLICAS: on so many pods each group is
  std::int64_t contract_bytes = 900 << 10;  ///< of all entries of a pod
  Duration reschedule = seconds(300);  ///< a pod that is gone for so long has lost its units (KD-3)
  GroupMove::Times moves{};
};

/// A dispatcher pod as the API shows it.
struct DispatcherPod {
  std::string name;
  std::string zone;    ///< of its node; "": unknown
  bool bound = false;  ///< to a node
  bool deleting = false;
  bool cordoned = false;                 ///< eventing.knative.dev/unschedulable: "true"
  std::optional<std::int64_t> capacity;  ///< by its annotation
};

/// A ConsumerGroup as the scheduler sees it.
struct PoolGroup {
  std::string key;  ///< seen_key() of it
  std::string uid;
  std::int64_t created = 0;                ///< seconds since 1970
  std::int64_t wanted = 0;                 ///< effective_replicas()
  std::optional<std::int64_t> partitions;  ///< its most; nullopt: no bound
  std::int64_t entry_bytes = 0;            ///< of its entry in a pod's contract
  std::vector<Placed> status;              ///< as last read: never older than an answered write
};

/// Where a group is, and what there is to do for it.
struct GroupPlace {
  std::vector<Placed> placements;  ///< what its status is to say now
  bool write = false;              ///< it says something else
  std::int64_t pending = 0;        ///< units without a place
  Pending why = Pending::kNone;
  bool too_large = false;  ///< its entry fits in no contract at all
  std::string message;     ///< "5 of 15 vreplicas have no place: …"; "": all is well
  std::optional<MoveStep> move;
  std::vector<std::string> digests;  ///< that pods may have seen (ReadinessFacts::digests)
};

/// What other parts look at again, by name; each once.
struct PoolChanges {
  std::set<std::string> groups;  ///< statuses
  std::set<std::string> pods;    ///< contracts
  std::set<std::string> moves;   ///< of groups: rows of the journal, before pods and groups follow
  [[nodiscard]] bool empty() const noexcept {
    return groups.empty() && pods.empty() && moves.empty();
  }
};

/// Which of a StatefulSet's pods a name says; nullopt: it is none of them.
[[nodiscard]] std::optional<std::int32_t> pod_ordinal(std::string_view stateful_set,
                                                      std::string_view pod) noexcept;

/// Places the groups of one pool on its pods with the placement library, policy kSpread, and takes
/// them through moves. Rules of sections 5 and 6; KD-3, KA-4 to KA-6. A machine without I/O:
/// events go in, decide() tells what to look at again.
/// Order of use: set_replicas and set_pod for all, load for all groups, then decide after events
/// and when next_timer() says so. Of a group with `write`: begin_write, a status write with the
/// resourceVersion as precondition, then written, or set with what was read again and not_written.
/// A pod that is not bound, or gone, gets nothing; what it has stays for `reschedule`, or goes at
/// once where its ordinal is not below the replicas. One that is cordoned loses its units. Where
/// units leave a pod that is alive for another one, contracts follow the steps of a GroupMove; else
/// the status is written at once and contracts follow it.
/// Cost: a decision as Placement::schedule's, and O(placements) strings. Threads: one.
class PoolScheduler {
 public:
  explicit PoolScheduler(PoolSettings settings);
  ~PoolScheduler();
  PoolScheduler(const PoolScheduler&) = delete;
  PoolScheduler& operator=(const PoolScheduler&) = delete;

  void set_replicas(std::int64_t replicas, TimePoint now);
  /// @error kInvalid  its name is not of the StatefulSet, or a capacity that cannot be: the pool's
  ///                  own is taken then
  Expected<void> set_pod(const DispatcherPod& pod, TimePoint now);
  void pod_gone(std::string_view name, TimePoint now);

  /// A row of the journal, by the group's key.
  struct MoveRow {
    std::string key, row;
  };
  struct Loaded {
    std::vector<std::string> normalised;  ///< groups whose statuses were not as they should be
    std::vector<std::string> invalid;     ///< whose placements are kept as they are
    std::size_t moves = 0;                ///< that go on
  };
  /// All groups, before the first decision (5.4).
  Loaded load(std::span<const PoolGroup> groups, std::span<const MoveRow> moves, TimePoint now);
  [[nodiscard]] bool is_loaded() const noexcept;

  /// New or changed, or read again after a conflict.
  void set(const PoolGroup& group);
  /// It is gone: its room is free.
  void remove(std::string_view key);

  /// Decides what is due and lets time pass. Before load() it does nothing.
  [[nodiscard]] PoolChanges decide(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timer() const;

  /// The status of a group with `write` is being written. @returns what to write.
  std::vector<Placed> begin_write(std::string_view key);
  void written(std::string_view key, std::span<const Placed> placements);
  /// It was not written; what is reserved for it stays.
  void not_written(std::string_view key);

  /// @{ What a pod says.
  /// read_seen() of its annotations; of a group that is not in there its contract has no entry.
  void told(std::string_view pod, const SeenDecisions& seen);
  /// Its dispatcher has that many members in the group.
  void joined(std::string_view pod, std::string_view key, std::int64_t members);
  struct Joining {
    std::string key, pod;
  };
  /// For which words of joined() moves wait. Cost: O(groups that move).
  [[nodiscard]] std::vector<Joining> joining() const;
  /// @}

  /// @{ One lot of moves, of at most the tick's budget (10.4). @returns groups that began to move.
  std::size_t compact(TimePoint now);
  std::size_t rebalance(TimePoint now);
  /// @}

  [[nodiscard]] std::optional<GroupPlace> place(std::string_view key) const;
  /// What the contracts of pods are to hold of a group.
  [[nodiscard]] std::vector<Placed> contract(std::string_view key) const;
  /// The groups whose entries a pod's contract holds.
  [[nodiscard]] std::vector<std::string> groups_on(std::string_view pod) const;
  /// nullopt: the group does not move, its row goes.
  [[nodiscard]] std::optional<std::string> move_row(std::string_view key) const;

  /// For the autoscaler; after decide(). Cost: O(pods + groups).
  [[nodiscard]] AutoscalerView view();
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t moving() const noexcept;
  [[nodiscard]] std::size_t pending_groups() const noexcept;
  [[nodiscard]] std::uint64_t moves_total() const noexcept;  ///< that have begun

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kintsugi::workers
