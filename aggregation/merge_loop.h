#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/internal/read_gate.h"
#include "aggregation/merge_params.h"
#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "aggregation/position/move_book.h"
#include "aggregation/position/resume_ring.h"
#include "aggregation/watch/queue_budget.h"
#include "base/memory_budget.h"
#include "base/time.h"
#include "http/handler.h"
#include "krm/request_info.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "serving/held_requests.h"
#include "serving/watch_drain.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

/// Lists and watches that cover several shards (docs/spec/aggregation.md).
namespace kintsugi::aggregation {

/// Counters of one loop.
struct MergeStats {
  /// By name of a shard and reason (docs/configuration.md).
  using ByShard = std::map<std::pair<std::string, std::string_view>, std::uint64_t>;
  /// Watches of resources of one API group.
  struct OfApiGroup {
    std::size_t watches = 0;   ///< that are open
    std::uint64_t events = 0;  ///< sent to clients
  };
  std::uint64_t lists = 0, watches_begun = 0, bookmarks = 0, failed = 0;
  /// Clients name the groups: of most of them there is no more than "other".
  [[nodiscard]] OfApiGroup& of(const std::string& group) {
    constexpr std::size_t kMost = 512;
    const bool room = of_api_group.size() < kMost || of_api_group.contains(group);
    return of_api_group[room ? group : "other"];
  }
  std::map<std::string, OfApiGroup, std::less<>> of_api_group;
  /// Answers and events 410 by why: generation, removed, rollback, check, native, sequence,
  /// history, initial.
  std::map<std::string_view, std::uint64_t> expired;
  std::uint64_t evicted_slow = 0, evicted_memory = 0, evicted_stall = 0, evicted_drain = 0;
  /// Watches that a review has ended: a right was lost; none could be had for too long.
  std::uint64_t evicted_forbidden = 0, evicted_unreviewed = 0;
  std::uint64_t reviews_allowed = 0, reviews_denied = 0, reviews_failed = 0, reviews_cached = 0;
  std::uint64_t indexed = 0;  ///< lists that made key indexes of streams that began at a cursor
  /// Lists without some shards: as configured, or since their request asked for it.
  std::uint64_t lists_partial = 0, lists_partial_asked = 0;
  std::map<int, net::TimeHistogram> list_times;  ///< by status code; 0: cut off
  ByShard shard_failures;
  ByShard resyncs;   ///< streams that were asked for again; "history": that a list made up for
  ByShard dropped;   ///< answers and events that no client gets: malformed, replayed, large
  ByShard emulated;  ///< initial events that did not end by themselves
  /// Events that came behind newer ones, by shard (AGG-703).
  std::map<std::string, std::uint64_t> out_of_order;
  /// Objects of a name that another server has, by name of their shard and resource.
  std::map<std::pair<std::string, std::string>, std::uint64_t> collisions;
  [[nodiscard]] std::uint64_t& collisions_of(const std::string& shard,
                                             const std::string& resource) {
    constexpr std::size_t kMost = 4'096;
    std::pair<std::string, std::string> key(shard, resource);
    const bool room = collisions.size() < kMost || collisions.contains(key);
    return room ? collisions[std::move(key)] : collisions[{shard, "other"}];
  }
};

class MergedWatch;
class Reviewer;
class StreamHomes;
class WatchGroup;
struct Member;
struct ReviewPlan;

/// Looks for the deliveries of an event in the groups of that key on all loops of the process.
/// `done` runs on the caller's loop, at once or later.
using FindDeliveries =
    std::function<void(const std::string& key, std::uint64_t revision, std::vector<bool> members,
                       std::function<void(ResumeRing::Found)> done)>;

class DocumentCache;

/// One group of watches, for people.
struct GroupReport {
  std::string route, path, user, query, api_group;
  bool reviewed = false;    ///< the proxy reads with its own credential
  std::size_t callers = 0;  ///< different ones among the readers
  std::size_t readers = 0, log_bytes = 0, log_events = 0;
  std::size_t queue_bytes = 0;  ///< that its readers have not been given yet
  struct Shard {
    std::string name;
    std::uint64_t position = 0;
    std::string_view state;
    bool relayed = false;  ///< read from another loop's stream
    Duration silent{};     ///< for how long it has not been heard
  };
  std::vector<Shard> shards;
};

/// What the merged reads of one loop share. Outlives every stream. Threads: its loop.
struct MergeLoop {
  MergeLoop(net::Loop& l, topology::ShardPool& p, std::shared_ptr<topology::SnapshotView> v,
            serving::WatchDrain& drain, const MergeOptions& o, const MergeParams& pa)
      : loop(l),
        pool(p),
        view(std::move(v)),
        watches(drain),
        options(o),
        params(pa),
        late_slots(l, pa.future_wait),
        follow_timer_(l),
        house_timer_(l) {}
  net::Loop& loop;
  topology::ShardPool& pool;
  std::shared_ptr<topology::SnapshotView> view;
  serving::WatchDrain& watches;
  const MergeOptions options;
  const MergeParams params;
  MergeStats stats;
  SlotHistoryPtr slots = std::make_shared<const SlotHistory>();
  TokenKeys keys;  ///< empty until they are known: paged lists wait for them
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<SequenceBook> sequences = std::make_shared<SequenceBook>();
  /// Requests that come before a new shard has its slot, or whose cursor or token is of a
  /// generation that another replica, or another loop, made a moment ago: they wait for the record
  /// (AGG-511).
  serving::HeldRequests late_slots;
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<ReadGate> list_gate =
      std::make_shared<ReadGate>(ReadGate::for_lists(params.list_streams));
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<ReadGate> initial_gate =
      std::make_shared<ReadGate>(ReadGate::for_initial_events());
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<QueueBudget> queue_budget = std::make_shared<QueueBudget>(params.queue_total);
  /// Of the whole process; one of its own, without a bound, until another is set.
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(0);
  /// Of the whole process; null: this loop is all there is.
  std::shared_ptr<StreamHomes> homes;
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<MoveBook> moves = std::make_shared<MoveBook>();
  std::vector<MergedWatch*> open;  ///< told of changes of the slots
  /// By question and identity; kept a while after their last reader.
  std::map<std::string_view, std::shared_ptr<WatchGroup>> groups;  ///< by their own key()

  std::size_t index_bytes = 0;  ///< of all key indexes, a second ago at most
  std::size_t index_fills = 0;  ///< lists that run for them
  /// Tells that shards may serve what they lacked (T02); may be null.
  std::shared_ptr<const DocumentCache> documents;
  /// Connections with the proxy's own credential; null: it is not known yet, or not needed.
  topology::ShardPool* own_pool = nullptr;
  /// With share: reviewed; else null.
  std::shared_ptr<Reviewer> reviewer;
  void start_reviews();
  FindDeliveries find_deliveries;  ///< empty: this loop is all there is
  [[nodiscard]] CursorCodec codec(const Scope& scope) const {
    return {scope, slots, sequences, options.sequence};
  }
  /// A shard's own number that nobody could tell from a cursor (AGG-517). The shard is refused for
  /// a while, before it is asked.
  [[nodiscard]] bool is_too_large(topology::ShardId shard, std::uint64_t revision);
  [[nodiscard]] bool is_refused(topology::ShardId shard) const;
  /// A shard lost revisions that clients have seen: makes a new generation. May be empty.
  std::function<void(const std::string& uid)> rolled_back;
  [[nodiscard]] ResumeRing::Found find_delivery(const std::string& key, std::uint64_t revision,
                                                const std::vector<bool>& members) const;
  /// Initial events of this shard and resource are taken by LIST for `duration` (AGG-806).
  void list_first(topology::ShardId shard, const Scope& scope, Duration duration);
  [[nodiscard]] bool lists_first(topology::ShardId shard, const Scope& scope) const;

  /// @{ Streams of the scope that the shard was asked for before this revision lack what came to
  /// it with a logical cluster (T110); 0: nothing did, as far as is known here.
  void note_arrival(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                    std::uint64_t revision);
  [[nodiscard]] std::uint64_t arrival(const Member& member, const Scope& scope) const;  /// @}
  /// @{ Logical clusters of which nobody was told what the shard has in the scope, as it did not
  /// own them, and the last revision of that: until they arrive there.
  void leave_out(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                 std::uint64_t revision);
  [[nodiscard]] MoveBook::LeftOut left_out(topology::ShardId shard,
                                           const Scope& scope) const;  /// @}

  /// When the `turn`-th of `all` watches that have to list again is told to: spread in time, and
  /// never more of them a second than operators allow (AGG-1003).
  [[nodiscard]] Duration expiry_turn(std::size_t turn, std::size_t all);
  [[nodiscard]] std::vector<GroupReport> report_groups() const;
  /// Sees to it, while there are groups, that they remember no more than they may, that no more
  /// waits for their readers, and that shards that lacked a resource are asked again when discovery
  /// has changed.
  void keep_house();

  /// New slots or generations; open watches follow.
  void set_slots(SlotHistoryPtr history);
  /// Shards, or who holds what, may have changed; only the latter: virtual workspaces follow, soon.
  void follow(bool shards_changed);

 private:
  void look_for_resources();
  void limit_indexes();
  void limit_queues();

  std::uint64_t discovery_seen_ = 0;
  std::map<std::string, TimePoint, std::less<>> lists_first_;  // until then, by shard and resource
  std::map<topology::ShardId, TimePoint> refused_;             // until then
  net::Timer follow_timer_, house_timer_;
  std::optional<QueueBudget::Share> queue_share_;
  TimePoint last_expiry_{};
  bool follows_ = false, keeps_house_ = false;
};

/// A shard of the route, by its slot.
struct Member {
  std::size_t slot = 0;
  topology::ShardId id = 0;
  std::string name;
  /// Logical cluster that its objects are marked with; "": they say themselves (AGG-1502).
  std::string marker = {};
  /// False: it holds nothing of what is read now; it is asked only by who has read it before.
  bool needed = true;
  bool operator==(const Member&) const = default;
};

/// What an object gets as its marker: its plain server's name, or "<shard>:<cluster>" if it is
/// of a cluster that every shard has and these are qualified; "": it stays as it is. @param room
/// what the answer may be kept in
[[nodiscard]] std::string_view marker_of(const MergeOptions& options, const Member& member,
                                         std::string_view cluster, std::string& room);

/// Where a merged request goes.
struct MergeRoute {
  Scope scope;
  krm::RequestInfo info;  ///< below "clusters/*"
  /// Path of the collection for every shard, below its base URL, without a query.
  std::string path;
  bool virtual_url = false;  ///< below the shards' virtual workspace URLs
  /// The shards that it covers now, by slot. Asked again when the topology changes.
  std::function<std::vector<Member>()> members;
  /// The caller has to be allowed this first (AGG-904); null: shards judge the caller themselves.
  std::shared_ptr<const ReviewPlan> reviews = {};
  /// @{ It was: the shards are asked with the proxy's own credential.
  bool reviewed = false;
  std::string share_key = {};  ///< "", or which members were left out: groups do not mix them
  std::vector<std::pair<std::string, std::string>> left_out = {};  ///< shard, cause
  /// @}
};

struct MergeQuery;
/// What a continue token of this list is good for.
[[nodiscard]] ListQuestion question_of(const MergeRoute& route, const MergeQuery& query);
/// Asks as soon as every shard has its slot, and the generation that the request names, if any, is
/// known here. What is not known yet is worth to be waited for. @param head  lives until it asks
[[nodiscard]] std::unique_ptr<http::RequestHandler> when_slots_are_known(
    MergeLoop& shared, std::shared_ptr<const http::RequestHead> head, http::ResponseStream& stream,
    std::optional<std::uint32_t> generation,
    std::function<std::unique_ptr<http::RequestHandler>()> ask);

/// The request goes on without shards that are away (AGG-1001).
[[nodiscard]] bool asks_partial(const MergeOptions& options, const http::HeaderList& headers);
/// A shard's connections for this route; null: not known yet.
[[nodiscard]] shards::ShardClient* client_of(MergeLoop& shared, const MergeRoute& route,
                                             topology::ShardId shard);

/// What a shard's slot is known by: the UID of its Shard object, its name where a source has none.
[[nodiscard]] const std::string& slot_uid(const topology::ShardSpec& shard) noexcept;
/// These shards by slot; those that have no slot yet are left out.
[[nodiscard]] std::vector<Member> members_of(const MergeLoop& shared,
                                             const std::vector<const topology::ShardInfo*>& shards);
/// Every shard of the snapshot has its slot: else a merged read would leave objects out.
[[nodiscard]] bool all_have_slots(const MergeLoop& shared);
/// All shards by slot.
[[nodiscard]] std::vector<Member> all_members(const MergeLoop& shared);
/// By slot of the current table.
[[nodiscard]] std::vector<bool> member_flags(const SlotHistory& history,
                                             const std::vector<Member>& members);

/// Cause of a shard that is refused where cursors are numbers (AGG-517).
inline constexpr std::string_view kTooLargeVersions =
    "its resourceVersions cannot be told from sequence cursors";

/// Answers a GET of a collection over several shards. A cursor or token of a generation that is not
/// known here yet is waited for.
/// @param head  identity and forwarding headers as the shards shall see them.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_merged(MergeLoop& shared,
                                                                  http::RequestHead head,
                                                                  http::ResponseStream& stream,
                                                                  MergeRoute route);

}  // namespace kintsugi::aggregation
