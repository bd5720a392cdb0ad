#include "workers/runtime/journal/journal.h"

#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kTurnOps = 4'096;
constexpr std::size_t kTurnBytes = std::size_t{4} << 20;

bool says_full(int code) noexcept {
  return code == MDB_MAP_FULL || code == ENOSPC || code == EDQUOT || code == EFBIG;
}

bool says_damage(int code) noexcept {
  switch (code) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_CURSOR_FULL:
    case MDB_MAP_RESIZED:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_TXN:
    case MDB_BAD_VALSIZE:
    case MDB_BAD_DBI:
      return true;
    default:
      return false;
  }
}

MDB_val journal_val(std::string_view bytes) noexcept {
  return {bytes.size(), const_cast<char*>(bytes.data())};
}
std::string_view journal_view(const MDB_val& value) noexcept {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

}  // namespace

Journal::~Journal() { (void)close(); }

JournalState Journal::state() const noexcept {
  if (damaged_ || sync_error_ != 0) {
    return JournalState::kDamaged;
  }
  const bool full = limit_reached_ || (disk_full_ && !fits(in_use_, 0));
  return full ? JournalState::kFull : JournalState::kReady;
}

JournalStats Journal::stats() const noexcept {
  return {in_use_, commits_.load(), rebuilds_, syncs_.load(), map_bytes_};
}

void Journal::note_damage(std::string reason) {
  abort();
  forget_turn();
  if (!std::exchange(damaged_, true)) {
    reason_ = std::move(reason);
  }
}

Error Journal::note_code(int code, std::string_view what) {
  Error error(says_full(code)     ? Errc::kFull
              : says_damage(code) ? Errc::kCorrupt
                                  : Errc::kIo,
              std::string(what) + ": " + mdb_strerror(code));
  if (error.code() == Errc::kCorrupt) {
    note_damage(std::string(error.message()));
  } else if (error.code() == Errc::kFull) {
    note_full(code != MDB_MAP_FULL, error.message());
  }
  return error;
}

Expected<void> Journal::usable() {
  if (closed_) {
    return fail(Errc::kIo, "the journal is closed");
  }
  if (const int code = sync_error_; code != 0 && !damaged_) {
    note_damage(std::string(journal_errno("fdatasync", code).message()));
  }
  if (damaged_) {
    return fail(Errc::kCorrupt, "the journal is damaged: " + reason_);
  }
  return {};
}

/// A file that somebody cut must not be touched through the map: that would be a SIGBUS.
bool Journal::file_is_whole() {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) >= file_bytes_;
}

int Journal::begin() {
  if (write_ != nullptr) {
    return 0;
  }
  if (!file_is_whole()) {
    return MDB_CORRUPTED;
  }
  int code = mdb_txn_begin(env_, nullptr, 0, &write_);
  if (code == MDB_PANIC) {  // a head could not be written
    code = reopen() ? mdb_txn_begin(env_, nullptr, 0, &write_) : MDB_CORRUPTED;
  }
  if (code != 0) {
    write_ = nullptr;
  }
  return code;
}

void Journal::abort() noexcept {
  if (write_ != nullptr) {
    mdb_txn_abort(write_);
    write_ = nullptr;
  }
}

void Journal::forget_turn() noexcept {
  ops_.clear();
  turn_bytes_.clear();
  if (turn_bytes_.capacity() > 2 * kTurnBytes) {
    turn_bytes_.shrink_to_fit();
  }
}

int Journal::end() {
  in_use_ = used_bytes();
  int code = mdb_txn_commit(std::exchange(write_, nullptr));
  if (code == EIO && disk_is_full()) {
    code = ENOSPC;  // LMDB calls a write that was cut short an I/O error
  }
  if (code != 0) {
    return code;
  }
  ++commits_;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0) {
    file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  keep_ballast();
  return 0;
}

int Journal::apply(const Op& op) {
  const std::string_view bytes(turn_bytes_);
  MDB_val key = journal_val(bytes.substr(op.at, op.key_size));
  const MDB_dbi table = op.table == kMetaOp ? meta_ : tables_[op.table];
  if (op.erase) {
    const int code = mdb_del(write_, table, &key, nullptr);
    return code == MDB_NOTFOUND ? 0 : code;
  }
  MDB_val value = journal_val(bytes.substr(op.at + op.key_size, op.value_size));
  return mdb_put(write_, table, &key, &value, 0);
}

Expected<void> Journal::enter(std::size_t at, std::size_t key_size, std::uint8_t table,
                              bool erases) {
  ops_.push_back({table, erases, static_cast<std::uint16_t>(key_size),
                  static_cast<std::uint32_t>(turn_bytes_.size() - at - key_size), at});
  const std::size_t lost = lost_;
  int code = begin();
  if (code == 0) {
    code = apply(ops_.back());
  }
  if (code == 0 && (ops_.size() >= kTurnOps || turn_bytes_.size() >= kTurnBytes)) {
    return finish_turn(lost);
  }
  if (code != 0) {
    if (auto recovered = recover(code); !recovered) {
      return recovered;
    }
  }
  if (lost_ > lost) {
    return fail(Errc::kFull, reason_);
  }
  return {};
}

int Journal::replay() {
  int code = begin();
  for (std::size_t i = 0; code == 0 && i < ops_.size(); ++i) {
    code = apply(ops_[i]);
  }
  return code;
}

int Journal::grow() {
  if (map_bytes_ >= params_.max_bytes) {
    return MDB_MAP_FULL;
  }
  if (reader_ != nullptr) {
    mdb_txn_abort(reader_);
    reader_ = nullptr;
  }
  const std::uint64_t bytes = std::min(map_bytes_ * 2, params_.max_bytes);
  const int code = mdb_env_set_mapsize(env_, bytes);
  if (code != 0) {  // the old map is gone too
    return reopen() ? code : MDB_CORRUPTED;
  }
  map_bytes_ = bytes;
  return 0;
}

/// The turn's transaction failed: a larger map and once more, or what can be saved of it.
Expected<void> Journal::recover(int code) {
  abort();
  while (code == MDB_MAP_FULL) {
    const int grown = grow();
    if (grown == MDB_MAP_FULL) {
      break;
    }
    code = grown != 0 ? grown : replay();
    if (code == 0) {
      return {};
    }
    abort();
  }
  if (says_full(code) || code == MDB_TXN_FULL) {
    return one_by_one(code);
  }
  lost_ += ops_.size();
  Error error = note_code(code, "write");
  forget_turn();
  return fail(std::move(error));
}

/// At the limit each write has a transaction of its own, so that one needs few pages. On a full
/// disk only erasures are tried.
Expected<void> Journal::one_by_one(int code) {
  bool disk = says_full(code) && code != MDB_MAP_FULL;
  const std::vector<Op> ops = std::exchange(ops_, {});
  for (const Op& op : ops) {
    code = ENOSPC;
    if (op.erase || !disk) {
      code = begin();
      if (code == 0) {
        code = apply(op);
      }
      code = code == 0 ? end() : code;
      abort();
    }
    if (code == 0) {
      continue;
    }
    ++lost_;
    disk = disk || (says_full(code) && code != MDB_MAP_FULL);
    const Error error = note_code(code, "write");
    if (error.code() == Errc::kCorrupt) {
      return fail(Errc::kCorrupt, reason_);
    }
  }
  forget_turn();
  return {};
}

Expected<void> Journal::finish_turn(std::size_t lost) {
  int code = ops_.empty() ? 0 : end();
  while (code != 0) {
    if (auto recovered = recover(code); !recovered) {
      return recovered;
    }
    code = ops_.empty() ? 0 : end();
  }
  abort();  // a transaction that nothing was entered into
  forget_turn();
  if (lost_ > lost) {
    return fail(Errc::kFull, reason_);
  }
  return {};
}

Expected<void> Journal::finish() {
  auto finished = finish_turn(lost_);
  const std::size_t lost = std::exchange(lost_, 0);
  if (!finished) {
    return finished;
  }
  if (lost > 0) {
    return fail(Errc::kFull, std::to_string(lost) + " writes not stored: " + reason_);
  }
  return {};
}

Expected<void> Journal::commit(TimePoint now) {
  if (auto result = usable(); !result) {
    lost_ = 0;
    return result;
  }
  auto finished = finish();
  if (!unsynced_ && commits_ > synced_) {
    unsynced_ = true;
    unsynced_since_ = now;
  }
  check_space(now);
  return finished;
}

Expected<void> Journal::put(JournalTable table, const JournalKey& key, const JournalRow& row) {
  if (auto result = usable(); !result) {
    return result;
  }
  if (table >= params_.tables.size()) {
    return fail(Errc::kInvalid, "no such table");
  }
  const std::size_t at = turn_bytes_.size();
  if (auto result = append_journal_key(turn_bytes_, key); !result) {
    return result;
  }
  const std::size_t key_size = turn_bytes_.size() - at;
  const std::size_t size = turn_bytes_.size() + kRowHeader + row.rv.size() + row.payload.size();
  if (size > turn_bytes_.capacity() && row.payload.size() <= kMaxRowPayload) {
    turn_bytes_.reserve(std::max(size, 2 * turn_bytes_.capacity()));
  }
  const std::string_view key_bytes = std::string_view(turn_bytes_).substr(at);  // does not move
  if (auto result = append_journal_row(turn_bytes_, key_bytes, row); !result) {
    turn_bytes_.resize(at);
    return result;
  }
  if (const int code = begin(); code != 0) {
    turn_bytes_.resize(at);
    return fail(note_code(code, "write"));
  }
  if (!fits(used_bytes(), turn_bytes_.size() - at)) {
    turn_bytes_.resize(at);
    note_full(disk_full_, "the journal has reached its size limit");
    return fail(Errc::kFull, reason_);
  }
  limit_reached_ = false;
  return enter(at, key_size, table, false);
}

Expected<void> Journal::erase(JournalTable table, const JournalKey& key) {
  if (auto result = usable(); !result) {
    return result;
  }
  if (table >= params_.tables.size()) {
    return fail(Errc::kInvalid, "no such table");
  }
  const std::size_t at = turn_bytes_.size();
  if (auto result = append_journal_key(turn_bytes_, key); !result) {
    return result;
  }
  return enter(at, turn_bytes_.size() - at, table, true);
}

Expected<MDB_txn*> Journal::read_txn() {
  if (auto result = usable(); !result) {
    return fail(std::move(result).error());
  }
  if (write_ != nullptr) {
    return write_;
  }
  int code = file_is_whole() ? 0 : MDB_CORRUPTED;
  if (code == 0) {
    code = reader_ == nullptr ? mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_)
                              : mdb_txn_renew(reader_);
  }
  if (code == MDB_PANIC) {
    code = reopen() ? mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_) : MDB_CORRUPTED;
  }
  if (code != 0) {
    return fail(note_code(code, "read"));
  }
  return reader_;
}

void Journal::end_read() noexcept {
  if (write_ == nullptr && reader_ != nullptr) {
    mdb_txn_reset(reader_);
  }
}

Expected<std::optional<JournalValue>> Journal::get(JournalTable table, const JournalKey& key) {
  if (table >= params_.tables.size()) {
    return fail(Errc::kInvalid, "no such table");
  }
  scratch_.clear();
  if (auto result = append_journal_key(scratch_, key); !result) {
    return fail(std::move(result).error());
  }
  auto txn = read_txn();
  if (!txn) {
    return fail(std::move(txn).error());
  }
  MDB_val db_key = journal_val(scratch_);
  MDB_val db_value{};
  const int code = mdb_get(*txn, tables_[table], &db_key, &db_value);
  if (code != 0) {
    end_read();
    if (code == MDB_NOTFOUND) {
      return std::optional<JournalValue>();
    }
    return fail(note_code(code, "read"));
  }
  auto row = parse_journal_row(scratch_, journal_view(db_value));
  std::optional<JournalValue> value;
  if (row) {
    value = JournalValue{row->epoch, std::string(row->rv), std::string(row->payload)};
  }
  end_read();
  if (!row) {
    note_damage(std::string(row.error().message()));
    return fail(std::move(row).error());
  }
  return value;
}

Expected<void> Journal::scan(JournalTable table, const OnRow& on_row) {
  if (table >= params_.tables.size()) {
    return fail(Errc::kInvalid, "no such table");
  }
  auto txn = read_txn();
  if (!txn) {
    return fail(std::move(txn).error());
  }
  MDB_cursor* cursor = nullptr;
  int code = mdb_cursor_open(*txn, tables_[table], &cursor);
  bool damaged = false;
  MDB_val key{};
  MDB_val value{};
  for (code = code != 0 ? code : mdb_cursor_get(cursor, &key, &value, MDB_FIRST); code == 0;
       code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
    const auto parts = split_journal_key(journal_view(key));
    const auto row = parse_journal_row(journal_view(key), journal_view(value));
    damaged = !parts || !row;
    if (damaged || !on_row(*parts, *row)) {
      break;
    }
  }
  if (cursor != nullptr) {
    mdb_cursor_close(cursor);
  }
  end_read();
  if (damaged) {
    note_damage("checksum of a row is wrong");
    return fail(Errc::kCorrupt, reason_);
  }
  if (code != 0 && code != MDB_NOTFOUND) {
    return fail(note_code(code, "read"));
  }
  return {};
}

bool Journal::due_sync(TimePoint now) {
  check_space(now);
  if (synced_ >= commits_) {
    unsynced_ = false;
  }
  if (!unsynced_ || now - unsynced_since_ < params_.sync_interval) {
    return false;
  }
  unsynced_since_ = now;
  return true;
}

std::optional<TimePoint> Journal::next_sync() const noexcept {
  if (!unsynced_ || synced_ >= commits_) {
    return std::nullopt;
  }
  return unsynced_since_ + params_.sync_interval;
}

Expected<void> Journal::sync() {
  const std::scoped_lock lock(file_mutex_);
  if (!file_.is_open()) {
    return fail(Errc::kIo, "the journal is not open");
  }
  const std::uint64_t commits = commits_;
  if (::fdatasync(file_.get()) != 0) {
    const int code = errno;
    sync_error_ = code;
    return fail(journal_errno("fdatasync", code));
  }
  synced_ = commits;
  ++syncs_;
  return {};
}

}  // namespace kintsugi::workers
