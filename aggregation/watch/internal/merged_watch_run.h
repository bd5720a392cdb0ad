#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/asking/merge_guard.h"
#include "aggregation/asking/read_gate.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/rights/permit.h"
#include "aggregation/watch/internal/client_feed.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/merged_watch_fsm.h"
#include "aggregation/watch/internal/own_streams.h"
#include "aggregation/watch/internal/watch_opening.h"
#include "aggregation/watch/internal/watch_parts.h"
#include "aggregation/watch/merged_watch.h"
#include "aggregation/watch/watch_group.h"
#include "base/prefetch.h"
#include "http/handler.h"
#include "krm/status.h"
#include "net/loop.h"
#include "serving/identity.h"
#include "serving/watch_drain.h"

namespace kintsugi::aggregation {

/// One client: reads its group's log, and until it is where the log begins, shard by shard, a
/// stream of its own. What it does and when is decided by MergedWatchFsm; its shards are
/// WatchParts, what it sends goes through ClientFeed, until its head is out there is WatchOpening.
/// Here is who tells the machine what happens, its timers, and who carries out what it says.
/// Threads: its loop.
class MergedWatch final : public http::RequestHandler,
                          private serving::WatchDrain::Watch,
                          private GroupReader,
                          private Permit::Holder,
                          private OwnStreams::Client {
 public:
  /// @param group  of this question and identity
  MergedWatch(Watches& watches, http::ResponseStream& stream, std::shared_ptr<WatchGroup> group,
              std::unique_ptr<WatchOpening> opening, const MergeQuery& query,
              std::shared_ptr<Permit> permit, std::string audit_id);
  ~MergedWatch() override;

  void start(const std::string& resource_version);

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override;
  void on_close(Errc) noexcept override { stop(); }

  /// The slots, or who is a member, have changed; the group knows already.
  void follow();

 private:
  using Action = MergedWatchFsm::Action;

  // Where it begins.
  void start_at(const WatchOpening::Beginning& beginning);
  void ask_shards();
  void open_own();
  void follow_members();

  // Whose rights it lives by (AGG-904).
  [[nodiscard]] bool covers(const Member& member) const noexcept override {
    return permit_ == nullptr || permit_->right_of(member) == Right::kAllowed;
  }
  [[nodiscard]] std::string_view caller() const noexcept override {
    return permit_ == nullptr ? std::string_view() : permit_->caller();
  }
  void on_members() override {
    look_at_rights(false);
    follow_members();
  }
  void on_rights() noexcept override { look_at_rights(true); }
  /// Ends when a right is gone. @param admits  the group may begin with members that wait for this
  void look_at_rights(bool admits);

  // What the group tells.
  TimePoint on_due(TimePoint now) override;
  TimePoint on_stall(TimePoint now) override;
  void approach() const noexcept override {
    fetch_ahead(parts_.all().data(), 2);
    feed_.approach();
  }
  void on_group_moved() override {
    read_log();
    end_initial_phase();
  }
  void on_slot_accepted(std::size_t) override { settle(); }
  void on_slot_lost(std::size_t slot, std::string_view cause) override {
    if (const WatchPart* part = parts_.find(slot); part != nullptr && part->attached) {
      lost(parts_.name_of(*part), cause);
    }
  }
  void on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                       const std::string& body) override;
  void on_slot_expired(std::size_t slot, std::string_view reason, Duration delay) override;
  void on_slot_compared(std::size_t slot, std::uint64_t position) override;
  void on_cluster_leaves(std::size_t slot) override;
  void on_slot_supplied(std::size_t slot) override;
  void on_group_failed(const Error& error, std::string_view reason) override {
    fail(error, reason);
  }
  void on_reader_fault() override { deny(krm::internal("the watch could not be merged"), "fault"); }
  void on_own_fault() override { on_reader_fault(); }
  [[nodiscard]] Queued queued() const noexcept override {
    return fsm_.takes() ? feed_.queued() : Queued();
  }
  bool end_for_memory() noexcept override;

  // What the process asks of those that are behind.
  [[nodiscard]] std::size_t backlog() const noexcept override {
    const Queued all = fsm_.tells() ? queued() : Queued();
    return all.shared + all.own;
  }
  [[nodiscard]] std::string payer() const override { return serving::payer_of(down_.peer()).name; }
  [[nodiscard]] serving::Level level() const override { return serving::level_of(down_.peer()); }
  void describe(serving::WatchRow& row) const override { feed_.describe(row); }
  void release_connection() noexcept override { down_.close_connection_after(); }
  void end_at_once() noexcept override {
    ++shared_.stats.evicted_memory;
    stop();
    down_.reset(Errc::kOverloaded);
  }

  // What streams of its own tell.
  void on_own_accepted() override { settle(); }
  void on_own_batch() override {
    read_log();
    if (fsm_.is_stale()) {
      moved();
    }
  }
  void on_own_initial_end() override {
    moved();
    end_initial_phase();
  }
  bool on_own_lost(const MemberWatch& from, std::string_view cause) override;
  void on_own_refused(const std::string& shard, const http::ResponseHead& head,
                      const std::string& body) override;
  void on_own_expired(bool forgotten) override {
    forgotten ? expire("history", Duration{}) : expire_moved();
  }
  void on_own_failed(const Error& error, std::string_view reason) override { fail(error, reason); }
  void lost(const std::string& shard, std::string_view cause);

  // What is asked of the machine.
  /// Everything of the log that the client can take now.
  void read_log();
  /// Every shard has answered: the head goes out.
  void settle();
  /// The head goes out, or what speaks against it, whatever is still open.
  void begin();
  /// The one bookmark that ends the initial events of all shards (AGG-802).
  void end_initial_phase();
  /// A shard never finished its initial events; while the client takes them slowly, or they come,
  /// the shard is not to blame.
  void give_up();
  /// @param by_event  that was sent, or may have been
  void moved(bool by_event = true);
  void want_bookmark();
  void await_none() noexcept {
    if (fsm_.forget_bookmark()) {
      group_->readers().expect_less();
    }
  }
  void await_idle();
  /// A callback of its own: what it throws ends this watch.
  template <class Run>
  void run(Run&& run) noexcept {
    guard_read("timer of a merged watch", std::forward<Run>(run), [this] { on_reader_fault(); });
  }
  /// A last bookmark if it is wanted, then the end of the stream; not within a second of its head
  /// (AGG-1303).
  void end_now() noexcept;
  /// Unless shards are heard again soon.
  void end_if_silent();
  /// All are ended: the process stops.
  void end_in_order() noexcept override {
    ++shared_.stats.evicted_drain;
    end_now();
  }
  /// The client has lost events: it is told in its turn, and reads on until then.
  void expire(std::string_view reason, Duration delay) { perform(fsm_.on_expired(reason, delay)); }
  void expire_moved() {
    if (fsm_.is_following() && !fsm_.is_doomed()) {
      expire("moved", watches_.expiry_turn(0, 1));
    }
  }
  /// The client is told of an error, with a head before it if there is none yet.
  void fail(const Error& error, std::string_view reason) {
    begin();
    deny(error, reason);
  }
  /// The client is told of an error, which is the answer if there is none yet.
  void deny(const Error& error, std::string_view reason);

  // What the machine says.
  /// Carries out what needs nothing besides.
  void perform(const Action& action);
  void send_head();
  void send_bookmark(bool initial_end);
  /// It is too far behind: it gets the end of what is on its way, if it takes it soon.
  /// @param counter  of the reason
  void cut_off(std::uint64_t& counter);
  /// A shard's own Status goes to the client.
  void pass_on(const http::ResponseHead& answer, const std::string& body);
  void refuse(const Error& error);
  void refuse_for(const Action& action);
  void refuse_without(const WatchParts::Causes& causes) {
    ++shared_.stats.failed;
    refuse(shards_unavailable(causes, true));
  }
  void finish();
  void stop() noexcept;

  // What each event needs comes first: few cache lines for each of many watches.
  Asking& shared_;
  http::ResponseStream& down_;
  std::shared_ptr<WatchGroup> group_;
  MergedWatchFsm fsm_;
  WatchParts parts_;
  ClientFeed feed_;
  std::string audit_id_;
  OwnStreams own_;
  std::unique_ptr<WatchOpening> opening_;  // until the head is sent
  std::int64_t timeout_seconds_;
  std::optional<bool> initial_events_;
  std::shared_ptr<Permit> permit_;            // null: the shards judge its caller
  std::unique_ptr<ReadGate::Ticket> ticket_;  // while present objects come
  Watches& watches_;
  net::Timer idle_, end_, doom_, initial_;
};

}  // namespace kintsugi::aggregation
