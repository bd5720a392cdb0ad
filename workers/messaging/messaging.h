#pragma once

#include "workers/messaging/messaging_config.h"
#include "workers/runtime/worker.h"

namespace kintsugi::workers {

/// The role `messaging`: keeps AMQP routers and brokers as the objects of configs/messaging ask for
/// it. Source: docs/spec/messaging.md.
[[nodiscard]] Role messaging_role(const MessagingConfig& config);

}  // namespace kintsugi::workers
