#pragma once

#include <lmdb.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "store/books.h"
#include "store/internal/book_keeper.h"
#include "store/lmdb/internal/environment.h"
#include "store/store.h"

/// The table "books": a row for each account, with the revision of the last transaction that
/// changed it. Every transaction changes one at least, so the rows are whole exactly if the newest
/// of them is as new as the store; whoever wrote to it without keeping books is found out so.
/// Private to store/lmdb/.
namespace kintsugi::store::book_table {

/// The accounts that transactions have changed. @returns a code of LMDB
[[nodiscard]] int save(MDB_txn* txn, const Tables& tables, const BookKeeper& books,
                       Revision revision);
/// All of them, in place of what is there. @returns a code of LMDB
[[nodiscard]] int save_all(MDB_txn* txn, const Tables& tables, const BookKeeper& books,
                           Revision revision);
/// False: the rows are damaged, of another revision or of other rules, and nothing was taken.
[[nodiscard]] Expected<bool> load(MDB_txn* txn, const Tables& tables, Revision revision,
                                  BookKeeper& books);
/// From the live rows. Cost: all of them.
[[nodiscard]] Expected<void> count(MDB_txn* txn, const Tables& tables, BookKeeper& books);
/// Accounts of which the table says something else than the live rows. None where load() would take
/// nothing of it because it is older than the rows, or of other rules: it is counted anew then.
/// @param revision  of the store
[[nodiscard]] Expected<void> compare(MDB_txn* txn, const Tables& tables, Revision revision,
                                     const BookRules& rules,
                                     const std::function<void(std::string what)>& wrong);

}  // namespace kintsugi::store::book_table
