#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

/// Which logical clusters go where, so that no shard has much more than the others (GR-605).
namespace kintsugi::cmd {

enum class RebalanceBy : std::uint8_t { kObjects, kBytes, kWatches };

struct RebalanceShard {
  std::string name, region;
  krm::Json labels;  ///< that selectors of Workspaces look at
  bool unschedulable = false;
};
struct RebalanceCluster {
  std::string name, path, shard;
  std::int64_t objects = 0, bytes = 0;
  std::int64_t watches = 0;
  bool stays = false;                       ///< it cannot be moved, but counts
  std::optional<krm::Selector> selector{};  ///< of its Workspace's location
};
struct RebalanceMove {
  std::string cluster, path, from, to, reason;
  std::int64_t objects = 0, bytes = 0, watches = 0;
  bool operator==(const RebalanceMove&) const = default;
};
struct RebalanceLimits {
  RebalanceBy by = RebalanceBy::kObjects;
  double limit = 1.25;  ///< of the mean, what a shard may have
  std::size_t most_moves = 1'000;
  bool across = false;  ///< also to another region; each is balanced for itself otherwise
};
struct RebalancePlan {
  std::vector<RebalanceMove> moves;
  std::vector<std::string> left;  ///< shards that stay above the limit, and why
};

/// Takes from the shard that is the furthest above the limit what brings it below with the fewest
/// bytes, to the shard that has least and may have it, until none is above or nothing helps. What
/// it plans makes no shard pass the limit, so that a plan after it has no moves. Means are over
/// shards that take logical clusters. Cost: moves × clusters.
[[nodiscard]] RebalancePlan plan_rebalance(const std::vector<RebalanceShard>& shards,
                                           std::vector<RebalanceCluster> clusters,
                                           const RebalanceLimits& limits);

/// {kind: RebalancePlan, moves: [{cluster, path, from, to, objects, bytes, watches, reason}]}
[[nodiscard]] krm::Json to_json(const RebalancePlan& plan);
/// @error kConfig it is none
[[nodiscard]] Expected<RebalancePlan> read_rebalance_plan(const std::string& text);

}  // namespace kintsugi::cmd
