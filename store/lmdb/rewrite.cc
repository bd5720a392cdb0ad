#include "store/lmdb/rewrite.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/replace.h"
#include "store/lmdb/internal/row_writer.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRewriteMap = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);
constexpr std::size_t kMostKept = 100;

class StoreRewriter {
 public:
  StoreRewriter(Environment& from, Environment& to, const RewriteValue& rewrite)
      : from_(from), rows_(to), tables_(to.tables()), rewrite_(rewrite) {}

  Expected<RewriteReport> run() {
    auto txn = from_.read();
    if (!txn) {
      return fail(std::move(txn.error()));
    }
    const auto state = reader::state(txn->get(), from_.tables());
    if (!state) {
      return fail(state.error().clone());
    }
    report_.revision = state->revision;
    const Tables& old = from_.tables();
    const Tables& now = tables_;
    int code = copy(txn->get(), old.meta, now.meta, &StoreRewriter::copy_as_it_is);
    code =
        code != 0 ? code : copy(txn->get(), old.current, now.current, &StoreRewriter::rewrite_live);
    code =
        code != 0 ? code : copy(txn->get(), old.history, now.history, &StoreRewriter::rewrite_old);
    code = code != 0 ? code : copy(txn->get(), old.log, now.log, &StoreRewriter::rewrite_log);
    code = code != 0 ? code : rows_.commit();
    if (code != 0) {
      return fail(lmdb_error(code, "rewrite"));
    }
    return std::move(report_);
  }

 private:
  using Row = void (StoreRewriter::*)(std::string_view db_key, std::string_view record);

  /// Puts what `row` makes of each record into row_.
  int copy(MDB_txn* txn, MDB_dbi from, MDB_dbi to, Row row) {
    LmdbCursor cursor;
    int code = cursor.open(txn, from);
    for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0;
         code = cursor.move(MDB_NEXT)) {
      if (to == tables_.meta && cursor.key() == kIncarnation) {
        continue;
      }
      (this->*row)(cursor.key(), cursor.value());
      if (const int put = rows_.put(to, cursor.key(), row_); put != 0) {
        return put;
      }
    }
    return code == MDB_NOTFOUND ? 0 : code;
  }

  void copy_as_it_is(std::string_view, std::string_view record) { row_ = record; }

  void rewrite_live(std::string_view db_key, std::string_view record) {
    rewrite_version(db_key, db_key, record);
  }

  void rewrite_old(std::string_view db_key, std::string_view record) {
    rewrite_version(layout::split_history_key(db_key).key, db_key, record);
  }

  void rewrite_version(std::string_view key, std::string_view db_key, std::string_view record) {
    row_ = record;
    auto version = layout::decode_version(db_key, record);
    if (!version) {
      keep(key, "the record is damaged");
    } else if (const auto value = new_value(key, version->value)) {
      version->value = *value;
      row_.resize(layout::kVersionHeader + value->size());
      layout::encode_version(row_.data(), db_key, *version);
    }
  }

  void rewrite_log(std::string_view db_key, std::string_view record) {
    row_ = record;
    auto log = layout::decode_log(db_key, record);
    if (!log) {
      keep("log", "a record is damaged");
    } else if (log->payload.empty()) {
      return;
    } else if (const auto payload = new_value(log->key, log->payload)) {
      log->payload = *payload;
      row_.resize(layout::kLogHeader + log->key.size() + payload->size());
      layout::encode_log(row_.data(), db_key, *log);
    }
  }

  /// nullopt: it stays.
  std::optional<std::string> new_value(std::string_view key, std::string_view value) {
    ++report_.values;
    auto made = rewrite_(key, value);
    if (!made) {
      keep(key, std::string(made.error().message()));
      return std::nullopt;
    }
    if (*made == value) {
      return std::nullopt;
    }
    ++report_.rewritten;
    return std::move(*made);
  }

  void keep(std::string_view key, const std::string& why) {
    if (++report_.kept_count <= kMostKept) {
      report_.kept.push_back(std::string(key) + ": " + why);
    }
  }

  Environment& from_;
  RowWriter rows_;
  const Tables tables_;
  const RewriteValue& rewrite_;
  RewriteReport report_;
  std::string row_;
};

Expected<RewriteReport> rewrite_into(Environment& from, const std::string& made,
                                     const RewriteValue& rewrite) {
  auto to = Environment::open({made, kRewriteMap});
  if (!to) {
    return fail(std::move(to.error()));
  }
  return StoreRewriter(from, **to, rewrite).run();
}

}  // namespace

Expected<RewriteReport> rewrite_store(const std::string& directory, const RewriteValue& rewrite) {
  std::error_code code;
  if (!fs::exists(fs::path(directory) / "data.mdb", code)) {
    return fail(Errc::kConfig, directory + ": no store is there (data.mdb is missing)");
  }
  auto from = Environment::open({directory, kRewriteMap});  // takes the store's lock
  if (!from) {
    return fail(std::move(from.error()));
  }
  const std::string made = directory + "/rewrite.partial";
  fs::remove_all(made, code);
  auto report = rewrite_into(**from, made, rewrite);
  if (report) {
    if (auto placed = put_in_place(directory, made); !placed) {
      report = fail(std::move(placed.error()));
    }
  }
  fs::remove_all(made, code);
  return report;
}

}  // namespace kintsugi::store
