#pragma once

#include "workers/eventing/eventing_config.h"
#include "workers/runtime/worker.h"

namespace kintsugi::workers {

/// The role `eventing`: places consumer groups of Kafka on dispatcher pods, and tells these by
/// their contracts. Source: docs/spec/eventing.md.
[[nodiscard]] Role eventing_role(const EventingConfig& config);

}  // namespace kintsugi::workers
