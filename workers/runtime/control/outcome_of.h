#pragma once

#include "workers/runtime/client/api_client.h"
#include "workers/runtime/queue/keyed_queue.h"
#include "workers/runtime/status/fault_rules.h"

namespace kintsugi::workers {

/// How a reconcile ends whose last request was answered so (section 13). A write that was withheld,
/// since the key is not ours any more, ends it until it is ours again or the object changes. A 404
/// that does not name the object is tried again.
[[nodiscard]] Outcome outcome_of(const ApiAnswer& answer, RequestKind kind) noexcept;

}  // namespace kintsugi::workers
