#include "store/lmdb/handover.h"

#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "store/lmdb/internal/handover_rows.h"
#include "store/lmdb/internal/snapshot_parts.h"

namespace kintsugi::store {
namespace {

constexpr Duration kStopsWithin = seconds(3);
constexpr Duration kPoll = milliseconds(1);
constexpr std::size_t kTryCharacters = 16;

/// All that `change` does, or nothing.
Expected<void> write(Environment& environment,
                     const std::function<Expected<int>(MDB_txn*)>& change) {
  MDB_txn* txn = nullptr;
  if (const int code = mdb_txn_begin(environment.get(), nullptr, 0, &txn); code != 0) {
    return fail(lmdb_error(code, "handover"));
  }
  auto changed = change(txn);
  if (!changed || *changed != 0) {
    mdb_txn_abort(txn);
    return changed ? fail(lmdb_error(*changed, "handover")) : fail(std::move(changed.error()));
  }
  const int code = mdb_txn_commit(txn);
  return code == 0 ? Expected<void>() : fail(lmdb_error(code, "handover"));
}

}  // namespace

LmdbHandover::LmdbHandover(std::unique_ptr<LmdbSnapshot> snapshot)
    : snapshot_(std::move(snapshot)) {}
LmdbHandover::~LmdbHandover() { release(); }

Environment& LmdbHandover::environment() noexcept { return *snapshot_->parts_->environment; }

Expected<std::unique_ptr<LmdbHandover>> LmdbHandover::open(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::exists(directory + "/data.mdb", code)) {
    return fail(Errc::kConfig, directory + ": no store is there");
  }
  if (const auto lock = lock_store(directory, false); lock) {
    return fail(Errc::kConfig, directory + ": nobody has it open; without --online");
  } else if (lock.error().code() != Errc::kConfig) {
    return fail(lock.error().clone());
  }
  EnvironmentParams params{directory, kSnapshotMap};
  params.beside_owner = true;
  auto environment = Environment::open(std::move(params));
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto parts = std::make_unique<LmdbSnapshot::Parts>();
  parts->environment = std::move(*environment);
  return std::unique_ptr<LmdbHandover>(
      new LmdbHandover(std::unique_ptr<LmdbSnapshot>(new LmdbSnapshot(std::move(parts)))));
}

Expected<void> LmdbHandover::stop_writes() {
  const Tables& tables = environment().tables();
  const std::string own = random_suffix(kTryCharacters);
  auto asked = write(environment(), [&](MDB_txn* txn) -> Expected<int> {
    return set_meta_row(txn, tables, kMoving, own);
  });
  if (!asked) {
    return asked;
  }
  try_ = own;
  for (const TimePoint end = Clock::now() + kStopsWithin; Clock::now() < end;) {
    if (auto pinned = snapshot_->pin(); !pinned) {
      return pinned;
    }
    if (meta_row(snapshot_->parts_->txn->get(), tables, kStopped) == own) {
      return {};
    }
    std::this_thread::sleep_for(kPoll);
  }
  release();
  return fail(Errc::kTimeout, "who serves the store does not stop its writes");
}

Expected<void> LmdbHandover::take(const std::string& place, const std::string& note) {
  const Tables& tables = environment().tables();
  auto taken = write(environment(), [&](MDB_txn* txn) -> Expected<int> {
    if (try_.empty() || meta_row(txn, tables, kMoving) != try_) {
      return fail(Errc::kTimeout, "who serves the store has gone on: it took too long");
    }
    for (const auto& [name, value] :
         {std::pair{kMoved, place}, std::pair{kMovedNote, note}, std::pair{kMoving, std::string()},
          std::pair{kStopped, std::string()}}) {
      if (const int code = set_meta_row(txn, tables, name, value); code != 0) {
        return code;
      }
    }
    return 0;
  });
  if (taken) {
    try_.clear();
  }
  return taken;
}

void LmdbHandover::release() {
  const std::string own = std::exchange(try_, {});
  if (own.empty()) {
    return;
  }
  const Tables& tables = environment().tables();
  (void)write(environment(), [&](MDB_txn* txn) -> Expected<int> {
    if (meta_row(txn, tables, kMoving) != own) {
      return 0;
    }
    const int code = set_meta_row(txn, tables, kMoving, {});
    return code != 0 ? code : set_meta_row(txn, tables, kStopped, {});
  });
}

}  // namespace kintsugi::store
