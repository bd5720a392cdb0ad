#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/admission.h"

namespace kintsugi::workers {

/// How many things each of something has: moved with the things, never counted anew. Cost: O(1) a
/// move. No I/O. Threads: one.
class UseCounts {
 public:
  /// The thing uses that now, "" for none. @returns whether its use is another one
  bool set(std::string_view thing, std::string_view used);
  /// What the thing uses, "" for nothing.
  [[nodiscard]] const std::string& used_by(std::string_view thing) const;
  [[nodiscard]] std::int64_t count(std::string_view used) const;

 private:
  StringMap<std::string> uses_;
  StringMap<std::int64_t> counts_;
};

/// What an infra's status says of its capacity, whoever works on it; else what its spec says.
[[nodiscard]] InfraCapacity capacity_of(const MessagingInfra& infra, const krm::Json& status);

/// Status of AddressSpacePlans of type shared and of MessagingPlans (MS-077). Plans of other types
/// are another controller's (MR-1). Threads: the unit's loop's.
class PlanControl {
 public:
  explicit PlanControl(Site& site) : site_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(ObjectRefKey key);
  /// Of AddressPlans and MessagingAddressPlans: those of address spaces of type standard are
  /// another controller's.
  [[nodiscard]] net::Task<Outcome> reconcile_address_plan(ObjectRefKey key);
  /// Whether what addresses read of an address plan is another thing than before: not its status.
  [[nodiscard]] bool address_plan_changed(const ObjectRefKey& plan);
  /// A space has come, gone, or is another one: the plans that it is counted for are looked at.
  void space_changed(const ObjectRefKey& space);
  /// A plan has come or gone, or its spec is another one: spaces may have another plan.
  void plan_changed(const ObjectRefKey& plan);
  /// An infra's capacity may be another one: plans that name it.
  void infra_changed(const QueueKey& infra);

 private:
  [[nodiscard]] std::optional<krm::Json> status_of(const ObjectRefKey& key);
  void count_all();

  Site& site_;
  UseCounts spaces_;                     // plan by space, by text_of()
  StringMap<std::int64_t> generations_;  // of plans, by text_of()
  bool counted_ = false;
};

}  // namespace kintsugi::workers
