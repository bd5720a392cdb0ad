#include "store/lmdb/internal/verify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/lmdb/internal/book_table.h"

namespace kintsugi::store {
namespace {

constexpr std::size_t kMaxProblems = 100;

class Verifier {
 public:
  Verifier(MDB_txn* txn, const Tables& tables, const layout::State& state)
      : txn_(txn), tables_(tables), state_(state) {
    report_.revision = state.revision;
    report_.compacted = state.compacted;
  }

  Expected<VerifyReport> run() {
    if (state_.compacted > state_.revision) {
      problem("state", "compacted revision " + std::to_string(state_.compacted) +
                           " is newer than revision " + std::to_string(state_.revision));
    }
    for (const int code : {check_live(), check_history(), check_log()}) {
      if (code != MDB_NOTFOUND) {
        return fail(lmdb_error(code, "verify"));
      }
    }
    return std::move(report_);
  }

 private:
  void problem(std::string_view where, const std::string& what) {
    ++report_.problem_count;
    if (report_.problems.size() < kMaxProblems) {
      report_.problems.push_back(std::string(where) + ": " + what);
    }
  }

  [[nodiscard]] std::optional<std::string_view> find(MDB_dbi table, std::string_view db_key) const {
    MDB_val key = to_val(db_key);
    MDB_val value{};
    if (mdb_get(txn_, table, &key, &value) != 0) {
      return std::nullopt;
    }
    return to_view(value);
  }

  /// The log row of `key` in `revision`, if it is there. Compaction may have begun to drop the
  /// revision's rows, so the first indexes may be gone.
  [[nodiscard]] std::optional<layout::LogRecord> find_log(Revision revision,
                                                          std::string_view key) const {
    LmdbCursor cursor;
    int code = cursor.open(txn_, tables_.log);
    for (code = code != 0 ? code : cursor.seek(layout::log_key(revision, 0)); code == 0;
         code = cursor.move(MDB_NEXT)) {
      if (layout::split_log_key(cursor.key()).first != revision) {
        break;
      }
      const auto row = layout::decode_log(cursor.key(), cursor.value());
      if (row && row->key == key) {
        return row;
      }
    }
    return std::nullopt;
  }

  int check_live() {
    LmdbCursor cursor;
    int code = cursor.open(txn_, tables_.current);
    for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0;
         code = cursor.move(MDB_NEXT)) {
      ++report_.live;
      const std::string where = "current \"" + std::string(cursor.key()) + '"';
      const auto row = layout::decode_version(cursor.key(), cursor.value());
      if (!row) {
        problem(where, "damaged");
        continue;
      }
      const Revision modified = row->second;
      if (row->created == 0 || row->created > modified || modified > state_.revision) {
        problem(where, "impossible revisions");
      }
      if (modified > state_.compacted) {
        const auto log = find_log(modified, cursor.key());
        if (!log || log->type != EventType::kPut || log->created != row->created) {
          problem(where, "no event for revision " + std::to_string(modified));
        }
      }
    }
    return code;
  }

  int check_history() {
    LmdbCursor cursor;
    std::string key;
    Revision ended = 0;
    int code = cursor.open(txn_, tables_.history);
    for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0;
         code = cursor.move(MDB_NEXT)) {
      ++report_.history;
      const auto [row_key, modified] = layout::split_history_key(cursor.key());
      const std::string where =
          "history \"" + std::string(row_key) + "\" " + std::to_string(modified);
      const auto row = layout::decode_version(cursor.key(), cursor.value());
      if (!row) {
        problem(where, "damaged");
        continue;
      }
      const Revision end = row->second;
      if (row->created == 0 || row->created > modified || modified >= end ||
          end > state_.revision) {
        problem(where, "impossible revisions");
      }
      if (key == row_key && modified < ended) {
        problem(where, "overlaps the version before");
      }
      key = row_key;
      ended = end;
      const auto log = find_log(end, row_key);
      if (!log || log->previous_modified != modified) {
        problem(where, "no event for its end in revision " + std::to_string(end));
      }
      if (const auto live = find(tables_.current, row_key); live) {
        const auto live_row = layout::decode_version(row_key, *live);
        if (live_row && live_row->second < end) {
          problem(where, "ends after the live version began");
        }
      }
    }
    return code;
  }

  int check_log() {
    LmdbCursor cursor;
    Revision last = 0;
    std::uint32_t next_index = 0;
    int code = cursor.open(txn_, tables_.log);
    for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0;
         code = cursor.move(MDB_NEXT)) {
      ++report_.events;
      if (cursor.key().size() != layout::kLogKeyBytes) {
        problem("log", "malformed key");
        continue;
      }
      const auto [revision, index] = layout::split_log_key(cursor.key());
      const std::string where = "log " + std::to_string(revision) + "/" + std::to_string(index);
      if (revision > state_.compacted) {
        const Revision expected = std::max(last, state_.compacted) + (index == 0 ? 1 : 0);
        if (revision != expected || index != (index == 0 ? 0 : next_index)) {
          problem(where, "rows before it are missing");
        }
        check_log_row(where, revision, layout::decode_log(cursor.key(), cursor.value()));
      }
      last = revision;
      next_index = index + 1;
    }
    if (std::max(last, state_.compacted) != state_.revision) {
      problem("log", "ends at " + std::to_string(last) + ", not at revision " +
                         std::to_string(state_.revision));
    }
    return code;
  }

  void check_log_row(const std::string& where, Revision revision,
                     const std::optional<layout::LogRecord>& row) {
    if (!row) {
      problem(where, "damaged");
      return;
    }
    if (row->type == EventType::kPut) {
      const auto live = find(tables_.current, row->key);
      const auto live_row = live ? layout::decode_version(row->key, *live) : std::nullopt;
      if ((!live_row || live_row->second != revision) &&
          !find(tables_.history, layout::history_key(row->key, revision))) {
        problem(where, "the version that it made is missing");
      }
    } else if (const auto live = find(tables_.current, row->key); live) {
      const auto live_row = layout::decode_version(row->key, *live);
      if (live_row && live_row->second <= revision) {
        problem(where, "the key is live although it was deleted");
      }
    }
    if (row->previous_modified != 0) {
      const std::string db_key = layout::history_key(row->key, row->previous_modified);
      const auto record = find(tables_.history, db_key);
      const auto ended = record ? layout::decode_version(db_key, *record) : std::nullopt;
      if (!ended || ended->second != revision) {
        problem(where, "the version that it ended is missing");
      }
    }
  }

  MDB_txn* txn_;
  const Tables& tables_;
  const layout::State state_;
  VerifyReport report_;
};

}  // namespace

Expected<VerifyReport> verify_tables(MDB_txn* txn, const Tables& tables,
                                     const layout::State& state) {
  return Verifier(txn, tables, state).run();
}

Expected<VerifyReport> verify_rows(MDB_txn* txn, const Tables& tables, const layout::State& state,
                                   const BookRules& rules) {
  auto report = verify_tables(txn, tables, state);
  if (report && rules.measure != nullptr && tables.books != Tables::kNone) {
    const auto wrong = [&report](std::string what) {
      if (report->miscounted.size() < kMaxProblems) {
        report->miscounted.push_back(std::move(what));
      }
    };
    if (auto compared = book_table::compare(txn, tables, state.revision, rules, wrong); !compared) {
      return fail(std::move(compared.error()));
    }
  }
  return report;
}

}  // namespace kintsugi::store
