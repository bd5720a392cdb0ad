#include "store/lmdb/source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/handover_rows.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/internal/reader.h"

namespace kintsugi::store {
namespace {

constexpr std::uint64_t kSourceMap = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);

std::string file_of(const std::string& directory) { return directory + "/data.mdb"; }

Expected<std::unique_ptr<Environment>> open_forced(const std::string& directory, bool beside) {
  EnvironmentParams params{directory, kSourceMap};
  params.opens_moved = true;
  params.read_only = beside;
  params.beside_owner = beside;
  return Environment::open(std::move(params));
}

std::string row_of(Environment& environment, const char* name) {
  auto txn = environment.read();
  return txn ? meta_row(txn->get(), environment.tables(), name) : std::string();
}

}  // namespace

struct LmdbSource::Parts {
  std::string directory;
  std::unique_ptr<Environment> environment;
};

LmdbSource::LmdbSource(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LmdbSource::~LmdbSource() = default;

Expected<std::unique_ptr<LmdbSource>> LmdbSource::open(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::exists(file_of(directory), code)) {
    return fail(Errc::kConfig, directory + ": no store is there");
  }
  {
    const auto lock = lock_store(directory, true);  // nobody writes while the pages are read
    if (!lock) {
      return fail(lock.error().clone().at(directory));
    }
    const auto pages = walk_file(file_of(directory));
    if (!pages) {
      return fail(pages.error().clone());
    }
    if (!pages->sound()) {
      return fail(Errc::kCorrupt, directory + ": is damaged; `kintsugi store check` says where");
    }
  }
  auto environment = open_forced(directory, false);
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto parts = std::make_unique<Parts>();
  parts->directory = directory;
  parts->environment = std::move(*environment);
  return std::unique_ptr<LmdbSource>(new LmdbSource(std::move(parts)));
}

Expected<Revision> LmdbSource::revision() const {
  auto txn = parts_->environment->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  return reader::state(txn->get(), parts_->environment->tables())
      .map([](const layout::State& state) { return state.revision; });
}

std::string LmdbSource::moved_to() const { return row_of(*parts_->environment, kMoved); }

std::string LmdbSource::incarnation() const { return row_of(*parts_->environment, kIncarnation); }

Expected<void> LmdbSource::each(const RowVisit& visit) const {
  auto txn = parts_->environment->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  LmdbCursor cursor;
  int code = cursor.open(txn->get(), parts_->environment->tables().current);
  for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0; code = cursor.move(MDB_NEXT)) {
    const auto row = layout::decode_version(cursor.key(), cursor.value());
    if (!row) {
      std::string key(cursor.key());
      std::replace(key.begin(), key.end(), '\0', '/');
      return fail(Errc::kCorrupt, "the record of " + key + " is damaged");
    }
    if (auto seen = visit({cursor.key(), row->value, row->created, row->second}); !seen) {
      return seen;
    }
  }
  return code == MDB_NOTFOUND ? Expected<void>() : fail(lmdb_error(code, parts_->directory));
}

Expected<void> LmdbSource::mark_moved(const std::string& place) {
  MDB_txn* txn = nullptr;
  const Tables& tables = parts_->environment->tables();
  int code = mdb_txn_begin(parts_->environment->get(), nullptr, 0, &txn);
  code = code != 0 ? code : set_meta_row(txn, tables, kMoved, place);
  code = code != 0 ? code : set_meta_row(txn, tables, kMovedNote, {});
  if (code != 0) {
    mdb_txn_abort(txn);
  } else {
    code = mdb_txn_commit(txn);
  }
  return code == 0 ? Expected<void>() : fail(lmdb_error(code, parts_->directory));
}

std::optional<Moved> moved_of(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::exists(file_of(directory), code)) {
    return std::nullopt;
  }
  const auto pages = walk_file(file_of(directory));
  if (!pages || !pages->sound()) {
    return std::nullopt;
  }
  auto environment = open_forced(directory, true);
  Moved moved;
  if (environment) {
    moved = {row_of(**environment, kMoved), row_of(**environment, kMovedNote)};
  }
  return moved.place.empty() ? std::nullopt : std::optional(std::move(moved));
}

}  // namespace kintsugi::store
