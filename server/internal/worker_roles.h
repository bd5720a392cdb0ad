#pragma once

#include <string>
#include <vector>

#include "server/worker_config.h"
#include "workers/runtime/worker.h"

namespace kintsugi::server {

/// The roles that this program has, in the order of messages.
[[nodiscard]] std::vector<std::string> worker_roles();
/// @param role  its name is one of worker_roles()
[[nodiscard]] workers::Role make_worker_role(const WorkerRoleConfig& role);

}  // namespace kintsugi::server
