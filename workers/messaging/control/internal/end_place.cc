#include "workers/messaging/control/internal/end_place.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/model/infra_status.h"

namespace kintsugi::workers {

EndPlace end_place(Site& site, const ObjectRefKey& key) {
  EndPlace out;
  out.tenant = site.directory().tenant(key.key.cluster, key.key.ns);
  site.each_infra(
      [&](OwnedInfra& infra) { out.infra = infra.work->known(key) ? &infra : out.infra; });
  if (!out.tenant) {
    out.message = "the namespace has no tenant";
    return out;
  }
  const Site::Place place = site.place(*out.tenant);
  out.infra = place.infra == nullptr ? out.infra : place.infra;
  if (place.space != nullptr && out.tenant->space->meta.deleting) {
    out.message = "the tenant is being deleted";
  } else if (place.space == nullptr) {
    out.message = "the tenant is not bound to an infra";
    const std::optional<Key>& bound = out.tenant->space->bound;
    out.not_begun = bound && place.infra == nullptr &&
                    Directory::find(*site.directory().infras, bound->view()) != nullptr;
  } else {
    out.space = place.space;
    out.message = place.space->made ? "" : "the tenant is not at the routers yet";
  }
  return out;
}

std::vector<ComponentView> router_views(const InfraWork& work, const ObjectRefKey& object) {
  std::vector<ComponentView> out;
  for (const auto& one : work.components()) {
    if (one->kind == ComponentKind::kRouter) {
      out.push_back({one->where.host, one->kind, one->pipeline->is_connected(),
                     work.progress(object, *one), std::nullopt});
    }
  }
  return out;
}

std::vector<ConnectorView::AtRouter> connector_links(const InfraWork& work, std::string_view entity,
                                                     std::deque<std::string>& texts) {
  std::vector<ConnectorView::AtRouter> out;
  for (const auto& one : work.components()) {
    if (one->kind != ComponentKind::kRouter || !one->pipeline->is_connected()) {
      continue;
    }
    LinkStatus status = one->pipeline->connector(entity);
    texts.push_back(std::move(status.message));
    const bool up = status.state == LinkState::kActive;
    out.push_back({one->where.host, up, up ? std::string_view() : texts.back()});
  }
  return out;
}

PartPlace part_place(const Site& site, const OwnedInfra& infra, std::string_view space_id) {
  return {infra.work->owner(), space_id, site.config().certificate_directory,
          !infra.object.routers.authentication_service.empty()};
}

std::int64_t least_ready(const OwnedInfra& infra) {
  return routers_needed(infra.object, infra.work->count(ComponentKind::kRouter));
}

std::string replaced_secret(const PartRecord& record, const PartState& state) {
  return record.certificate.empty() || record.certificate == state.profile
             ? std::string()
             : profile_secret_name(record.certificate);
}

bool take_off_routers(Site& site, const ObjectRefKey& object) {
  bool gone = true;
  site.each_infra([&](OwnedInfra& infra) {
    if (infra.work->known(object)) {
      infra.work->want_nothing(object, ComponentKind::kRouter);
      gone = gone && infra.work->settled(object, ComponentKind::kRouter);
    }
  });
  return gone;
}

void assume_at_routers(InfraWork& work, const ObjectRefKey& object,
                       std::span<const DesiredEntity> entities) {
  for (const auto& one : work.components()) {
    if (one->kind == ComponentKind::kRouter) {
      work.assume(object, *one, entities);
    }
  }
}

namespace {

std::string claim_key(std::string_view host) { return to_lower(host); }

/// The space that an object's hosts are of.
std::optional<std::string> space_of(const Site& site, const ObjectRefKey& object) {
  if (object.kind != MessagingKind::kEndpoint) {
    return text_of(object);
  }
  const auto tenant = site.directory().tenant(object.key.cluster, object.key.ns);
  return tenant ? std::optional(text_of(tenant->key)) : std::nullopt;
}

/// Endpoints whose answer changed, and with each the tenant, whose vhost has the alias.
void look_at_claimants(Site& site, const OwnedInfra& infra, std::span<const ObjectId> objects) {
  site.look_at(*infra.work, objects);
  for (const ObjectId one : objects) {
    const ObjectRefKey& object = infra.work->object(one);
    if (object.kind == MessagingKind::kEndpoint) {
      if (const auto tenant = site.directory().tenant(object.key.cluster, object.key.ns)) {
        site.look_at(tenant->key);
      }
    }
  }
}

void claim(Site& site, OwnedInfra& infra, ObjectId number,
           std::vector<std::pair<std::string, Age>> wanted) {
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  ClaimedHosts& has = infra.claimed[number];
  if (has.hosts == wanted) {
    return;
  }
  for (const auto& [host, age] : has.hosts) {
    if (!std::binary_search(wanted.begin(), wanted.end(), std::pair(host, age))) {
      look_at_claimants(site, infra, infra.hosts.release(host, age));
    }
  }
  for (const auto& [host, age] : wanted) {
    look_at_claimants(site, infra, infra.hosts.claim(host, age));
  }
  has.hosts = std::move(wanted);
  const ObjectId self[] = {number};
  look_at_claimants(site, infra, self);
}

}  // namespace

void claim_hosts(Site& site, OwnedInfra& infra, const ObjectRefKey& object, const Age& age,
                 std::vector<std::string> hosts) {
  std::vector<std::pair<std::string, Age>> wanted;
  for (const std::string& host : hosts) {
    wanted.emplace_back(claim_key(host), age);
  }
  claim(site, infra, infra.work->number(object), std::move(wanted));
}

void claim_own_names(Site& site, OwnedInfra& infra, const ObjectRefKey& space, const Age& age,
                     std::string_view space_id, std::vector<std::string> hosts) {
  std::vector<std::pair<std::string, Age>> wanted;
  Age first;  // older than any other
  first.object = age.object;
  const std::string below = endpoint_host({}, space_id, infra.object.routers.domain);
  wanted.emplace_back(claim_key(space_id), first);
  wanted.emplace_back(claim_key(below), first);
  for (const std::string& host : hosts) {
    if (claim_key(host) != claim_key(below) && claim_key(host) != space_id) {
      wanted.emplace_back(claim_key(host), age);
    }
  }
  claim(site, infra, infra.work->number(space), std::move(wanted));
}

void release_hosts(Site& site, OwnedInfra& infra, const ObjectRefKey& object) {
  const std::optional<ObjectId> number = infra.work->known(object);
  const auto at = number ? infra.claimed.find(*number) : infra.claimed.end();
  if (at == infra.claimed.end()) {
    return;
  }
  const ClaimedHosts had = std::move(at->second);
  infra.claimed.erase(at);
  for (const auto& [host, age] : had.hosts) {
    look_at_claimants(site, infra, infra.hosts.release(host, age));
  }
}

bool has_host(const Site& site, const OwnedInfra& infra, const ObjectRefKey& space,
              std::string_view host) {
  const std::optional<ObjectId> owner = infra.hosts.owner(claim_key(host));
  return owner && space_of(site, infra.work->object(*owner)) == text_of(space);
}

Condition host_refused(const OwnedInfra& infra, std::string_view host) {
  const std::optional<ObjectId> owner = infra.hosts.owner(claim_key(host));
  return host_conflict(host, owner ? infra.work->object(*owner).key.name : std::string());
}

ProtocolPorts allocate_ports(PortPool& pool, const ObjectIdentity& of,
                             const MessagingEndpoint& endpoint, const ProtocolPorts& recorded,
                             std::optional<Condition>* fault) {
  ProtocolPorts out;
  if (!needs_listener(endpoint)) {
    return out;
  }
  for (const Protocol protocol : endpoint.protocols) {
    const std::string owner = port_owner(of, endpoint.name, protocol);
    const auto at = std::find_if(recorded.begin(), recorded.end(),
                                 [&](const auto& one) { return one.first == protocol; });
    if (at != recorded.end() && pool.assume(owner, at->second)) {
      out.push_back(*at);
    } else if (const std::optional<std::int64_t> port = pool.allocate(owner)) {
      out.emplace_back(protocol, *port);
    } else {
      *fault = pool.exhausted();
    }
  }
  return out;
}

void release_ports(PortPool& pool, const ObjectIdentity& of, std::string_view endpoint,
                   const ProtocolPorts& kept, bool cleared) {
  for (const Protocol protocol :
       {Protocol::kAmqp, Protocol::kAmqps, Protocol::kAmqpWs, Protocol::kAmqpWss}) {
    const std::string owner = port_owner(of, endpoint, protocol);
    const bool keeps = std::any_of(kept.begin(), kept.end(),
                                   [&](const auto& one) { return one.first == protocol; });
    if (keeps || (!pool.port(owner) && !pool.is_tombstone(owner))) {
      continue;
    }
    pool.release(owner);
    if (cleared) {
      pool.cleared(owner);
    }
  }
}

void end_has_spoken(Site& site, const ObjectRefKey& object) {
  site.each_infra([&](OwnedInfra& infra) {
    if (infra.silent_ends.erase(text_of(object)) > 0 && infra.silent_ends.empty()) {
      site.look_at(MessagingKind::kInfra, infra.work->key().view());
    }
  });
}

void enter_ends(Site& site, OwnedInfra& infra) {
  infra.ports.set_range(infra.object.routers.first_port, infra.object.routers.last_port);
  const auto assume = [&infra](const ObjectIdentity& of, std::string_view name,
                               const PartRecord& record) {
    for (const auto& [protocol, port] : record.ports) {
      (void)infra.ports.assume(port_owner(of, name, protocol), port);
    }
  };
  const Directory& directory = site.directory();
  for (const auto& [text, space] : infra.spaces) {
    const auto* const cached =
        Directory::find(directory.spaces_of(space.key.kind), space.key.key.view());
    if (cached == nullptr) {
      continue;
    }
    const krm::Json status = cached->status_json();
    for (const Parsed<MessagingEndpoint>& one : cached->parsed.object.endpoints) {
      assume(cached->id(), one.object.name, record_of_part(status, endpoint_part(one.object.name)));
    }
    if (!cached->parsed.object.is_tenant()) {
      continue;
    }
    const ObjectRefKey tenant = space.key;
    const std::string& space_id = space.space_id;
    directory.each_end_of(
        tenant.key.cluster, tenant.key.ns, [&](MessagingKind kind, const QueueKey& key) {
          const ObjectRefKey ref{
              kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
          infra.silent_ends.insert(text_of(ref));
          const auto* const endpoint = Directory::find(*directory.endpoints, key);
          if (kind != MessagingKind::kEndpoint || endpoint == nullptr) {
            return;
          }
          const MessagingEndpoint& object = endpoint->parsed.object;
          assume(endpoint->id(), object.name, record_of_object(endpoint->status_json()));
          std::string host = endpoint->parsed.valid
                                 ? endpoint_host(object, space_id, infra.object.routers.domain)
                                 : record_of_part(status, endpoint_part(object.name)).alias;
          if (!host.empty() && !endpoint->meta.deleting) {
            claim_hosts(site, infra, ref, age_of(endpoint->id(), infra.work->number(ref)),
                        {std::move(host)});
          }
        });
  }
}

bool only_http_left(const ObjectProgress& progress, std::size_t http) noexcept {
  return progress.leftover > 0 && progress.leftover <= http &&
         progress.error.find("HTTP listeners cannot be deleted") != std::string::npos;
}

}  // namespace kintsugi::workers
