#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/key_names.h"
#include "aggregation/list/list_probe.h"
#include "aggregation/watch/internal/index_fill.h"
#include "aggregation/watch/internal/key_index.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/rights_check.h"
#include "aggregation/watch/internal/slot_resync.h"
#include "aggregation/watch/watches.h"
#include "base/alive.h"

namespace kintsugi::aggregation {

/// A slot that a group follows: the stream, and what is asked of the shard besides.
struct FollowedSlot {
  std::unique_ptr<MemberWatch> stream;
  std::unique_ptr<SlotResync> resync;  ///< while the stream is stopped for it
  bool accepted = false;
  bool lost = false;             ///< and not accepted again
  bool fresh = true;             ///< nothing was heard since it is followed
  std::uint64_t moved_away = 0;  ///< clusters that the shard had lost to others
  TimePoint allowed_at{};        ///< when the shard last said that the identity may watch
  std::unique_ptr<RightsCheck> check;
  std::unique_ptr<ListProbe> head;  ///< after a loss: is the shard still that far?
  std::unique_ptr<IndexFill> fill;  ///< it began at a cursor
};

/// One stream for each shard that a group follows, with the index of its objects that repairs a
/// lost history (AGG-1002). Whoever is called by what is retired here may retire it: it is
/// destroyed in the loop's next turn. Threads: its loop.
class GroupStreams {
 public:
  using Slots = std::map<std::size_t, FollowedSlot>;

  /// @param question  outlives this, as `key`, by which loops share streams. @param on_collision
  /// two names in the index of this slot have one hash
  GroupStreams(Watches& watches, ShardQuestion& question, const std::string& key,
               std::function<void(std::size_t slot)> on_collision);
  ~GroupStreams();
  GroupStreams(const GroupStreams&) = delete;
  GroupStreams& operator=(const GroupStreams&) = delete;

  /// A stream of the group's or of a reader's own. Remembers what its objects are if nobody does
  /// yet.
  [[nodiscard]] std::unique_ptr<MemberWatch> make(MemberWatch::Sink& sink, const Member& member,
                                                  WatchStart start);
  /// The slot's stream is this one, in place of any other, and the loops of the process share it.
  FollowedSlot& hold(std::size_t slot, std::unique_ptr<MemberWatch> stream);
  /// Like this, of a stream that goes on where another was that had all objects. @param index  of
  /// these; null: nobody knows them
  FollowedSlot& go_on(std::size_t slot, std::unique_ptr<MemberWatch> stream,
                      std::unique_ptr<KeyIndex> index);
  /// Stops all that is asked of the slot's shard. @returns the member it was
  Member drop(std::size_t slot) noexcept;
  /// May still be on the stack. null: nothing.
  template <class Asker>
  void retire(std::unique_ptr<Asker> asker) noexcept {
    if (asker != nullptr) {
      bury_later(std::shared_ptr<Asker>(std::move(asker)));
    }
  }

  [[nodiscard]] Slots& slots() noexcept { return slots_; }
  [[nodiscard]] const Slots& slots() const noexcept { return slots_; }
  /// nullptr: not followed.
  [[nodiscard]] FollowedSlot* find(std::size_t slot) noexcept {
    return slot < by_slot_.size() ? by_slot_[slot].followed : nullptr;
  }
  [[nodiscard]] MemberWatch* at(std::size_t slot) const noexcept {
    return slot < by_slot_.size() ? by_slot_[slot].stream : nullptr;
  }

  /// What tells events that the shard has forgotten; null: nothing does.
  [[nodiscard]] KeyIndex* whole_index(const MemberWatch& stream) const;
  /// Of a slot that began at a cursor: its objects are learnt later.
  void plan_index(std::size_t slot);
  /// Forgets what is known of objects, to save memory.
  void forget_objects() noexcept;
  [[nodiscard]] std::size_t index_bytes() const noexcept;

 private:
  template <class Asker>
  void stop(std::unique_ptr<Asker> asker) noexcept {
    if (asker != nullptr) {
      asker->stop();
      retire(std::move(asker));
    }
  }
  [[nodiscard]] std::unique_ptr<KeyIndex> make_index(const Member& member);
  void bury_later(std::shared_ptr<void> asker) noexcept;

  Watches& watches_;
  Asking& shared_;
  ShardQuestion& question_;
  const std::string& key_;
  KeyNames names_;
  Slots slots_;
  struct Place {  // of `slots_`, for every event
    MemberWatch* stream = nullptr;
    FollowedSlot* followed = nullptr;
  };
  std::vector<Place> by_slot_;
  std::vector<std::shared_ptr<void>> retired_;
  Alive alive_;
};

}  // namespace kintsugi::aggregation
