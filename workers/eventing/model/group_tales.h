#pragma once

#include <vector>

#include "krm/json.h"
#include "workers/runtime/status/event_recorder.h"

namespace kintsugi::workers {

/// What people are told when one status of a group takes the place of another: it is placed, fewer
/// are placed than wanted and why, what keeps its consumers from working, and that this is over.
/// Nothing of a condition whose status and reason stay, and of what passes by itself.
/// Source: sections 4 and 13. Threads: any.
[[nodiscard]] std::vector<Tale> group_tales(const krm::Json& from, const krm::Json& to);

}  // namespace kintsugi::workers
