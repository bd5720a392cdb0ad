#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

/// PartitionSet, computed (T-15). Pure functions: objects in, wanted
/// writes out.
namespace kintsugi::topology {

/// What Partitions and slices need to know of a shard.
struct ShardFacts {
  std::string name;
  krm::Json labels = krm::Json::object();  ///< text values
  std::string base_url, external_url, virtual_workspace_url;
  bool up = true;      ///< answers its health probe
  bool synced = true;  ///< everything that routing needs has been listed
};

/// A stored label selector; absent and null select everything (T-07).
/// @error kInvalid with the text of Kubernetes.
[[nodiscard]] Expected<krm::Selector> selector_of(const krm::Json* label_selector);

/// Names are deterministic: same set name and same dimension values, same name (T-15).
/// @param dimensions sorted by key, exact values
/// @param attempt    0, then 1, 2, … while the name is taken by something else
[[nodiscard]] std::string partition_name(
    std::string_view set_name, const std::vector<std::pair<std::string, std::string>>& dimensions,
    int attempt = 0);

/// The writes that make stored Partitions and the set's status equal to what the shards demand.
/// A plan over what an executed plan left behind is empty: `writes()` is false.
struct PartitionSetPlan {
  std::string fault;       ///< cause when the selector is invalid; then nothing else is planned
  std::int64_t count = 0;  ///< number of tuples
  std::vector<krm::Json> create;  ///< whole Partition objects
  std::vector<krm::Json> update;  ///< stored Partitions with corrected selector or owner reference
  std::vector<krm::Json> remove;  ///< stored Partitions that must go
  [[nodiscard]] bool writes() const {
    return !create.empty() || !update.empty() || !remove.empty();
  }
};

/// @param set        the PartitionSet as stored
/// @param partitions every Partition of the set's cluster, owned or not
[[nodiscard]] PartitionSetPlan plan_partition_set(const krm::Json& set,
                                                  const std::vector<ShardFacts>& shards,
                                                  const std::vector<krm::Json>& partitions);

/// status of a set: count and both conditions (TP-006 to TP-008).
/// @param failure message of PartitionsReady when a step failed ("old partition could not get
/// deleted"), "" otherwise
[[nodiscard]] krm::Json partition_set_status(const krm::Json& set, const PartitionSetPlan& plan,
                                             std::string_view failure, std::string_view now);

}  // namespace kintsugi::topology
