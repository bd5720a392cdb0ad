#include "store/transfer/online.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "store/etcd/etcd_prefix.h"
#include "store/lmdb/handover.h"
#include "store/lmdb/maker.h"
#include "store/lmdb/source.h"
#include "store/transfer/internal/steps.h"

namespace kintsugi::store {
namespace {

constexpr std::size_t kEvents = 1'000;
/// Rows that are few enough to copy while nobody writes.
constexpr std::size_t kFew = 200;
constexpr int kMostRounds = 100;

/// Again until a round had little to copy: then writes can stop.
/// @param follow  copies what is new, and says how many rows that was
Expected<void> catch_up(const std::function<Expected<std::size_t>()>& follow) {
  for (int round = 0; round < kMostRounds; ++round) {
    const auto copied = follow();
    if (!copied || *copied <= kFew) {
      return copied ? Expected<void>() : fail(copied.error().clone());
    }
  }
  return fail(Errc::kTimeout, "the store is written to faster than it is copied");
}

/// From a folder.
class IntoEtcd {
 public:
  IntoEtcd(LmdbHandover& source, EtcdPrefix& target, std::string place,
           const OnlineOptions& options)
      : source_(source),
        target_(target),
        place_(std::move(place)),
        options_(options),
        counting_{{}, options.transfer} {}

  Expected<OnlineReport> run(const std::string& from) {
    auto done = copy(from);
    done = done ? catch_up([this] { return follow(); }) : std::move(done);
    if (!done) {
      return fail(std::move(done.error()));
    }
    const TimePoint stopped = Clock::now();
    done = source_.stop_writes();
    if (!done) {
      return fail(std::move(done.error()));
    }
    options_.reached(OnlineStep::kStopped);
    done = take();
    if (!done) {
      source_.release();
      return fail(std::move(done.error()));
    }
    OnlineReport report{{rows_, counting_.sum.digest(), at_, after_}, Clock::now() - stopped};
    options_.reached(OnlineStep::kDecided);
    done = target_.finish();
    return done ? Expected<OnlineReport>(std::move(report)) : fail(std::move(done.error()));
  }

 private:
  /// As of one revision, and compares.
  Expected<void> copy(const std::string& from) {
    if (auto pinned = source_.snapshot().pin(); !pinned) {
      return pinned;
    }
    const auto before = source_.snapshot().revision();
    const auto content = before ? target_.look() : fail(before.error().clone());
    if (!content) {
      return fail(content.error().clone());
    }
    auto ready = check_target(*content, place_, from);
    // Twice: what is written meanwhile is before the first new one, too.
    ready = ready ? target_.begin(from, *before + 2 * kTransferJump) : std::move(ready);
    if (!ready) {
      return ready;
    }
    at_ = *before;
    const auto damaged = source_.snapshot().read([this](const EntryView& row) {
      counting_.add(row);
      return target_.put(row);
    });
    if (!damaged) {
      return fail(damaged.error().clone());
    }
    if (!damaged->empty()) {
      return fail(Errc::kCorrupt, "the source is damaged; `kintsugi store check` says where");
    }
    const auto flushed = target_.flush();
    const auto found = flushed ? sum_of(target_) : fail(flushed.error().clone());
    if (!found) {
      return fail(found.error().clone());
    }
    if (*found != counting_.sum) {
      return fail(differs(place_, counting_.sum, *found));
    }
    after_ = *flushed;
    options_.reached(OnlineStep::kCopied);
    return {};
  }

  /// To what is the newest now.
  Expected<std::size_t> follow() {
    if (auto pinned = source_.snapshot().pin(); !pinned) {
      return fail(std::move(pinned.error()));
    }
    return copy_changes();
  }

  /// To what is pinned. @returns how many rows it was
  Expected<std::size_t> copy_changes() {
    const auto newest = source_.snapshot().revision();
    if (!newest) {
      return fail(newest.error().clone());
    }
    std::map<std::string, std::optional<Event>> last;
    while (at_ < *newest) {
      auto changes = source_.snapshot().changes(at_, kEvents);
      if (!changes) {
        return fail(std::move(changes.error()));
      }
      for (Event& event : changes->events) {
        if (event.previous_modified != 0) {
          counting_.sum.remove(event.key, event.previous.view());
        }
        if (event.type == EventType::kPut) {
          counting_.sum.add(event.key, event.value.view());
        }
        std::string key = event.key;
        last[std::move(key)] = std::move(event);
      }
      at_ = changes->complete_to;
    }
    for (const auto& [key, event] : last) {
      auto written = event->type == EventType::kPut
                         ? target_.put({key, event->value.view(), event->created, event->revision})
                         : target_.remove(key);
      if (!written) {
        return fail(std::move(written.error()));
      }
    }
    const auto flushed = target_.flush();
    if (!flushed) {
      return fail(flushed.error().clone());
    }
    after_ = *flushed;
    rows_ = source_.snapshot().rows();
    return last.size();
  }

  /// The last of it, while nobody writes.
  Expected<void> take() {
    if (auto copied = copy_changes(); !copied) {
      return fail(std::move(copied.error()));
    }
    const auto found = target_.count();
    if (!found) {
      return fail(found.error().clone());
    }
    if (*found != rows_ || counting_.sum.rows() != rows_) {
      return fail(Errc::kCorrupt, place_ + ": has " + std::to_string(*found) +
                                      " rows, the source has " + std::to_string(rows_));
    }
    if (after_ <= at_ + kTransferJump) {
      return fail(Errc::kConflict, "the source was written to more than it can be copied");
    }
    options_.reached(OnlineStep::kReady);
    const auto content = target_.look();
    return content ? source_.take(place_, options_.note(content->uid))
                   : fail(content.error().clone());
  }

  LmdbHandover& source_;
  EtcdPrefix& target_;
  const std::string place_;
  const OnlineOptions& options_;
  Counting counting_;
  std::uint64_t rows_ = 0;
  Revision at_ = 0, after_ = 0;  // of the source, of the target
};

/// From etcd.
class IntoFolder {
 public:
  IntoFolder(EtcdPrefix& source, std::string directory, const OnlineOptions& options)
      : source_(source),
        directory_(std::move(directory)),
        partial_(partial_of(directory_)),
        options_(options) {}

  Expected<OnlineReport> run(Revision before) {
    clear_partial(directory_);
    auto filled = fill_folder(source_, before, partial_, options_.transfer);
    if (!filled) {
      return fail(std::move(filled.error()));
    }
    at_ = source_.position();
    const auto rows = source_.count();
    if (!rows) {
      return fail(rows.error().clone());
    }
    rows_ = *rows;
    foreign_ = *rows - filled->rows;
    options_.reached(OnlineStep::kCopied);
    auto maker = StoreMaker::again(partial_);
    if (!maker) {
      return fail(std::move(maker.error()));
    }
    maker_ = std::move(*maker);
    auto done = catch_up([this] { return follow(); });
    const TimePoint stopped = Clock::now();
    done = done ? source_.stop_writes(directory_) : std::move(done);
    if (!done) {
      return fail(std::move(done.error()));
    }
    options_.reached(OnlineStep::kStopped);
    OnlineReport report;
    done = take(report.rows);
    if (!done) {
      (void)source_.take_back();
      return fail(std::move(done.error()));
    }
    report.stopped = Clock::now() - stopped;
    options_.reached(OnlineStep::kDecided);
    done = publish_folder(partial_, directory_);
    return done ? Expected<OnlineReport>(std::move(report)) : fail(std::move(done.error()));
  }

 private:
  Expected<std::size_t> follow() {
    const auto content = source_.look();
    if (!content) {
      return fail(content.error().clone());
    }
    if (content->kind != EtcdPrefix::Kind::kStore) {
      return fail(Errc::kConflict, "somebody else moves the store");
    }
    return copy_changes();
  }

  /// To the position that was found. @returns how many rows it was
  Expected<std::size_t> copy_changes() {
    std::uint64_t created = 0;
    std::size_t written = 0;
    const Revision offset = source_.offset();
    auto copied = source_.each_since(at_, [&](const EntryView& row) {
      created += row.created > at_ + offset ? 1U : 0U;
      ++written;
      return maker_->put(row);
    });
    const auto found = copied ? source_.count() : fail(copied.error().clone());
    if (!found) {
      return fail(found.error().clone());
    }
    if (*found != rows_ + created) {  // some were deleted
      ++written;
      std::unordered_set<std::string> keys;
      copied = source_.each_key([&keys](std::string key) { keys.insert(std::move(key)); });
      copied = copied ? maker_->keep_only(keys) : std::move(copied);
      if (!copied) {
        return fail(std::move(copied.error()));
      }
    }
    rows_ = *found;
    at_ = source_.position();
    return written;
  }

  /// The last of it, while nobody writes.
  Expected<void> take(TransferReport& report) {
    if (auto copied = copy_changes(); !copied) {
      return fail(std::move(copied.error()));
    }
    report.before = at_ + source_.offset();
    const auto after = revision_after(report.before);
    const auto made = after ? maker_->finish(*after) : fail(after.error().clone());
    if (!made) {
      return fail(made.error().clone());
    }
    if (*made + foreign_ != rows_) {
      return fail(Errc::kCorrupt, partial_ + ": has " + std::to_string(*made) +
                                      " rows, the source has " + std::to_string(rows_ - foreign_));
    }
    report.after = *after;
    report.rows = *made;
    maker_.reset();
    options_.reached(OnlineStep::kReady);
    return source_.mark_moved(directory_);
  }

  EtcdPrefix& source_;
  const std::string directory_, partial_;
  const OnlineOptions& options_;
  std::unique_ptr<StoreMaker> maker_;
  std::uint64_t rows_ = 0;     // of the source, with
  std::uint64_t foreign_ = 0;  // ... those that are no rows
  std::uint64_t at_ = 0;       // etcd's revision
};

}  // namespace

namespace {

Error moved_elsewhere(const std::string& from, const std::string& place) {
  return Error(Errc::kConfig, from + ": has moved to " + place);
}

OnlineReport by_an_earlier_run() {
  OnlineReport report;
  report.earlier = true;
  return report;
}

/// An earlier run has decided that the store in a folder is in etcd.
Expected<OnlineReport> finish_earlier(const std::string& from, const Moved& moved,
                                      const std::string& to, EtcdParams etcd,
                                      const OnlineOptions& options) {
  if (moved.place != to) {
    return fail(moved_elsewhere(from, moved.place));
  }
  auto target = EtcdPrefix::open(std::move(etcd));
  const auto content = target ? (*target)->look() : fail(target.error().clone());
  if (!content) {
    return fail(content.error().clone());
  }
  if (content->kind == EtcdPrefix::Kind::kStore) {
    return by_an_earlier_run();
  }
  if (content->kind != EtcdPrefix::Kind::kCopying || options.note(content->uid) != moved.note) {
    return fail(Errc::kConfig,
                from + ": has moved to " + to + ", where something else is in its place");
  }
  return (*target)->finish().map(by_an_earlier_run);
}

}  // namespace

Expected<OnlineReport> move_to_etcd_online(const std::string& directory, EtcdParams etcd,
                                           const OnlineOptions& options) {
  const std::string from = plain_path(directory);
  const std::string to = place_of(etcd);
  if (const auto moved = moved_of(from)) {
    return finish_earlier(from, *moved, to, std::move(etcd), options);
  }
  auto source = LmdbHandover::open(from);
  if (!source) {
    return fail(std::move(source.error()));
  }
  auto target = EtcdPrefix::open(std::move(etcd));
  if (!target) {
    return fail(std::move(target.error()));
  }
  if (auto pinned = (*source)->snapshot().pin(); !pinned) {
    return fail(std::move(pinned.error()));
  }
  const std::string named = from + " (" + (*source)->snapshot().incarnation() + ")";
  return IntoEtcd(**source, **target, to, options).run(named);
}

Expected<OnlineReport> move_to_lmdb_online(EtcdParams etcd, const std::string& directory,
                                           const OnlineOptions& options) {
  const std::string from = place_of(etcd);
  const std::string to = plain_path(directory);
  auto source = EtcdPrefix::open(etcd);
  if (!source) {
    return fail(std::move(source.error()));
  }
  const auto content = (*source)->look();
  if (!content) {
    return fail(content.error().clone());
  }
  if (content->kind == EtcdPrefix::Kind::kMoved) {
    const auto finished = content->place == to ? finish_in_folder(std::move(etcd), to)
                                               : fail(moved_elsewhere(from, content->place));
    return finished ? Expected<OnlineReport>(by_an_earlier_run()) : fail(finished.error().clone());
  }
  if (auto empty = check_folder(to); !empty) {
    return fail(std::move(empty.error()));
  }
  if (content->kind != EtcdPrefix::Kind::kStore) {
    return fail(Errc::kConfig, content->kind == EtcdPrefix::Kind::kMoving
                                   ? from + ": somebody moves it to " + content->place
                                   : from + ": no store is there");
  }
  return IntoFolder(**source, to, options).run(content->revision);
}

Expected<void> finish_in_etcd(EtcdParams etcd, std::string_view uid) {
  const std::string place = place_of(etcd);
  auto target = EtcdPrefix::open(std::move(etcd));
  if (!target) {
    return fail(std::move(target.error()));
  }
  const auto content = (*target)->look();
  if (!content) {
    return fail(content.error().clone());
  }
  if (content->uid != uid) {
    return fail(Errc::kConfig, place + ": is not the copy that the store has moved to");
  }
  return content->kind == EtcdPrefix::Kind::kCopying ? (*target)->finish() : Expected<void>();
}

Expected<bool> finish_in_folder(EtcdParams etcd, const std::string& directory) {
  namespace fs = std::filesystem;
  const std::string to = plain_path(directory);
  auto source = EtcdPrefix::open(std::move(etcd));
  if (!source) {
    return fail(std::move(source.error()));
  }
  const auto content = (*source)->look();
  if (!content) {
    return fail(content.error().clone());
  }
  if (content->kind != EtcdPrefix::Kind::kMoved || content->place != to) {
    return false;
  }
  std::error_code code;
  if (fs::exists(to + "/data.mdb", code)) {
    return true;
  }
  const auto whole = LmdbSource::open(partial_of(to));
  const auto revision = whole ? (*whole)->revision() : fail(whole.error().clone());
  if (!revision) {
    return fail(revision.error().clone());
  }
  if (*revision <= content->revision) {
    return fail(Errc::kConfig, partial_of(to) + ": is not whole; `kintsugi store copy` again");
  }
  return publish_folder(partial_of(to), to).map([] { return true; });
}

}  // namespace kintsugi::store
