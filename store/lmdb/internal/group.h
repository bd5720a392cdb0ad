#pragma once

#include <lmdb.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "store/internal/book_keeper.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/store.h"

namespace kintsugi::store {

/// Applies transactions one after the other to one LMDB write transaction that the caller owns;
/// each sees the ones before it. Private to store/lmdb/.
class Group {
 public:
  /// @param limit  bytes that the tables may use; transactions with a put are refused beyond.
  Group(MDB_txn* txn, const Tables& tables, layout::State state, std::uint64_t limit,
        BookKeeper& books) noexcept
      : txn_(txn), tables_(tables), state_(state), limit_(limit), books_(books) {}

  /// @returns what to answer once the LMDB transaction is durable: a result, or an error that
  /// concerns this transaction alone (kCorrupt, kFull). When failed() is set, everything must be
  /// aborted instead. `ops` stay whole, so that they can be applied again.
  [[nodiscard]] Expected<CommitResult> apply(const std::vector<Op>& ops);

  /// Non-zero: LMDB's code that broke the LMDB transaction.
  [[nodiscard]] int failed() const noexcept { return failed_; }
  [[nodiscard]] const layout::State& state() const noexcept { return state_; }
  /// Transactions that have changed something.
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }
  /// Events of all applied transactions, in order.
  [[nodiscard]] std::vector<Event>& events() noexcept { return events_; }

 private:
  struct Before;  // what a key is before the transaction

  [[nodiscard]] Expected<Before> look(const Op& op);
  [[nodiscard]] static bool is_change(const Op& op, const Before& before) noexcept;
  [[nodiscard]] bool fits(const std::vector<Op>& ops) const;
  [[nodiscard]] std::optional<Excess> enter(const std::vector<Op>& ops,
                                            const std::vector<Before>& befores);
  void write(const Op& op, Before& before, Revision revision, std::uint32_t index);
  void put_version(MDB_dbi table, std::string_view db_key, const layout::Version& version);
  void put_log(Revision revision, std::uint32_t index, const layout::LogRecord& record);

  MDB_txn* txn_;
  const Tables& tables_;
  layout::State state_;
  std::uint64_t limit_;
  BookKeeper& books_;
  std::uint64_t commits_ = 0;
  int failed_ = 0;
  std::vector<Event> events_;
};

}  // namespace kintsugi::store
