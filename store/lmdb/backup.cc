#include "store/lmdb/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/sync_path.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/row_writer.h"
#include "store/lmdb/internal/verify.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMapBytes = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);
constexpr const char* kDataFile = "data.mdb";

/// Closes an environment that was opened for copying.
class CopySource {
 public:
  CopySource() = default;
  CopySource(const CopySource&) = delete;
  CopySource& operator=(const CopySource&) = delete;
  ~CopySource() {
    if (env_ != nullptr) {
      mdb_env_close(env_);
    }
  }
  [[nodiscard]] int open(const std::string& directory) {
    int code = mdb_env_create(&env_);
    code = code != 0 ? code : mdb_env_set_maxdbs(env_, 8);
    code = code != 0 ? code : mdb_env_set_mapsize(env_, kMapBytes);
    return code != 0 ? code : mdb_env_open(env_, directory.c_str(), MDB_RDONLY | MDB_NOTLS, 0600);
  }
  /// The format that the store says it has; "" when it says none.
  [[nodiscard]] std::string format() const {
    MDB_txn* txn = nullptr;
    if (mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn) != 0) {
      return {};
    }
    std::string out;
    MDB_dbi meta = 0;
    MDB_val key = to_val("format");
    MDB_val value{};
    if (mdb_dbi_open(txn, "meta", 0, &meta) == 0 && mdb_get(txn, meta, &key, &value) == 0) {
      out = to_view(value);
    }
    mdb_txn_abort(txn);
    return out;
  }
  [[nodiscard]] MDB_env* get() const noexcept { return env_; }

 private:
  MDB_env* env_ = nullptr;
};

Expected<void> check_folders(const std::string& from, const std::string& to) {
  std::error_code code;
  if (!fs::exists(fs::path(from) / kDataFile, code)) {
    return fail(Errc::kConfig, from + ": no store is there (" + kDataFile + " is missing)");
  }
  if (fs::exists(to, code) && !fs::is_empty(to, code)) {
    return fail(Errc::kConfig, to + ": is not empty");
  }
  return {};
}

Error io_error(const std::string& what, int code) {
  return Error(code == ENOSPC || code == EDQUOT ? Errc::kFull : Errc::kIo,
               what + ": " + std::strerror(code));
}

Expected<void> sync_folder(const std::string& path) {
  const int fault = sync_path(path);
  return fault == 0 ? Expected<void>() : fail(io_error(path, fault));
}

Expected<void> copy_file(MDB_env* env, const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return fail(io_error(path, errno));
  }
  const int copied = mdb_env_copyfd2(env, fd, MDB_CP_COMPACT);
  const int synced = copied == 0 && ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (copied != 0) {
    return fail(lmdb_error(copied, path));
  }
  if (synced != 0) {
    return fail(io_error(path, synced));
  }
  return {};
}

/// The copy as a store: what it shows, and whether it holds.
Expected<BackupReport> inspect(const std::string& directory) {
  auto environment = Environment::open({directory, kMapBytes});
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto txn = (*environment)->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  auto state = reader::state(txn->get(), (*environment)->tables());
  if (!state) {
    return fail(std::move(state.error()));
  }
  auto found = verify_tables(txn->get(), (*environment)->tables(), *state);
  if (!found) {
    return fail(std::move(found.error()));
  }
  return BackupReport{state->revision, found->live, found->problem_count};
}

Expected<RestoreReport> copy_live(Environment& from, Environment& to) {
  auto txn = from.read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  const auto state = reader::state(txn->get(), from.tables());
  if (!state) {
    return fail(state.error().clone());
  }
  RestoreReport report;
  report.revision = state->revision + kRestoreJump;
  RowWriter rows(to);
  LmdbCursor cursor;
  int code = cursor.open(txn->get(), from.tables().current);
  for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0; code = cursor.move(MDB_NEXT)) {
    if (!layout::decode_version(cursor.key(), cursor.value())) {
      report.damaged.emplace_back(cursor.key());
      continue;
    }
    if (const int put = rows.put(to.tables().current, cursor.key(), cursor.value()); put != 0) {
      return fail(lmdb_error(put, "restore"));
    }
    ++report.keys;
  }
  cursor.close();
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "backup"));
  }
  const std::string counter = layout::encode_state({report.revision, report.revision});
  code = rows.put(to.tables().meta, "state", counter);
  code = code != 0 ? code : rows.commit();
  if (code != 0) {
    return fail(lmdb_error(code, "restore"));
  }
  return report;
}

Expected<RestoreReport> restore_into(const std::string& backup, const std::string& directory) {
  auto from = Environment::open({backup, kMapBytes});
  if (!from) {
    return fail(std::move(from.error()));
  }
  auto to = Environment::open({directory, kMapBytes});
  if (!to) {
    return fail(std::move(to.error()));
  }
  return copy_live(**from, **to);
}

std::string parent_of(const std::string& path) {
  return fs::absolute(path).lexically_normal().parent_path().string();
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

}  // namespace

Expected<BackupReport> backup_store(const std::string& from, const std::string& to) {
  if (auto fine = check_folders(from, to); !fine) {
    return fail(std::move(fine.error()));
  }
  CopySource source;
  if (const int code = source.open(from); code != 0) {
    return fail(lmdb_error(code, from));
  }
  if (const std::string format = source.format(); format != std::to_string(layout::kFormat)) {
    return fail(Errc::kConfig, from + ": has format \"" + format +
                                   "\", this program knows format " +
                                   std::to_string(layout::kFormat) + " only");
  }
  std::error_code code;
  fs::create_directories(to, code);
  if (code) {
    return fail(Errc::kIo, to + ": " + code.message());
  }
  fs::permissions(to, fs::perms::owner_all, code);
  const std::string file = (fs::path(to) / kDataFile).string();
  if (auto copied = copy_file(source.get(), file); !copied) {
    fs::remove(file, code);
    return fail(std::move(copied.error()));
  }
  if (auto synced = sync_folder(to); !synced) {
    return fail(std::move(synced.error()));
  }
  return inspect(to);
}

Expected<RestoreReport> restore_store(const std::string& backup, const std::string& target) {
  const std::string to = without_slash(target);
  if (auto fine = check_folders(backup, to); !fine) {
    return fail(std::move(fine.error()));
  }
  const std::string partial = to + ".partial";
  std::error_code code;
  fs::remove_all(partial, code);
  auto report = restore_into(backup, partial);
  if (report) {
    fs::remove(to, code);  // an empty directory
    fs::rename(partial, to, code);
    if (code) {
      report = fail(Errc::kIo, to + ": " + code.message());
    } else if (auto synced = sync_folder(parent_of(to)); !synced) {
      return fail(std::move(synced.error()));
    }
  }
  if (!report) {
    fs::remove_all(partial, code);
  }
  return report;
}

}  // namespace kintsugi::store
