#include "store/lmdb/internal/reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace kintsugi::store::reader {
namespace {

using layout::Version;

tl::unexpected<Error> damaged(std::string_view what, std::string_view key) {
  return fail(Errc::kCorrupt,
              std::string(what) + " of key \"" + std::string(key) + "\" is damaged");
}

/// The walk over one prefix. Views of a read transaction stay valid while its cursors move.
class RangeWalk {
 public:
  RangeWalk(const RangeQuery& query, Revision at, const Visitor& visit, bool check)
      : prefix_(query.prefix),
        first_(std::max(query.prefix, query.start)),
        at_(at),
        visit_(visit),
        check_(check) {}

  /// The newest state: only `current` matters.
  Expected<void> run_newest(MDB_txn* txn, const Tables& tables) {
    int code = live_.open(txn, tables.current);
    if (code == 0) {
      code = live_.seek(first_);
    }
    for (; code == 0 && live_.key().starts_with(prefix_); code = live_.move(MDB_NEXT)) {
      const auto row = decode_live();
      if (!row) {
        return damaged("the record", live_.key());
      }
      if (!visit_({live_.key(), row->value, row->created, row->second})) {
        return {};
      }
    }
    return finish(code);
  }

  /// An older state: `current` and `history` merged by key.
  Expected<void> run_older(MDB_txn* txn, const Tables& tables) {
    live_code_ = live_.open(txn, tables.current);
    old_code_ = old_.open(txn, tables.history);
    if (live_code_ == 0) {
      live_code_ = live_.seek(first_);
    }
    if (old_code_ == 0) {
      old_code_ = old_.seek(layout::history_key(first_, 0));
    }
    while (true) {
      const bool has_live = live_code_ == 0 && live_.key().starts_with(prefix_);
      const bool has_old = old_code_ == 0 && old_key().starts_with(prefix_);
      if (!has_live && !has_old) {
        break;
      }
      const int order = !has_live ? 1 : !has_old ? -1 : live_.key().compare(old_key());
      auto more = visit_key(order <= 0 ? live_.key() : old_key(), order <= 0, order >= 0);
      if (!more) {
        return fail(std::move(more).error());
      }
      if (!*more) {
        return {};
      }
    }
    auto finished = finish(live_code_);
    return finished ? finish(old_code_) : std::move(finished);
  }

 private:
  static Expected<void> finish(int code) {
    if (code != 0 && code != MDB_NOTFOUND) {
      return fail(lmdb_error(code, "range"));
    }
    return {};
  }

  [[nodiscard]] std::string_view old_key() const noexcept {
    return layout::split_history_key(old_.key()).key;
  }
  [[nodiscard]] std::optional<Version> decode_live() const noexcept {
    return layout::decode_version(live_.key(), live_.value(), check_);
  }

  /// Visits `key` if it existed, and moves the cursors that are on it behind it. False: stop.
  Expected<bool> visit_key(std::string_view key, bool in_live, bool in_old) {
    bool seen = false;
    bool more = true;
    if (in_live) {
      const auto row = decode_live();
      if (!row) {
        return damaged("the record", key);
      }
      if (row->second <= at_) {
        seen = true;
        more = visit_({key, row->value, row->created, row->second});
      }
      live_code_ = live_.move(MDB_NEXT);
    }
    if (in_old && more) {
      if (!seen && layout::split_history_key(old_.key()).modified <= at_) {
        auto visited = visit_old(key);
        if (!visited || !*visited) {
          return visited;
        }
      }
      old_code_ = old_.seek(layout::history_key(key, std::numeric_limits<Revision>::max()));
    }
    return more;
  }

  /// Visits the newest ended version at or before at_, which exists, if it lived at at_.
  Expected<bool> visit_old(std::string_view key) {
    int code = old_.seek(layout::history_key(key, at_ + 1));
    code = code == 0 ? old_.move(MDB_PREV) : code == MDB_NOTFOUND ? old_.move(MDB_LAST) : code;
    if (code != 0) {
      return fail(lmdb_error(code, "range"));
    }
    const auto row = layout::decode_version(old_.key(), old_.value(), check_);
    if (!row) {
      return damaged("an old version", key);
    }
    return row->second <= at_ ||
           visit_({key, row->value, row->created, layout::split_history_key(old_.key()).modified});
  }

  const std::string prefix_;
  const std::string first_;
  const Revision at_;
  const Visitor& visit_;
  const bool check_;
  LmdbCursor live_;
  LmdbCursor old_;
  int live_code_ = 0;
  int old_code_ = 0;
};

/// The value that `key` got in `revision`.
Expected<SharedBytes> value_at(MDB_txn* txn, const Tables& tables, std::string_view key,
                               Revision revision, bool may_be_live) {
  MDB_val value{};
  if (may_be_live) {
    MDB_val live_key = to_val(key);
    const int code = mdb_get(txn, tables.current, &live_key, &value);
    if (code == 0) {
      const auto row = layout::decode_version(key, to_view(value));
      if (row && row->second == revision) {
        return SharedBytes(row->value);
      }
    } else if (code != MDB_NOTFOUND) {
      return fail(lmdb_error(code, "changes"));
    }
  }
  const std::string db_key = layout::history_key(key, revision);
  MDB_val old_key = to_val(db_key);
  const int code = mdb_get(txn, tables.history, &old_key, &value);
  if (code != 0 && code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "changes"));
  }
  const auto row = code == 0 ? layout::decode_version(db_key, to_view(value)) : std::nullopt;
  if (!row) {
    return damaged("version " + std::to_string(revision), key);
  }
  return SharedBytes(row->value);
}

Expected<Event> build_event(MDB_txn* txn, const Tables& tables, Revision revision,
                            const layout::LogRecord& record) {
  Event event{revision, record.type,    std::string(record.key), SharedBytes(record.payload),
              {},       record.created, record.previous_modified};
  if (record.type == EventType::kPut) {
    auto value = value_at(txn, tables, record.key, revision, true);
    if (!value) {
      return fail(std::move(value).error());
    }
    event.value = std::move(*value);
  }
  if (record.previous_modified != 0) {
    auto previous = value_at(txn, tables, record.key, record.previous_modified, false);
    if (!previous) {
      return fail(std::move(previous).error());
    }
    event.previous = std::move(*previous);
  }
  return event;
}

}  // namespace

Expected<layout::State> state(MDB_txn* txn, const Tables& tables) {
  MDB_val key = to_val("state");
  MDB_val value{};
  const int code = mdb_get(txn, tables.meta, &key, &value);
  if (code != 0) {
    return fail(lmdb_error(code, "state"));
  }
  const auto decoded = layout::decode_state(to_view(value));
  if (!decoded) {
    return fail(Errc::kCorrupt, "the state record is damaged");
  }
  return *decoded;
}

Expected<Version> current(MDB_txn* txn, const Tables& tables, std::string_view key, bool check) {
  if (key.empty()) {
    return fail(Errc::kNotFound);
  }
  MDB_val db_key = to_val(key);
  MDB_val value{};
  const int code = mdb_get(txn, tables.current, &db_key, &value);
  if (code == MDB_NOTFOUND) {
    return fail(Errc::kNotFound);
  }
  if (code != 0) {
    return fail(lmdb_error(code, "get"));
  }
  const auto row = layout::decode_version(key, to_view(value), check);
  if (!row) {
    return damaged("the record", key);
  }
  return *row;
}

Expected<Revision> range(MDB_txn* txn, const Tables& tables, const layout::State& now,
                         const RangeQuery& query, const Visitor& visit, bool check) {
  const Revision at = query.at == 0 ? now.revision : query.at;
  if (at > now.revision) {
    return fail(Errc::kFutureRevision);
  }
  if (at < now.compacted) {
    return fail(Errc::kCompacted);
  }
  RangeWalk walk(query, at, visit, check);
  auto walked = at == now.revision ? walk.run_newest(txn, tables) : walk.run_older(txn, tables);
  if (!walked) {
    return fail(std::move(walked).error());
  }
  return at;
}

Expected<Store::Changes> changes(MDB_txn* txn, const Tables& tables, const layout::State& now,
                                 std::string_view prefix, Revision after, std::size_t limit) {
  if (after > now.revision) {
    return fail(Errc::kFutureRevision);
  }
  if (after < now.compacted) {
    return fail(Errc::kCompacted);
  }
  Store::Changes changes;
  if (limit == 0) {
    changes.complete_to = after;
    return changes;
  }
  LmdbCursor cursor;
  int code = cursor.open(txn, tables.log);
  if (code == 0) {
    code = cursor.seek(layout::log_key(after + 1, 0));
  }
  for (; code == 0; code = cursor.move(MDB_NEXT)) {
    const auto record = layout::decode_log(cursor.key(), cursor.value());
    if (!record) {
      return fail(Errc::kCorrupt, "a log record is damaged");
    }
    if (!record->key.starts_with(prefix)) {
      continue;
    }
    const Revision revision = layout::split_log_key(cursor.key()).first;
    if (changes.events.size() >= limit && changes.events.back().revision != revision) {
      changes.complete_to = revision - 1;
      return changes;
    }
    auto event = build_event(txn, tables, revision, *record);
    if (!event) {
      return fail(std::move(event).error());
    }
    changes.events.push_back(std::move(*event));
  }
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "changes"));
  }
  changes.complete_to = now.revision;
  return changes;
}

std::uint64_t used_bytes(MDB_txn* txn, const Tables& tables) noexcept {
  std::uint64_t bytes = 0;
  for (const MDB_dbi table : {tables.meta, tables.current, tables.history, tables.log}) {
    MDB_stat stat{};
    if (mdb_stat(txn, table, &stat) == 0) {
      bytes += (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) * stat.ms_psize;
    }
  }
  return bytes;
}

std::uint64_t row_count(MDB_txn* txn, MDB_dbi table) noexcept {
  MDB_stat stat{};
  return mdb_stat(txn, table, &stat) == 0 ? stat.ms_entries : 0;
}

}  // namespace kintsugi::store::reader
