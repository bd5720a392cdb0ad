#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "store/store.h"

namespace kintsugi::store {

struct LmdbParams {
  std::string directory;
  /// Bytes that the tables may use. It is address space, taken when the store opens; the file grows
  /// with its content. Writes that add something fail with kFull beyond it; deletes and compaction
  /// have working space of the same size, at least 1 MiB and at most 64 MiB, on top.
  std::uint64_t map_limit = std::uint64_t{64} << 30;
  bool no_sync = false;         ///< acknowledges before the disk has the data; for tests
  unsigned max_readers = 1024;  ///< reads that may run at the same time
  bool opens_moved = false;     ///< also what was copied elsewhere (store/transfer)
  /// A copy beside this process has taken the store (handover.h): nothing is written any more, and
  /// who opens it next is told where it is. On the writer's thread, once; must only hand on. Empty:
  /// that is noticed by writes alone.
  std::function<void()> on_moved{};
  Duration most_stop = seconds(5);  ///< that writes wait for who moves the store

  /// History that automatic compaction keeps: whichever of the two is more.
  Duration history_age = std::chrono::minutes(5);
  std::uint64_t history_events = 10'000;
  Duration compaction_interval = std::chrono::seconds(30);  ///< only while there is old history

  BookRules books{};     ///< how rows are counted; without `measure` they are not
  bool recount = false;  ///< when it opens, whatever was kept

  Duration retry = std::chrono::seconds(1);  ///< between attempts while the disk refuses writes

  Limits limits{};  ///< of a transaction
  std::size_t queue_transactions = 65'536;
  std::size_t queue_bytes = std::size_t{256} << 20;

  /// Nanoseconds that never run backwards; empty: CLOCK_BOOTTIME.
  std::function<std::int64_t()> clock_for_test;
  /// Called before and after each LMDB commit; a non-zero code makes that commit fail with it.
  std::function<int(bool committed)> commit_fault_for_test;
};

/// What verify() found.
struct VerifyReport {
  std::vector<std::string> problems;  ///< the first 100, in words
  std::uint64_t problem_count = 0;
  std::uint64_t live = 0, history = 0, events = 0;  ///< rows looked at
  std::vector<std::string>
      miscounted{};  ///< sums of LmdbParams::books that are wrong, the first 100
  Revision revision = 0, compacted = 0;
};

/// The Store on LMDB. docs/decisions/0002-lmdb-store.md; on disk: store/lmdb/internal/layout.h.
/// Threads: as Store, plus one writer thread. A read pins the pages of its snapshot: while a
/// range() runs, pages that writers free cannot be used again and the file grows, so a visitor must
/// not wait for anything; long lists are read page by page with RangeQuery::at.
class LmdbStore final : public Store {
 public:
  /// Opens or creates the store; ready when it returns.
  /// @error kConfig in use by another process, or made by a newer program; kCorrupt, kIo, kFull.
  [[nodiscard]] static Expected<std::unique_ptr<LmdbStore>> open(LmdbParams params);
  /// Transactions that are not committed yet are answered kClosed. No read may be running.
  ~LmdbStore() override;

  [[nodiscard]] Revision current() const noexcept override;
  [[nodiscard]] Revision compacted() const noexcept override;
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override;
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override;
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override;
  void commit(std::vector<Op> ops, CommitCallback done) override;
  [[nodiscard]] Limits limits() const noexcept override;
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override;
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override;
  /// The bound is durable before any transaction that is committed after this call.
  void compact(Revision revision) override;
  [[nodiscard]] Books* books() noexcept override;
  [[nodiscard]] StoreStats stats() const override;
  [[nodiscard]] Expected<void> health() const override;

  /// Reads every row and says what does not fit together. Cost: the whole store, in one snapshot.
  [[nodiscard]] Expected<VerifyReport> verify() const;

  /// Runs automatic compaction as if its interval had passed; returns when nothing is left to drop.
  void compact_now_for_test();

 private:
  struct Parts;
  explicit LmdbStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
