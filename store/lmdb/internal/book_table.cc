#include "store/lmdb/internal/book_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "store/lmdb/internal/layout.h"

namespace kintsugi::store::book_table {
namespace {

/// LMDB has no empty keys.
constexpr char kMark = '=';

std::string key_of(std::string_view account) {
  std::string key(1, kMark);
  key.append(account);
  return key;
}

bool is_zero(const Sums& sums) noexcept {
  return std::all_of(sums.begin(), sums.end(), [](std::int64_t sum) { return sum == 0; });
}

int put(MDB_txn* txn, const Tables& tables, std::string_view account, const layout::BookRow& row) {
  const std::string db_key = key_of(account);
  MDB_val key = to_val(db_key);
  MDB_val space{layout::kBookRow, nullptr};
  const int code = mdb_put(txn, tables.books, &key, &space, MDB_RESERVE);
  if (code == 0) {
    layout::encode_book(static_cast<char*>(space.mv_data), db_key, row);
  }
  return code;
}

int erase(MDB_txn* txn, const Tables& tables, std::string_view account) {
  const std::string db_key = key_of(account);
  MDB_val key = to_val(db_key);
  const int code = mdb_del(txn, tables.books, &key, nullptr);
  return code == MDB_NOTFOUND ? 0 : code;
}

/// @returns a code of LMDB, MDB_NOTFOUND when all have been seen
int each_row(
    MDB_txn* txn, const Tables& tables,
    const std::function<bool(std::string_view, const std::optional<layout::BookRow>&)>& visit) {
  LmdbCursor cursor;
  int code = cursor.open(txn, tables.books);
  for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0; code = cursor.move(MDB_NEXT)) {
    if (!visit(cursor.key().substr(1), layout::decode_book(cursor.key(), cursor.value()))) {
      return MDB_NOTFOUND;
    }
  }
  return code;
}

}  // namespace

int save(MDB_txn* txn, const Tables& tables, const BookKeeper& books, Revision revision) {
  int code = 0;
  bool has_row = false;
  books.each_draft([&](std::string_view account, const Sums& sums) {
    if (code == 0 && is_zero(sums)) {
      code = erase(txn, tables, account);
    } else if (code == 0) {
      code = put(txn, tables, account, {revision, books.rules().version, sums});
      has_row = true;
    }
  });
  return code == 0 && !has_row ? put(txn, tables, {}, {revision, books.rules().version, {}}) : code;
}

int save_all(MDB_txn* txn, const Tables& tables, const BookKeeper& books, Revision revision) {
  int code = mdb_drop(txn, tables.books, 0);
  code = code != 0 ? code : put(txn, tables, {}, {revision, books.rules().version, {}});
  books.each_total([&](std::string_view account, const Sums& sums) {
    if (code == 0 && !is_zero(sums)) {
      code = put(txn, tables, account, {revision, books.rules().version, sums});
    }
  });
  return code;
}

Expected<bool> load(MDB_txn* txn, const Tables& tables, Revision revision, BookKeeper& books) {
  std::vector<std::pair<std::string, Sums>> rows;
  Revision newest = 0;
  bool fits = true;
  const int code = each_row(
      txn, tables, [&](std::string_view account, const std::optional<layout::BookRow>& row) {
        fits = row && row->version == books.rules().version;
        if (fits) {
          newest = std::max(newest, row->revision);
          rows.emplace_back(account, row->sums);
        }
        return fits;
      });
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "books"));
  }
  if (!fits || newest != revision) {
    return false;
  }
  books.clear();
  for (const auto& [account, sums] : rows) {
    if (!is_zero(sums)) {
      books.load(account, sums);
    }
  }
  return true;
}

namespace {

Expected<void> count_rows(MDB_txn* txn, const Tables& tables, const BookRules& rules,
                          std::map<std::string, Sums, std::less<>>& totals) {
  LmdbCursor cursor;
  int code = cursor.open(txn, tables.current);
  for (code = code != 0 ? code : cursor.move(MDB_FIRST); code == 0; code = cursor.move(MDB_NEXT)) {
    const auto row = layout::decode_version(cursor.key(), cursor.value());
    if (!row) {
      continue;  // damaged: what it was worth, nobody knows
    }
    BookEntry entry;
    rules.measure(cursor.key(), row->value, entry);
    for (std::size_t i = 0; i < entry.used; ++i) {
      auto known = totals.find(entry.parts[i].account);
      if (known == totals.end()) {
        known = totals.emplace(std::string(entry.parts[i].account), Sums{}).first;
      }
      for (std::size_t column = 0; column < kBookColumns; ++column) {
        known->second[column] += entry.parts[i].sums[column];
      }
    }
  }
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "books"));
  }
  return {};
}

/// Whether somebody who does not keep books, or others, was the last to write. Damaged rows tell
/// nothing.
Expected<bool> is_outdated(MDB_txn* txn, const Tables& tables, Revision revision,
                           std::uint32_t version) {
  Revision newest = 0;
  bool is_whole = true;
  bool is_other = false;
  const int code =
      each_row(txn, tables, [&](std::string_view, const std::optional<layout::BookRow>& row) {
        is_whole = is_whole && row.has_value();
        is_other = is_other || (row && row->version != version);
        newest = row ? std::max(newest, row->revision) : newest;
        return true;
      });
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "books"));
  }
  return is_other || (is_whole && newest != revision);
}

}  // namespace

Expected<void> count(MDB_txn* txn, const Tables& tables, BookKeeper& books) {
  std::map<std::string, Sums, std::less<>> totals;
  if (auto counted = count_rows(txn, tables, books.rules(), totals); !counted) {
    return counted;
  }
  books.clear();
  for (const auto& [account, sums] : totals) {
    books.load(account, sums);
  }
  return {};
}

Expected<void> compare(MDB_txn* txn, const Tables& tables, Revision revision,
                       const BookRules& rules, const std::function<void(std::string what)>& wrong) {
  const auto outdated = is_outdated(txn, tables, revision, rules.version);
  if (!outdated || *outdated) {
    return outdated ? Expected<void>() : fail(outdated.error().clone());
  }
  std::map<std::string, Sums, std::less<>> totals;
  if (auto counted = count_rows(txn, tables, rules, totals); !counted) {
    return counted;
  }
  std::erase_if(totals, [](const auto& one) { return is_zero(one.second); });
  const int code = each_row(
      txn, tables, [&](std::string_view account, const std::optional<layout::BookRow>& row) {
        const auto known = totals.find(account);
        const Sums counted = known == totals.end() ? Sums{} : known->second;
        for (std::size_t column = 0; column < kBookColumns; ++column) {
          if (!row || row->sums[column] != counted[column]) {
            wrong("\"" + std::string(account) + "\" column " + std::to_string(column) + ": kept " +
                  (row ? std::to_string(row->sums[column]) : "nothing that can be read") +
                  ", counted " + std::to_string(counted[column]));
            break;
          }
        }
        if (known != totals.end()) {
          totals.erase(known);
        }
        return true;
      });
  if (code != MDB_NOTFOUND) {
    return fail(lmdb_error(code, "books"));
  }
  for (const auto& [account, sums] : totals) {
    wrong("\"" + account + "\": nothing kept");
  }
  return {};
}

}  // namespace kintsugi::store::book_table
