#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "workers/runtime/journal/internal/page_check.h"
#include "workers/runtime/journal/journal.h"

/// The part of Journal that opens, checks and replaces files.
namespace kintsugi::workers {
namespace {

constexpr std::uint64_t kJournalSchema = 1;
constexpr std::string_view kMetaTable = "meta";
constexpr std::string_view kStateKey = "state";
constexpr std::string_view kEpochPrefix = "epoch";
constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 30;
constexpr std::uint64_t kMapStep = 4096;
constexpr unsigned kMostTables = 64;

Expected<void> check_params(const JournalParams& params) {
  const auto& tables = params.tables;
  bool right = !tables.empty() && tables.size() <= 16 && params.boot_id.size() <= 64;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    right = right && !tables[i].empty() && tables[i].size() <= 64 && tables[i] != kMetaTable &&
            tables[i].find('\0') == std::string::npos &&
            std::find(tables.begin(), tables.begin() + static_cast<std::ptrdiff_t>(i), tables[i]) ==
                tables.begin() + static_cast<std::ptrdiff_t>(i);
  }
  if (!right) {
    return fail(Errc::kConfig, "tables or boot id that a journal cannot have");
  }
  return {};
}

std::string epoch_key(std::size_t slot) {
  std::string key(kEpochPrefix);
  key.push_back(static_cast<char>(slot >> 8));
  key.push_back(static_cast<char>(slot & 0xFF));
  return key;
}

std::optional<std::size_t> epoch_slot(std::string_view key) noexcept {
  if (!key.starts_with(kEpochPrefix) || key.size() != kEpochPrefix.size() + 2) {
    return std::nullopt;
  }
  const auto high = static_cast<unsigned char>(key[key.size() - 2]);
  const auto low = static_cast<unsigned char>(key.back());
  const std::size_t slot = std::size_t{high} << 8 | low;
  return slot < Journal::kEpochSlots ? std::optional(slot) : std::nullopt;
}

}  // namespace

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  return std::getline(file, text) && text.size() <= 64 ? text : std::string();
}

Expected<void> remove_journal(const std::string& directory) {
  auto lock = lock_journal(directory);
  if (!lock) {
    return fail(std::move(lock).error());
  }
  std::error_code code;
  std::filesystem::remove_all(directory, code);
  if (!code) {
    std::filesystem::remove(directory + ".lock", code);
  }
  if (code) {
    return fail(journal_errno(directory, code.value()));
  }
  return {};
}

Expected<void> Journal::set_max_bytes(std::uint64_t bytes) {
  if (bytes < kLeastBytes || bytes > kMostBytes) {
    return fail(Errc::kConfig, "journal_max_bytes is not between 1 MiB and 8 GiB");
  }
  params_.max_bytes = bytes / kMapStep * kMapStep;
  space_checked_ = {};
  return {};
}

Expected<std::unique_ptr<Journal>> Journal::open(JournalParams params) {
  while (params.directory.size() > 1 && params.directory.back() == '/') {
    params.directory.pop_back();
  }
  std::unique_ptr<Journal> journal(new Journal(std::move(params)));
  auto opened = journal->start();
  if (!opened) {
    journal->closed_ = true;
    journal->close_lmdb();
    return fail(std::move(opened).error().at("journal"));
  }
  return journal;
}

Expected<void> Journal::start() {
  auto result = check_params(params_);
  if (result) {
    result = set_max_bytes(params_.max_bytes);
  }
  if (result) {
    result = make_journal_folder(params_.directory);
  }
  if (!result) {
    return result;
  }
  auto lock = lock_journal(params_.directory);
  if (!lock) {
    return fail(std::move(lock).error());
  }
  lock_.emplace(std::move(*lock));
  result = check_file(false);
  if (result) {
    result = open_lmdb();
  }
  if (!result && result.error().code() == Errc::kCorrupt) {
    close_lmdb();
    result = begin_anew(std::string(result.error().message()));
  }
  return result;
}

Expected<void> Journal::check_file(bool reopening) {
  fresh_ = true;
  marked_ = false;
  other_tables_.clear();
  std::fill(epochs_.begin(), epochs_.end(), 0);
  auto file = open_journal_data(params_.directory);
  if (!file) {
    return fail(std::move(file).error());
  }
  if (!file->is_open()) {
    return {};
  }
  std::optional<std::string> boot;
  bool clean = false;
  const auto on_meta = [&](std::string_view key, const JournalRow& row) -> Expected<void> {
    if (const auto slot = epoch_slot(key)) {
      epochs_[*slot] = row.epoch;
    } else if (key == kStateKey && row.epoch == kJournalSchema) {
      boot = row.rv;
      clean = row.payload == "clean";
    } else {
      return fail(Errc::kCorrupt, "schema " + std::to_string(row.epoch) + " is not known");
    }
    return {};
  };
  const auto on_row = [&](std::string_view table, std::string_view key,
                          std::string_view value) -> Expected<void> {
    auto row = parse_journal_row(key, value);
    if (!row) {
      return fail(std::move(row).error());
    }
    if (table == kMetaTable) {
      return on_meta(key, *row);
    }
    if (!split_journal_key(key)) {
      return fail(Errc::kCorrupt, "a key of another shape");
    }
    const auto& known = params_.tables;
    if (std::find(known.begin(), known.end(), table) == known.end() &&
        (other_tables_.empty() || other_tables_.back() != table)) {
      other_tables_.emplace_back(table);
    }
    return {};
  };
  auto report = check_pages(file->get(), kRowHeader + kMaxRowRv + kMaxRowPayload, on_row);
  if (!report) {
    return fail(std::move(report).error());
  }
  fresh_ = report->txn == 0;
  const bool this_boot = boot && !boot->empty() && *boot == params_.boot_id;
  if (!fresh_ && !boot) {
    return fail(Errc::kCorrupt, "schema is missing");
  }
  if (!fresh_ && !reopening && !clean && !this_boot) {
    return fail(Errc::kCorrupt, "boot id is another one and the journal was not closed");
  }
  if (other_tables_.size() + params_.tables.size() + 1 > kMostTables) {
    return fail(Errc::kCorrupt, "too many tables");
  }
  marked_ = this_boot && !clean;
  return {};
}

Expected<void> Journal::open_lmdb() {
  const std::string path = params_.directory + "/data.mdb";
  struct stat status {};
  const std::uint64_t there =
      ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  map_bytes_ =
      std::min(std::max(params_.start_map, kLeastBytes) / kMapStep * kMapStep, params_.max_bytes);
  while (map_bytes_ < params_.max_bytes && map_bytes_ < there) {
    map_bytes_ = std::min(map_bytes_ * 2, params_.max_bytes);
  }
  if (there + reserve() > params_.max_bytes) {
    // Near or above a limit that was lowered: what is in it can be read and erased.
    map_bytes_ = std::max(map_bytes_, (there + reserve()) / kMapStep * kMapStep);
  }
  int code = mdb_env_create(&env_);
  if (code == 0) {
    code = mdb_env_set_mapsize(env_, map_bytes_);
  }
  if (code == 0) {
    code = mdb_env_set_maxdbs(env_, kMostTables);
  }
  if (code == 0) {
    // One process by lock_, one thread by contract: LMDB's own lock file could only be damaged.
    code = mdb_env_open(env_, params_.directory.c_str(), MDB_NOTLS | MDB_NOLOCK | MDB_NOSYNC, 0600);
  }
  MDB_txn* txn = nullptr;
  if (code == 0) {
    code = mdb_txn_begin(env_, nullptr, 0, &txn);
  }
  if (code != 0) {
    return fail(note_code(code, "open"));
  }
  if (auto opened = open_tables(txn); !opened) {
    mdb_txn_abort(txn);
    return opened;
  }
  if (code = mdb_txn_commit(txn); code != 0) {
    return fail(note_code(code, "open"));
  }
  auto file = open_journal_data(params_.directory);
  if (!file || !file->is_open()) {
    return file ? fail(Errc::kIo, "data.mdb is gone") : fail(std::move(file).error());
  }
  {
    const std::scoped_lock lock(file_mutex_);
    file_ = std::move(*file);
  }
  file_bytes_ = 0;
  ballast_end_ = 0;
  keep_ballast();
  if (!marked_) {
    // On the disk before anything else is: a clean journal must not look so any more.
    auto marked = write_state(false);
    if (marked) {
      marked = sync();
    }
    if (!marked) {
      return marked;
    }
    marked_ = true;
  }
  return {};
}

Expected<void> Journal::open_tables(MDB_txn* txn) {
  int code = mdb_dbi_open(txn, kMetaTable.data(), MDB_CREATE, &meta_);
  tables_.clear();
  for (const auto* names : {&params_.tables, &other_tables_}) {
    for (const std::string& name : *names) {
      tables_.push_back(0);
      if (code == 0) {
        code = mdb_dbi_open(txn, name.c_str(), MDB_CREATE, &tables_.back());
      }
    }
  }
  if (code != 0) {
    return fail(note_code(code, "tables"));
  }
  return {};
}

Expected<void> Journal::write_meta(std::string_view key, const JournalRow& row) {
  std::string bytes;
  if (auto encoded = append_journal_row(bytes, key, row); !encoded) {
    return encoded;
  }
  int code = begin();
  if (code == 0) {
    MDB_val db_key{key.size(), const_cast<char*>(key.data())};
    MDB_val db_value{bytes.size(), bytes.data()};
    code = mdb_put(write_, meta_, &db_key, &db_value, 0);
  }
  if (code != 0) {
    abort();
    return fail(note_code(code, "meta"));
  }
  return {};
}

Expected<void> Journal::write_state(bool clean) {
  auto written = write_meta(kStateKey, {kJournalSchema, params_.boot_id, clean ? "clean" : "open"});
  if (!written) {
    return written;
  }
  if (const int code = end(); code != 0) {
    return fail(note_code(code, "meta"));
  }
  return {};
}

Expected<void> Journal::begin_anew(const std::string& reason) {
  auto aside = set_journal_aside(params_.directory);
  if (!aside) {
    return fail(std::move(aside).error());
  }
  rebuilt_ = JournalRebuilt{reason, std::move(*aside)};
  ++rebuilds_;
  damaged_ = false;
  limit_reached_ = disk_full_ = false;
  reason_.clear();
  sync_error_ = 0;
  fresh_ = true;
  marked_ = false;
  in_use_ = 0;
  other_tables_.clear();
  auto result = make_journal_folder(params_.directory);
  return result ? open_lmdb() : std::move(result);
}

Expected<void> Journal::rebuild(std::string_view reason) {
  if (closed_) {
    return fail(Errc::kIo, "the journal is closed");
  }
  abort();
  forget_turn();
  close_lmdb();
  const std::vector<std::uint64_t> epochs = epochs_;
  std::fill(epochs_.begin(), epochs_.end(), 0);
  auto result = begin_anew(std::string(reason));
  for (std::size_t slot = 0; result && slot < epochs.size(); ++slot) {
    result = note_epoch(slot, epochs[slot]);
  }
  if (result) {
    result = finish();
  }
  if (!result) {
    note_damage(std::string(result.error().message()));
  }
  return result;
}

Expected<void> Journal::reopen() {
  abort();
  close_lmdb();
  const std::vector<std::uint64_t> epochs = epochs_;
  auto result = check_file(true);
  epochs_ = epochs;
  if (result) {
    result = open_lmdb();
  }
  if (!result) {
    close_lmdb();
    note_damage(std::string(result.error().message()));
  }
  return result;
}

void Journal::close_lmdb() noexcept {
  abort();
  if (reader_ != nullptr) {
    mdb_txn_abort(reader_);
    reader_ = nullptr;
  }
  if (env_ != nullptr) {
    mdb_env_close(env_);
    env_ = nullptr;
  }
  const std::scoped_lock lock(file_mutex_);
  file_.close();
}

Expected<void> Journal::note_epoch(std::size_t slot, std::uint64_t epoch) {
  if (slot >= kEpochSlots) {
    return fail(Errc::kInvalid, "no such epoch slot");
  }
  if (epoch <= epochs_[slot]) {
    return {};
  }
  auto usable_now = usable();
  if (!usable_now) {
    return usable_now;
  }
  const std::string key = epoch_key(slot);
  const std::size_t at = turn_bytes_.size();
  turn_bytes_.append(key);
  if (auto encoded = append_journal_row(turn_bytes_, key, {epoch, {}, {}}); !encoded) {
    return encoded;
  }
  auto entered = enter(at, key.size(), kMetaOp, false);
  if (entered) {
    epochs_[slot] = epoch;
  }
  return entered;
}

Expected<void> Journal::close() {
  if (closed_) {
    return {};
  }
  auto result = usable();
  if (result) {
    result = finish();
  }
  // What could not be stored is told, and is no reason to distrust the rest.
  const bool trusted = !damaged_ && env_ != nullptr;
  auto marked = trusted ? sync() : Expected<void>();
  if (trusted && marked) {
    marked = write_state(true);
  }
  if (trusted && marked) {
    marked = sync();
  }
  close_lmdb();
  lock_.reset();
  closed_ = true;
  return result ? std::move(marked) : std::move(result);
}

}  // namespace kintsugi::workers
