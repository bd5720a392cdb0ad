#pragma once

#include <cstdint>

#include "base/time.h"

/// Chance, so that many who wait for one thing do not all come at once; not for secrets.
namespace kintsugi::aggregation {

/// A number of [least, most].
[[nodiscard]] std::int64_t random_between(std::int64_t least, std::int64_t most);
/// Between nine and eleven tenths of `whole`.
[[nodiscard]] Duration about(Duration whole);
/// Between a half and all of `whole`.
[[nodiscard]] Duration jittered(Duration whole);

}  // namespace kintsugi::aggregation
