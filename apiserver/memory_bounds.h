#pragma once

#include <cstddef>
#include <memory>

#include "serving/memory_pressure.h"

namespace kintsugi::apiserver {

class ApiServer;

/// What requests of a server meet as memory runs short, from now on, before any has come (SE-091):
/// lists take more seats, then tenants and strangers get 429. Without this call nothing.
/// @param pressure  of the process; somebody else looks
void bound_memory(ApiServer& server, std::shared_ptr<serving::MemoryPressure> pressure);

/// Ends up to `most` watches whose clients do not read, the largest payer's farthest behind first.
/// @param all  servers and administrators, too
/// @returns how many
std::size_t shed_watches(ApiServer& server, std::size_t most, bool all);

}  // namespace kintsugi::apiserver
