#pragma once

#include <string>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "server/internal/worker_values.h"
#include "workers/messaging/messaging_config.h"

namespace kintsugi::server {

/// `roles.messaging.messaging` of a WorkerConfiguration. @param folder  what file names start at
[[nodiscard]] std::vector<WorkerKey> messaging_keys(workers::MessagingConfig& config,
                                                    const std::string& folder);
/// What does not go together: the key, below the section, and what is wrong; empty when nothing is.
[[nodiscard]] std::pair<std::string, std::string> messaging_fault(
    const workers::MessagingConfig& config);
/// The section that says the same, with every default.
[[nodiscard]] krm::Json messaging_document(const workers::MessagingConfig& config);

}  // namespace kintsugi::server
