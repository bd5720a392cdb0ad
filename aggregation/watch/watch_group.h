#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/watch/group_log.h"
#include "aggregation/watch/internal/cluster_handover.h"
#include "aggregation/watch/internal/group_bookmark.h"
#include "aggregation/watch/internal/group_readers.h"
#include "aggregation/watch/internal/group_streams.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/slot_resync.h"
#include "aggregation/watch/watches.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Watches that ask one question for one identity share one stream per shard and one log of what
/// came (AGG-901). Streams and log live until `group_linger` after the last reader,
/// the ring as long as ResumeRing promises, and the group as long as either, or as who has it.
/// Threads: its loop.
class WatchGroup final : private MemberWatch::Sink,
                         private SlotResync::Sink,
                         private ClusterHandover::Host,
                         public std::enable_shared_from_this<WatchGroup> {
 public:
  /// @param head  what every shard is asked with
  WatchGroup(Watches& watches, std::string key, http::RequestHead head, MergeRoute route,
             std::string passed_on);
  ~WatchGroup() = default;
  WatchGroup(const WatchGroup&) = delete;
  WatchGroup& operator=(const WatchGroup&) = delete;

  void add(GroupReader& reader);
  void remove(GroupReader& reader) noexcept;
  /// Who reads it. To add() and remove() is the group's.
  [[nodiscard]] GroupReaders& readers() noexcept { return readers_; }
  /// Its shards' streams, and how to make one of a reader's own.
  [[nodiscard]] GroupStreams& streams() noexcept { return streams_; }
  [[nodiscard]] ClusterHandover& handover() noexcept { return handover_; }

  /// The shard is no member any more, and readers who read on to `until` get all of its objects'
  /// ends; false: they have to list again, as those at a `component` that the group had not
  /// reached.
  [[nodiscard]] bool tells_departure(std::size_t slot, std::uint64_t component,
                                     GroupLog::Index& until) const;
  /// Bytes that wait for its readers, without a look at them where nothing has come since nothing
  /// waited, to the log or on streams of their own.
  [[nodiscard]] std::size_t weigh_queue() noexcept;
  [[nodiscard]] MergeStats::OfApiGroup& counts() noexcept { return counts_; }
  [[nodiscard]] TimePoint last_used() const noexcept { return last_used_; }
  /// Follows the slot from `position` unless it does already from there or earlier. False: the
  /// group is further on, and a reader has to come after it with a stream of its own.
  [[nodiscard]] bool follow(const Member& member, std::uint64_t position);
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
    return streams_.at(slot);
  }
  /// Its shard has answered since the slot is followed, and nobody waits for its word that the
  /// identity may still watch.
  [[nodiscard]] bool accepted(std::size_t slot) noexcept;
  [[nodiscard]] const GroupLog& log() const noexcept { return log_; }
  [[nodiscard]] ResumeRing& ring() noexcept { return log_.ring(); }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Nobody reads it, and it reads nothing.
  [[nodiscard]] bool asleep() const noexcept {
    return readers_.count() == 0 && streams_.slots().empty();
  }
  [[nodiscard]] const CursorCodec& codec() const noexcept { return codec_; }
  [[nodiscard]] const std::vector<Member>& members() const noexcept { return members_; }
  [[nodiscard]] const MergeRoute& route() const noexcept { return question_.route; }
  /// Who asks, as the shards are told.
  [[nodiscard]] std::string identity() const;

  /// What to do with an event of a reader's own stream.
  [[nodiscard]] ClusterHandover::OwnEvent judge(const Member& member, const EventFacts& event);
  [[nodiscard]] const StreamKind& kind() const noexcept { return question_.shape.kind; }
  /// What its clients get. Decided now if no shard has answered yet.
  [[nodiscard]] const WatchCoding& coding() noexcept { return bookmark_.coding(); }
  /// Raw columnDefinitions of a Table stream; "": none were seen.
  [[nodiscard]] const std::string& columns() const noexcept { return bookmark_.columns(); }
  /// A reader's own stream has told this.
  void learn(const ObjectFacts& facts, std::string_view columns) {
    bookmark_.learn(facts, columns);
  }
  /// Asks a shard what the objects are, unless it is known or being asked.
  void find_kind() { bookmark_.find_kind(); }
  /// Of readers that have everything. Only if kind() is known.
  [[nodiscard]] const SharedBytes& bookmark() { return bookmark_.text(codec_); }

  /// The slots, or who is a member, may have changed. Readers follow after their group. Of a
  /// reviewed route new members wait until all readers are known to be allowed them.
  void refresh();
  /// Rights of readers have changed: refresh() in the next turn, for them too.
  void refresh_soon();
  [[nodiscard]] GroupReport report() const;

 private:
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

  void enter(std::size_t slot, const ObjectFacts& facts, std::uint64_t position,
             std::string_view event) override;
  void expire(std::size_t slot, std::string_view reason) override;

  /// Nobody reads it.
  void linger();
  void fall_asleep();
  void go_in(Duration rest);
  /// Without new members that some reader may not read, as far as is known.
  [[nodiscard]] std::vector<Member> admitted(std::vector<Member> members);
  /// A reader joins a running stream: its right is asked about if that was long ago.
  void check_rights(const Member& member);
  void on_checked(std::size_t slot, const RightsCheck::Outcome& outcome);
  void leave_out(std::size_t slot);
  void note(std::string_view what, std::size_t slot) const;
  void begin(const Member& member, WatchStart start);
  /// The slot is followed, from where its stream is.
  void follow_held(std::size_t slot);
  /// A shard that was away may be back with an older store (AGG-522).
  void check_head(FollowedSlot& followed);
  void drop(std::size_t slot) noexcept;
  void count_collision(std::size_t slot);

  Watches& watches_;
  Asking& shared_;
  std::string key_;
  ShardQuestion question_;
  CursorCodec codec_;
  std::vector<Member> members_;
  struct Departure {
    GroupLog::Index until;  ///< where the ends of its objects end
    std::uint64_t position;
  };
  std::map<std::size_t, Departure> departed_;  // of refresh()
  GroupLog log_;
  MergeStats::OfApiGroup& counts_;
  GroupReaders readers_;
  GroupStreams streams_;
  GroupBookmark bookmark_;
  ClusterHandover handover_;
  bool waits_for_rights_ = false;  // a new member
  bool refreshes_ = false;
  TimePoint last_used_{};
  std::size_t queue_bytes_ = 0;  // when it was weighed last
  bool own_came_ = false;        // events of readers' own streams, since then
  GroupLog::Index weighed_until_ = 0;
  TimePoint weighed_at_{};
  net::Timer linger_;
};

}  // namespace kintsugi::aggregation
