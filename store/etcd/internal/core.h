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

/// What talks to etcd: drives the machines with answers and time, and feeds the mirror.
/// Files: core.cc (turns and calls), core_start.cc, core_watch.cc, core_fill.cc, core_writes.cc,
/// core_leases.cc.
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

 private:
  // core.cc
  using Replied = std::function<void(Reply)>;
  [[nodiscard]] TimePoint now() const { return loop_.now(); }
  [[nodiscard]] net::Task<Reply> ask(std::size_t member, CallRequest request);
  [[nodiscard]] CallRequest request_of(std::string_view method, std::string message) const;
  /// A range of the absent key: tells the newest revision, or that `revision` is compacted.
  [[nodiscard]] CallRequest head_request(std::uint64_t revision) const;
  void note(std::size_t member, const Reply& reply);
  void arm();
  void on_timer();
  void perform(SyncActions actions);
  void read_head();
  void nudge();
  void raise_position(Revision position);
  void confirm();

  // core_start.cc
  net::Task<> run();
  [[nodiscard]] net::Task<Expected<void>> connect();
  [[nodiscard]] net::Task<Expected<void>> look_at_members();
  [[nodiscard]] net::Task<Expected<void>> authenticate();
  [[nodiscard]] net::Task<Expected<void>> probe();
  [[nodiscard]] net::Task<Expected<void>> match_meta();
  [[nodiscard]] Expected<void> open_mirror();

  // core_watch.cc
  net::Task<> follow();
  /// Whether what comes after the mirror's newest revision is gone from etcd.
  [[nodiscard]] net::Task<Expected<bool>> is_history_gone(std::size_t member);
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
    std::vector<Listed> changed;
    std::vector<std::uint64_t> present;  // hashes of row keys
  };
  [[nodiscard]] net::Task<Expected<void>> fill(std::size_t member);
  net::Task<> forget_history();
  [[nodiscard]] net::Task<Expected<Listing>> list(std::size_t member);
  [[nodiscard]] Expected<std::vector<std::string>> rows_that_are_gone(const Listing& listing) const;
  [[nodiscard]] net::Task<Expected<void>> copy(std::size_t member, Listing listing);
  [[nodiscard]] net::Task<Expected<void>> wait_for_mirror();

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
    std::unique_ptr<net::Call> call;
  };
  void perform(WriteActions actions);
  void send_write(std::uint64_t number);
  void on_write_reply(std::uint64_t number, std::size_t member, const Reply& reply);
  [[nodiscard]] std::optional<Excess> excess_of(const std::vector<Op>& ops) const;
  [[nodiscard]] std::vector<KeyUse> uses_of(const std::vector<Op>& ops) const;
  void answer(std::uint64_t number, Expected<CommitResult> result);
  void renew_token();
  net::Task<> take_token();
  void take_seat();
  net::Task<> sit_down();
  void compact_etcd();

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
  TransactionIds ids_;
  std::unique_ptr<LmdbStore> mirror_;
  std::function<void(Expected<void>)> ready_;

  // What look_at_members() and match_meta() found.
  std::uint64_t cluster_id_ = 0;
  bool tells_progress_ = false;  // every member's requested progress is sound (GR-113)
  std::string uid_;
  std::uint64_t epoch_ = 0;
  Revision offset_ = 0;

  SyncBook sync_;
  std::uint64_t next_number_ = 0;
  std::unordered_map<std::uint64_t, SynchronizeCallback> syncs_;
  std::unique_ptr<net::Call> head_call_, nudge_call_, created_call_, compact_call_;
  std::size_t head_member_ = 0;

  WriteBook writes_book_;
  std::unordered_map<std::uint64_t, Pending> writes_;
  StringMap<std::uint64_t> by_id_;
  Seat seat_;
  net::Job seat_job_, token_job_;

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
  Revision fed_ = 0;                // newest revision given to the mirror
  Revision told_ = 0;               // position that holds once the mirror has all of that
  std::function<void(bool)> drained_;

  struct Sample {
    TimePoint at;
    Revision position;
  };
  std::vector<Sample> samples_;  // for compaction
  Revision compacted_to_ = 0;

  net::Timer timer_, guard_timer_, compact_timer_;
  net::Job job_;
  Alive alive_;
};

}  // namespace kintsugi::store::etcd
