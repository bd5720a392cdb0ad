#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/alive.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/task.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/internal/client.h"
#include "store/etcd/internal/introduction.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/internal/lease_book.h"
#include "store/etcd/internal/members.h"
#include "store/etcd/internal/shared.h"
#include "store/etcd/internal/stored_value.h"
#include "store/etcd/internal/sync_book.h"
#include "store/etcd/internal/transaction.h"
#include "store/etcd/internal/watch_joiner.h"
#include "store/etcd/internal/write_book.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::store::etcd {

/// Why nothing is read or written any more (GR-125).
inline constexpr const char* kEndedHistory =
    "etcd was restored to an older state: the store has to be opened anew";

/// What talks to etcd: drives the machines with answers and time, and feeds the mirror.
/// Files: core.cc (turns and calls), core_start.cc, core_watch.cc, core_fill.cc, core_writes.cc,
/// core_leases.cc, core_history.cc (compaction, and an etcd that was restored).
/// Threads: one loop's.
class Core {
 public:
  Core(net::Loop& loop, const EtcdParams& params, std::vector<net::Url> endpoints,
       std::shared_ptr<net::TlsContext> tls, Shared& shared);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// `ready` is called once; the mirror is there then, or it failed for good.
  void start(std::function<void(Expected<void>)> ready);
  [[nodiscard]] LmdbStore* mirror() noexcept { return mirror_.get(); }

  void commit(std::vector<Op> ops, std::size_t bytes, CommitCallback done);
  void synchronize(SynchronizeCallback done);
  /// @returns a number for leave(), whose `done` comes when the duty is free for others, or soon.
  [[nodiscard]] std::uint64_t compete(std::string duty, DutyListener told);
  void leave(std::uint64_t number, std::function<void()> done);
  /// EtcdStore::finish_upgrade(). In core_history.cc.
  void finish_upgrade();

 private:
  // core.cc
  using Replied = std::function<void(Reply)>;
  [[nodiscard]] TimePoint now() const { return loop_.now(); }
  [[nodiscard]] net::Task<Reply> ask(std::size_t member, CallRequest request) {
    return introduction_.ask(member, std::move(request));
  }
  [[nodiscard]] CallRequest request_of(std::string_view method, std::string message) const {
    return introduction_.request_of(method, std::move(message));
  }
  /// A range of the absent key: tells the newest revision, or that `revision` is compacted.
  [[nodiscard]] CallRequest head_request(std::uint64_t revision) const;
  void note(std::size_t member, const Reply& reply) { introduction_.note(member, reply); }
  void arm();
  void on_timer();
  void perform(SyncActions actions);
  void read_head();
  void nudge();
  void raise_position(Revision position);
  void confirm();

  /// The newest row or record under the prefix that was heard of: another history does not have it.
  struct Landmark {
    std::string key;
    std::uint64_t revision = 0;  ///< etcd's
  };

  // core_start.cc
  net::Task<> run();
  [[nodiscard]] net::Task<Expected<void>> begin();
  [[nodiscard]] net::Task<Expected<void>> match_meta();
  [[nodiscard]] net::Task<Expected<Introduction::Read>> settled_meta();
  void take_meta(const Introduction::Known& known);
  [[nodiscard]] std::string identity(bool is_comparing) const;
  [[nodiscard]] Expected<void> note_identity(bool is_comparing) const;
  [[nodiscard]] Revision newest_of_old_mirror() const;
  [[nodiscard]] Landmark newest_in_mirror() const;
  [[nodiscard]] Expected<void> open_mirror();

  // core_watch.cc
  net::Task<> follow();
  struct History {
    enum class Kind : std::uint8_t { kThere, kGone, kAnother };
    Kind kind;
    std::string_view why{};  // of another one; a literal
  };
  /// Whether what comes after the mirror's newest revision is there, and follows it.
  [[nodiscard]] net::Task<Expected<History>> look_at_history(std::size_t member);
  void on_watch_message(std::string_view message);
  void end_watch(std::string reason);
  void look_after_created();
  void watch_guard();
  void apply(std::vector<RevisionGroup> groups);
  void apply_group(RevisionGroup& group);
  void feed(Revision revision, std::vector<Op> ops);
  void on_mirror_published();
  [[nodiscard]] Revision fed() const noexcept { return std::max(fed_, shared_.position.load()); }

  // core_fill.cc
  struct Listed {
    std::string key;
    std::uint64_t created = 0, modified = 0;
  };
  struct Listing {
    std::uint64_t revision = 0;
    Landmark newest;
    std::vector<Listed> changed;
    std::vector<std::uint64_t> present;  // hashes of row keys
  };
  [[nodiscard]] net::Task<Expected<void>> fill(std::size_t member);
  [[nodiscard]] net::Task<Expected<void>> make_equal(std::size_t member, Listing listing);
  [[nodiscard]] net::Task<Expected<void>> forget_history(Revision revision);
  [[nodiscard]] net::Task<bool> do_in_mirror(std::vector<Op> ops);
  [[nodiscard]] net::Task<Expected<Listing>> list(std::size_t member);
  [[nodiscard]] Expected<std::vector<std::string>> rows_that_are_gone(const Listing& listing) const;
  [[nodiscard]] net::Task<Expected<void>> copy(std::size_t member, Listing listing);
  net::Task<> look_for_difference(std::size_t member);
  [[nodiscard]] net::Task<Expected<void>> wait_for_mirror();
  [[nodiscard]] Expected<void> take_up_mirror();

  // core_writes.cc
  struct Pending {
    std::vector<Op> ops;
    CommitCallback done;
    std::size_t bytes = 0;
    TimePoint since{};  ///< when it came
    std::string id;
    Plan plan;
    std::vector<std::optional<Revision>> corrected;
    bool without_deletions = false;
    Revision floor = 0;  ///< position when it was sent
    std::unique_ptr<net::Call> call;
  };
  void perform(WriteActions actions);
  void send_write(std::uint64_t number);
  void on_write_reply(std::uint64_t number, std::size_t member, const Reply& reply);
  void on_full(std::uint64_t number);
  [[nodiscard]] std::optional<Excess> excess_of(const std::vector<Op>& ops) const;
  [[nodiscard]] std::vector<KeyUse> uses_of(const std::vector<Op>& ops) const;
  void answer(std::uint64_t number, Expected<CommitResult> result);
  void renew_token();
  net::Task<> take_token();
  void take_seat();
  net::Task<> sit_down();

  // core_history.cc
  void watch_compaction();
  void compact_etcd();
  void compact_to(std::uint64_t bound);
  void write_marks();
  [[nodiscard]] net::Task<std::uint64_t> marked_begin(std::size_t member);
  void note_revision(const Header& header, Revision floor);
  void on_meta_event(const JoinedEvent& event, std::uint64_t revision);
  bool take_again(const Introduction::Known& known);
  bool knows_record(const RangeResponse& found);
  /// @param goes_on  under other revisions, once somebody has seen to that
  void end_history(std::string_view why, bool goes_on = true);
  void tell_ended();
  net::Task<> renew();
  [[nodiscard]] net::Task<Expected<void>> move_forward(Revision seen);

  // core_leases.cc
  struct Lease {
    Lease(net::Loop& loop, std::string self) : book(std::move(self)), timer(loop) {}
    std::string duty;
    DutyListener told;
    LeaseBook book;
    std::unique_ptr<net::Call> call;
    net::Timer timer;
    bool is_told = false;
  };
  void perform(std::uint64_t number, LeaseActions actions);
  [[nodiscard]] TxnRequest lease_request(const Lease& lease, const LeaseAction& action,
                                         std::string_view holder) const;
  void ask_lease(std::uint64_t number, Lease& lease, const LeaseAction& action);
  void on_lease_reply(std::uint64_t number, bool looks, const Reply& reply);
  void tell_held(std::uint64_t number, std::uint64_t epoch);
  void on_lease_time(std::uint64_t number);
  void on_lease_event(const JoinedEvent& event, std::uint64_t revision);

  net::Loop& loop_;
  const EtcdParams& params_;
  Shared& shared_;
  const Keys keys_;
  const std::string replica_;
  Client client_;
  MemberChoice choice_;
  Introduction introduction_;
  TransactionIds ids_;
  std::unique_ptr<LmdbStore> mirror_;
  std::function<void(Expected<void>)> ready_;

  // What match_meta() found.
  Meta meta_;
  std::uint64_t meta_revision_ = 0;  // etcd's, of that key
  Revision offset_ = 0;              // meta_.offset
  bool ended_ = false;               // the history that this process knows is over

  SyncBook sync_;
  std::uint64_t next_number_ = 0;
  std::unordered_map<std::uint64_t, SynchronizeCallback> syncs_;
  std::unique_ptr<net::Call> head_call_, nudge_call_, created_call_, pins_call_, compact_call_,
      marks_call_, upgrade_call_;
  std::size_t head_member_ = 0;
  Revision head_floor_ = 0;  // position when the head was asked for

  WriteBook writes_book_;
  std::unordered_map<std::uint64_t, Pending> writes_;
  StringMap<std::uint64_t> by_id_;
  Seat seat_;
  net::Job seat_job_, token_job_, renew_job_, look_job_;

  std::unordered_map<std::uint64_t, std::unique_ptr<Lease>> leases_;
  std::unordered_map<std::uint64_t, std::unique_ptr<net::Call>> leaving_;

  std::unique_ptr<WatchCall> watch_;
  std::function<void(Reply)> watch_ended_;
  std::size_t watch_member_ = 0;
  std::optional<WatchJoiner> joiner_;
  bool resync_ = true;
  bool created_ = false;
  TimePoint heard_at_{};
  std::uint64_t guard_number_ = 0;  // of the synchronization that looks after the watch
  Revision fed_ = 0;                // given to the mirror last, whose newest it has to be then
  Revision told_ = 0;               // position that holds once the mirror has all of that
  std::function<void(bool)> drained_;

  Landmark landmark_;

  struct Sample {
    TimePoint at;
    std::uint64_t revision;  // etcd's
  };
  std::vector<Sample> samples_;  // for compaction, while this process has the duty
  std::uint64_t compactor_ = 0;  // number of leave()
  bool compacts_ = false;
  std::uint64_t compacted_to_ = 0;

  net::Timer timer_, guard_timer_, compact_timer_;
  net::Job job_;
  Alive alive_;
};

}  // namespace kintsugi::store::etcd
