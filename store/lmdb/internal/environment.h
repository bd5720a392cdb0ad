#pragma once

#include <lmdb.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "store/lmdb/internal/map_guard.h"

/// LMDB itself: files, lock, tables and the pool of read transactions. Private to store/lmdb/.
namespace kintsugi::store {

/// Errc of an LMDB or errno code, with "<what>: <LMDB's text>".
/// MDB_MAP_FULL, ENOSPC, EDQUOT, EFBIG: kFull. MDB_TXN_FULL: kInvalid. Damage: kCorrupt. Else kIo.
[[nodiscard]] Error lmdb_error(int code, std::string_view what);

[[nodiscard]] inline MDB_val to_val(std::string_view bytes) noexcept {
  return {bytes.size(), const_cast<char*>(bytes.data())};
}
[[nodiscard]] inline std::string_view to_view(const MDB_val& value) noexcept {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// Owns one cursor.
class LmdbCursor {
 public:
  LmdbCursor() noexcept = default;
  LmdbCursor(const LmdbCursor&) = delete;
  LmdbCursor& operator=(const LmdbCursor&) = delete;
  ~LmdbCursor() { close(); }
  [[nodiscard]] int open(MDB_txn* txn, MDB_dbi table) noexcept {
    return mdb_cursor_open(txn, table, &cursor_);
  }
  /// A write transaction's cursor must be closed before the transaction ends.
  void close() noexcept {
    if (cursor_ != nullptr) {
      mdb_cursor_close(cursor_);
      cursor_ = nullptr;
    }
  }
  [[nodiscard]] int move(MDB_cursor_op op) noexcept {
    return mdb_cursor_get(cursor_, &key_, &value_, op);
  }
  /// First row at or after `key`; "" is the first of all.
  [[nodiscard]] int seek(std::string_view key) noexcept {
    key_ = to_val(key);
    return move(key.empty() ? MDB_FIRST : MDB_SET_RANGE);
  }
  [[nodiscard]] int erase() noexcept { return mdb_cursor_del(cursor_, 0); }
  [[nodiscard]] std::string_view key() const noexcept { return to_view(key_); }
  [[nodiscard]] std::string_view value() const noexcept { return to_view(value_); }

 private:
  MDB_cursor* cursor_ = nullptr;
  MDB_val key_{};
  MDB_val value_{};
};

struct EnvironmentParams {
  std::string directory;
  std::uint64_t map_bytes = 0;
  bool no_sync = false;
  unsigned max_readers = 1024;
  /// Nothing is made or written, neither folders nor files; LMDB's own locks are not used, so that
  /// no other process may have the store open (lock_store says so where the lock file is).
  bool read_only = false;
  /// Another process may have it open and write: with LMDB's locks, without that of the store. Not
  /// read_only: for rows of a handover alone.
  bool beside_owner = false;
  bool opens_moved = false;  ///< also what was copied elsewhere (kMoved)
};

/// meta, in the row of this name: a number that no other store has. A store that is made anew from
/// the rows of another one has a new one: what was noted of that one is not true of it. Stores of
/// older programs have none.
inline constexpr const char* kIncarnation = "incarnation";

/// meta, in the row of this name, if it is there: where the store has moved to, as text. It is not
/// opened any more but by who reads only, or is told to (GR-306).
inline constexpr const char* kMoved = "moved";

/// The lock that a process holds while it has the store open.
/// @returns nullopt: there is no lock file, and `create` is false.
/// @error kConfig another process has it; kIo, kFull.
[[nodiscard]] Expected<std::optional<FileLock>> lock_store(const std::string& directory,
                                                           bool create);

class Environment;

/// One snapshot. Movable; goes back to the pool when destroyed. Bytes read from it die with it.
class ReadTxn {
 public:
  ReadTxn(Environment& owner, MDB_txn* txn) noexcept : owner_(&owner), txn_(txn) {}
  ReadTxn(ReadTxn&& other) noexcept : owner_(other.owner_), txn_(other.txn_) {
    other.txn_ = nullptr;
  }
  ReadTxn& operator=(ReadTxn&&) = delete;
  ~ReadTxn();
  [[nodiscard]] MDB_txn* get() const noexcept { return txn_; }

 private:
  Environment* owner_;
  MDB_txn* txn_;
};

struct Tables {
  static constexpr MDB_dbi kNone = ~MDB_dbi{0};  ///< of an old store that is only read
  MDB_dbi meta = 0, current = 0, history = 0, log = 0, books = 0;
};

/// Threads: read() any; everything else one thread.
class Environment {
 public:
  /// Creates the directory (0700) and the files (0600), takes the lock file, opens the tables.
  /// @error kConfig the store is open elsewhere, or has a format this program does not know;
  ///        kCorrupt, kIo, kFull.
  [[nodiscard]] static Expected<std::unique_ptr<Environment>> open(EnvironmentParams params);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// @error kOverloaded all reader slots in use; kIo while the environment is being reopened.
  [[nodiscard]] Expected<ReadTxn> read();
  /// Closes and opens LMDB again, after it declared itself broken (MDB_PANIC). Waits for readers.
  [[nodiscard]] Expected<void> reopen();

  /// Whether the file system of the store is (nearly) out of space. LMDB reports a write that was
  /// cut short for that reason as EIO.
  [[nodiscard]] bool disk_is_full() const noexcept;

  [[nodiscard]] MDB_env* get() const noexcept { return env_; }
  [[nodiscard]] const Tables& tables() const noexcept { return tables_; }

 private:
  friend class ReadTxn;
  explicit Environment(EnvironmentParams params) : params_(std::move(params)) {}
  [[nodiscard]] Expected<void> open_lmdb();
  [[nodiscard]] Expected<void> open_tables(MDB_txn* txn);
  void close_lmdb() noexcept;
  void release(MDB_txn* txn) noexcept;

  EnvironmentParams params_;
  std::optional<FileLock> lock_;
  MDB_env* env_ = nullptr;
  std::optional<MapGuard> map_guard_;
  Tables tables_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<MDB_txn*> pool_;
  std::size_t active_ = 0;
  bool closed_ = false;
};

}  // namespace kintsugi::store
