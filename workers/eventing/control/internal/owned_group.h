#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/control/internal/eventing_objects.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

// What KafkaSources and Triggers share: each has a ConsumerGroup that it owns. Threads: any.

/// An object that has a ConsumerGroup.
struct CachedOwner {
  std::string uid;
  std::int64_t generation = 0;
  std::int64_t created = 0;  ///< seconds since 1970
  bool deleting = false, has_finalizer = false;
  std::string broker, group_id;  ///< of a Trigger: spec.broker; what its status stores
  KeptJson object;               ///< of the metadata what patches and the group need, spec, status
};
/// With one index: CachedOwner::uid. @param finalizer  that it has of ours
[[nodiscard]] Projection<CachedOwner> owner_projection(std::string_view finalizer);

/// What the ConsumerGroup is to be, by what its owner says.
struct GroupWish {
  std::int64_t replicas = 1;
  std::string policy;     ///< kReplicasPolicyAnnotation; "": none
  krm::Json consumers{};  ///< spec of its template
};
/// The ConsumerGroup of an owner: it has the owner's namespace, and the owner's uid as its name;
/// the owner owns it. Its finalizer is there from the start.
/// @param kind  of the owner; namespace, name and uid are the owner's, too
[[nodiscard]] krm::Json owned_group(const Resource& kind, std::string_view ns,
                                    std::string_view name, std::string_view uid, GroupWish wish);

/// The merge patch that gives a group the spec and the policy of owned_group(); nullopt: it has
/// them.
[[nodiscard]] std::optional<std::string> group_patch(const krm::Json& had, const krm::Json& wish);

/// `status` of a group; {}: there is none.
[[nodiscard]] krm::Json status_of_group(const CachedGroup* group);
/// What the group says of itself, as its owner's condition of that type. Its reason is a text of
/// `status`. @param status  status_of_group()
[[nodiscard]] Condition group_condition(std::string_view type, const CachedGroup* group,
                                        const krm::Json& status, std::int64_t generation);
/// Whether a sink is known: of what has a URL it is true, else as the group's condition tells.
/// @param trouble  the reason by which that says that there is none
[[nodiscard]] Condition sink_condition(std::string_view type, std::string_view url,
                                       std::string_view trouble, const Condition& group);
/// The group says that its pods do not all have its placement, which passes.
[[nodiscard]] bool is_group_passing(const CachedGroup& group);

}  // namespace kintsugi::workers
