#include "store/lmdb/rescue.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/salvage.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

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

Expected<std::unique_ptr<Store>> rescue(LmdbParams params, const PageReport& found, FileLock lock) {
  const std::string source = params.directory + "/data.mdb";
  params.directory += kRescued;
  std::error_code ignored;
  fs::remove_all(params.directory, ignored);
  auto salvage = Salvage::make(params.directory);
  if (!salvage) {
    return fail(std::move(salvage.error()));
  }
  auto walked = walk_file(
      source, [&salvage](std::string_view table, std::string_view key, std::string_view value) {
        (*salvage)->take(table, key, value);
      });
  if (!walked) {
    return fail(std::move(walked.error()));
  }
  // Revisions that were given out are not given out again, whatever has been lost.
  const Revision revision = (*salvage)->revision().value_or((*salvage)->revision_ahead());
  if (auto finished = (*salvage)->finish(revision); !finished) {
    return fail(std::move(finished.error()));
  }
  std::vector<LostKeys> lost = (*salvage)->damaged();
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
             {"objects", static_cast<std::int64_t>((*salvage)->saved())},
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
