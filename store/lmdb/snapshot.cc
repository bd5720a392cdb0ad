#include "store/lmdb/snapshot.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "store/lmdb/internal/history_pins.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/snapshot_parts.h"

namespace kintsugi::store {
namespace {

constexpr unsigned kLooksAtClock = 64;  ///< rows between two looks

}  // namespace

Expected<std::optional<std::string>> LmdbSnapshot::Parts::read_slice(const std::string& from,
                                                                     const RowVisit& visit) {
  const auto state = reader::state(txn->get(), environment->tables());
  if (!state) {
    return fail(state.error().clone());
  }
  const TimePoint end = Clock::now() + slice;
  unsigned rows = 0;
  std::optional<std::string> next;
  Expected<void> visited;
  auto read = reader::range(
      txn->get(), environment->tables(), *state, {"", from, pinned},
      [&](const EntryView& row) {
        if (++rows % kLooksAtClock == 0 && Clock::now() >= end) {
          next = std::string(row.key);
          return false;
        }
        last = row.key;
        visited = visit(row);
        return visited.has_value();
      },
      true);
  if (!visited) {
    return fail(std::move(visited.error()));
  }
  if (!read) {
    return fail(std::move(read.error()));
  }
  return next;
}

std::optional<std::string> LmdbSnapshot::Parts::key_after_last() const {
  LmdbCursor cursor;
  int code = cursor.open(txn->get(), environment->tables().current);
  code = code != 0 ? code : cursor.seek(last.empty() ? last : last + '\0');
  return code == 0 ? std::optional(std::string(cursor.key())) : std::nullopt;
}

LmdbSnapshot::LmdbSnapshot(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LmdbSnapshot::~LmdbSnapshot() = default;

Expected<std::unique_ptr<LmdbSnapshot>> LmdbSnapshot::open(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::exists(directory + "/data.mdb", code)) {
    return fail(Errc::kConfig, directory + ": no store is there (data.mdb is missing)");
  }
  EnvironmentParams params{directory, kSnapshotMap};
  params.read_only = true;
  params.beside_owner = true;
  auto environment = Environment::open(std::move(params));
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto parts = std::make_unique<Parts>();
  parts->environment = std::move(*environment);
  parts->directory = directory;
  return std::unique_ptr<LmdbSnapshot>(new LmdbSnapshot(std::move(parts)));
}

Expected<void> LmdbSnapshot::pin() {
  parts_->txn.reset();
  auto txn = parts_->environment->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  parts_->txn.emplace(std::move(*txn));
  return {};
}

Expected<void> LmdbSnapshot::hold() {
  const auto pinned = revision();
  auto held = pinned ? HistoryPin::hold(parts_->directory, *pinned) : fail(pinned.error().clone());
  if (!held) {
    return fail(std::move(held.error()));
  }
  parts_->held.reset();
  parts_->held.emplace(std::move(*held));
  return {};
}

bool LmdbSnapshot::is_newest() const {
  MDB_envinfo info{};
  return mdb_env_info(parts_->environment->get(), &info) == 0 &&
         info.me_last_txnid == mdb_txn_id(parts_->txn->get());
}

Expected<Revision> LmdbSnapshot::revision() const {
  return reader::state(parts_->txn->get(), parts_->environment->tables())
      .map([](const layout::State& state) { return state.revision; });
}

std::string LmdbSnapshot::incarnation() const {
  MDB_val key = to_val(kIncarnation);
  MDB_val value{};
  return mdb_get(parts_->txn->get(), parts_->environment->tables().meta, &key, &value) == 0
             ? std::string(to_view(value))
             : std::string();
}

Expected<std::vector<std::string>> LmdbSnapshot::read(const RowVisit& visit) {
  const auto pinned = revision();
  if (!pinned) {
    return fail(pinned.error().clone());
  }
  parts_->pinned = *pinned;
  parts_->last.clear();
  std::vector<std::string> damaged;
  std::optional<std::string> from = std::string();
  bool is_pinned = true;
  while (from) {
    auto next = parts_->read_slice(*from, visit);
    if (next) {
      from = std::move(*next);
      is_pinned = false;
      if (auto again = from ? pin() : Expected<void>(); !again) {
        return fail(std::move(again.error()));
      }
      continue;
    }
    // In the pinned state a record that does not hold is a live one, and the next one.
    const auto bad = is_pinned && next.error().code() == Errc::kCorrupt ? parts_->key_after_last()
                                                                        : std::nullopt;
    if (!bad) {
      return fail(std::move(next.error()));
    }
    damaged.push_back(*bad);
    parts_->last = *bad;
    from = *bad + '\0';
  }
  parts_->txn.reset();
  parts_->held.reset();
  return damaged;
}

Expected<Store::Changes> LmdbSnapshot::changes(Revision after, std::size_t limit) const {
  MDB_txn* const txn = parts_->txn->get();
  const auto state = reader::state(txn, parts_->environment->tables());
  if (!state) {
    return fail(state.error().clone());
  }
  return reader::changes(txn, parts_->environment->tables(), *state, {}, after, limit);
}

std::uint64_t LmdbSnapshot::rows() const noexcept {
  return reader::row_count(parts_->txn->get(), parts_->environment->tables().current);
}

void LmdbSnapshot::set_slice_for_test(Duration slice) noexcept { parts_->slice = slice; }

Expected<bool> pin_together(const std::vector<LmdbSnapshot*>& snapshots, TimePoint deadline,
                            const OtherPins& others) {
  while (true) {
    for (LmdbSnapshot* one : snapshots) {
      if (auto pinned = one->pin(); !pinned) {
        return fail(std::move(pinned.error()));
      }
    }
    if (auto pinned = others.pin(); !pinned) {
      return fail(std::move(pinned.error()));
    }
    if (std::all_of(snapshots.begin(), snapshots.end(),
                    [](const LmdbSnapshot* one) { return one->is_newest(); })) {
      auto newest = others.are_newest();
      if (!newest || *newest) {
        return newest;
      }
    }
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::yield();
  }
}

}  // namespace kintsugi::store
