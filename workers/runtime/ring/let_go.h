#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "workers/runtime/lease/lease_record.h"

namespace kintsugi::workers {

// How a unit that shows a logical cluster which came from another shard makes sure that nobody
// there acts for it any more (RT-14): it asks every member of that shard's ring, on the member's
// own Lease. A member finds that by its watch at once, and at the latest when it renews, for then
// the Lease is another one than it knows; and one that does not renew may not act after give_up. So
// whatever else a member hears late, it answers within its Lease's duration or has lost it. One
// write for each member and cluster, one for its answer, none for a key.

/// On a member's Lease: logical clusters that it is to let go of, as let_go_text().
inline constexpr std::string_view kLetGoAnnotation = "kintsugi.dev/let-go";
/// On a member's Lease, its own: those of them for which it does nothing any more.
inline constexpr std::string_view kLetGoneAnnotation = "kintsugi.dev/let-gone";

/// A logical cluster, and which question it is: one that moves twice is asked for twice.
struct LetGo {
  std::string cluster, question;
  bool operator==(const LetGo&) const = default;
};
/// "<cluster>@<question>" with spaces between.
[[nodiscard]] std::string let_go_text(const std::vector<LetGo>& all);
/// At most kMostLetGo; what is none is left out.
[[nodiscard]] std::vector<LetGo> parse_let_go(std::string_view text);
inline constexpr std::size_t kMostLetGo = 1'000;

/// Who asks the members of one ring for one logical cluster. No I/O, no clock. Threads: one at a
/// time.
class LetGoFsm {
 public:
  struct Params {
    std::string role;
    LetGo asked;
    Duration duration = seconds(15);  ///< of Leases that do not say theirs
  };
  LetGoFsm(Params params, TimePoint now) : params_(std::move(params)), began_(now) {}

  /// The whole list of Leases of the ring's namespace, as it is now.
  /// @returns the updates to send, each with its revision as precondition. After them, answered or
  /// not, another list is due; a question that was not taken is asked again.
  [[nodiscard]] std::vector<LeaseWrite> on_leases(const std::vector<LeaseRecord>& leases,
                                                  TimePoint now);
  /// There is no list: nobody there, or out of reach. Who is out of reach of its shard for the
  /// duration of its Lease has lost that.
  void on_unreadable(TimePoint now);
  /// The update of the Lease with this uid was taken.
  void on_taken(const std::string& uid) { members_[uid].taken = true; }

  /// Nobody acts for the cluster any more: each member has said so, has left, or its Lease has run
  /// out.
  [[nodiscard]] bool done() const noexcept { return done_; }
  /// done() since the wait has its bound, twice the duration, although a member renews its Lease
  /// and does not answer: a program that knows no such question.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }

 private:
  struct Member {
    std::string rv;
    TimePoint since{};   // it is unchanged
    bool taken = false;  // it was asked
  };
  [[nodiscard]] bool is_free(const LeaseRecord& lease, Member& member, TimePoint now) const;

  Params params_;
  TimePoint began_;
  std::map<std::string, Member> members_;  // by uid of their Leases
  bool done_ = false, gave_up_ = false;
};

}  // namespace kintsugi::workers
