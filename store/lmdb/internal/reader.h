#pragma once

#include <lmdb.h>

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/store.h"

/// Reads inside one LMDB transaction (a snapshot, or the writer's own). Private to store/lmdb/.
/// Records are checked; a damaged one gives kCorrupt with its key.
namespace kintsugi::store::reader {

[[nodiscard]] Expected<layout::State> state(MDB_txn* txn, const Tables& tables);

/// The live version of `key`; views into the transaction. @param check as for range()
/// @error kNotFound, kCorrupt, kIo.
[[nodiscard]] Expected<layout::Version> current(MDB_txn* txn, const Tables& tables,
                                                std::string_view key, bool check = true);

/// Rows of the state as of `at` (0: now) in key order. `check` false: values are not verified and
/// may be empty views (for counting).
/// @returns the revision that was read. @error kCompacted, kFutureRevision, kCorrupt, kIo.
[[nodiscard]] Expected<Revision> range(MDB_txn* txn, const Tables& tables, const layout::State& now,
                                       const RangeQuery& query, const Visitor& visit, bool check);

/// As Store::changes. @param now  state() of the same transaction, as for range().
[[nodiscard]] Expected<Store::Changes> changes(MDB_txn* txn, const Tables& tables,
                                               const layout::State& now, std::string_view prefix,
                                               Revision after, std::size_t limit);

/// Bytes of the pages that the tables use now; free pages of the file are not counted.
[[nodiscard]] std::uint64_t used_bytes(MDB_txn* txn, const Tables& tables) noexcept;
[[nodiscard]] std::uint64_t row_count(MDB_txn* txn, MDB_dbi table) noexcept;

}  // namespace kintsugi::store::reader
