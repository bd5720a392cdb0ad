#pragma once

#include <string>
#include <utility>

#include "krm/config_table.h"
#include "workers/delivery/delivery_config.h"

namespace kintsugi::server {

/// What `roles.delivery` of a WorkerConfiguration has besides what every role has. @param folder
/// what file names start at
[[nodiscard]] krm::ConfigTable delivery_keys(workers::DeliveryConfig& config,
                                             const std::string& folder);
/// What does not go together: the key, below that section, and what is wrong; empty when nothing
/// is.
[[nodiscard]] std::pair<std::string, std::string> delivery_fault(
    const workers::DeliveryConfig& config);

}  // namespace kintsugi::server
