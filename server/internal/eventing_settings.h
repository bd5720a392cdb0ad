#pragma once

#include <string>
#include <utility>

#include "krm/config_table.h"
#include "workers/eventing/eventing_config.h"

namespace kintsugi::server {

/// What `roles.eventing` of a WorkerConfiguration has besides what every role has.
[[nodiscard]] krm::ConfigTable eventing_keys(workers::EventingConfig& config);
/// What does not go together: the key, below that section, and what is wrong; empty when nothing
/// is.
[[nodiscard]] std::pair<std::string, std::string> eventing_fault(
    const workers::EventingConfig& config);

}  // namespace kintsugi::server
