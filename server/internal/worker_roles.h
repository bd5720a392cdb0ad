#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workers/runtime/worker.h"

namespace kintsugi::server {

/// The roles that this program has, in the order of messages.
[[nodiscard]] std::vector<std::string> worker_roles();
/// @param name  one of worker_roles()
[[nodiscard]] workers::Role make_worker_role(std::string_view name);

}  // namespace kintsugi::server
