#include "store/lmdb/rescue.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/log.h"
#include "store/lmdb/backup.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/row_writer.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMapBytes = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);
constexpr const char* kRescued = "/rescued";
constexpr std::size_t kLoggedProblems = 20;

/// Below every key that begins with `prefix`; "": there is no end.
std::string end_of(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) {
    prefix.pop_back();
  }
  if (!prefix.empty()) {
    prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1U);
  }
  return prefix;
}

std::string shown(std::string text) {
  std::replace(text.begin(), text.end(), '\0', '/');
  return text;
}

Error lost_error(const LostKeys& lost) {
  return Error(Errc::kCorrupt,
               "the store is damaged: keys from \"" + shown(lost.first) + "\"" +
                   (lost.end.empty() ? " on" : " below \"" + shown(lost.end) + "\"") + " are lost");
}

/// What is left of a store, with what is known to be missing.
class RescuedStore final : public Store {
 public:
  RescuedStore(std::unique_ptr<LmdbStore> rest, LostRanges lost, std::string damage, FileLock lock)
      : lock_(std::move(lock)),
        rest_(std::move(rest)),
        lost_(std::move(lost)),
        damage_(std::move(damage)) {}
  RescuedStore(const RescuedStore&) = delete;
  RescuedStore& operator=(const RescuedStore&) = delete;
  ~RescuedStore() override = default;

  [[nodiscard]] Revision current() const noexcept override { return rest_->current(); }
  [[nodiscard]] Revision compacted() const noexcept override { return rest_->compacted(); }
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override {
    const std::string next = std::string(key) + '\0';
    if (const LostKeys* lost = lost_.find(key, next); lost != nullptr) {
      return fail(lost_error(*lost));
    }
    return rest_->get(key);
  }
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override {
    // Up to the first key that may be missing, then the error: nobody takes it for all.
    std::string from = std::max(query.start, query.prefix);
    const std::string end = end_of(query.prefix);
    const LostKeys* gap = lost_.find(from, end);
    bool stopped = false;
    bool met = false;
    auto revision = rest_->range(query, [&](const EntryView& entry) {
      met = gap != nullptr && entry.key >= gap->first;
      stopped = met || !visit(entry);
      return !stopped;
    });
    if (revision && gap != nullptr && (met || !stopped)) {
      return fail(lost_error(*gap));
    }
    return revision;
  }
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override {
    const LostKeys* lost = lost_.find(std::max(query.start, query.prefix), end_of(query.prefix));
    if (lost != nullptr) {
      return fail(lost_error(*lost));
    }
    return rest_->count(query);
  }
  void commit(std::vector<Op> ops, CommitCallback done) override {
    (void)ops;
    // Answered by the writer's thread, as every write is. A delete of what is not there is none.
    rest_->commit({{EventType::kDelete, "\x01nothing", {}, std::nullopt}},
                  [done = std::move(done), damage = damage_](const Expected<CommitResult>&) {
                    done(fail(Errc::kUnavailable, damage + "; it can only be read"));
                  });
  }
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override {
    return rest_->changes(prefix, after, limit);
  }
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override {
    return rest_->subscribe(std::move(listener));
  }
  void compact(Revision) override {}
  [[nodiscard]] StoreStats stats() const override { return rest_->stats(); }
  [[nodiscard]] Expected<void> health() const override { return fail(Errc::kCorrupt, damage_); }

 private:
  const FileLock lock_;  // given up last
  std::unique_ptr<LmdbStore> rest_;
  const LostRanges lost_;
  const std::string damage_;
};

/// What the walk finds and the copy gets.
struct Rescue {
  std::unique_ptr<Environment> to;
  std::optional<RowWriter> rows;
  int code = 0;  ///< of LMDB, of the copy
  std::uint64_t saved = 0;
  Revision newest = 0;  ///< that any record names
  std::optional<layout::State> state;
  std::vector<LostKeys> lost;  ///< records of `current` that do not hold

  void take(std::string_view table, std::string_view key, std::string_view value) {
    if (table == "meta" && key == "state") {
      state = layout::decode_state(value);
    } else if (table == "log") {
      if (layout::decode_log(key, value)) {
        newest = std::max(newest, layout::split_log_key(key).first);
      }
    } else if (table == "history") {
      if (const auto row = layout::decode_version(key, value)) {
        newest = std::max(newest, row->second);
      }
    } else if (table == "current") {
      take_live(key, value);
    }
  }
  void take_live(std::string_view key, std::string_view value) {
    const auto row = layout::decode_version(key, value);
    if (!row) {
      lost.push_back({"current", std::string(key), std::string(key) + '\0'});
      return;
    }
    newest = std::max(newest, row->second);
    ++saved;
    if (code == 0) {
      code = rows->put(to->tables().current, key, value);
    }
  }
};

Expected<std::unique_ptr<Store>> rescue(LmdbParams params, const PageReport& found, FileLock lock) {
  const std::string source = params.directory + "/data.mdb";
  params.directory += kRescued;
  std::error_code ignored;
  fs::remove_all(params.directory, ignored);
  Rescue rescue;
  auto to = Environment::open({params.directory, kMapBytes});
  if (!to) {
    return fail(std::move(to.error()));
  }
  rescue.to = std::move(*to);
  rescue.rows.emplace(*rescue.to);
  auto walked =
      walk_file(source, [&rescue](std::string_view table, std::string_view key,
                                  std::string_view value) { rescue.take(table, key, value); });
  if (!walked) {
    return fail(std::move(walked.error()));
  }
  // Revisions that were given out are not given out again, whatever has been lost.
  const bool knows = rescue.state && rescue.state->revision >= rescue.newest;
  const Revision revision = knows ? rescue.state->revision : rescue.newest + kRestoreJump;
  const std::string state = layout::encode_state({revision, revision});
  int code = rescue.code;
  code = code != 0 ? code : rescue.rows->put(rescue.to->tables().meta, "state", state);
  code = code != 0 ? code : rescue.rows->commit();
  if (code != 0) {
    return fail(lmdb_error(code, params.directory));
  }
  rescue.rows.reset();
  rescue.to.reset();
  std::vector<LostKeys> lost = std::move(rescue.lost);
  for (const LostKeys& one : walked->lost) {
    if (one.table == "current") {
      lost.push_back(one);
    }
  }
  LostRanges ranges(std::move(lost));
  for (std::size_t i = 0; i < std::min(found.problems.size(), kLoggedProblems); ++i) {
    log_error("store damaged", {{"what", shown(found.problems[i])}});
  }
  log_error("the store is damaged: what is intact is served, nothing can be written",
            {{"store", source},
             {"problems", static_cast<std::int64_t>(found.problem_count)},
             {"objects", static_cast<std::int64_t>(rescue.saved)},
             {"lost ranges", static_cast<std::int64_t>(ranges.size())}});
  auto rest = LmdbStore::open(std::move(params));
  if (!rest) {
    return fail(std::move(rest.error()));
  }
  std::string damage = "the store is damaged: " + shown(found.problems.front());
  if (found.problem_count > 1) {
    damage += " (and " + std::to_string(found.problem_count - 1) + " more)";
  }
  return std::unique_ptr<Store>(
      new RescuedStore(std::move(*rest), std::move(ranges), std::move(damage), std::move(lock)));
}

}  // namespace

LostRanges::LostRanges(std::vector<LostKeys> lost) {
  std::sort(lost.begin(), lost.end(),
            [](const LostKeys& a, const LostKeys& b) { return a.first < b.first; });
  for (LostKeys& one : lost) {
    if (!ranges_.empty() && (ranges_.back().end.empty() || one.first <= ranges_.back().end)) {
      if (!ranges_.back().end.empty() && (one.end.empty() || one.end > ranges_.back().end)) {
        ranges_.back().end = std::move(one.end);
      }
    } else {
      ranges_.push_back(std::move(one));
    }
  }
}

const LostKeys* LostRanges::find(std::string_view from, std::string_view end) const noexcept {
  // They are apart and in order, so their ends are in order, too.
  const auto at = std::partition_point(ranges_.begin(), ranges_.end(), [from](const LostKeys& one) {
    return !one.end.empty() && one.end <= from;
  });
  return at == ranges_.end() || (!end.empty() && at->first >= end) ? nullptr : &*at;
}

Expected<std::unique_ptr<Store>> open_or_rescue(LmdbParams params) {
  const auto opened = [&params] {
    return LmdbStore::open(std::move(params)).map([](std::unique_ptr<LmdbStore> store) {
      return std::unique_ptr<Store>(std::move(store));
    });
  };
  std::error_code ignored;
  if (!fs::exists(params.directory + "/data.mdb", ignored)) {
    return opened();
  }
  auto lock = lock_store(params.directory, true);
  if (!lock) {
    return fail(std::move(lock.error()).at("store " + params.directory));
  }
  auto found = walk_file(params.directory + "/data.mdb");
  if (found && found->is_store && found->problem_count > 0) {
    return rescue(std::move(params), *found, std::move(**lock));
  }
  lock->reset();
  if (found && !found->is_store) {
    return fail(
        Errc::kCorrupt,
        params.directory + "/data.mdb: " +
            (found->problems.empty() ? "is no store" : "damaged: " + found->problems.back()));
  }
  if (!found && found.error().code() != Errc::kNotFound) {
    return fail(std::move(found.error()));
  }
  return opened();
}

}  // namespace kintsugi::store
