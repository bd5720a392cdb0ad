#pragma once

#include <vector>

#include "workers/messaging/control/site.h"
#include "workers/runtime/role_metrics.h"

namespace kintsugi::workers {

/// The role's own metrics.
[[nodiscard]] std::vector<RoleFamily> messaging_families();
/// Adds what a unit places: addresses on brokers.
void count_messaging_placements(const Site& site, PlacementCounts& out);
/// Adds what a unit counts.
void count_messaging(const Site& site, RoleSeries& out);

}  // namespace kintsugi::workers
