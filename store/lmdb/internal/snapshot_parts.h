#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/history_pins.h"
#include "store/lmdb/snapshot.h"

namespace kintsugi::store {

inline constexpr std::uint64_t kSnapshotMap = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);

/// What a snapshot is made of. Private to store/lmdb/.
struct LmdbSnapshot::Parts {
  std::unique_ptr<Environment> environment;
  std::optional<ReadTxn> txn;
  Revision pinned = 0;
  std::string directory;
  std::optional<HistoryPin> held;
  Duration slice = kSlice;
  std::string last;  ///< that was visited

  /// Rows from `from` on as long as the slice lasts. @returns where to go on; nullopt: all are read
  Expected<std::optional<std::string>> read_slice(const std::string& from, const RowVisit& visit);
  /// The first key after `last`: that of the record that does not hold.
  [[nodiscard]] std::optional<std::string> key_after_last() const;
};

}  // namespace kintsugi::store
