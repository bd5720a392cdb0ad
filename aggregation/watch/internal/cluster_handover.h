#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "aggregation/asking/shard_question.h"
#include "aggregation/watch/cluster_moves.h"
#include "aggregation/watch/group_log.h"
#include "aggregation/watch/internal/group_readers.h"
#include "aggregation/watch/internal/group_streams.h"
#include "aggregation/watch/watches.h"

namespace kintsugi::aggregation {

/// Logical clusters that go from one shard of a group to another (AGG-1101): which events of theirs
/// the group leaves out is ClusterMoves' business; here is what readers are told instead, so that
/// each sees every object once, wherever it is. Threads: its loop.
class ClusterHandover {
 public:
  /// Whoever tells the readers.
  class Host {
   public:
    /// Enters an event that no shard has sent, for readers who are at `position`.
    virtual void enter(std::size_t slot, const ObjectFacts& facts, std::uint64_t position,
                       std::string_view event) = 0;
    /// Events of the slot are lost to its readers.
    virtual void expire(std::size_t slot, std::string_view reason) = 0;

   protected:
    ~Host() = default;
  };
  /// All of these outlive it.
  ClusterHandover(Host& host, Watches& watches, ShardQuestion& question,
                  const std::vector<Member>& members, GroupStreams& streams, GroupReaders& readers,
                  GroupLog& log);

  [[nodiscard]] ClusterMoves& moves() noexcept { return moves_; }
  [[nodiscard]] const ClusterMoves& moves() const noexcept { return moves_; }
  /// Where logical clusters have changed their owner, nobody begins before that any more.
  void note();
  /// Who begins at this position of the shard would never be told what came to it with a logical
  /// cluster before that.
  [[nodiscard]] bool lacks_arrivals(const Member& member, std::uint64_t position) const;
  /// What to do with an event of a reader's own stream.
  enum class OwnEvent : std::uint8_t {
    kTell,
    kLeaveOut,  ///< no client of the group gets it
    kGone,      ///< DELETED by a shard that its cluster has left, and the owner lacks it
    kUnsure     ///< the same, but what the owner has is not known: its reader has to list again
  };
  [[nodiscard]] OwnEvent judge(const Member& member, const EventFacts& event);
  /// A shard has deleted what it does not own, or is about to be listed as the new owner of.
  void on_deleted_unseen(const Member& member, const ObjectFacts& facts, std::string_view event);

 private:
  void on_arrived(const ClusterArrival& arrival);
  /// Of the owner of the object's cluster, which is another shard than this; null: not followed.
  [[nodiscard]] const MemberWatch* owners_stream(const Member& member,
                                                 const ObjectFacts& facts) const;

  Host& host_;
  Watches& watches_;
  Asking& shared_;
  ShardQuestion& question_;
  const std::vector<Member>& members_;
  GroupStreams& streams_;
  GroupReaders& readers_;
  GroupLog& log_;
  std::uint64_t moved_away_ = 0;  // clusters, from any shard
  ClusterMoves moves_;
};

}  // namespace kintsugi::aggregation
