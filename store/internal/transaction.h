#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "store/store.h"

namespace kintsugi::store {

inline constexpr std::size_t kMaxKeyBytes = 480;

/// Checks what every backend demands of a transaction: keys of 1..480 bytes, each key at most once,
/// not more than `limits`. @error kInvalid naming the operation, or the limit.
[[nodiscard]] Expected<void> check_transaction(const std::vector<Op>& ops, const Limits& limits);

}  // namespace kintsugi::store
