#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/runtime/queue/duration_histogram.h"

namespace kintsugi::workers {

/// A family of metrics that a role has besides those of the runtime. Texts have static life; values
/// of labels come from fixed sets, never from objects.
struct RoleFamily {
  std::string_view name, help;
  bool counter = false;  ///< else a gauge
  std::vector<std::string_view> labels;
  /// Behind the values of its labels its series have an upper bound, each with what the smaller
  /// ones have ("0.001", "+Inf"), or "sum".
  bool histogram = false;
};

/// Values by position of the family in Role::families and values of its labels. Units add theirs.
using RoleSeries = std::map<std::pair<std::size_t, std::vector<std::string>>, double>;

/// What a role's placements come to, for placement_… and schedule_seconds (section 12). Reasons are
/// texts of static life.
struct PlacementCounts {
  std::map<std::string_view, std::uint64_t> moves;    ///< to other hosts than before
  std::map<std::string_view, std::uint64_t> pending;  ///< claims that have no place now
  DurationHistogram decisions;
};

}  // namespace kintsugi::workers
