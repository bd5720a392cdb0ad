#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "workers/runtime/journal/internal/folder.h"
#include "workers/runtime/journal/internal/journal_row.h"

struct MDB_env;
struct MDB_txn;

namespace kintsugi::workers {

struct JournalParams {
  std::string directory;  ///< <data-dir>/<role>/<unit>; "<directory>.lock" stands beside it
  std::vector<std::string> tables{"objects"};          ///< 1 to 16 names, e.g. one per kind
  std::string boot_id;                                 ///< of read_boot_id(); at most 64 bytes
  std::uint64_t start_map = std::uint64_t{256} << 20;  ///< bytes, doubled when it is full
  std::uint64_t max_bytes = std::uint64_t{8} << 30;    ///< journal_max_bytes, 1 MiB to 8 GiB
  Duration sync_interval = milliseconds(40);  ///< so that 50 ms hold with the loop's own delay
};

/// Which of the params' tables.
using JournalTable = std::uint8_t;

/// An own copy of a row.
struct JournalValue {
  std::uint64_t epoch = 0;
  std::string rv, payload;
};

enum class JournalState : std::uint8_t {
  kReady,
  kFull,     ///< JournalFull: put() is refused; reads and erase() go on (RT-75)
  kDamaged,  ///< everything is refused until rebuild() (RT-74)
};

/// For the event JournalRebuilt.
struct JournalRebuilt {
  std::string reason;
  std::string aside;  ///< path of the damaged one
};

struct JournalStats {
  std::uint64_t bytes = 0;     ///< journal_bytes: pages in use
  std::uint64_t commits = 0;   ///< journal_commits_total
  std::uint64_t rebuilds = 0;  ///< journal_rebuilds_total
  std::uint64_t syncs = 0;
  std::uint64_t map_bytes = 0;
};

/// Durable memory of one (role, unit). The API server is the truth (RT-72): whatever is lost here
/// is rebuilt from there. Source: RT-70 to RT-77. LMDB underneath, without its lock file: one
/// process by a lock of our own, one thread, and no read transaction longer than one call. Writes
/// of a turn gather in one transaction: put() and erase() enter it, get() and scan() see it,
/// commit() at the end of the turn ends it (after 4,096 writes or 4 MiB it ends by itself).
/// A process that dies loses the turns it has not committed; a machine that dies loses all, since
/// pages and heads reach the disk in any order and RT-74 distrusts them.
/// Threads: sync() on one helper at a time; everything else on the owner's loop. No call but
/// open(), rebuild(), close() and sync() waits for the disk. Lifetime: no sync() may run while it
/// dies.
class Journal {
 public:
  /// Takes the lock, checks every page and row, and opens or begins anew.
  /// @error kConfig: used by another process (the caller exits 2), or params that cannot be; kIo,
  ///        kFull. Damage is no error: see rebuilt().
  /// Cost: 100,000 rows of 800 B in 0.1 s (bench/journal.cc).
  [[nodiscard]] static Expected<std::unique_ptr<Journal>> open(JournalParams params);
  /// close(), if nobody did.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// @error kInvalid (see append_journal_key), kRequestEntityTooLarge; kFull: not stored,
  ///        JournalFull; kCorrupt, kIo.
  [[nodiscard]] Expected<void> put(JournalTable table, const JournalKey& key,
                                   const JournalRow& row);
  /// A row that is not there is none of its errors.
  [[nodiscard]] Expected<void> erase(JournalTable table, const JournalKey& key);
  /// @error kCorrupt: the journal is damaged from now on.
  [[nodiscard]] Expected<std::optional<JournalValue>> get(JournalTable table,
                                                          const JournalKey& key);
  /// All rows in order of cluster, ns, name, until `on_row` says false. It must not use the
  /// journal; its views die with the call.
  using OnRow = std::function<bool(const JournalKey&, const JournalRow&)>;
  [[nodiscard]] Expected<void> scan(JournalTable table, const OnRow& on_row);

  /// The highest epoch that was ever noted for a slot, 0 for none: partitions are 0 to 1,023, and
  /// the rest is free for the role's Leases (RT-54).
  static constexpr std::size_t kEpochSlots = 1'088;
  [[nodiscard]] std::uint64_t epoch(std::size_t slot) const noexcept { return epochs_[slot]; }
  /// Lower ones than the noted one change nothing. @error as put().
  [[nodiscard]] Expected<void> note_epoch(std::size_t slot, std::uint64_t epoch);

  /// Ends the turn's transaction; nothing to write, nothing done. No fsync.
  /// @error kFull, kIo: "n writes not stored". The caller takes all puts of the turn for not
  ///        stored; its erases that did not get through are found by the next start.
  [[nodiscard]] Expected<void> commit(TimePoint now);

  /// Whether sync() is to be called now, by whomever; answers true once per interval. Every turn.
  [[nodiscard]] bool due_sync(TimePoint now);
  /// When due_sync() will say so; nullopt while all commits are on the disk.
  [[nodiscard]] std::optional<TimePoint> next_sync() const noexcept;
  /// Waits until the commits so far are on the disk. Threads: any, one at a time.
  /// @error kIo, kFull: the journal is damaged from now on, for the kernel forgets what it could
  /// not
  ///        write.
  [[nodiscard]] Expected<void> sync();

  /// What is damaged is put aside and an empty journal begun in its place.
  [[nodiscard]] Expected<void> rebuild(std::string_view reason);
  /// commit(), sync(), clean flag, sync(). Nothing else may be called afterwards.
  [[nodiscard]] Expected<void> close();

  /// SIGHUP: another journal_max_bytes. @error kConfig outside 1 MiB to 8 GiB.
  [[nodiscard]] Expected<void> set_max_bytes(std::uint64_t bytes);

  [[nodiscard]] JournalState state() const noexcept;
  /// Why it is not kReady, "" when it is.
  [[nodiscard]] std::string_view reason() const noexcept {
    return state() == JournalState::kReady ? std::string_view() : std::string_view(reason_);
  }
  /// The last rebuild, of open() or of rebuild().
  [[nodiscard]] const std::optional<JournalRebuilt>& rebuilt() const noexcept { return rebuilt_; }
  [[nodiscard]] JournalStats stats() const noexcept;

 private:
  struct Op {  // of the running turn; its bytes are in turn_bytes_
    std::uint8_t table;
    bool erase;
    std::uint16_t key_size;
    std::uint32_t value_size;
    std::size_t at;
  };

  static constexpr std::uint8_t kMetaOp = 255;  // a table of Op

  explicit Journal(JournalParams params) : params_(std::move(params)) {}

  // Files (journal_open.cc).
  [[nodiscard]] Expected<void> start();
  [[nodiscard]] Expected<void> check_file(bool reopening);
  [[nodiscard]] Expected<void> begin_anew(const std::string& reason);
  [[nodiscard]] Expected<void> open_lmdb();
  [[nodiscard]] Expected<void> open_tables(MDB_txn* txn);
  [[nodiscard]] Expected<void> write_meta(std::string_view key, const JournalRow& row);
  [[nodiscard]] Expected<void> write_state(bool clean);
  [[nodiscard]] Expected<void> reopen();
  void close_lmdb() noexcept;

  // Transactions (journal.cc).
  [[nodiscard]] Expected<void> usable();
  [[nodiscard]] int begin();
  [[nodiscard]] int replay();
  void forget_turn() noexcept;
  void abort() noexcept;
  [[nodiscard]] int end();
  [[nodiscard]] int apply(const Op& op);
  [[nodiscard]] Expected<void> enter(std::size_t at, std::size_t key_size, std::uint8_t table,
                                     bool erases);
  [[nodiscard]] Expected<void> recover(int code);
  [[nodiscard]] Expected<void> one_by_one(int code);
  [[nodiscard]] int grow();
  [[nodiscard]] Expected<MDB_txn*> read_txn();
  void end_read() noexcept;
  [[nodiscard]] Expected<void> finish_turn(std::size_t lost);
  [[nodiscard]] Expected<void> finish();
  [[nodiscard]] bool file_is_whole();
  Error note_code(int code, std::string_view what);
  void note_damage(std::string reason);

  // Space (journal_space.cc).
  [[nodiscard]] std::uint64_t used_bytes() const noexcept;  // by the open transaction
  [[nodiscard]] std::uint64_t reserve() const noexcept;
  [[nodiscard]] bool fits(std::uint64_t used, std::uint64_t bytes) const noexcept;
  [[nodiscard]] bool disk_is_full() const noexcept;
  void note_full(bool disk, std::string_view why);
  void keep_ballast();
  void check_space(TimePoint now);

  JournalParams params_;
  std::optional<FileLock> lock_;
  MDB_env* env_ = nullptr;
  MDB_txn* write_ = nullptr;
  MDB_txn* reader_ = nullptr;     // reset between calls
  std::vector<unsigned> tables_;  // of params_.tables, then of tables that other programs made
  std::vector<std::string> other_tables_;
  bool fresh_ = true;    // the file has no transaction yet
  bool marked_ = false;  // it says already that this boot has it open
  unsigned meta_ = 0;
  std::uint64_t map_bytes_ = 0;
  std::uint64_t file_bytes_ = 0;  // after the last commit
  std::uint64_t in_use_ = 0;      // bytes of pages with rows, at the last commit
  std::uint64_t end_bytes_ = 0;   // of the pages there are
  std::uint64_t ballast_end_ = 0;

  std::string turn_bytes_;
  std::string scratch_;
  std::vector<Op> ops_;
  std::size_t lost_ = 0;
  std::vector<std::uint64_t> epochs_ = std::vector<std::uint64_t>(kEpochSlots);

  bool closed_ = false;
  bool damaged_ = false;
  bool limit_reached_ = false;
  bool disk_full_ = false;
  std::string reason_;
  std::optional<JournalRebuilt> rebuilt_;
  std::uint64_t rebuilds_ = 0;
  TimePoint space_checked_{};

  bool unsynced_ = false;
  TimePoint unsynced_since_{};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> synced_{0};  // commits on the disk
  std::atomic<std::uint64_t> syncs_{0};
  std::atomic<int> sync_error_{0};
  std::mutex file_mutex_;  // sync() against a change of file_
  JournalFile file_;       // of data.mdb, beside LMDB's own
};

/// Of the running kernel, "" when it does not say: then only clean journals are trusted.
[[nodiscard]] std::string read_boot_id();

/// Removes the journal of a unit that did not come back (RT-11), with its damaged predecessors'
/// names untouched. @error kConfig in use; kIo.
[[nodiscard]] Expected<void> remove_journal(const std::string& directory);

}  // namespace kintsugi::workers
