#pragma once

#include <lmdb.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/store.h"

namespace kintsugi::store {

/// Time that goes on while processes come and go but never jumps: CLOCK_BOOTTIME. Marks of another
/// boot (another id) mean nothing.
struct HistoryClock {
  std::uint64_t id = 0;
  std::function<std::int64_t()> now;
  [[nodiscard]] static HistoryClock boot_time();
};

/// Which revision was current when, in samples; answers what is older than the history to keep.
/// After another boot, all revisions found count as made now. Threads: writer.
class HistoryMarks {
 public:
  HistoryMarks(HistoryClock clock, Duration keep) : clock_(std::move(clock)), keep_(keep.count()) {}

  void load(std::string_view record, Revision current);
  /// Notes that `current` is current now. @returns whether there is a new sample, to be saved.
  bool sample(Revision current);
  [[nodiscard]] std::string record() const { return layout::encode_marks(clock_.id, marks_); }
  /// The newest revision known to have been current at least `keep` ago; 0: none.
  [[nodiscard]] Revision old_revision() const;

 private:
  HistoryClock clock_;
  std::int64_t keep_;
  std::vector<layout::Mark> marks_;
};

namespace compactor {

/// Bound for automatic compaction: at most `old`, and at least `keep_events` log rows stay.
/// @returns 0 when there is nothing to do. Cost: O(keep_events) when there is something old.
[[nodiscard]] Revision automatic_bound(MDB_txn* txn, const Tables& tables, Revision old,
                                       std::uint64_t keep_events);

struct Slice {
  int code = 0;       ///< LMDB's, 0 when fine
  bool more = false;  ///< rows at or below the bound are left
};
/// Drops log rows at or below `bound`, and the versions that they ended, oldest first; at most
/// 500 rows and about 10 ms.
[[nodiscard]] Slice drop_some(MDB_txn* txn, const Tables& tables, Revision bound);

}  // namespace compactor
}  // namespace kintsugi::store
