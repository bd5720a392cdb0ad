#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "base/error.h"
#include "krm/json.h"

/// Initializers and terminators of a LogicalCluster: names "<type cluster>:<type>" of those who
/// have work to do before the cluster is Ready, or before its content is deleted. Source:
/// AM-488, KK-065. Plain functions on objects; no state.
namespace kintsugi::controlplane {

enum class Lifecycle : std::uint8_t { kInitializing, kTerminating };

/// What differs between the two, as data.
struct LifecycleNames {
  std::string_view list;               ///< field of spec and status: "initializers"
  std::string_view one;                ///< "initializer", in messages
  std::string_view phase;              ///< of a cluster that waits
  std::string_view label_prefix;       ///< of the labels below
  std::string_view verb;               ///< on the WorkspaceType: who may do the work
  std::string_view permissions;        ///< field of a WorkspaceType: what he may do inside
  std::string_view virtual_workspace;  ///< path segment after /services/
};
[[nodiscard]] const LifecycleNames& lifecycle_names(Lifecycle lifecycle) noexcept;

/// The label of LogicalClusters that wait for `name`: key and value, from its SHA-224 as kcp makes
/// them, so that the key fits and nobody hits it by chance.
struct LifecycleLabel {
  std::string key, value;
};
[[nodiscard]] LifecycleLabel lifecycle_label(Lifecycle lifecycle, std::string_view name);

/// Whether the cluster waits for `name` in the phase in which that does its work.
[[nodiscard]] bool waits_for(const krm::Json& logical_cluster, Lifecycle lifecycle,
                             std::string_view name);

/// Names in status.initializers or status.terminators.
[[nodiscard]] std::vector<std::string> waiting_names(const krm::Json& logical_cluster,
                                                     Lifecycle lifecycle);

/// For Hooks::prepare of LogicalClusters: phase of a deleted one (Terminating while terminators
/// remain, then Deleting), labels for the phase and each name in status, and the finalizer that
/// shows terminators.
void keep_lifecycle(krm::Json& logical_cluster);

/// Condition WorkspaceInitialized of a LogicalCluster or Workspace, from its phase and the names in
/// its status.
void set_initialized_condition(krm::Json& object);

/// Whether a write to status takes `name` and nothing else out of its list, or leaves the list as
/// it is; conditions are free, nothing else may change (KK-350).
/// @error kInvalid `only removing the "<name>" initializer is supported`
[[nodiscard]] Expected<void> check_only_removes(const krm::Json& now, const krm::Json& old,
                                                Lifecycle lifecycle, std::string_view name);

}  // namespace kintsugi::controlplane
