#include "store/lmdb/internal/handover_rows.h"

#include "base/log.h"

namespace kintsugi::store {

std::string meta_row(MDB_txn* txn, const Tables& tables, const char* name) {
  MDB_val key = to_val(name);
  MDB_val value{};
  return mdb_get(txn, tables.meta, &key, &value) == 0 ? std::string(to_view(value)) : std::string();
}

int set_meta_row(MDB_txn* txn, const Tables& tables, const char* name, const std::string& value) {
  MDB_val key = to_val(name);
  if (value.empty()) {
    const int code = mdb_del(txn, tables.meta, &key, nullptr);
    return code == MDB_NOTFOUND ? 0 : code;
  }
  MDB_val stored = to_val(value);
  return mdb_put(txn, tables.meta, &key, &stored, 0);
}

bool OwnersHandover::is_news(MDB_txn* txn, const Tables& tables) const {
  return !meta_row(txn, tables, kMoving).empty() || meta_row(txn, tables, kMoved) != known_;
}

std::optional<OwnersHandover::Look> OwnersHandover::look(MDB_txn* txn, const Tables& tables,
                                                         TimePoint now) {
  if (meta_row(txn, tables, kMoved) != known_) {
    if (!std::exchange(moved_, true) && on_moved_) {
      on_moved_();
    }
    return Look::kMoved;
  }
  const std::string moving = meta_row(txn, tables, kMoving);
  if (moving.empty()) {
    stopped_for_.clear();
    return Look::kFree;
  }
  if (moving != stopped_for_) {
    stopped_for_ = moving;
    since_ = now;
    log_info("writes stop: the store is being moved");
  }
  if (now - since_ < most_stop_) {
    const bool is_said = meta_row(txn, tables, kStopped) == moving ||
                         set_meta_row(txn, tables, kStopped, moving) == 0;
    return is_said ? std::optional(Look::kStop) : std::nullopt;
  }
  log_warn("whoever moves the store has not ended in time: it stays here");
  const bool is_back =
      set_meta_row(txn, tables, kMoving, {}) == 0 && set_meta_row(txn, tables, kStopped, {}) == 0;
  return is_back ? std::optional(Look::kFree) : std::nullopt;
}

}  // namespace kintsugi::store
