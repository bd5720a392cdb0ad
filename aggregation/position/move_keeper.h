#pragma once

#include <memory>
#include <optional>

#include "aggregation/position/internal/move_book.h"
#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::aggregation {

/// Keeps in the proxy's store what is known of logical clusters that moved (AGG-1101),
/// a quarter of a second behind, so that watches that resume after a restart are told of the
/// move. What other proxies that share the store have written is taken in, and what this one has
/// is added to it by comparison. Threads: the control loop's.
class MoveKeeper {
 public:
  MoveKeeper(net::Loop& loop, store::Store& store, std::shared_ptr<MoveBook> book);
  MoveKeeper(const MoveKeeper&) = delete;
  MoveKeeper& operator=(const MoveKeeper&) = delete;

  /// Reads what is stored. For start-up, before others know the book. @error kIo
  [[nodiscard]] Expected<void> start();

 private:
  [[nodiscard]] Expected<void> read();
  void follow();
  void save();
  void saved(MoveBook::Record record, const Expected<store::CommitResult>& result);

  net::Loop& loop_;
  store::Store& store_;
  std::shared_ptr<MoveBook> book_;
  MoveBook::Record stored_;  // as it was read or written last
  store::Revision at_ = 0;   // of that; 0: there is none
  bool busy_ = false;        // a record is on its way
  net::Timer timer_;
  std::shared_ptr<void> changes_;  // by others
  Alive alive_;
};

}  // namespace kintsugi::aggregation
