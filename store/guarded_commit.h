#pragma once

#include <functional>
#include <vector>

#include "store/store.h"

namespace kintsugi::store {

/// Applies the operations if `guard` holds too, else nothing. One operation more than `ops`; a
/// guard that does not hold is told as the error that `refused` makes, not as a conflict.
void commit_guarded(Store& store, std::vector<Op> ops, Op guard, std::function<Error()> refused,
                    CommitCallback done);

}  // namespace kintsugi::store
