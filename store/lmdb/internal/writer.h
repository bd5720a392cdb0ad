#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "store/internal/book_keeper.h"
#include "store/internal/subscribers.h"
#include "store/lmdb/internal/compactor.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/handover_rows.h"
#include "store/lmdb/lmdb_store.h"
#include "store/store.h"

namespace kintsugi::store {

/// What readers and the writer share. Each only grows.
struct SharedState {
  std::atomic<Revision> current{0};
  std::atomic<Revision> compacted{0};
  std::atomic<std::uint64_t> commits{0}, syncs{0}, conflicts{0};

  /// A snapshot may show a durable revision just before the writer announces it.
  void raise_current(Revision revision) noexcept;
};

/// The only thread that writes. It takes what is queued (up to 1,000 transactions or 8 MiB) into
/// one LMDB transaction, commits it, publishes the events, answers the callbacks; between groups it
/// compacts in small slices. It sleeps while there is nothing to do. Private to store/lmdb/.
class Writer {
 public:
  Writer(Environment& environment, SharedState& shared, SubscriberList& subscribers,
         LmdbParams params);
  ~Writer() { stop(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Reads the state from disk and starts the thread. Once.
  [[nodiscard]] Expected<void> start();
  /// Ends the thread; what is queued is answered kClosed. Idempotent.
  void stop();

  /// Threads: any.
  void commit(std::vector<Op> ops, CommitCallback done);
  void compact(Revision revision);
  void compact_now_for_test();
  [[nodiscard]] std::size_t queued() const;
  [[nodiscard]] Expected<void> health() const;
  [[nodiscard]] BookKeeper& books() noexcept { return books_; }
  [[nodiscard]] const Limits& limits() const noexcept { return params_.limits; }

 private:
  struct Item {
    std::vector<Op> ops;
    CommitCallback done;
    std::size_t bytes = 0;
    std::optional<Error> refused;  ///< answered with this, in order, without being applied
  };
  using Items = std::vector<Item>;

  void run();
  void turn(Items items, Revision compact_request, bool tick);
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Items take_group();
  void commit_group(Items& items, std::size_t from, std::size_t to);
  [[nodiscard]] Expected<void> open_books(MDB_txn* txn);
  [[nodiscard]] Expected<void> load_books(MDB_txn* txn, Revision revision);
  [[nodiscard]] int save_books(MDB_txn* txn, Revision revision);
  [[nodiscard]] int save_state(MDB_txn* txn, const layout::State& state, bool with_marks);
  [[nodiscard]] int finish(MDB_txn* txn);
  /// Waits while a copy beside this process has stopped writes. @error also kUnavailable it has
  /// taken the store.
  [[nodiscard]] Expected<MDB_txn*> begin();
  [[nodiscard]] Expected<MDB_txn*> begin_now();
  void look_for_handover();
  void catch_up(Revision revision);
  void publish(Revision revision, std::vector<Event> events);
  void answer_all(Items& items, std::size_t from, std::size_t to, const Error& error);
  void set_unhealthy(const Error& error);
  void set_healthy();

  void start_automatic_compaction();
  void compact_slice();
  void probe();

  Environment& environment_;
  SharedState& shared_;
  SubscriberList& subscribers_;
  const LmdbParams params_;

  mutable std::mutex mutex_;  // guards the members down to the blank line
  std::condition_variable wake_;
  std::condition_variable compacted_;
  std::deque<Item> queue_;
  std::size_t queue_bytes_ = 0;
  std::size_t queue_accepted_ = 0;
  Revision compact_request_ = 0;
  std::uint64_t tick_asked_ = 0, tick_done_ = 0;
  bool stopping_ = false;

  mutable std::mutex health_mutex_;
  std::optional<Error> health_;

  // Writer thread only.
  HistoryMarks marks_;
  OwnersHandover handover_;
  BookKeeper books_;        // what Books has: any thread
  bool books_due_ = false;  // the table is not what books_ says
  layout::State state_;     // published
  Revision bound_ = 0;      // compaction goal
  bool compacting_ = false;
  bool broken_ = false;  // LMDB must be opened again
  std::optional<TimePoint> tick_at_;
  std::optional<TimePoint> probe_at_;          // writes fail: try one without a client
  std::optional<TimePoint> compact_retry_at_;  // compaction failed

  std::thread thread_;
};

}  // namespace kintsugi::store
