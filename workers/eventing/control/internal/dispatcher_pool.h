#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "workers/eventing/control/internal/group_entry.h"
#include "workers/eventing/model/replicas.h"
#include "workers/eventing/scheduling/autoscaler.h"
#include "workers/eventing/scheduling/pool_scheduler.h"
#include "workers/runtime/control/controller.h"
#include "workers/runtime/queue/duration_histogram.h"

namespace kintsugi::workers {

/// What the pool knows of one group besides its place.
struct PooledGroup {
  Key key;
  std::int64_t generation = 0;  ///< that `entry` was read from
  std::string uid;
  GroupEntry entry;
  std::optional<PoolGroup> told;             ///< what the scheduler was told last
  bool writing = false;                      ///< its placement is being written
  std::optional<TimePoint> passing_since{};  ///< its pods have not all seen its placement since
};

/// The pods of one StatefulSet, with the groups on them. A plain holder of the machines that
/// decide; EventingSite drives it. Threads: the loop's.
struct DispatcherPool {
  DispatcherPool(PoolSettings pool, const AutoscalerSettings& bounds)
      : name(pool.stateful_set), scheduler(std::move(pool)), scaler(bounds) {}

  std::string name;
  PoolScheduler scheduler;
  Autoscaler scaler;
  std::map<std::string, PooledGroup, std::less<>> groups;    ///< by seen_key()
  std::map<std::string, DispatcherPod, std::less<>> pods;    ///< as the scheduler was told
  std::map<std::string, TimePoint, std::less<>> gone_since;  ///< pods that placements name
  std::optional<std::int64_t> replicas;  ///< of the StatefulSet; nullopt: there is none
  std::optional<std::int64_t> scale_to;  ///< to be written
  std::size_t writing = 0;               ///< groups whose placement is being written
  bool woken = false;
  DurationHistogram decisions;
};

/// The contract of one pod: the entries of all groups on it, with the units that they have there.
/// Groups with a trouble have none. Generation and epoch are left at 0. KP-6.
[[nodiscard]] Contract pod_contract(const DispatcherPool& pool, std::string_view pod);
/// What the pod has seen once it has that contract.
[[nodiscard]] SeenDecisions seen_of_contract(const DispatcherPool& pool, std::string_view pod);

/// What a pod's contract is to be, by what there is. Pure.
struct ContractPlan {
  enum class What : std::uint8_t { kNothing, kWrite, kOvertaken };
  What what = What::kNothing;
  std::string data;              ///< of kWrite
  std::uint64_t generation = 0;  ///< that there is then
};
/// KP-3, KP-5, KP-8. @param wish  without generation and epoch
/// @param data  of the ConfigMap; nullopt: there is none  @param noted  the epoch in its annotation
/// @param known  the generation that the pod was last given; 0: none
[[nodiscard]] ContractPlan plan_contract(Contract wish, std::optional<std::string_view> data,
                                         std::uint64_t noted, std::uint64_t known,
                                         std::uint64_t epoch, ContractFormat format);

}  // namespace kintsugi::workers
