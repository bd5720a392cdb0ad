#pragma once

#include <lmdb.h>

#include "base/error.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::store {

/// LmdbStore::verify() on one snapshot. Private to store/lmdb/. Rules:
/// every record's checksum holds; created <= modified <= revision; versions of a key do not overlap
/// and the newest ended before the live one began; each version above the compacted revision, and
/// each end of one, has its log row and the other way round; the log has every revision above the
/// compacted one, with indexes 0, 1, 2, ...
[[nodiscard]] Expected<VerifyReport> verify_tables(MDB_txn* txn, const Tables& tables,
                                                   const layout::State& state);

/// The same with the sums of `rules`, where they measure.
[[nodiscard]] Expected<VerifyReport> verify_rows(MDB_txn* txn, const Tables& tables,
                                                 const layout::State& state,
                                                 const BookRules& rules);

}  // namespace kintsugi::store
