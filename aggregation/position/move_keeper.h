#pragma once

#include <memory>

#include "aggregation/position/internal/move_book.h"
#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::aggregation {

/// Keeps in the proxy's store what is known of logical clusters that moved (AGG-1101),
/// a quarter of a second behind, so that watches that resume after a restart are told of the
/// move. Threads: the control loop's.
class MoveKeeper {
 public:
  MoveKeeper(net::Loop& loop, store::Store& store, std::shared_ptr<MoveBook> book);
  MoveKeeper(const MoveKeeper&) = delete;
  MoveKeeper& operator=(const MoveKeeper&) = delete;

  /// Reads what is stored. For start-up, before others know the book. @error kIo
  [[nodiscard]] Expected<void> start();

 private:
  void save();

  net::Loop& loop_;
  store::Store& store_;
  std::shared_ptr<MoveBook> book_;
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::aggregation
