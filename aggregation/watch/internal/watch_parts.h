#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/watch/group_log.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/merged_watch_fsm.h"
#include "aggregation/watch/watch_group.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// One shard's share of one client's watch.
struct WatchPart {
  std::unique_ptr<MemberWatch> own;  ///< until it reads the log
  std::uint64_t component = 0;       ///< of the client's cursor
  /// Not 0: its shard is no member any more, its objects end before this place of the log.
  GroupLog::Index leaves_at = 0;
  /// What repeats the component it has before this place of the log.
  GroupLog::Index repeats_from = 0;
  topology::ShardId id = 0;
  std::uint16_t slot = 0;
  bool attached = false;  ///< reads the log
  bool skips = false;     ///< the log may begin with events that the client has
};

/// The shards of one client's watch: which they are, where their events come from, and what their
/// streams say together. Decides nothing (MergedWatchFsm), and moves nobody on (ClientFeed,
/// OwnStreams). Lifetime: its group's at most. Threads: the group's loop.
class WatchParts {
 public:
  WatchParts(net::Loop& loop, WatchGroup& group) : loop_(loop), group_(group) {}

  [[nodiscard]] WatchPart& add(const Member& member, std::uint64_t component, bool attached);
  void reserve(std::size_t count) { parts_.reserve(count); }
  /// nullptr: the watch has nothing of the slot.
  [[nodiscard]] WatchPart* find(std::size_t slot) noexcept {
    for (WatchPart& part : parts_) {
      if (part.slot == slot) {
        return &part;
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  [[nodiscard]] const std::vector<WatchPart>& all() const noexcept { return parts_; }
  [[nodiscard]] std::span<WatchPart> all() noexcept { return parts_; }
  [[nodiscard]] std::string name_of(const WatchPart& part) const;
  /// Its own or the group's; null: the slot is not followed.
  [[nodiscard]] const MemberWatch* stream_of(const WatchPart& part) const noexcept {
    return part.own != nullptr ? part.own.get() : group_.stream(part.slot);
  }

  void note(std::string_view what, const WatchPart& part, std::string_view audit) const;

  /// @{ Streams of its own.
  /// Asks all; the sink may stop_own() meanwhile.
  void open_own();
  void give_credit() noexcept;
  void stop_own();
  /// Somebody's present objects come by a stream of its own.
  [[nodiscard]] bool ask_present() const noexcept;
  /// Some other part than that of `from` is told by a stream of its own.
  [[nodiscard]] bool has_other_own(const MemberWatch& from) const noexcept;
  /// Some part that does not read the log is the slot's, or has told something.
  [[nodiscard]] bool has_own_of(std::size_t slot) const noexcept;
  /// How a live stream of its own gives way to the group's, or becomes it.
  enum class Joined : std::uint8_t {
    kNo,
    kFirst,   ///< nothing of the log is for the client so far
    kLevel,   ///< there is nothing to catch up with
    kBehind,  ///< events of the log behind its component are still to be sent
  };
  [[nodiscard]] Joined join(WatchPart& part, std::size_t most_behind);
  /// From now on the part reads the log, from behind its component on.
  static void read_log(WatchPart& part) noexcept { part.attached = part.skips = true; }  /// @}

  /// @{ Members that come and go.
  struct Left {
    bool any = false;
    bool objects = false;  ///< the client has some that nothing tells it the end of
  };
  /// Drops those that are no members any more, or lets them read their ends in the log.
  [[nodiscard]] Left leave(const std::vector<Member>& members);
  /// Those that have read their ends by now.
  void drop_read(GroupLog::Index next) {
    std::erase_if(parts_, [next](const WatchPart& part) {
      return part.leaves_at != 0 && next >= part.leaves_at;
    });
  }
  /// One that has, as its shard is back. @returns who reads the slot now, may be null
  [[nodiscard]] WatchPart* drop(WatchPart& part);
  /// A shard of which the client has something is back with an older store since `generation`.
  [[nodiscard]] bool is_rolled_back(std::uint32_t generation) const;
  [[nodiscard]] bool is_leaving() const noexcept;  /// @}

  /// @{ What the shards say together.
  /// Somebody has still to answer. @param without_lost  those that are away are not waited for
  [[nodiscard]] bool awaits_answer(bool without_lost) const noexcept;
  /// @param late  who has been silent since before
  [[nodiscard]] MergedWatchFsm::Answers answers(TimePoint late) const noexcept;
  /// No shard serves the resource to this caller.
  [[nodiscard]] bool all_refuse() const noexcept;
  /// A stream has no connection yet.
  [[nodiscard]] bool dials() const noexcept;
  /// Every shard has given its present objects. @param waives_absent  but those that are away
  [[nodiscard]] bool have_present(bool waives_absent) const noexcept;
  /// The client has read what the log has of shards that joined meanwhile.
  [[nodiscard]] bool have_read_present() const noexcept;
  [[nodiscard]] bool is_held_back() const noexcept;
  /// Since when some shard is silent; max: all are there.
  [[nodiscard]] TimePoint silent_since() const noexcept;
  using Causes = std::vector<std::pair<std::string, std::string>>;  ///< shard, why
  /// Those that are away, or refuse.
  [[nodiscard]] Causes away() const;
  /// Those whose present objects have not come.
  [[nodiscard]] Causes late() const;
  void add_warnings(Warnings& warnings) const;  /// @}

 private:
  [[nodiscard]] TimePoint silent_since(const WatchPart& part) const noexcept;
  [[nodiscard]] bool is_away(const WatchPart& part) const noexcept;
  /// It may be on the stack: it goes in the next turn.
  void retire(std::unique_ptr<MemberWatch> stream);

  net::Loop& loop_;
  WatchGroup& group_;
  std::vector<WatchPart> parts_;
};

}  // namespace kintsugi::aggregation
