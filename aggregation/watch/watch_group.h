#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/asking/merge_query.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/position/resume_ring.h"
#include "aggregation/watch/cluster_moves.h"
#include "aggregation/watch/internal/group_log.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/rights_check.h"
#include "aggregation/watch/internal/slot_resync.h"
#include "aggregation/watch/watches.h"
#include "base/error.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// One client of a group. None of these may add readers.
class GroupReader {
 public:
  /// The log has grown, or positions have moved; a batch is complete.
  virtual void on_group_moved() = 0;
  /// The slot's stream was accepted, or its shard lacks the resource.
  virtual void on_slot_accepted(std::size_t slot) = 0;
  /// The slot's stream, which no shard had accepted yet, could not be had; it is tried again.
  virtual void on_slot_lost(std::size_t slot, std::string_view cause) = 0;
  /// The shard answered with a Status that trying again does not change.
  virtual void on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                               const std::string& body) = 0;
  /// Events of the slot were lost: the client has to list again after `delay`; nothing more of the
  /// slot comes.
  virtual void on_slot_expired(std::size_t slot, std::string_view reason, Duration delay) = 0;
  /// Events of the slot after `position` are replaced by the differences from there: a reader who
  /// is further on may have objects that they do not name.
  virtual void on_slot_compared(std::size_t slot, std::uint64_t position) = 0;
  /// A logical cluster has left the slot's shard: what the log has of it from there is older than
  /// what a stream of the reader's own tells of its new shard.
  virtual void on_cluster_leaves(std::size_t slot) = 0;
  /// The log tells objects of the slot anew that its streams have left out: a reader who has the
  /// slot from a stream of its own lacks them, and one who is behind at the shard that had them
  /// would get its older events later.
  virtual void on_slot_supplied(std::size_t slot) = 0;
  virtual void on_group_failed(const Error& error, std::string_view reason) = 0;
  /// One of these has thrown: it ends, with 500 where its answer has not begun.
  virtual void on_reader_fault() = 0;
  /// The members are other ones than before.
  virtual void on_members() = 0;
  /// @returns when it wants the next call; max: when something moves
  virtual TimePoint on_due(TimePoint now) = 0;
  /// Others come first, but soon something is told: what it needs for that can be fetched.
  virtual void approach() const noexcept = 0;
  /// Some shard has been silent for as long as a client may wait for it, perhaps.
  /// @returns when it wants the next call, if nothing is heard by then; max: none
  virtual TimePoint on_stall(TimePoint now) = 0;
  /// It may read this member: without it the group does not begin with new ones.
  [[nodiscard]] virtual bool covers(const Member& member) const noexcept = 0;
  [[nodiscard]] virtual std::string_view caller() const noexcept = 0;
  /// Bytes that it has not given to its connection yet, or this not to the client. None of who is
  /// about to end.
  struct Queued {
    std::size_t shared = 0;  ///< of the group's log
    std::size_t own = 0;
  };
  [[nodiscard]] virtual Queued queued() const noexcept = 0;
  /// Too much waits for all clients. False: it cannot end in order now.
  virtual bool end_for_memory() noexcept = 0;

 protected:
  ~GroupReader() = default;
};

class IndexFill;
class ListProbe;

/// Watches that ask one question for one identity share one stream per shard and one log of what
/// came (AGG-901). Streams and log live until `group_linger` after the last reader,
/// the ring as long as ResumeRing promises, and the group as long as either, or as who has it.
/// Threads: its loop.
class WatchGroup final : private MemberWatch::Sink,
                         private SlotResync::Sink,
                         public std::enable_shared_from_this<WatchGroup> {
 public:
  /// @param head  what every shard is asked with
  WatchGroup(Watches& watches, std::string key, http::RequestHead head, MergeRoute route,
             std::string passed_on);
  ~WatchGroup();
  WatchGroup(const WatchGroup&) = delete;
  WatchGroup& operator=(const WatchGroup&) = delete;

  void add(GroupReader& reader);
  void remove(GroupReader& reader) noexcept;
  /// One more reader wants on_due() not before `due`, and soon after it. One timer serves all.
  void expect(TimePoint due);
  /// One reader does not any more.
  void expect_less() noexcept;
  /// A shard has gone silent: readers are asked, when `max_stall` is over, whether they go on.
  void expect_stall();

  /// A stream of one reader's own.
  /// Remembers what its objects are if nobody does yet, so that a lost history can be repaired.
  [[nodiscard]] std::unique_ptr<MemberWatch> make_stream(MemberWatch::Sink& sink,
                                                         const Member& member, WatchStart start);
  /// The shard is no member any more, and readers who read on to `until` get all of its objects'
  /// ends; false: they have to list again, as those at a `component` that the group had not
  /// reached.
  [[nodiscard]] bool tells_departure(std::size_t slot, std::uint64_t component,
                                     GroupLog::Index& until) const;
  /// Bytes that wait for its readers; those of the log once.
  [[nodiscard]] std::size_t queue_bytes() const noexcept;
  /// The same, without a look at readers where nothing has come since nothing waited, to the log
  /// or on streams of their own.
  [[nodiscard]] std::size_t weigh_queue() noexcept;
  /// Some may be null.
  [[nodiscard]] const std::vector<GroupReader*>& readers() const noexcept { return readers_; }
  [[nodiscard]] MergeStats::OfApiGroup& counts() noexcept { return counts_; }
  /// Forgets what is known of objects, to save memory.
  void forget_objects() noexcept;
  [[nodiscard]] std::size_t index_bytes() const noexcept;
  [[nodiscard]] TimePoint last_used() const noexcept { return last_used_; }
  /// Follows the slot from `position` unless it does already from there or earlier. False: the
  /// group is further on, and a reader has to come after it with a stream of its own.
  [[nodiscard]] bool follow(const Member& member, std::uint64_t position);
  /// Who begins at this position of the shard would never be told what came to it with a logical
  /// cluster before that.
  [[nodiscard]] bool lacks_arrivals(const Member& member, std::uint64_t position) const;
  /// Takes a reader's stream that is live, or whose shard lacks the resource, for a slot that is
  /// not followed.
  void adopt(std::unique_ptr<MemberWatch> stream);
  /// Takes over what a reader's stream, which goes now, knows of objects, if the group knows
  /// nothing and has everything that came since.
  void learn_objects(MemberWatch& stream);

  /// Shards that lack the resource are asked again, in the next turn of the loop.
  void look_again();
  [[nodiscard]] bool follows(std::size_t slot) const noexcept { return stream(slot) != nullptr; }
  /// nullptr: not followed.
  [[nodiscard]] const MemberWatch* stream(std::size_t slot) const noexcept {
    return slot < streams_.size() ? streams_[slot] : nullptr;
  }
  /// Its shard has answered since the slot is followed, and nobody waits for its word that the
  /// identity may still watch.
  [[nodiscard]] bool accepted(std::size_t slot) const noexcept;
  [[nodiscard]] const GroupLog& log() const noexcept { return log_; }
  [[nodiscard]] ResumeRing& ring() noexcept { return ring_; }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Nobody reads it, and it reads nothing.
  [[nodiscard]] bool asleep() const noexcept { return reader_count_ == 0 && slots_.empty(); }
  [[nodiscard]] const CursorCodec& codec() const noexcept { return codec_; }
  [[nodiscard]] const std::vector<Member>& members() const noexcept { return members_; }
  [[nodiscard]] const MergeRoute& route() const noexcept { return question_.route; }
  /// Who asks, as the shards are told.
  [[nodiscard]] std::string identity() const;

  void learn(const ObjectFacts& facts, std::string_view columns);
  /// What to do with an event of a reader's own stream.
  enum class OwnEvent : std::uint8_t {
    kTell,
    kLeaveOut,  ///< no client of the group gets it
    kGone,      ///< DELETED by a shard that its cluster has left, and the owner lacks it
    kUnsure     ///< the same, but what the owner has is not known: its reader has to list again
  };
  [[nodiscard]] OwnEvent judge(const Member& member, const EventFacts& event);
  [[nodiscard]] const StreamKind& kind() const noexcept { return question_.shape.kind; }
  /// What its clients get. Decided now if no shard has answered yet.
  [[nodiscard]] const WatchCoding& coding() noexcept;
  /// Raw columnDefinitions of a Table stream; "": none were seen.
  [[nodiscard]] const std::string& columns() const noexcept { return columns_; }
  /// Asks a shard what the objects are, unless it is known or being asked: streams that begin at a
  /// cursor may stay without any event, and need bookmarks with a kind.
  void find_kind();
  /// Bookmark of readers that have everything. Only if kind() is known.
  [[nodiscard]] const SharedBytes& bookmark();

  /// Events are left out that are made up for soon: readers have no place that a cursor could name.
  [[nodiscard]] bool owes() const noexcept { return moves_.owes(); }
  /// Where logical clusters have changed their owner, nobody begins before that any more.
  void note_moves();
  /// The slots, or who is a member, may have changed. Readers follow after their group. Of a
  /// reviewed route new members wait until all readers are known to be allowed them.
  void refresh();
  /// Rights of readers have changed: refresh() in the next turn, for them too.
  void refresh_soon();
  [[nodiscard]] GroupReport report() const;

 private:
  struct Slot {
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

  void on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) override;
  void on_bookmark(MemberWatch& from, const EventFacts& facts) override;
  void on_initial_end(MemberWatch& from) override;
  void on_accepted(MemberWatch& from) override;
  void on_batch_end(MemberWatch& from) override;
  bool on_lost(MemberWatch& from, std::string_view cause) override;
  void on_expired(MemberWatch& from) override;
  void on_refused(MemberWatch& from, const http::ResponseHead& head,
                  const std::string& body) override;
  void on_too_large(MemberWatch& from, const std::string& key) override;
  void on_fault(MemberWatch& from) override;
  void on_difference(SlotResync& from, const ObjectFacts& facts, std::string_view event) override;
  void on_resynced(SlotResync& from, std::uint64_t revision) override;
  void on_resync_failed(SlotResync& from) override;

  /// Nobody reads it.
  void linger();
  void fall_asleep();
  void go_in(Duration rest);
  void be_due();
  void be_stalled();
  /// Without new members that some reader may not read, as far as is known.
  [[nodiscard]] std::vector<Member> admitted(std::vector<Member> members);
  /// A reader joins a running stream: its right is asked about if that was long ago.
  void check_rights(const Member& member);
  void on_checked(std::size_t slot, const RightsCheck::Outcome& outcome);
  void leave_out(std::size_t slot);
  void note(std::string_view what, std::size_t slot) const;
  void begin(const Member& member, WatchStart start);
  /// A shard that was away may be back with an older store (AGG-522).
  void check_head(Slot& followed);
  /// The slot's stream is this one; the loops of the process share it.
  void hold(std::size_t slot, std::unique_ptr<MemberWatch> stream);
  void drop(std::size_t slot) noexcept;
  void bury_later() noexcept;
  /// Enters an event that no shard has sent, for readers who are at `position`.
  void enter(std::size_t slot, const ObjectFacts& facts, std::uint64_t position,
             std::string_view event);
  void on_cluster_arrived(const ClusterArrival& arrival);
  /// Of the owner of the object's cluster, which is another shard than this; null: not followed.
  [[nodiscard]] const MemberWatch* owners_stream(const Member& member,
                                                 const ObjectFacts& facts) const;
  /// A shard has deleted what it does not own, or is about to be listed as the new owner of.
  void on_deleted_unseen(const Member& member, const ObjectFacts& facts, std::string_view event);
  [[nodiscard]] std::unique_ptr<KeyIndex> make_index(const Member& member);
  void count_collision(std::size_t slot);
  void plan_index(std::size_t slot);
  /// What tells events that the shard has forgotten; null: nothing does.
  [[nodiscard]] KeyIndex* whole_index(const MemberWatch& stream) const;
  void expire(std::size_t slot, std::string_view reason);
  void for_each_reader(const std::function<void(GroupReader&)>& call);

  Watches& watches_;
  Asking& shared_;
  std::string key_;
  ShardQuestion question_;
  CursorCodec codec_;
  std::vector<Member> members_;
  std::map<std::size_t, Slot> slots_;
  std::vector<MemberWatch*> streams_;  // of slots_, by slot
  struct Departure {
    GroupLog::Index until;  ///< where the ends of its objects end
    std::uint64_t position;
  };
  std::map<std::size_t, Departure> departed_;          // of refresh()
  std::vector<std::unique_ptr<MemberWatch>> retired_;  // may still be on the stack
  std::vector<std::unique_ptr<SlotResync>> retired_resyncs_;
  std::vector<std::unique_ptr<RightsCheck>> retired_checks_;
  std::vector<std::unique_ptr<ListProbe>> retired_probes_;
  std::vector<std::unique_ptr<IndexFill>> retired_fills_;
  GroupLog log_;
  ResumeRing ring_;
  MergeStats::OfApiGroup& counts_;
  KeyNames names_;
  std::vector<GroupReader*> readers_;  // null: left during a call to all
  std::size_t reader_count_ = 0;
  std::uint64_t moved_away_ = 0;  // clusters, from any shard
  bool calling_ = false;
  bool waits_for_rights_ = false;  // a new member
  bool refreshes_ = false;
  TimePoint last_used_{};
  std::size_t queue_bytes_ = 0;  // when it was weighed last
  bool own_came_ = false;        // events of readers' own streams, since then
  GroupLog::Index weighed_until_ = 0;
  TimePoint weighed_at_{};
  ClusterMoves moves_;
  std::unique_ptr<ListProbe> kind_probe_;
  std::string columns_;
  std::size_t expecting_ = 0;  // readers
  TimePoint due_at_ = TimePoint::max();
  net::Timer due_;
  SharedBytes bookmark_;  // empty: positions have moved since it was made
  std::string bookmark_cursor_;
  net::Timer linger_, stall_;
  bool expects_stall_ = false;
};

/// The group of this question and identity; made if there is none.
[[nodiscard]] std::shared_ptr<WatchGroup> group_of(Watches& watches, http::RequestHead head,
                                                   MergeRoute route, const MergeQuery& query);

}  // namespace kintsugi::aggregation
