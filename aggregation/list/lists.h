#pragma once

#include <memory>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/read_gate.h"
#include "aggregation/position/positions.h"
#include "base/memory_budget.h"

namespace kintsugi::aggregation {

/// What the merged lists of one loop share. Threads: its loop.
struct Lists {
  Lists(Asking& a, Positions& p)
      : asking(a),
        positions(p),
        gate(std::make_shared<ReadGate>(ReadGate::for_lists(a.params.list_streams))) {}
  Asking& asking;
  Positions& positions;
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<ReadGate> gate;
  /// Of the whole process; one of its own, without a bound, until another is set.
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(0);
};

}  // namespace kintsugi::aggregation
