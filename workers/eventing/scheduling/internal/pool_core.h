#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "workers/eventing/scheduling/pool_scheduler.h"

namespace kintsugi::workers {

/// What stands behind PoolScheduler; its header has the contract. Threads: one.
class PoolScheduler::Core {
 public:
  explicit Core(PoolSettings settings);

  void set_replicas(std::int64_t replicas, TimePoint now);
  Expected<void> set_pod(const DispatcherPod& pod, TimePoint now);
  void pod_gone(std::string_view name, TimePoint now);
  Loaded load(std::span<const PoolGroup> groups, std::span<const MoveRow> moves, TimePoint now);
  void set(const PoolGroup& group);
  void remove(std::string_view key);
  PoolChanges decide(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timer() const;
  std::vector<Placed> begin_write(std::string_view key);
  void written(std::string_view key, std::span<const Placed> placements);
  void not_written(std::string_view key);
  void told(std::string_view pod, const SeenDecisions& seen);
  void joined(std::string_view pod, std::string_view key, std::int64_t members);
  std::size_t start_moves(const std::vector<Delta>& deltas, TimePoint now);
  [[nodiscard]] std::optional<GroupPlace> place(std::string_view key) const;
  [[nodiscard]] std::vector<Placed> contract(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> groups_on(std::string_view pod) const;
  [[nodiscard]] std::optional<std::string> move_row(std::string_view key) const;
  [[nodiscard]] AutoscalerView view();

  PoolSettings settings;
  Placement placement;
  bool loaded = false;
  std::uint64_t moves_total = 0;

  struct Group {
    PoolGroup claim;
    std::vector<Placed> target;  // as decided last
    bool write = false;          // the status says something else
    bool in_flight = false;      // its write has no answer yet
    bool due = false;
    bool too_large = false;
    std::int64_t pending = 0;
    Pending why = Pending::kNone;
    std::string fault;  // what could not be decided
    std::optional<GroupMove> move;
    std::vector<Placed> contract;  // as on_pods_ has it
  };
  StringMap<Group> groups;
  std::set<std::string, std::less<>> moving;  // keys
  std::set<std::string, std::less<>> pending_room;

 private:
  struct Pod {
    DispatcherPod api;
    std::int32_t ordinal = 0;
    bool exists = false;
    std::int64_t named = 0;  // units that statuses say it has, while they are loaded
    std::optional<TimePoint> missing_since;
  };
  [[nodiscard]] bool beyond(const Pod& pod) const noexcept {
    return replicas_ && pod.ordinal >= *replicas_;
  }
  [[nodiscard]] bool alive(std::string_view pod) const;
  [[nodiscard]] static bool works(const Pod& pod) noexcept {
    return pod.exists && pod.api.bound && !pod.api.deleting;
  }
  Expected<void> show(Pod& pod, TimePoint now);
  void forget_if_unused(const std::string& name);
  void pods_pass(TimePoint now);

  void mark_due(Group& group);
  [[nodiscard]] bool is_busy(const Group& group) const noexcept;
  void decide_one(Group& group, TimePoint now);
  [[nodiscard]] Claim claim_of(const Group& group) const;
  [[nodiscard]] bool leaves_live_pod(const Group& group, const std::vector<Placed>& to) const;
  void begin_move(Group& group, std::vector<Placed> to, TimePoint now);
  void end_move(Group& group);
  void undo_move(Group& group);
  void pod_stopped(const std::string& pod);
  void stepped(Group& group);
  void moves_pass(TimePoint now);
  void note_place(Group& group);
  /// Contracts follow what the group has become; changed pods are told.
  void update_contract(Group& group);

  std::map<std::string, Pod, std::less<>> pods_;
  std::optional<std::int64_t> replicas_;
  std::set<std::string, std::less<>> missing_;  // pods that are gone and keep what they have
  StringMap<std::set<std::string, std::less<>>> on_pods_;  // pod -> groups in its contract
  std::vector<std::string> due_;
  PoolChanges changes_;
};

}  // namespace kintsugi::workers
