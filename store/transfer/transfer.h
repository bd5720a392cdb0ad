#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "store/etcd/etcd_store.h"
#include "store/store.h"

/// A store moved from its folder into etcd, and back (GR-306). For tools: calls block.
///
/// Nobody serves it meanwhile (online.h is for one that is served). The target is no store before
/// all rows are in it, and their number and digest are those of the source; the source opens by
/// force only before the target is one. So there is no moment at which both go on, and one at which
/// neither does: a run that was killed is repeated, with the same source and target.
namespace kintsugi::store {

/// The first new revision is more than that above all that the source has told.
inline constexpr Revision kTransferJump = 1'000'000;

struct TransferOptions {
  bool force = false;  ///< also of a source that has moved elsewhere
  /// Rows that were written.
  std::function<void(std::uint64_t rows)> tell = [](std::uint64_t) {};
};
struct TransferReport {
  std::uint64_t rows = 0;
  std::string digest;
  Revision before = 0;  ///< newest revision of the source
  Revision after = 0;   ///< of the target; older ones are compacted
};

/// Rows get new revisions, in which they were made and changed.
/// @error kConfig the source is no store, is in use or has moved; the prefix has something else;
/// kCorrupt the source is damaged, or the target is not what was written; kConflict, kUnavailable,
/// kIo, kFull.
[[nodiscard]] Expected<TransferReport> move_to_etcd(const std::string& directory, EtcdParams etcd,
                                                    const TransferOptions& options);

/// Rows keep their revisions. @param directory  is made; must not exist or be empty
/// @error the same, the other way round.
[[nodiscard]] Expected<TransferReport> move_to_lmdb(EtcdParams etcd, const std::string& directory,
                                                    const TransferOptions& options);

}  // namespace kintsugi::store
