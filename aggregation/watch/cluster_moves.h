#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/list/shard_pages.h"
#include "aggregation/position/move_notes.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// A logical cluster at the shard that owns it now, as clients have to be told.
struct ClusterArrival {
  /// Of events without a separator.
  struct Event {
    std::uint64_t revision = 0;
    std::string text;
  };
  Member member;
  std::string cluster;
  std::uint64_t revision = 0;   ///< of the list; 0: it cannot be had as events, clients list again
  std::vector<Event> objects;   ///< ADDED
  std::vector<Event> later;     ///< what the shard has told since
  std::vector<Event> vanished;  ///< DELETED that nobody got, of what is not among these
  std::unordered_set<std::string> keys;  ///< key() of `objects`

  [[nodiscard]] static std::string key(const ObjectFacts& facts);
  [[nodiscard]] bool has(const ObjectFacts& facts) const { return keys.contains(key(facts)); }
};

/// Logical clusters that two shards show, as one of them is being moved (AGG-1101):
/// only what the owner says of it counts. When the owner changes to a shard whose events of the
/// cluster were left out, the cluster is listed there, and its objects are told as ADDED; no client
/// sees the other shard's deletions of what is there. Of one group. Memory: for each cluster that
/// is on its way a list of at most what a client may be behind, and 4,096 events. Threads: its
/// loop.
class ClusterMoves {
 public:
  using Arrived = std::function<void(const ClusterArrival& arrival)>;

  /// @param question  as the group asks; outlives this
  ClusterMoves(Asking& shared, const MoveNotes& notes, ShardQuestion& question, Arrived arrived);
  ~ClusterMoves();

  /// The event is not the owner's: nobody gets it.
  [[nodiscard]] bool leaves_out(const Member& member, const ObjectFacts& facts);
  /// The same of an event of the group's own stream, which nobody gets either if it is older than
  /// what was told at the move, and everybody later if its cluster is about to arrive there.
  [[nodiscard]] bool leaves_out(const Member& member, const ObjectFacts& facts,
                                std::string_view event);
  /// Shard that owns the object's logical cluster, if another one than this tells of it.
  [[nodiscard]] std::optional<topology::ShardId> other_owner(const Member& member,
                                                             const ObjectFacts& facts) const;
  /// The cluster is about to be told anew from this slot, whose events of it are left out.
  [[nodiscard]] bool awaits(std::size_t slot, std::string_view cluster) const;
  /// Streams are further than what clients are going to be told: no cursor says where they are.
  [[nodiscard]] bool owes() const noexcept { return open_ > 0; }
  /// Clients have what this slot, the owner's, tells of the cluster up to `position`.
  [[nodiscard]] bool is_told(std::size_t slot, std::string_view cluster,
                             std::uint64_t position) const;
  /// The owner at this slot, whose objects are not known, may not have this one: it was not in the
  /// list that was told, if any was.
  [[nodiscard]] bool may_lack(std::size_t slot, const ObjectFacts& facts) const;
  /// A shard has deleted what the owner, at `position`, may not have: the owner is asked.
  void vanished(const Member& owner, std::uint64_t position, const ObjectFacts& facts,
                std::string_view event);
  /// Nothing that clients have of the cluster is from this slot any more: should it come back, it
  /// is listed there.
  void left_from(std::size_t slot, const std::string& cluster);
  [[nodiscard]] bool has_left(std::size_t slot, std::string_view cluster) const;
  /// Owners may have changed, or who is followed.
  void follow(const std::vector<Member>& members);
  /// The slot is followed from now on: what was left out of it before is not forgotten.
  void remember(const Member& member);
  /// The slot is not followed any more.
  void forget(const Member& member);

 private:
  class Listing;
  struct Left {
    std::uint64_t latest = 0;  ///< revision of what was left out and is not in `later`
    std::uint64_t told = 0;    ///< revision of the list that was told; 0: none yet
    std::shared_ptr<Listing> listing;
    std::vector<ClusterArrival::Event> later;  ///< since the listing began
    std::unordered_set<std::string> keys;      ///< of what was told
    bool departed = false;
    bool owed = false;  ///< events of the owner are left out until it is listed
  };
  /// DELETED that nobody got, until the cluster is listed at its owner.
  struct Vanished {
    std::map<std::string, ClusterArrival::Event> events;
    bool overflown = false;
  };
  using Key = std::pair<std::size_t, std::string>;  // slot, cluster
  /// What the event is left out for; null: it is not.
  Left* left_of(const Member& member, const ObjectFacts& facts);
  void list(const Key& key, const Member& member, Left& left, Duration delay = {});
  void on_listed(const Key& key, const Member& member, bool complete);
  void count_open() noexcept;

  Asking& shared_;
  const MoveNotes& notes_;
  ShardQuestion& question_;
  Arrived arrived_;
  std::map<Key, Left> left_;
  std::map<std::string, Vanished, std::less<>> vanished_;  // by cluster
  std::size_t open_ = 0;                                   // of left_: owed, or being listed
};

}  // namespace kintsugi::aggregation
