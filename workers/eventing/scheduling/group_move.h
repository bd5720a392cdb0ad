#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// How far a move is. Before the first step its units are reserved on the new pods.
enum class MoveStep : std::uint8_t {
  kAdding,      ///< the new pods' contracts are to have the units; waits until these say so
  kJoining,     ///< waits until the new pods' consumers are members of their group
  kRemoving,    ///< the old pods' contracts are to be without them; waits until these say so
  kCommitting,  ///< the status is to say the new placement
};
[[nodiscard]] std::string_view move_step_text(MoveStep step) noexcept;

/// One group's units on their way from some pods to others, so that at any time at least as many
/// consumers are there as before: new ones first, then the old ones go, the status last. A machine
/// without I/O: who drives it writes encode() into the journal whenever step() has changed, before
/// contracts or statuses follow; a restart goes on from there, and each step may be done twice.
/// Threads: one.
class GroupMove {
 public:
  struct Times {
    Duration seen = seconds(30);  ///< for contracts; adding that takes longer is given up
    Duration join = seconds(30);  ///< for consumers, and then it goes on: others of the group work
  };
  GroupMove(std::vector<Placed> from, std::vector<Placed> to, TimePoint now)
      : GroupMove(std::move(from), std::move(to), now, Times()) {}
  GroupMove(std::vector<Placed> from, std::vector<Placed> to, TimePoint now, Times times);

  /// A row of the journal. nullopt: it is none. Patience begins again.
  [[nodiscard]] static std::optional<GroupMove> parse(std::string_view row, TimePoint now,
                                                      Times times);
  [[nodiscard]] static std::optional<GroupMove> parse(std::string_view row, TimePoint now) {
    return parse(row, now, Times());
  }
  [[nodiscard]] std::string encode() const;

  [[nodiscard]] MoveStep step() const noexcept { return step_; }
  [[nodiscard]] const std::vector<Placed>& from() const noexcept { return from_; }
  [[nodiscard]] const std::vector<Placed>& to() const noexcept { return to_; }
  /// What the pods' contracts are to hold at this step.
  [[nodiscard]] const std::vector<Placed>& contract() const noexcept {
    return step_ <= MoveStep::kJoining ? both_ : to_;
  }
  /// placements_digest() of what pods may have seen meanwhile.
  [[nodiscard]] std::vector<std::string> digests() const;

  // Events. @returns whether step() is another one.
  bool seen(std::string_view pod, std::string_view digest);
  /// The dispatcher of the pod has that many members in the group.
  bool joined(std::string_view pod, std::int64_t members);
  /// Nobody waits for the word of a pod that does not exist, or has no entry of the group left.
  bool pod_gone(std::string_view pod);
  bool elapsed(TimePoint now);

  /// Whose members it waits for; empty at other steps.
  [[nodiscard]] std::vector<std::string> joining() const {
    return step_ == MoveStep::kJoining ? std::vector<std::string>(waiting_.begin(), waiting_.end())
                                       : std::vector<std::string>();
  }

  /// Adding took too long: the move is to be undone, by contracts and statuses as they were.
  [[nodiscard]] bool given_up() const noexcept { return given_up_; }
  /// It went on without hearing from consumers.
  [[nodiscard]] bool unconfirmed() const noexcept { return unconfirmed_; }
  /// When elapsed() may do something; nullopt: nothing waits for time.
  [[nodiscard]] std::optional<TimePoint> due() const noexcept;

 private:
  void enter(MoveStep step);
  bool heard(std::string_view pod);
  [[nodiscard]] MoveStep next() const noexcept {
    return static_cast<MoveStep>(static_cast<int>(step_) + 1);
  }

  std::vector<Placed> from_, to_, both_;
  Times times_;
  MoveStep step_ = MoveStep::kAdding;
  std::set<std::string, std::less<>> waiting_;  // pods that have not said what this step needs
  TimePoint since_;
  bool begun_ = false;  // since_ is of this step
  bool given_up_ = false, unconfirmed_ = false;
};

}  // namespace kintsugi::workers
