#pragma once

#include <string>

#include "workers/eventing/dispatcher/dispatcher.h"

namespace kintsugi::server {

/// /metrics of a dispatcher.
[[nodiscard]] std::string dispatcher_metrics_text(const workers::Dispatcher& dispatcher);

}  // namespace kintsugi::server
