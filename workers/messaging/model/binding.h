#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// Which infra and which plan a space gets. Functions of their inputs alone; the order of lists does
// not matter. Source: MS-008, MS-017, MS-018, MS-027, MS-090. Threads: any.

/// A namespace as selectors see it.
struct NamespaceView {
  std::string_view name;
  const krm::Json* labels = nullptr;  ///< metadata.labels, null for none
};
/// How well a selector suits a namespace; smaller is better.
enum class SelectorRank : std::uint8_t { kName, kLabels, kAny, kNone };
[[nodiscard]] SelectorRank selector_rank(const NamespaceSelector& selector,
                                         const NamespaceView& ns) noexcept;

struct InfraCandidate {
  const MessagingInfra* infra = nullptr;
  bool active = false;  ///< only such are chosen without a ref
  bool deleting = false;
};
/// What was chosen; nullptr: nothing, and why.
template <class Object>
struct Chosen {
  const Object* object = nullptr;
  std::string_view reason;  ///< CamelCase
  std::string message;
};

/// The infra of a space. With a ref that one, Active or not; without, the best of the Active ones:
/// a name beats labels, these beat no selector, then the oldest.
/// @param infras  those of the shard, of all clusters.
/// @param ref     empty for none; its ns "" means `ns`.
/// @param bound   the infra recorded, "" for none: `<ns>/<name>`. Without a ref it stays as long as
///                it is there and its selector takes the namespace.
/// Reasons: InfraNotFound, NamespaceNotSelected, InfraTerminating.
[[nodiscard]] Chosen<MessagingInfra> choose_infra(std::span<const InfraCandidate> infras,
                                                  const NamespaceView& ns, const ObjectRef& ref,
                                                  std::string_view bound = {});

/// Where a plan or an infra of a ref is looked up, in this order: the ref's namespace if it has
/// one; else the space's namespace, `enmasse-infra` of its cluster, and of the configured clusters.
struct LookupPlace {
  std::string cluster, ns;
  bool operator==(const LookupPlace&) const = default;
};
[[nodiscard]] std::vector<LookupPlace> lookup_places(const ObjectIdentity& space,
                                                     const ObjectRef& ref,
                                                     std::span<const std::string> infra_clusters);
inline constexpr std::string_view kInfraNamespace = "enmasse-infra";

/// The plan of a space. Without a ref: of those marked as default whose selector takes the
/// namespace the best, as for infras; none is no fault of a tenant (object nullptr, reason "").
/// @param plans  all of the shard, both kinds: a tenant gets MessagingPlans, a space the others.
/// Reasons: PlanNotFound, WrongPlanType (of another type than shared), NamespaceNotSelected.
[[nodiscard]] Chosen<MessagingPlan> choose_plan(const MessagingSpace& space,
                                                std::span<const MessagingPlan* const> plans,
                                                const NamespaceView& ns,
                                                std::span<const std::string> infra_clusters);

/// What of a space its plan and infra do not let it have: PlanFound=False/CapabilityNotInPlan,
/// InfraBound=False/AuthenticationServiceMismatch. nullopt: nothing.
[[nodiscard]] std::optional<Condition> space_refused(const MessagingSpace& space,
                                                     const MessagingPlan& plan,
                                                     const MessagingInfra& infra);

/// MS-018: a plan that now names another infra than the one that a space with addresses is bound
/// to: InfraBound=False/InfraImmutable. nullopt: as before, or nothing is there to be moved.
[[nodiscard]] std::optional<Condition> infra_moved(const ObjectIdentity& bound,
                                                   const ObjectIdentity& wanted,
                                                   std::int64_t addresses);

}  // namespace kintsugi::workers
