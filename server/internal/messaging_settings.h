#pragma once

#include <string>
#include <utility>

#include "krm/config_table.h"
#include "workers/messaging/messaging_config.h"

namespace kintsugi::server {

/// What `roles.messaging` of a WorkerConfiguration has besides what every role has. @param folder
/// what file names start at
[[nodiscard]] krm::ConfigTable messaging_keys(workers::MessagingConfig& config,
                                              const std::string& folder);
/// What does not go together: the key, below that section, and what is wrong; empty when nothing
/// is.
[[nodiscard]] std::pair<std::string, std::string> messaging_fault(
    const workers::MessagingConfig& config);

}  // namespace kintsugi::server
