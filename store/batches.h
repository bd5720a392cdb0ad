#pragma once

#include <cstddef>
#include <vector>

#include "store/store.h"

namespace kintsugi::store {

/// Operations that a batch leaves to guards that are added on the way.
inline constexpr std::size_t kRoomForGuards = 8;

/// Takes from the front of `rest` what fits into one transaction, one operation at least: for those
/// that write much and need no atomicity. The rest keeps its order.
[[nodiscard]] std::vector<Op> take_batch(std::vector<Op>& rest, const Limits& limits);

}  // namespace kintsugi::store
