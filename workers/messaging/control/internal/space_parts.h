#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workers/messaging/control/internal/end_place.h"
#include "workers/messaging/control/internal/parts.h"
#include "workers/messaging/control/internal/space_facts.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {

// Connectors and endpoints that stand in an AddressSpace, and the endpoints of a tenant as far as
// its vhost has them. They are entities of the space. Source: MS-068, MS-072, MS-090. Threads: the
// unit's loop's.

/// A name of a space's vhost besides its id.
struct SpaceAlias {
  std::string part;  ///< endpoint_part()
  std::string host;
};
/// Hosts of its endpoints on shared listeners, as far as nobody else has them; of a faulty one the
/// host that is recorded, if what was good of it is not known. In no order.
[[nodiscard]] std::vector<SpaceAlias> space_aliases(const Site& site, const SpaceFacts& facts);
/// The space's names and hosts are claimed. When it enters its infra, and when it changes.
void claim_space_hosts(Site& site, const SpaceFacts& facts);

/// Reads and writes what its parts need. @returns kDone: they are known as well as can be
[[nodiscard]] net::Task<Outcome> prepare_space_parts(Site& site, ObjectRefKey key);
/// Services of its endpoints, and Ingresses and Routes, where an operator makes the routers; none
/// of an endpoint whose host somebody else has.
[[nodiscard]] std::vector<krm::Json> space_resources(const Site& site, const SpaceFacts& facts);
/// Ports of listeners and resources that are not recorded yet: the status that says them, to be
/// written before anything is sent. nullopt: they are.
[[nodiscard]] std::optional<krm::Json> place_space_parts(Site& site, const SpaceFacts& facts);
/// After the space's vhost.
[[nodiscard]] std::vector<DesiredEntity> space_part_entities(const Site& site,
                                                             const SpaceFacts& facts,
                                                             SecretForm form);

/// Whether one of its parts is faulty, and what was good of it before is not known: another process
/// may have made that.
[[nodiscard]] bool has_unknown_part(const Site& site, const SpaceFacts& facts);

/// What the status says of the parts. Lifetime: the views point into it and into the facts.
struct SpaceParts {
  std::deque<std::string> texts;
  std::vector<ConnectorView> connectors;
  std::vector<EndpointView> endpoints;
  Redactor redactor;
  std::string authority;  ///< PEM by which clients verify the endpoints, "" for none of ours
};
/// @param service  ServiceCreated of space_resources(), once they were written
void look_at_parts(Site& site, const SpaceFacts& facts, const std::optional<Condition>& service,
                   SpaceParts& out);
/// Records what is in force now. @param settled  routers hold the space as it is wanted
/// @returns names of Secrets that nobody uses any more
[[nodiscard]] std::vector<std::string> record_parts(Site& site, const SpaceFacts& facts,
                                                    bool settled, krm::Json& status);

struct SpaceExport {
  std::string_view resource;  ///< "configmaps"
  krm::Json object;
};
/// What its endpoints export, of those that can be reached.
[[nodiscard]] std::vector<SpaceExport> space_exports(const Site& site, const SpaceFacts& facts);
/// All that was written for its parts. kDone: it is gone
[[nodiscard]] net::Task<Outcome> remove_space_parts(Site& site, ObjectRefKey key);

}  // namespace kintsugi::workers
