#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/component_resources.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// What is written and deleted for the operators of routers and brokers, and which components there
// are. Functions of their inputs alone. Source: MR-5, MR-13, MR-19, MS-001, MS-038, MS-075, MS-078.
// Threads: any.

/// Whether operators make the routers, or the brokers, of an infra: it names none itself.
[[nodiscard]] bool operator_makes_routers(const MessagingInfra& infra) noexcept;
[[nodiscard]] bool operator_makes_brokers(const MessagingInfra& infra) noexcept;

/// What is stored in an infra's namespace.
struct OperatorView {
  std::vector<krm::Json> routers, brokers;  ///< Interconnects and ActiveMQArtemises, of anybody
  std::vector<krm::Json> pods;              ///< with the infra's label
};
/// Routers of each group that are asked for already, the largest group's; 0: there is none.
[[nodiscard]] std::int64_t stored_router_size(const MessagingInfra& infra,
                                              const OperatorView& view);
/// Indexes of brokers that have a resource of ours which is not being deleted, in their order.
[[nodiscard]] std::vector<std::int64_t> stored_brokers(const MessagingInfra& infra,
                                                       const OperatorView& view);

struct OperatorPlan {
  /// For server-side apply, routers first. What is stored with the same content is not in it.
  std::vector<krm::Json> apply;
  struct Removal {
    bool broker = false;
    std::string name;
    bool operator==(const Removal&) const = default;
  };
  std::vector<Removal> remove;
  std::vector<std::string> taken;  ///< names that somebody else's resources have: left alone
  bool gone = true;                ///< of a removal: nothing of ours is left
};
/// @param size     routers of each group
/// @param brokers  indexes that are to be there
[[nodiscard]] OperatorPlan operator_plan(const MessagingInfra& infra, std::int64_t size,
                                         std::span<const std::int64_t> brokers,
                                         const OperatorView& view);
/// All of it goes: routers first, brokers when these are gone (11.6).
[[nodiscard]] OperatorPlan operator_removal(const MessagingInfra& infra, const OperatorView& view);

/// The components of an infra. A broker whose pod is not there, or has no address yet, is one all
/// the same: with the place where it was before, else with none (address "").
/// @param before  what this gave the last time
[[nodiscard]] std::vector<Component> operator_components(const MessagingInfra& infra,
                                                         const OperatorView& view,
                                                         std::span<const Component> before);
/// (group, zone) of routers whose pods tell a zone: label topology.kubernetes.io/zone.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> router_zones(
    const MessagingInfra& infra, const OperatorView& view);

/// Routers of each group (MS-078): what requests ask for; no fewer than there are while not every
/// object has said what it needs.
[[nodiscard]] std::int64_t router_size(const MessagingInfra& infra, std::int64_t connections,
                                       std::int64_t stored, bool complete);
/// Indexes of brokers that are to be there: those that are, and the next free ones up to `wanted`;
/// fewer, the last ones first, only when every object has said what it needs.
[[nodiscard]] std::vector<std::int64_t> broker_indexes(std::span<const std::int64_t> stored,
                                                       std::int64_t wanted, bool complete);

}  // namespace kintsugi::workers
