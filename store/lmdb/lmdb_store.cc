#include "store/lmdb/lmdb_store.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/internal/subscribers.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/verify.h"
#include "store/lmdb/internal/writer.h"

namespace kintsugi::store {
namespace {

constexpr std::uint64_t kMinWorkingSpace = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxWorkingSpace = std::uint64_t{64} << 20;
constexpr Duration kLongRead = seconds(5);

std::uint64_t map_bytes(std::uint64_t limit) {
  constexpr std::uint64_t kUnit = 64 * 1024;  // a multiple of every page size
  const std::uint64_t space = std::clamp(limit, kMinWorkingSpace, kMaxWorkingSpace);
  return (limit + space + kUnit - 1) / kUnit * kUnit;
}

struct Snapshot {
  ReadTxn txn;
  layout::State state;
};

Expected<Snapshot> take_snapshot(Environment& environment, SharedState& shared) {
  auto txn = environment.read();
  if (!txn) {
    return fail(std::move(txn).error());
  }
  auto state = reader::state(txn->get(), environment.tables());
  if (!state) {
    return fail(std::move(state).error());
  }
  shared.raise_current(state->revision);
  return Snapshot{std::move(*txn), *state};
}

}  // namespace

struct LmdbStore::Parts {
  std::unique_ptr<Environment> environment;
  SharedState shared;
  SubscriberList subscribers;
  std::unique_ptr<Writer> writer;

  [[nodiscard]] Expected<Snapshot> snapshot() { return take_snapshot(*environment, shared); }
};

LmdbStore::LmdbStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LmdbStore::~LmdbStore() { parts_->writer->stop(); }

Expected<std::unique_ptr<LmdbStore>> LmdbStore::open(LmdbParams params) {
  EnvironmentParams environment_params{params.directory, map_bytes(params.map_limit),
                                       params.no_sync, params.max_readers};
  environment_params.opens_moved = params.opens_moved;
  auto environment = Environment::open(std::move(environment_params));
  if (!environment) {
    return fail(std::move(environment).error());
  }
  auto parts = std::make_unique<Parts>();
  parts->environment = std::move(*environment);
  parts->writer = std::make_unique<Writer>(*parts->environment, parts->shared, parts->subscribers,
                                           std::move(params));
  if (auto started = parts->writer->start(); !started) {
    return fail(std::move(started).error());
  }
  return std::unique_ptr<LmdbStore>(new LmdbStore(std::move(parts)));
}

Revision LmdbStore::current() const noexcept { return parts_->shared.current; }
Revision LmdbStore::compacted() const noexcept { return parts_->shared.compacted; }

Expected<Entry> LmdbStore::get(std::string_view key) const {
  const auto snapshot = parts_->snapshot();
  if (!snapshot) {
    return fail(snapshot.error().clone());
  }
  auto row = reader::current(snapshot->txn.get(), parts_->environment->tables(), key);
  if (!row) {
    return fail(std::move(row).error());
  }
  return Entry{std::string(key), SharedBytes(row->value), row->created, row->second};
}

Expected<Revision> LmdbStore::range(const RangeQuery& query, const Visitor& visit) const {
  const auto snapshot = parts_->snapshot();
  if (!snapshot) {
    return fail(snapshot.error().clone());
  }
  const TimePoint begin = Clock::now();
  auto revision = reader::range(snapshot->txn.get(), parts_->environment->tables(), snapshot->state,
                                query, visit, true);
  if (const Duration took = Clock::now() - begin; took > kLongRead) {
    log_warn("store read held a snapshot for long",
             {{"prefix", query.prefix}, {"seconds", took / seconds(1)}});
  }
  return revision;
}

Expected<std::uint64_t> LmdbStore::count(const RangeQuery& query) const {
  const auto snapshot = parts_->snapshot();
  if (!snapshot) {
    return fail(snapshot.error().clone());
  }
  std::uint64_t rows = 0;
  const auto add = [&rows](const EntryView&) {
    ++rows;
    return true;
  };
  auto revision = reader::range(snapshot->txn.get(), parts_->environment->tables(), snapshot->state,
                                query, add, false);
  if (!revision) {
    return fail(std::move(revision).error());
  }
  return rows;
}

void LmdbStore::commit(std::vector<Op> ops, CommitCallback done) {
  parts_->writer->commit(std::move(ops), std::move(done));
}

Limits LmdbStore::limits() const noexcept { return parts_->writer->limits(); }

Expected<Store::Changes> LmdbStore::changes(std::string_view prefix, Revision after,
                                            std::size_t limit) const {
  const auto snapshot = parts_->snapshot();
  if (!snapshot) {
    return fail(snapshot.error().clone());
  }
  return reader::changes(snapshot->txn.get(), parts_->environment->tables(), snapshot->state,
                         prefix, after, limit);
}

Store::Subscription LmdbStore::subscribe(std::function<void(const EventBatch&)> listener) {
  return parts_->subscribers.add(std::move(listener));
}

void LmdbStore::compact(Revision revision) { parts_->writer->compact(revision); }

StoreStats LmdbStore::stats() const {
  StoreStats stats;
  stats.current = current();
  stats.compacted = compacted();
  stats.commits = parts_->shared.commits;
  stats.syncs = parts_->shared.syncs;
  stats.conflicts = parts_->shared.conflicts;
  stats.queued = parts_->writer->queued();
  if (const auto snapshot = parts_->snapshot(); snapshot) {
    const Tables& tables = parts_->environment->tables();
    stats.keys = reader::row_count(snapshot->txn.get(), tables.current);
    stats.bytes = reader::used_bytes(snapshot->txn.get(), tables);
  }
  return stats;
}

Books* LmdbStore::books() noexcept {
  BookKeeper& books = parts_->writer->books();
  return books.is_open() ? &books : nullptr;
}

Expected<void> LmdbStore::health() const { return parts_->writer->health(); }

Expected<VerifyReport> LmdbStore::verify() const {
  const auto snapshot = parts_->snapshot();
  if (!snapshot) {
    return fail(snapshot.error().clone());
  }
  return verify_rows(snapshot->txn.get(), parts_->environment->tables(), snapshot->state,
                     parts_->writer->books().rules());
}

void LmdbStore::compact_now_for_test() { parts_->writer->compact_now_for_test(); }

}  // namespace kintsugi::store
