#pragma once

#include <lmdb.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "store/lmdb/internal/environment.h"

namespace kintsugi::store {

/// Writes rows into an environment that nobody else uses, in transactions of kRowsPerTransaction.
/// What is not committed when it goes is dropped. Private to store/lmdb/.
class RowWriter {
 public:
  static constexpr std::size_t kRowsPerTransaction = 5'000;

  explicit RowWriter(Environment& environment) : environment_(environment) {}
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter() {
    if (txn_ != nullptr) {
      mdb_txn_abort(txn_);
    }
  }
  /// @returns a code of LMDB.
  [[nodiscard]] int put(MDB_dbi table, std::string_view key, std::string_view value) {
    int code = txn_ != nullptr ? 0 : mdb_txn_begin(environment_.get(), nullptr, 0, &txn_);
    MDB_val db_key = to_val(key);
    MDB_val db_value = to_val(value);
    code = code != 0 ? code : mdb_put(txn_, table, &db_key, &db_value, 0);
    return code == 0 && ++count_ % kRowsPerTransaction == 0 ? commit() : code;
  }
  /// @returns a code of LMDB; 0 where it is not there, too.
  [[nodiscard]] int remove(MDB_dbi table, std::string_view key) {
    int code = txn_ != nullptr ? 0 : mdb_txn_begin(environment_.get(), nullptr, 0, &txn_);
    MDB_val db_key = to_val(key);
    code = code != 0 ? code : mdb_del(txn_, table, &db_key, nullptr);
    return code == MDB_NOTFOUND ? 0 : code;
  }
  [[nodiscard]] int commit() {
    return txn_ == nullptr ? 0 : mdb_txn_commit(std::exchange(txn_, nullptr));
  }

 private:
  Environment& environment_;
  MDB_txn* txn_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace kintsugi::store
