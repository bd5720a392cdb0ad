#pragma once

#include "workers/runtime/worker.h"

namespace kintsugi::workers {

/// The role `example`: says hello in the status of every Greeting (docs/workers.md explains it line
/// by line; configs/worker/ has the kind). To begin with, and for tests of the runtime.
[[nodiscard]] Role example_role();

}  // namespace kintsugi::workers
