#pragma once

#include <memory>

#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "aggregation/position/internal/move_book.h"

namespace kintsugi::aggregation {

/// What cursors and continue tokens of the clients of one loop mean. Threads: its loop.
struct Positions {
  /// @param numbers  cursors are numbers although vectors would do (AGG-516)
  explicit Positions(bool numbers) : sequence(numbers) {}

  const bool sequence;
  SlotHistoryPtr slots = std::make_shared<const SlotHistory>();
  TokenKeys keys;  ///< empty until they are known: paged lists wait for them
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<SequenceBook> sequences = std::make_shared<SequenceBook>();
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<MoveBook> moves = std::make_shared<MoveBook>();

  [[nodiscard]] CursorCodec codec(const Scope& scope) const {
    return {scope, slots, sequences, sequence};
  }
  /// A shard's own numbers from kFirstSequence on do not fit into cursors now (AGG-517).
  [[nodiscard]] bool are_small() const {
    return sequence || slots->current().uids.size() > kMaxFullSlots;
  }
};

}  // namespace kintsugi::aggregation
