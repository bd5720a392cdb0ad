#include "store/lmdb/internal/compactor.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "store/lmdb/internal/reader.h"

namespace kintsugi::store {
namespace {

constexpr int kSliceRows = 500;
constexpr Duration kSliceTime = milliseconds(10);
constexpr std::int64_t kMarksPerAge = 16;

std::int64_t boot_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

HistoryClock HistoryClock::boot_time() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return {layout::hash(boot), &boot_nanoseconds};
}

void HistoryMarks::load(std::string_view record, Revision current) {
  marks_ = layout::decode_marks(clock_.id, record);
  const std::int64_t now = clock_.now();
  bool usable = marks_.empty() || (marks_.back().time <= now && marks_.back().revision <= current);
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    usable = usable && marks_[i - 1].time <= marks_[i].time &&
             marks_[i - 1].revision <= marks_[i].revision;
  }
  if (!usable) {
    marks_.clear();
  }
  sample(current);
}

bool HistoryMarks::sample(Revision current) {
  const std::int64_t now = clock_.now();
  if (!marks_.empty() &&
      (marks_.back().revision == current || now - marks_.back().time < keep_ / kMarksPerAge)) {
    return false;
  }
  marks_.push_back({now, current});
  // One mark older than the history to keep is enough.
  while (marks_.size() > 1 && now - marks_[1].time >= keep_) {
    marks_.erase(marks_.begin());
  }
  return true;
}

Revision HistoryMarks::old_revision() const {
  const std::int64_t now = clock_.now();
  Revision old = 0;
  for (const layout::Mark& mark : marks_) {
    if (now - mark.time >= keep_) {
      old = mark.revision;
    }
  }
  return old;
}

namespace compactor {

Revision automatic_bound(MDB_txn* txn, const Tables& tables, Revision old,
                         std::uint64_t keep_events) {
  const auto state = reader::state(txn, tables);
  if (!state || old <= state->compacted || reader::row_count(txn, tables.log) <= keep_events) {
    return 0;
  }
  LmdbCursor cursor;
  Revision bound = old;
  if (keep_events > 0) {
    int code = cursor.open(txn, tables.log);
    if (code == 0) {
      code = cursor.move(MDB_LAST);
    }
    for (std::uint64_t i = 1; code == 0 && i < keep_events; ++i) {
      code = cursor.move(MDB_PREV);
    }
    if (code != 0) {
      return 0;
    }
    bound = std::min(bound, layout::split_log_key(cursor.key()).first - 1);
  }
  return bound > state->compacted ? bound : 0;
}

Slice drop_some(MDB_txn* txn, const Tables& tables, Revision bound) {
  LmdbCursor cursor;
  if (const int code = cursor.open(txn, tables.log); code != 0) {
    return {code, false};
  }
  const TimePoint end = Clock::now() + kSliceTime;
  for (int rows = 0; rows < kSliceRows && Clock::now() < end; ++rows) {
    int code = cursor.move(MDB_FIRST);
    if (code == MDB_NOTFOUND) {
      return {0, false};
    }
    if (code == 0 && layout::split_log_key(cursor.key()).first > bound) {
      return {0, false};
    }
    if (code == 0) {
      const auto record = layout::decode_log(cursor.key(), cursor.value());
      if (record && record->previous_modified != 0) {
        const std::string ended = layout::history_key(record->key, record->previous_modified);
        MDB_val key = to_val(ended);
        code = mdb_del(txn, tables.history, &key, nullptr);
        code = code == MDB_NOTFOUND ? 0 : code;
      }
    }
    if (code == 0) {
      code = cursor.erase();
    }
    if (code != 0) {
      return {code, false};
    }
  }
  return {0, true};
}

}  // namespace compactor
}  // namespace kintsugi::store
