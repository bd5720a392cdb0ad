#pragma once

#include <cstdint>
#include <memory>

#include "base/memory_budget.h"
#include "net/body_gate.h"

namespace kintsugi::apiserver {

class ApiServer;

/// What the bodies of a server's requests may take from now on, before any has come. Without this
/// call the bounds of net::BodyLimits hold, and none for all of the process.
/// @param memory  of the process
void bound_bodies(ApiServer& server, std::shared_ptr<MemoryBudget> memory,
                  const net::BodyLimits& limits = {});

/// Requests that were ended before their body was whole: too late (408), too much (429).
struct BodyCounts {
  std::uint64_t late = 0, crowded = 0;
};
[[nodiscard]] BodyCounts body_counts(const ApiServer& server) noexcept;

}  // namespace kintsugi::apiserver
