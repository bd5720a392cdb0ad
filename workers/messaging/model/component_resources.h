#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// The resources that operators make routers and brokers of, and the components that there are.
// Functions of their inputs alone: the same infra gives the same bytes. Source: MR-7, MR-19, MD-7,
// MS-001, MS-076, MS-079. Threads: any.

inline constexpr std::string_view kInterconnectVersion = "interconnectedcloud.github.io/v1alpha1";
inline constexpr std::string_view kArtemisVersion = "broker.amq.io/v1beta1";
/// On all resources and pods of an infra: its name.
inline constexpr std::string_view kInfraLabel = "kintsugi.dev/infra";
/// On pods of routers: "router".
inline constexpr std::string_view kComponentLabel = "kintsugi.dev/component";
inline constexpr std::int64_t kInterRouterPort = 55672, kRouterManagementPort = 55671,
                              kClusterPort = 55667, kLivenessPort = 7778, kBrokerPort = 5672;

/// One Interconnect per group, `<infra>-<group>`, of `size` routers; none when the infra names its
/// routers itself.
[[nodiscard]] std::vector<krm::Json> router_resources(const MessagingInfra& infra,
                                                      std::int64_t size);
/// One ActiveMQArtemis per broker, `<infra>-b<n>`, n from 0 on; none as above.
[[nodiscard]] std::vector<krm::Json> broker_resources(const MessagingInfra& infra,
                                                      std::int64_t brokers);
/// Names of the Secrets that Interconnects name: "<infra>-ca" and "<infra>-router-cert".
[[nodiscard]] std::string router_ca_name(const MessagingInfra& infra);
[[nodiscard]] std::string router_certificate_name(const MessagingInfra& infra);
/// Hosts that routers have: "<infra>-<group>.<ns>.svc" of each group, the domain, and all of it.
[[nodiscard]] std::vector<std::string> router_hosts(const MessagingInfra& infra);
/// Name of the resource: "<infra>-<group>", "<infra>-b<n>".
[[nodiscard]] std::string broker_resource_name(const MessagingInfra& infra, std::int64_t index);

/// Whether a stored resource needs no update: it was made of the same wanted one (annotation
/// kintsugi.dev/spec-hash), and all that is wanted is still in it. What operators and servers add
/// is no difference.
[[nodiscard]] bool same_spec(const krm::Json& stored, const krm::Json& wanted);
/// The stored resource with what is wanted in place of its spec, for a PUT; metadata, status and
/// other owners' labels and annotations stay.
[[nodiscard]] krm::Json updated_resource(const krm::Json& stored, const krm::Json& wanted);

/// A router or broker that management connects to.
struct Component {
  bool broker = false;
  std::int64_t index = 0;      ///< brokers: n; routers: place in the list of their group
  ComponentEndpoint endpoint;  ///< host: pod name
  bool operator==(const Component& other) const noexcept {
    return broker == other.broker && index == other.index && endpoint.host == other.endpoint.host &&
           endpoint.address == other.endpoint.address && endpoint.port == other.endpoint.port &&
           endpoint.group == other.endpoint.group;
  }
};
/// The components of an infra: its endpoints where it names them, else pods of its resources that
/// have an address and are not being deleted. Routers by group and host first, brokers by index.
/// @param pods  of the infra's namespace, in any order.
[[nodiscard]] std::vector<Component> components_of(const MessagingInfra& infra,
                                                   std::span<const krm::Json> pods);

/// GroupsSpread (MR-7): whether no zone has routers of two groups.
/// @param zones  (group, zone) of each router that has a zone.
[[nodiscard]] Condition groups_spread(const MessagingInfra& infra,
                                      std::span<const std::pair<std::string, std::string>> zones);

}  // namespace kintsugi::workers
