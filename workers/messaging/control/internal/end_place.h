#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/control/internal/ends.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/address_status.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {

/// Where an endpoint or connector of a tenant is. Lifetime: until the caller lets the loop go on.
struct EndPlace {
  std::optional<Directory::SpaceFound> tenant;
  OwnedInfra* infra = nullptr;  ///< of the tenant, else where the object has something still
  OwnedSpace* space = nullptr;  ///< null: not bound, not ours, or going
  std::string_view message;     ///< why nothing can be made, "" when it can
  bool not_begun = false;       ///< its infra is there, but not begun here: what is at its routers
                                ///< is not known yet
  [[nodiscard]] bool ready() const noexcept { return space != nullptr && message.empty(); }
};
[[nodiscard]] EndPlace end_place(Site& site, const ObjectRefKey& key);

/// As it is at each router of an infra.
[[nodiscard]] std::vector<ComponentView> router_views(const InfraWork& work,
                                                      const ObjectRefKey& object);
/// State of a connector at the connected routers. Texts are those of `texts`, which grows.
[[nodiscard]] std::vector<ConnectorView::AtRouter> connector_links(const InfraWork& work,
                                                                   std::string_view entity,
                                                                   std::deque<std::string>& texts);
[[nodiscard]] PartPlace part_place(const Site& site, const OwnedInfra& infra,
                                   std::string_view space_id);
[[nodiscard]] std::int64_t least_ready(const OwnedInfra& infra);

/// Name of the Secret whose files no router uses any more, once all hold what is wanted; "".
[[nodiscard]] std::string replaced_secret(const PartRecord& record, const PartState& state);

/// Where an object has something although its tenant says nothing of it any more: it is to go.
/// @returns whether nothing is left at routers that are ours
bool take_off_routers(Site& site, const ObjectRefKey& object);
/// What the status says is there was made by another process, and is taken as such once.
void assume_at_routers(InfraWork& work, const ObjectRefKey& object,
                       std::span<const DesiredEntity> entities);

/// What endpoints of an infra have in common. An object is a MessagingEndpoint, or a space with all
/// its endpoints. Who has its turn by a change is looked at.
/// @{
/// Claims these hosts and no others. The names of a space itself, its id and the host below the
/// infra's domain, are nobody else's.
void claim_hosts(Site& site, OwnedInfra& infra, const ObjectRefKey& object, const Age& age,
                 std::vector<std::string> hosts);
void claim_own_names(Site& site, OwnedInfra& infra, const ObjectRefKey& space, const Age& age,
                     std::string_view space_id, std::vector<std::string> hosts);
void release_hosts(Site& site, OwnedInfra& infra, const ObjectRefKey& object);
/// Whether a space has a host, by itself or by one of its endpoints.
[[nodiscard]] bool has_host(const Site& site, const OwnedInfra& infra, const ObjectRefKey& space,
                            std::string_view host);
/// Created=False/HostConflict with who has it.
[[nodiscard]] Condition host_refused(const OwnedInfra& infra, std::string_view host);
/// @}

/// Ports of an endpoint's listeners: those that its status says, else free ones.
/// @param fault  AllocatedPorts=False/PortsExhausted: then some protocols have none
[[nodiscard]] ProtocolPorts allocate_ports(PortPool& pool, const ObjectIdentity& of,
                                           const MessagingEndpoint& endpoint,
                                           const ProtocolPorts& recorded,
                                           std::optional<Condition>* fault);
/// Gives back the ports of protocols that have no listener any more. @param cleared  nothing of it
/// is at any router
void release_ports(PortPool& pool, const ObjectIdentity& of, std::string_view endpoint,
                   const ProtocolPorts& kept, bool cleared);
/// A connector or endpoint has said what it wants, or has never had anything.
void end_has_spoken(Site& site, const ObjectRefKey& object);
/// When an infra is begun with: hosts and ports of all endpoints of its tenants and spaces, as
/// their statuses say.
void enter_ends(Site& site, OwnedInfra& infra);

/// An HTTP listener cannot be deleted: what is left of an endpoint is nothing else (MS-071).
[[nodiscard]] bool only_http_left(const ObjectProgress& progress, std::size_t http) noexcept;

}  // namespace kintsugi::workers
