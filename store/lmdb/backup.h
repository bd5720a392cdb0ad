#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/store.h"

/// Backup and restore of an LMDB store (AM-465). For tools: the calls block.
namespace kintsugi::store {

/// What a restore adds to the revision counter: revisions that were given out after the backup are
/// never given out again.
inline constexpr Revision kRestoreJump = 1'000'000'000;

struct BackupReport {
  Revision revision = 0;  ///< the one that the copy shows
  std::uint64_t keys = 0;
  std::uint64_t problems = 0;  ///< damaged records that were copied as they are
};
/// Copies the store in directory `from` into the new (or empty) directory `to`, as of one revision.
/// The store may be in use by another process, never by the calling one; writers go on.
/// @error kConfig `from` is no store or of an unknown format, `to` is not empty; kIo, kFull.
[[nodiscard]] Expected<BackupReport> backup_store(const std::string& from, const std::string& to);

struct RestoreReport {
  Revision revision = 0;  ///< where the new store begins
  std::uint64_t keys = 0;
  std::vector<std::string> damaged;  ///< keys of records that do not hold and were left out
};
/// Makes a store in the new (or empty) directory `to` from a backup: the live objects, no history.
/// Its counter is kRestoreJump ahead and everything before counts as compacted, so every watch and
/// list from before starts anew. `to` appears when it is complete and durable.
/// @error kConfig, kCorrupt, kIo, kFull.
[[nodiscard]] Expected<RestoreReport> restore_store(const std::string& backup,
                                                    const std::string& to);

}  // namespace kintsugi::store
