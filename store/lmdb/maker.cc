#include "store/lmdb/maker.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/row_writer.h"

namespace kintsugi::store {
namespace {

constexpr std::uint64_t kMakerMap = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);

}  // namespace

struct StoreMaker::Parts {
  std::string directory;
  std::unique_ptr<Environment> environment;
  std::optional<RowWriter> rows;
  std::string record;
};

StoreMaker::StoreMaker(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StoreMaker::~StoreMaker() = default;

Expected<std::unique_ptr<StoreMaker>> StoreMaker::make(const std::string& directory) {
  std::error_code code;
  if (std::filesystem::exists(directory + "/data.mdb", code)) {
    return fail(Errc::kConfig, directory + ": a store is there");
  }
  return open(directory);
}

Expected<std::unique_ptr<StoreMaker>> StoreMaker::again(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::exists(directory + "/data.mdb", code)) {
    return fail(Errc::kConfig, directory + ": no store is there");
  }
  return open(directory);
}

Expected<std::unique_ptr<StoreMaker>> StoreMaker::open(const std::string& directory) {
  EnvironmentParams params{directory, kMakerMap};
  params.no_sync = true;  // until finish()
  auto environment = Environment::open(std::move(params));
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto parts = std::make_unique<Parts>();
  parts->directory = directory;
  parts->environment = std::move(*environment);
  parts->rows.emplace(*parts->environment);
  return std::unique_ptr<StoreMaker>(new StoreMaker(std::move(parts)));
}

Expected<void> StoreMaker::put(const EntryView& row) {
  std::string& record = parts_->record;
  record.resize(layout::kVersionHeader + row.value.size());
  layout::encode_version(record.data(), row.key, {row.created, row.modified, row.value});
  const int code = parts_->rows->put(parts_->environment->tables().current, row.key, record);
  return code == 0 ? Expected<void>() : fail(lmdb_error(code, parts_->directory));
}

Expected<void> StoreMaker::remove(std::string_view key) {
  const int code = parts_->rows->remove(parts_->environment->tables().current, key);
  return code == 0 ? Expected<void>() : fail(lmdb_error(code, parts_->directory));
}

Expected<void> StoreMaker::keep_only(const std::unordered_set<std::string>& keys) {
  std::vector<std::string> others;
  if (const int code = parts_->rows->commit(); code != 0) {
    return fail(lmdb_error(code, parts_->directory));
  }
  {
    auto txn = parts_->environment->read();
    if (!txn) {
      return fail(std::move(txn.error()));
    }
    LmdbCursor cursor;
    int code = cursor.open(txn->get(), parts_->environment->tables().current);
    for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0;
         code = cursor.move(MDB_NEXT)) {
      std::string key(cursor.key());
      if (!keys.contains(key)) {
        others.push_back(std::move(key));
      }
    }
    if (code != MDB_NOTFOUND) {
      return fail(lmdb_error(code, parts_->directory));
    }
  }
  for (const std::string& key : others) {
    if (auto removed = remove(key); !removed) {
      return removed;
    }
  }
  return {};
}

Expected<std::uint64_t> StoreMaker::finish(Revision revision) {
  const Tables& tables = parts_->environment->tables();
  int code = parts_->rows->put(tables.meta, "state", layout::encode_state({revision, revision}));
  code = code != 0 ? code : parts_->rows->commit();
  code = code != 0 ? code : mdb_env_sync(parts_->environment->get(), 1);
  if (code != 0) {
    return fail(lmdb_error(code, parts_->directory));
  }
  auto txn = parts_->environment->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  return reader::row_count(txn->get(), tables.current);
}

}  // namespace kintsugi::store
