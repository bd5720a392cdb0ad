#pragma once

#include "workers/delivery/delivery_config.h"
#include "workers/runtime/worker.h"

namespace kintsugi::workers {

/// The role `delivery`: applies manifests that hubs publish to an MQTT broker, and tells there what
/// became of them. Source: docs/spec/delivery.md.
[[nodiscard]] Role delivery_role(const DeliveryConfig& config);

}  // namespace kintsugi::workers
