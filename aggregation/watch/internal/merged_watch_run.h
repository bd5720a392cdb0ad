#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/rights/permit.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/merged_watch.h"
#include "aggregation/watch/watch_group.h"
#include "base/alive.h"
#include "http/handler.h"
#include "serving/answer.h"
#include "serving/watch_drain.h"

namespace kintsugi::aggregation {

/// One client: reads its group's log, and until it is where the log begins, shard by shard, a
/// stream of its own. Its parts: merged_watch.cc (where it begins, which shards),
/// merged_watch_read.cc (what it sends), merged_watch_end.cc (how it starts and ends). Threads: its
/// loop.
class MergedWatch final : public http::RequestHandler,
                          private serving::WatchDrain::Watch,
                          private GroupReader,
                          private Permit::Holder,
                          private MemberWatch::Sink {
 public:
  MergedWatch(Watches& watches, http::RequestHead head, http::ResponseStream& stream,
              MergeRoute route, const MergeQuery& query, const std::string& accept,
              std::shared_ptr<Permit> permit);
  ~MergedWatch() override;

  void start(const std::string& resource_version);

  void start_at(const DecodedVersion& version);

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override;
  void on_close(Errc) noexcept override { stop(); }

  /// The slots, or who is a member, have changed; the group knows already.
  void follow();

 private:
  void open_own();
  void follow_members();

  struct Part {
    std::unique_ptr<MemberWatch> own;  ///< until it reads the log
    std::uint64_t component = 0;
    /// Not 0: its shard is no member any more, its objects end before this place of the log.
    GroupLog::Index leaves_at = 0;
    /// What repeats the component it has before this place of the log.
    GroupLog::Index repeats_from = 0;
    topology::ShardId id = 0;
    std::uint16_t slot = 0;
    bool attached = false;  ///< reads the log
    bool skips = false;     ///< the log may begin with events that the client has
  };
  /// What is needed until the head is sent.
  struct Opening {
    Opening(serving::AnswerForm f, net::Loop& loop) : form(std::move(f)), headers(loop) {}
    serving::AnswerForm form;
    int busy = 0;                ///< [s] the longest that a shard wants to be left alone; 0: none
    std::optional<Alive> asked;  ///< while something asked of other loops may come back
    net::Timer headers;
  };

  [[nodiscard]] static Part part_for(const Member& member, std::uint64_t component, bool attached) {
    return {nullptr,  component, 0, 0, member.id, static_cast<std::uint16_t>(member.slot),
            attached, false};
  }
  Part* part_of(std::size_t slot) noexcept;
  [[nodiscard]] std::string name_of(const Part& part) const;

  /// Native resourceVersion of an event: where its readers were (AGG-519).
  void resume_at_event(std::uint64_t revision, const std::vector<bool>& flags);

  void note(std::string_view what, const Part& part) const;

  /// Where a part's events come from at first.
  void place(Part& part, const Member& member, bool initial, bool any_state);

  /// From now on the part reads the log. Events that lie behind the reader's place are sent now.
  void attach(Part& part);

  /// A live stream of its own gives way to the group's, or becomes it.
  void try_attach(Part& part);

  /// It may be on the stack: it goes in the next turn.
  void retire(std::unique_ptr<MemberWatch> stream) {
    stream->stop();
    shared_.loop.post([kept = std::shared_ptr<MemberWatch>(std::move(stream))] {});
  }

  [[nodiscard]] bool reads_all_from_log() const noexcept {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.attached; });
  }

  // Whose rights it lives by (AGG-904).
  [[nodiscard]] bool covers(const Member& member) const noexcept override;
  [[nodiscard]] std::string_view caller() const noexcept override;
  void on_members() noexcept override {
    look_at_rights(false);
    follow_members();
  }
  void on_rights() noexcept override { look_at_rights(true); }
  /// Ends when a right is gone. @param admits  the group may begin with members that wait for this
  void look_at_rights(bool admits);
  void end_or_refuse();

  // What the group tells.
  TimePoint on_due(TimePoint now) noexcept override;
  TimePoint on_stall(TimePoint now) noexcept override;
  void approach() const noexcept override;
  void on_group_moved() noexcept override {
    read_log();
    end_initial_phase();
  }
  void on_slot_accepted(std::size_t) noexcept override { settle(); }
  void on_slot_lost(std::size_t slot, std::string_view cause) noexcept override;
  void on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                       const std::string& body) noexcept override;
  void on_slot_expired(std::size_t slot, std::string_view reason, Duration delay) noexcept override;
  void on_slot_compared(std::size_t slot, std::uint64_t position) noexcept override;
  void on_cluster_leaves(std::size_t slot) noexcept override;
  void on_slot_supplied(std::size_t slot) noexcept override;
  /// An event of a stream of its own is for the client, which may instead have to list again.
  [[nodiscard]] bool takes(const MemberWatch& from, const EventFacts& event);
  void on_group_failed(const Error& error, std::string_view reason) noexcept override {
    begin();
    fail_with(error, reason);
  }

  // What streams of its own tell.
  void on_event(MemberWatch& from, const EventFacts& facts,
                std::string_view event) noexcept override;
  void on_bookmark(MemberWatch& from, const EventFacts& facts) noexcept override;
  void on_initial_end(MemberWatch& from) noexcept override;
  void on_accepted(MemberWatch& from) noexcept override;
  void on_batch_end(MemberWatch& from) noexcept override;
  bool on_lost(MemberWatch& from, std::string_view cause) noexcept override;
  void on_expired(MemberWatch&) noexcept override {
    begin();
    fail_with(version_expired(), "history");
  }
  void on_refused(MemberWatch& from, const http::ResponseHead& head,
                  const std::string& body) noexcept override {
    refused_by(from.member().name, head, body);
  }
  /// No shard serves the resource to this caller.
  [[nodiscard]] bool all_refuse() const noexcept;
  /// Before the head is sent: goes on without a shard, or not.
  void start_without(const std::string& shard, std::string_view cause);
  void on_too_large(MemberWatch& from, const std::string& key) noexcept override;

  [[nodiscard]] bool strict() const noexcept { return !partial_; }

  void refuse_without(const std::string& shard, std::string_view cause) {
    ++shared_.stats.failed;
    refuse(shards_unavailable({{shard, std::string(cause)}}, true));
  }

  void refused_by(const std::string& shard, const http::ResponseHead& head,
                  const std::string& body);

  [[nodiscard]] const MemberWatch* stream_of(const Part& part) const noexcept {
    return part.own != nullptr ? part.own.get() : group_->stream(part.slot);
  }
  [[nodiscard]] MemberWatch::State state_of(const Part& part) const noexcept {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr ? MemberWatch::State::kStopped : stream->state();
  }
  [[nodiscard]] TimePoint silent_since(const Part& part) const noexcept {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr ? TimePoint::max() : stream->silent_since();
  }

  /// Every shard has accepted: the head goes out.
  void settle();

  void begin();
  /// What has to be known before the head is sent speaks against it: the client is told.
  [[nodiscard]] bool refuses_to_begin();

  void arm_idle();

  /// The one bookmark that ends the initial events of all shards (AGG-802).
  void end_initial_phase();
  /// It has read what the log has of shards that joined meanwhile.
  [[nodiscard]] bool has_all_present() const;

  /// A shard never finished its initial events; while the client takes them slowly, or they come,
  /// the shard is not to blame.
  void give_up();

  /// Everything of the log that the client can take now.
  void read_log();

  void deliver(Part& part, GroupLog::Index index);

  /// The first event of a Table stream has the columns, whoever was sent them first.
  [[nodiscard]] bool columns_needed(std::string_view columns) const noexcept {
    return !columns_sent_ && columns.empty() && group_->kind().is_table() &&
           !group_->columns().empty();
  }

  [[nodiscard]] Queued queued() const noexcept override;
  bool end_for_memory() noexcept override;
  /// It is too far behind: it gets the end of what is on its way, if it takes it soon.
  /// @param counter  of the reason
  void evict(std::uint64_t& counter);

  /// A component has moved: a bookmark follows the last event of the burst (AGG-514).
  void moved();
  void await_bookmark(TimePoint due);
  void await_none() noexcept;

  void send_bookmark();

  [[nodiscard]] Components components() const;
  /// Where the client is, for who comes back with an event's own version: nowhere if it has
  /// objects that no component tells.
  [[nodiscard]] Components resumable() const;

  void emit_bookmark(bool initial_end);

  /// What was made for this client alone.
  void send_own();

  /// A last bookmark if it is wanted, then the end of the stream; not within a second of its head
  /// (AGG-1303).
  void end_now() noexcept;
  /// All are ended: the process stops.
  void end_in_order() noexcept override;

  /// The client has lost events: it is told in its turn, and reads on until then.
  void expire(std::string_view reason, Duration delay);
  void expire_moved();

  void fail_with(const Error& error, std::string_view reason);

  void finish();

  /// A shard's own Status goes to the client.
  void pass_on(const http::ResponseHead& answer, const std::string& body);

  void refuse(const Error& error) {
    stop();
    if (opening_ != nullptr) {
      serving::send_error(down_, opening_->form, error);
    }
  }

  void stop() noexcept;

  // What each event needs comes first: few cache lines for each of many watches.
  Asking& shared_;
  http::ResponseStream& down_;
  std::shared_ptr<WatchGroup> group_;
  std::vector<Part> parts_;
  GroupLog::Index next_ = 0;
  TimePoint last_bookmark_{};
  TimePoint bookmark_due_ = TimePoint::max();  // max: none is awaited
  bool bookmarks_, partial_;
  bool headed_ = false, done_ = false, evicted_ = false;
  bool end_bookmark_ = false;  // still to be sent
  bool from_state_ = false;    // began with the present objects of all shards
  bool initial_over_ = false;
  bool columns_sent_ = false;
  bool is_stale_ = false;     // a component has moved since the last bookmark
  bool caught_up_ = false;    // it has been at the end of the log
  bool gave_up_ = false;      // on the initial events of a shard
  bool by_sequence_ = false;  // its cursors are numbers
  bool doomed_ = false;       // 410 comes: bookmarks would say what is not so
  std::uint32_t bookmark_generation_ = 0, quiet_generation_ = 0;
  std::string own_;  // made for this client and not sent yet; no memory when empty
  TimePoint quiet_until_{};
  TimePoint begun_at_{}, last_progress_{};
  std::string audit_id_;
  std::unique_ptr<Opening> opening_;
  std::int64_t timeout_seconds_;
  std::optional<bool> initial_events_;
  std::shared_ptr<Permit> permit_;            // null: the shards judge its caller
  std::unique_ptr<ReadGate::Ticket> ticket_;  // while present objects come
  Watches& watches_;
  net::Timer idle_, end_, doom_, initial_;
};

}  // namespace kintsugi::aggregation
