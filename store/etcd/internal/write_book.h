#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/key_order.h"
#include "store/etcd/internal/transaction.h"
#include "store/store.h"

/// Which transaction is sent when, and what is known of it (GR-103, GR-104, GR-108, GR-109). Times
/// and answers come in, actions go out; revisions are the store's. Pure.
namespace kintsugi::store::etcd {

struct WriteParams {
  std::size_t window = 128;  ///< in flight
  Duration first_pause = milliseconds(10);
  Duration last_pause = seconds(1);  ///< before another attempt of what was not done
  unsigned delete_tries = 8;
};

struct WriteAction {
  enum class Kind : std::uint8_t {
    kSend,      ///< `number`, under the present seat; on_verdict() or on_failure() has to follow
    kAnswer,    ///< `number` with `result`; it is forgotten
    kTakeSeat,  ///< on_seat() has to follow
    kAwait,     ///< make the position reach `revision`
  } kind = Kind::kSend;
  std::uint64_t number = 0;
  Revision revision = 0;
  Expected<CommitResult> result = CommitResult{};
};
using WriteActions = std::vector<WriteAction>;

class WriteBook {
 public:
  explicit WriteBook(WriteParams params = {}) : params_(params) {}

  /// @param deadline  not before those of earlier ones
  void add(std::uint64_t number, std::vector<KeyUse> uses, TimePoint now, TimePoint deadline,
           WriteActions& out);
  /// @param writes  of the plan that was sent; false: it takes no revision
  void on_verdict(std::uint64_t number, const Verdict& verdict, bool writes, TimePoint now,
                  WriteActions& out);
  void on_failure(std::uint64_t number, const AnswerClass& what, TimePoint now, WriteActions& out);
  /// Its id is among the events of `revision`, which is not published yet.
  void on_seen(std::uint64_t number, Revision revision);
  /// Subscribers have been told of everything up to `position`.
  void on_published(Revision position, TimePoint now, WriteActions& out);
  /// The seat is ours since `revision`: what was sent under the one before fails from then on.
  void on_seat(Revision revision, TimePoint now, WriteActions& out);
  /// Events have been lost: what is unknown stays so, also of what is under way now. To be told
  /// before the position that was reached over them.
  void on_resync(TimePoint now, WriteActions& out);
  void on_time(TimePoint now, WriteActions& out);
  /// It was answered without the book.
  void forget(std::uint64_t number, TimePoint now, WriteActions& out);
  /// Everything is answered kClosed.
  void stop(WriteActions& out);

  [[nodiscard]] std::size_t size() const noexcept { return writes_.size(); }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// When on_time() has something to do at the latest.
  [[nodiscard]] std::optional<TimePoint> next_time() const;

  struct Stats {
    std::uint64_t unknown = 0;         ///< outcomes that had to be resolved
    std::uint64_t resolved = 0;        ///< ... and were
    std::uint64_t durable_unseen = 0;  ///< answered although the watch had not told of them
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  enum class State : std::uint8_t {
    kOrdered,  // waits for earlier ones of its keys
    kReady,    // may be sent
    kResting,  // was not done; again at `again_at`
    kSent,
    kDone,        // etcd has said so; answered when `revision` is published
    kConflicted,  // the same
    kUnknown,     // until there is a new seat
    kFenced,      // resolved when `revision`, that of the new seat, is published
  };
  struct Write {
    State state = State::kOrdered;
    TimePoint deadline{}, again_at{};
    Revision revision = 0;
    Revision seen = 0;
    Revision seat = 0;  // under which it was sent
    CommitResult conflict{};
    unsigned pauses = 0, deletes = 0;
    bool was_unknown = false;
    bool is_blind = false;  // events have been lost since it was sent: its id may be among them
  };
  [[nodiscard]] static bool is_flying(State state) noexcept { return state >= State::kSent; }
  void set(Write& write, State state) noexcept;
  void ready(const std::vector<std::uint64_t>& numbers);
  void send(TimePoint now, WriteActions& out);
  void need_seat(WriteActions& out);
  void make_unknown(std::uint64_t number, Write& write, WriteActions& out);
  void answer(std::uint64_t number, Expected<CommitResult> result, WriteActions& out);
  void remove(std::uint64_t number);
  void succeed(std::uint64_t number, Revision revision, WriteActions& out);
  void expire(std::uint64_t number, const Write& write, WriteActions& out);
  [[nodiscard]] static Error may_have_happened();

  WriteParams params_;
  KeyOrder order_;
  std::unordered_map<std::uint64_t, Write> writes_;
  std::deque<std::uint64_t> ready_;
  std::deque<std::uint64_t> resting_;
  std::deque<std::pair<TimePoint, std::uint64_t>> deadlines_;
  std::vector<std::uint64_t> flying_;
  std::size_t in_flight_ = 0;
  Revision position_ = 0;
  Revision seat_ = 0;
  bool seat_asked_ = false;
  Stats stats_;
};

}  // namespace kintsugi::store::etcd
