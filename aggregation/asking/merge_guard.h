#pragma once

#include <string_view>
#include <utility>

#include "base/guard.h"

namespace kintsugi::aggregation {

/// Throws, in tests: called where the callbacks of merged reads begin. Null in every process.
inline void (*planted_fault)(std::string_view where) = nullptr;

/// Runs a callback of a merged read: what it throws ends that read (SE-181), and nothing else.
/// @param fault  ends it with 500, or where its answer has begun without a proper end
/// Cost: nothing unless it throws.
template <class Run, class Fault>
void guard_read(std::string_view where, Run&& run, Fault&& fault) noexcept {
  const bool good = guarded(where, [&] {
    if (planted_fault != nullptr) {
      planted_fault(where);
    }
    std::forward<Run>(run)();
  });
  if (!good) {
    guarded(where, std::forward<Fault>(fault));
  }
}

}  // namespace kintsugi::aggregation
