#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "store/etcd/etcd_store.h"
#include "store/transfer/transfer.h"

/// A store moved while it is served (GR-306). For tools: calls block.
///
/// The rows as of one revision are copied and compared, then what was written since, again and
/// again. When little is left the source is asked to write nothing more, the last of it is copied,
/// and one write at the source decides: from then on the store is the target's, before it the
/// source's. Who served the source ends, and opens the target when he starts anew. Whoever copies
/// may die or stand still at any moment: before the decision the source goes on by itself after
/// 5 s, after it what is left to be done at the target is done by who starts there.
namespace kintsugi::store {

enum class OnlineStep : std::uint8_t {
  kCopied,   ///< and compared, as of an older revision
  kStopped,  ///< nobody writes
  kReady,    ///< the target has everything
  kDecided,  ///< the target is the store
};
struct OnlineOptions {
  TransferOptions transfer;
  std::function<void(OnlineStep)> reached = [](OnlineStep) {};
  /// How who opens the source next comes to the target.
  /// @param uid  of the copy, for finish_in_etcd()
  std::function<std::string(const std::string& uid)> note;
};
struct OnlineReport {
  TransferReport rows;
  Duration stopped{};  ///< how long nobody wrote, until the decision
  bool earlier =
      false;  ///< an earlier run has moved it to the same place, and nothing else is said
};

/// Again after it has moved there: what is left to be done is done.
/// @error as move_to_etcd(); kConfig nobody serves the source, or it has moved elsewhere; kTimeout
/// writes did not stop, or the last part took too long: nothing has changed; kCompacted it was
/// written to faster than copied.
[[nodiscard]] Expected<OnlineReport> move_to_etcd_online(const std::string& directory,
                                                         EtcdParams etcd,
                                                         const OnlineOptions& options);
/// @error the same, the other way round.
[[nodiscard]] Expected<OnlineReport> move_to_lmdb_online(EtcdParams etcd,
                                                         const std::string& directory,
                                                         const OnlineOptions& options);

/// What the decision has left to be done where the store is in etcd: for who opens it, after the
/// source has said that it has moved there. Again: nothing.
/// @error kConfig another copy is there; kConflict, kUnavailable.
[[nodiscard]] Expected<void> finish_in_etcd(EtcdParams etcd, std::string_view uid);
/// The same where it is in a folder: true if the store in etcd has moved to there.
/// @error kConfig, kIo, kUnavailable.
[[nodiscard]] Expected<bool> finish_in_folder(EtcdParams etcd, const std::string& directory);

}  // namespace kintsugi::store
