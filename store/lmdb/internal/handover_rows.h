#pragma once

#include <lmdb.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "store/lmdb/internal/environment.h"

/// Rows of `meta` by which a copy that is made beside the owner of a store takes it away from him
/// (GR-306). Private to store/lmdb/.
namespace kintsugi::store {

/// Whoever copies asks for a stop of writes: which try it is.
inline constexpr const char* kMoving = "moving";
/// The owner has stopped for the try of this name.
inline constexpr const char* kStopped = "stopped";
/// How those who open the store next come to what it has moved to: text of who copied.
inline constexpr const char* kMovedNote = "moved-note";

/// A row of `meta`; "": there is none.
[[nodiscard]] std::string meta_row(MDB_txn* txn, const Tables& tables, const char* name);
/// @param value  "": it is deleted. @returns a code of LMDB.
[[nodiscard]] int set_meta_row(MDB_txn* txn, const Tables& tables, const char* name,
                               const std::string& value);

/// The owner's side: when he may write. Threads: the writer's.
class OwnersHandover {
 public:
  /// How soon who writes nothing looks.
  static constexpr Duration kLook = milliseconds(200);

  /// @param on_moved  empty: nobody is told
  /// @param most_stop  how long writes wait, by the owner's clock; then he takes the store back
  OwnersHandover(std::function<void()> on_moved, Duration most_stop)
      : on_moved_(std::move(on_moved)), most_stop_(most_stop) {}

  /// What was said before this process had the store.
  void begin(MDB_txn* txn, const Tables& tables) { known_ = meta_row(txn, tables, kMoved); }
  [[nodiscard]] bool is_told() const noexcept { return static_cast<bool>(on_moved_) && !moved_; }

  enum class Look : std::uint8_t {
    kFree,  ///< what the transaction writes counts
    kStop,  ///< the transaction is to be committed, and another one begun a moment later
    kMoved,
  };
  /// In each transaction that writes, first. @returns nullopt: it cannot write
  [[nodiscard]] std::optional<Look> look(MDB_txn* txn, const Tables& tables, TimePoint now);
  /// Whether look() has something to say. In one that reads.
  [[nodiscard]] bool is_news(MDB_txn* txn, const Tables& tables) const;

 private:
  const std::function<void()> on_moved_;
  const Duration most_stop_;
  std::string known_, stopped_for_;
  TimePoint since_{};
  bool moved_ = false;
};

}  // namespace kintsugi::store
