#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "store/lmdb/snapshot.h"

namespace kintsugi::store {

class Environment;

/// A store that is copied elsewhere while the process that has it open serves it, and then taken
/// from that (GR-306). For tools: calls block; one thread; not in the owner's process.
///
/// The owner stops when he is asked to, says so, and counts 5 s by his own clock; then he takes the
/// store back and goes on. Whoever copies has it by the commit of take(), if it is still stopped
/// for him. So of the two one has it, whoever dies or stands still.
class LmdbHandover {
 public:
  /// @error kConfig no store is there, nobody has it open, or it has moved; kCorrupt, kIo.
  [[nodiscard]] static Expected<std::unique_ptr<LmdbHandover>> open(const std::string& directory);
  ~LmdbHandover();
  LmdbHandover(const LmdbHandover&) = delete;
  LmdbHandover& operator=(const LmdbHandover&) = delete;

  [[nodiscard]] LmdbSnapshot& snapshot() noexcept { return *snapshot_; }

  /// Returns when the owner writes nothing more; the snapshot is pinned then.
  /// @error kTimeout he does not stop: an older release, or he stands still; kIo, kFull.
  [[nodiscard]] Expected<void> stop_writes();
  /// The store is elsewhere from now on. On the disk when it returns.
  /// @param note  for those who open it next, of any form
  /// @error kTimeout the owner has taken it back; kIo, kFull.
  [[nodiscard]] Expected<void> take(const std::string& place, const std::string& note);
  /// The owner goes on. What is not taken is given back at the end.
  void release();

 private:
  explicit LmdbHandover(std::unique_ptr<LmdbSnapshot> snapshot);
  [[nodiscard]] Environment& environment() noexcept;

  std::unique_ptr<LmdbSnapshot> snapshot_;
  std::string try_;  ///< that has stopped writes; "": none has
};

}  // namespace kintsugi::store
