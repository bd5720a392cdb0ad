#include "store/lmdb/internal/environment.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/sync_path.h"
#include "store/lmdb/internal/layout.h"

namespace kintsugi::store {
namespace {

constexpr std::size_t kPooledReaders = 64;
constexpr int kDamagedExit = 70;
constexpr std::uint64_t kNearlyFull = std::uint64_t{16} << 20;

int compare_history(const MDB_val* a, const MDB_val* b) noexcept {
  return layout::compare_history_keys(to_view(*a), to_view(*b));
}

Error system_error(const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return Error(full ? Errc::kFull : Errc::kIo,
               what + ": " + std::error_code(code, std::generic_category()).message());
}

Expected<void> sync_directory(const std::string& path) {
  const int fault = sync_path(path);
  return fault == 0 ? Expected<void>() : fail(system_error(path, fault));
}

Expected<void> make_directory(const std::string& path) {
  const auto parent = std::filesystem::absolute(path).parent_path();
  std::error_code code;
  std::filesystem::create_directories(parent, code);
  if (code) {
    return fail(Errc::kIo, parent.string() + ": " + code.message());
  }
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) {
      return {};
    }
    return fail(system_error(path, errno));
  }
  return sync_directory(parent.string());
}

/// LMDB found its file damaged while it was open, and must not go on.
void end_by_assertion(MDB_env* env, const char* text) {
  const char* path = "";
  (void)mdb_env_get_path(env, &path);
  log_error("the store is damaged, the process ends; its next start says what is left",
            {{"store", path}, {"assertion", text}});
  ::_exit(kDamagedExit);
}

}  // namespace

Error lmdb_error(int code, std::string_view what) {
  Errc errc = Errc::kIo;
  switch (code) {
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      errc = Errc::kFull;
      break;
    case MDB_TXN_FULL:
      errc = Errc::kInvalid;
      break;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_CURSOR_FULL:
      errc = Errc::kCorrupt;
      break;
    case MDB_READERS_FULL:
      errc = Errc::kOverloaded;
      break;
    default:
      break;
  }
  return Error(errc, std::string(what) + ": " + mdb_strerror(code));
}

ReadTxn::~ReadTxn() {
  if (txn_ != nullptr) {
    owner_->release(txn_);
  }
}

Expected<std::unique_ptr<Environment>> Environment::open(EnvironmentParams params) {
  std::unique_ptr<Environment> environment(new Environment(std::move(params)));
  const EnvironmentParams& made = environment->params_;
  auto opened = made.read_only ? Expected<void>() : make_directory(made.directory);
  if (opened && !made.beside_owner) {
    auto lock = lock_store(made.directory, !made.read_only);
    if (!lock) {
      opened = fail(std::move(lock.error()));
    } else if (*lock) {
      environment->lock_.emplace(std::move(**lock));
    }
  }
  if (opened) {
    opened = environment->open_lmdb();
  }
  if (opened && !made.read_only) {
    opened = sync_directory(made.directory);
  }
  if (!opened) {
    return fail(std::move(opened).error().at("store " + made.directory));
  }
  return environment;
}

Environment::~Environment() { close_lmdb(); }

Expected<std::optional<FileLock>> lock_store(const std::string& directory, bool create) {
  auto lock = FileLock::take(directory + "/store.lock",
                             create ? LockFile::kNamesHolder : LockFile::kIsLeftAlone);
  if (!lock && lock.error().code() == Errc::kNotFound && !create) {
    return std::nullopt;
  }
  if (!lock && lock.error().code() == Errc::kConfig) {
    return fail(Errc::kConfig, "already " + std::string(lock.error().message()) +
                                   "; a store can be open in one process only");
  }
  if (!lock) {
    return fail(std::move(lock.error()));
  }
  return std::optional(std::move(*lock));
}

Expected<void> Environment::open_lmdb() {
  int code = mdb_env_create(&env_);
  if (code == 0) {
    code = mdb_env_set_mapsize(env_, params_.map_bytes);
  }
  if (code == 0) {
    code = mdb_env_set_maxdbs(env_, 8);
  }
  if (code == 0) {
    code = mdb_env_set_maxreaders(env_, params_.max_readers);
  }
  if (code == 0) {
    code = mdb_env_set_assert(env_, &end_by_assertion);
  }
  if (code == 0) {
    const unsigned flags =
        MDB_NOTLS | (params_.no_sync ? static_cast<unsigned>(MDB_NOSYNC) : 0U) |
        (params_.read_only ? static_cast<unsigned>(MDB_RDONLY) : 0U) |
        (params_.read_only && !params_.beside_owner ? static_cast<unsigned>(MDB_NOLOCK) : 0U);
    code = mdb_env_open(env_, params_.directory.c_str(), flags, 0600);
  }
  if (code != 0) {
    close_lmdb();
    return fail(lmdb_error(code, "open"));
  }
  map_guard_.emplace(params_.directory + "/data.mdb");
  int stale = 0;
  code = params_.read_only ? 0 : mdb_reader_check(env_, &stale);
  MDB_txn* txn = nullptr;
  if (code == 0) {
    code = mdb_txn_begin(env_, nullptr, params_.read_only ? MDB_RDONLY : 0U, &txn);
  }
  if (code != 0) {
    close_lmdb();
    return fail(lmdb_error(code, "open"));
  }
  auto opened = open_tables(txn);
  if (!opened) {
    mdb_txn_abort(txn);
  } else if (code = mdb_txn_commit(txn); code != 0) {
    opened = fail(lmdb_error(code, "open"));
  }
  if (!opened) {
    close_lmdb();
  }
  return opened;
}

Expected<void> Environment::open_tables(MDB_txn* txn) {
  const unsigned make = params_.read_only ? 0U : static_cast<unsigned>(MDB_CREATE);
  int code = mdb_dbi_open(txn, "meta", make, &tables_.meta);
  MDB_val key = to_val("format");
  MDB_val value{};
  if (code == 0) {
    code = mdb_get(txn, tables_.meta, &key, &value);
  }
  const std::string format = std::to_string(layout::kFormat);
  if (code == 0 && to_view(value) != format) {
    return fail(Errc::kConfig, "has format " + std::string(to_view(value)) +
                                   ", this program knows format " + format + " only");
  }
  MDB_val moved_key = to_val(kMoved);
  MDB_val moved{};
  const bool looks_only = params_.read_only && !params_.beside_owner;
  if (code == 0 && !params_.opens_moved && !looks_only &&
      mdb_get(txn, tables_.meta, &moved_key, &moved) == 0) {
    return fail(Errc::kConfig,
                "has moved to " + std::string(to_view(moved)) + "; --force opens it nevertheless");
  }
  if (code == MDB_NOTFOUND && !params_.read_only) {
    const std::string state = layout::encode_state({});
    MDB_val state_key = to_val("state");
    MDB_val state_value = to_val(state);
    value = to_val(format);
    code = mdb_put(txn, tables_.meta, &key, &value, 0);
    if (code == 0) {
      code = mdb_put(txn, tables_.meta, &state_key, &state_value, 0);
    }
    const std::string incarnation = std::to_string(random_number());
    MDB_val incarnation_key = to_val(kIncarnation);
    MDB_val incarnation_value = to_val(incarnation);
    if (code == 0) {
      code = mdb_put(txn, tables_.meta, &incarnation_key, &incarnation_value, 0);
    }
  }
  if (code == 0) {
    code = mdb_dbi_open(txn, "current", make, &tables_.current);
  }
  if (code == 0) {
    code = mdb_dbi_open(txn, "history", make, &tables_.history);
  }
  if (code == 0) {
    code = mdb_set_compare(txn, tables_.history, &compare_history);
  }
  if (code == 0) {
    code = mdb_dbi_open(txn, "log", make, &tables_.log);
  }
  if (code == 0) {
    code = mdb_dbi_open(txn, "books", make, &tables_.books);
    if (code == MDB_NOTFOUND && params_.read_only) {
      tables_.books = Tables::kNone;
      code = 0;
    }
  }
  if (code != 0) {
    return fail(lmdb_error(code, "tables"));
  }
  return {};
}

void Environment::close_lmdb() noexcept {
  for (MDB_txn* txn : pool_) {
    mdb_txn_abort(txn);
  }
  pool_.clear();
  map_guard_.reset();
  if (env_ != nullptr) {
    mdb_env_close(env_);
    env_ = nullptr;
  }
}

Expected<void> Environment::reopen() {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    idle_.wait(lock, [this] { return active_ == 0; });
  }
  // Nobody else comes here now: reads are refused, and only the caller writes.
  close_lmdb();
  auto opened = open_lmdb();
  const std::lock_guard lock(mutex_);
  closed_ = !opened;
  return opened;
}

bool Environment::disk_is_full() const noexcept {
  struct statvfs space {};
  return ::statvfs(params_.directory.c_str(), &space) == 0 &&
         std::uint64_t{space.f_bavail} * space.f_frsize < kNearlyFull;
}

Expected<ReadTxn> Environment::read() {
  MDB_txn* txn = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return fail(Errc::kIo, "the store is recovering from an I/O error");
    }
    ++active_;
    if (!pool_.empty()) {
      txn = pool_.back();
      pool_.pop_back();
    }
  }
  int code = 0;
  if (txn == nullptr) {
    code = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn);
  } else if (code = mdb_txn_renew(txn); code != 0) {
    mdb_txn_abort(txn);
  }
  if (code == 0) {
    return ReadTxn(*this, txn);
  }
  const std::lock_guard lock(mutex_);
  --active_;
  idle_.notify_all();
  return fail(lmdb_error(code, "read"));
}

void Environment::release(MDB_txn* txn) noexcept {
  mdb_txn_reset(txn);
  const std::lock_guard lock(mutex_);
  if (pool_.size() < kPooledReaders && !closed_) {
    pool_.push_back(txn);
  } else {
    mdb_txn_abort(txn);
  }
  if (--active_ == 0) {
    idle_.notify_all();
  }
}

}  // namespace kintsugi::store
