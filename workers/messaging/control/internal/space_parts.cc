#include "workers/messaging/control/internal/space_parts.h"

#include <algorithm>

#include "workers/messaging/control/internal/end_reports.h"
#include "workers/messaging/model/endpoint_resources.h"
#include "workers/messaging/model/operator_plan.h"

namespace kintsugi::workers {

namespace {

std::string domain_of(const SpaceFacts& facts) { return facts.infra->object.routers.domain; }

std::string host_of(const SpaceFacts& facts, const MessagingEndpoint& endpoint) {
  return endpoint_host(endpoint, facts.space_id, domain_of(facts));
}

const PartState* state_of(const Site& site, const SpaceFacts& facts, const std::string& part) {
  return site.ends().find(facts.key, part);
}

std::string part_of(const MessagingConnector& one) { return connector_part(one.name); }
std::string part_of(const MessagingEndpoint& one) { return endpoint_part(one.name); }

/// Of two parts with one name the first counts.
template <class T>
bool first_of_name(const std::vector<Parsed<T>>& all, const Parsed<T>& one) {
  const auto first = std::find_if(all.begin(), all.end(), [&one](const Parsed<T>& other) {
    return other.object.name == one.object.name;
  });
  return &*first == &one;
}

/// Of one of a space's parts.
template <class T>
const T* to_hold(const Site& site, const SpaceFacts& facts, const std::vector<Parsed<T>>& all,
                 const Parsed<T>& one) {
  return first_of_name(all, one) ? to_hold(one, state_of(site, facts, part_of(one.object)))
                                 : nullptr;
}

/// `visit` is called with what routers are to hold of each part.
template <class T, class Visit>
void each_held(const Site& site, const SpaceFacts& facts, const std::vector<Parsed<T>>& all,
               Visit&& visit) {
  for (const Parsed<T>& one : all) {
    if (const T* const part = to_hold(site, facts, all, one)) {
      visit(*part);
    }
  }
}

/// All that the space has, also faulty ones.
std::vector<std::string> part_names(const SpaceFacts& facts) {
  std::vector<std::string> out;
  for (const Parsed<MessagingConnector>& one : facts.space().connectors) {
    out.push_back(part_of(one.object));
  }
  for (const Parsed<MessagingEndpoint>& one : facts.space().endpoints) {
    out.push_back(part_of(one.object));
  }
  return out;
}

/// What is prepared: the parts that are valid, and of others what was good the last time. All, to
/// be removed.
std::vector<PartInput> inputs_of(const Site& site, const SpaceFacts& facts) {
  std::vector<PartInput> out;
  const auto chosen = [&]<class T>(const Parsed<T>& one, std::optional<T> PartState::*good) {
    const PartState* const state = state_of(site, facts, part_of(one.object));
    const bool keeps = !one.valid && state != nullptr && (state->*good).has_value();
    return keeps                                      ? &*(state->*good)
           : one.valid || facts.cached->meta.deleting ? &one.object
                                                      : nullptr;
  };
  PartInput common;
  common.object = facts.key;
  common.infra = facts.infra->work->key();
  common.space_id = facts.space_id;
  common.generation = facts.cached->id().generation;
  for (const Parsed<MessagingConnector>& one : facts.space().connectors) {
    if (const MessagingConnector* const part = chosen(one, &PartState::good_connector)) {
      PartInput& input = out.emplace_back(common);
      input.part = part_of(*part);
      input.connector = *part;
      input.record = record_of_part(facts.status, input.part);
    }
  }
  for (const Parsed<MessagingEndpoint>& one : facts.space().endpoints) {
    if (const MessagingEndpoint* const part = chosen(one, &PartState::good_endpoint)) {
      PartInput& input = out.emplace_back(common);
      input.part = part_of(*part);
      input.host = host_of(facts, *part);
      input.endpoint = *part;
      input.record = record_of_part(facts.status, input.part);
    }
  }
  return out;
}

/// Names of what the space has: what is known of others ends.
std::vector<std::string> names_of(const Site& site, const ObjectRefKey& key) {
  const auto* const cached = Directory::find(site.directory().spaces_of(key.kind), key.key.view());
  std::vector<std::string> out;
  if (cached != nullptr) {
    SpaceFacts facts;
    facts.cached = cached;
    out = part_names(facts);
  }
  return out;
}

/// Of a space that is ours; nothing of any other.
std::vector<PartInput> inputs_of(Site& site, const ObjectRefKey& key) {
  const auto* const cached = Directory::find(site.directory().spaces_of(key.kind), key.key.view());
  if (cached == nullptr ||
      (cached->parsed.object.connectors.empty() && cached->parsed.object.endpoints.empty())) {
    return {};
  }
  const SpaceFacts facts = space_facts(site, key, *cached);
  return facts.infra == nullptr ? std::vector<PartInput>() : inputs_of(site, facts);
}

std::string first_message(const std::vector<Condition>& conditions) {
  return conditions.empty() ? std::string() : conditions.front().message;
}

ConnectorView connector_view(const Site& site, const SpaceFacts& facts,
                             const Parsed<MessagingConnector>& one, SpaceParts& out) {
  ConnectorView view;
  const MessagingConnector& connector = one.object;
  const PartState* const state = state_of(site, facts, connector_part(connector.name));
  view.name = connector.name;
  view.valid = one.valid && (state == nullptr || !state->fault);
  if (!one.valid) {
    view.message = out.texts.emplace_back(first_message(one.conditions));
  } else if (state != nullptr && state->fault) {
    view.message = out.texts.emplace_back(state->fault->message);
  }
  if (state != nullptr) {
    (void)out.redactor.know(connector.name + "/username", state->username);
    (void)out.redactor.know(connector.name + "/password", state->password);
  }
  if (view.valid) {
    const InfraWork& work = *facts.infra->work;
    view.routers =
        connector_links(work, connector_name(work.owner(), facts.space_id, connector), out.texts);
  }
  return view;
}

/// Why clients from outside do not get to the routers yet; "": they do, or it is not ours to see
/// to.
std::string_view unserved(const SpaceFacts& facts, const std::optional<Condition>& service) {
  if (!operator_makes_routers(facts.infra->object) ||
      (service && service->status == ConditionStatus::kTrue)) {
    return {};
  }
  return service ? std::string_view(service->message) : "its Service is not written yet";
}

EndpointView endpoint_view(const Site& site, const SpaceFacts& facts,
                           const Parsed<MessagingEndpoint>& one,
                           const std::optional<Condition>& service, SpaceParts& out) {
  EndpointView view;
  const MessagingEndpoint& endpoint = one.object;
  const std::string& host = out.texts.emplace_back(host_of(facts, endpoint));
  view.name = endpoint.name;
  view.host = host;
  if (!one.valid) {
    view.message = out.texts.emplace_back(first_message(one.conditions));
    return view;
  }
  for (const auto& [protocol, port] : external_ports(endpoint)) {
    view.ports.emplace_back(protocol_text(protocol), port);
  }
  const PartState* const state = state_of(site, facts, endpoint_part(endpoint.name));
  if (state != nullptr && out.authority.empty()) {
    out.authority = state->authority;
  }
  if (!has_host(site, *facts.infra, facts.key, host)) {
    view.message = out.texts.emplace_back(host_refused(*facts.infra, host).message);
  } else if (state != nullptr && state->fault) {
    view.message = out.texts.emplace_back(state->fault->message);
  } else if (needs_certificate(endpoint) && (state == nullptr || state->profile.empty())) {
    view.message = "the certificate is not at all routers yet";
  } else if (needs_listener(endpoint) &&
             (state == nullptr || state->ports.size() < endpoint.protocols.size())) {
    view.message = out.texts.emplace_back(facts.infra->ports.exhausted().message);
  } else if (const std::string_view why = unserved(facts, service); !why.empty()) {
    view.message = out.texts.emplace_back(why);
  } else {
    view.ready = true;
  }
  return view;
}

}  // namespace

std::vector<SpaceAlias> space_aliases(const Site& site, const SpaceFacts& facts) {
  std::vector<SpaceAlias> out;
  const auto add = [&](const Parsed<MessagingEndpoint>& asked, const MessagingEndpoint* held) {
    const std::string part = endpoint_part(asked.object.name);
    std::string host = held == nullptr         ? record_of_part(facts.status, part).alias
                       : needs_listener(*held) ? std::string()
                                               : host_of(facts, *held);
    if (!host.empty() && has_host(site, *facts.infra, facts.key, host)) {
      out.push_back({part, std::move(host)});
    }
  };
  const auto& own = facts.space().endpoints;
  for (const Parsed<MessagingEndpoint>& one : own) {
    if (first_of_name(own, one)) {
      add(one, to_hold(site, facts, own, one));
    }
  }
  if (facts.space().is_tenant() && !facts.duplicate) {
    const ObjectIdentity& id = facts.cached->id();
    const Directory& directory = site.directory();
    directory.each_end_of(id.cluster, id.ns, [&](MessagingKind kind, const QueueKey& key) {
      if (kind != MessagingKind::kEndpoint) {
        return;
      }
      const auto* const one = Directory::find(*directory.endpoints, key);
      if (one == nullptr || one->meta.deleting) {
        return;
      }
      const ObjectRefKey ref{
          kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
      add(one->parsed, to_hold(one->parsed, site.ends().find(ref, endpoint_part(key.name))));
    });
  }
  return out;
}

void claim_space_hosts(Site& site, const SpaceFacts& facts) {
  std::vector<std::string> hosts;
  const auto& all = facts.space().endpoints;
  for (const Parsed<MessagingEndpoint>& one : all) {
    if (const MessagingEndpoint* const held = to_hold(site, facts, all, one)) {
      hosts.push_back(host_of(facts, *held));
    } else if (std::string alias =
                   record_of_part(facts.status, endpoint_part(one.object.name)).alias;
               !alias.empty()) {
      hosts.push_back(std::move(alias));
    }
  }
  claim_own_names(site, *facts.infra, facts.key, age_of(facts.cached->id(), facts.number),
                  facts.space_id, std::move(hosts));
}

net::Task<Outcome> prepare_space_parts(Site& site, ObjectRefKey key) {
  std::vector<PartInput> inputs = inputs_of(site, key);
  site.ends().keep_only(key, names_of(site, key));
  for (PartInput& one : inputs) {
    net::Task<Outcome> preparing = site.ends().prepare(std::move(one));
    const Outcome outcome = co_await preparing;
    if (outcome.kind != Outcome::Kind::kDone) {
      co_return outcome;
    }
  }
  co_return Outcome::done();
}

std::vector<krm::Json> space_resources(const Site& site, const SpaceFacts& facts) {
  std::vector<krm::Json> out;
  if (!operator_makes_routers(facts.infra->object)) {
    return out;
  }
  each_held(site, facts, facts.space().endpoints, [&](const MessagingEndpoint& one) {
    const std::string host = host_of(facts, one);
    if (has_host(site, *facts.infra, facts.key, host)) {
      const PartRecord record = record_of_part(facts.status, part_of(one));
      for (krm::Json& each :
           endpoint_resources({&one, &facts.infra->object, facts.space_id, host, record.ports})) {
        out.push_back(std::move(each));
      }
    }
  });
  return out;
}

std::optional<krm::Json> place_space_parts(Site& site, const SpaceFacts& facts) {
  krm::Json status = facts.status;
  bool changed = false;
  each_held(site, facts, facts.space().endpoints, [&](const MessagingEndpoint& one) {
    const std::string part = part_of(one);
    PartRecord record = record_of_part(status, part);
    std::optional<Condition> fault;
    ProtocolPorts ports =
        allocate_ports(facts.infra->ports, facts.cached->id(), one, record.ports, &fault);
    if (ports != record.ports) {
      record.ports = std::move(ports);
      write_part_record(status, part, record);
      changed = true;
    }
  });
  const std::vector<std::string> before = recorded_resources(status);
  std::vector<std::string> all = before;
  for (std::string& one : left_over(resource_texts(space_resources(site, facts)), before)) {
    all.push_back(std::move(one));
    changed = true;
  }
  record_resources(status, all);
  return changed ? std::optional(std::move(status)) : std::nullopt;
}

std::vector<DesiredEntity> space_part_entities(const Site& site, const SpaceFacts& facts,
                                               SecretForm form) {
  std::vector<DesiredEntity> out;
  const auto add = [&out](std::vector<DesiredEntity> more) {
    std::move(more.begin(), more.end(), std::back_inserter(out));
  };
  const PartPlace place = part_place(site, *facts.infra, facts.space_id);
  each_held(site, facts, facts.space().connectors, [&](const MessagingConnector& one) {
    if (const PartState* const state = state_of(site, facts, part_of(one))) {
      add(connector_part_entities(place, one, *state, form));
    }
  });
  each_held(site, facts, facts.space().endpoints, [&](const MessagingEndpoint& one) {
    const std::string part = part_of(one);
    site.ends().set_ports(facts.key, part, record_of_part(facts.status, part).ports);
    const PartState* const state = state_of(site, facts, part);
    if (state != nullptr && has_host(site, *facts.infra, facts.key, host_of(facts, one))) {
      add(endpoint_part_entities(place, one, *state));
    }
  });
  return out;
}

bool has_unknown_part(const Site& site, const SpaceFacts& facts) {
  const auto unknown = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) {
      return to_hold(one, state_of(site, facts, part_of(one.object))) == nullptr;
    });
  };
  return unknown(facts.space().connectors) || unknown(facts.space().endpoints);
}

void look_at_parts(Site& site, const SpaceFacts& facts, const std::optional<Condition>& service,
                   SpaceParts& out) {
  for (const Parsed<MessagingConnector>& one : facts.space().connectors) {
    out.connectors.push_back(connector_view(site, facts, one, out));
  }
  for (const Parsed<MessagingEndpoint>& one : facts.space().endpoints) {
    out.endpoints.push_back(endpoint_view(site, facts, one, service, out));
  }
}

std::vector<std::string> record_parts(Site& site, const SpaceFacts& facts, bool settled,
                                      krm::Json& status) {
  record_resources(status, resource_texts(space_resources(site, facts)));
  std::vector<std::string> replaced;
  std::vector<std::string> names = part_names(facts);
  const std::vector<SpaceAlias> aliases =
      settled ? space_aliases(site, facts) : std::vector<SpaceAlias>();
  const auto alias_of = [&aliases](std::string_view part) {
    const auto at = std::find_if(aliases.begin(), aliases.end(),
                                 [part](const SpaceAlias& one) { return one.part == part; });
    return at == aliases.end() ? std::string() : at->host;
  };
  for (const PartInput& one : inputs_of(site, facts)) {
    PartRecord record = one.record;
    if (settled) {
      record.alias = alias_of(one.part);
    }
    if (one.endpoint) {
      release_ports(facts.infra->ports, facts.cached->id(), one.endpoint->name, record.ports,
                    settled);
    }
    const PartState* const state = state_of(site, facts, one.part);
    if (settled && state != nullptr && record.certificate != state->profile) {
      if (std::string name = replaced_secret(record, *state); !name.empty()) {
        replaced.push_back(std::move(name));
      }
      record.certificate = state->profile;
    }
    write_part_record(status, one.part, record);
  }
  if (!settled) {
    return replaced;
  }
  for (const SpaceAlias& one : aliases) {  // of a tenant's own endpoints
    if (std::find(names.begin(), names.end(), one.part) == names.end()) {
      PartRecord record;
      record.alias = one.host;
      write_part_record(status, one.part, record);
      names.push_back(one.part);
    }
  }
  const krm::Json* const had = facts.status.find("parts");
  if (had == nullptr) {
    return replaced;
  }
  // Parts that the space has no more.
  for (const krm::Json& one : had->items()) {
    const std::string name(one.text({"name"}));
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      continue;
    }
    const PartRecord record = record_of_object(one);
    if (!record.certificate.empty()) {
      replaced.push_back(profile_secret_name(record.certificate));
      replaced.push_back(leaf_secret_name(entity_identity(facts.cached->id()) + "|" + name));
    }
    if (name.starts_with(endpoint_part(""))) {
      release_ports(facts.infra->ports, facts.cached->id(),
                    std::string_view(name).substr(endpoint_part("").size()), {}, true);
    }
    write_part_record(status, name, {});
  }
  return replaced;
}

std::vector<SpaceExport> space_exports(const Site& site, const SpaceFacts& facts) {
  std::vector<SpaceExport> out;
  for (const Parsed<MessagingEndpoint>& one : facts.space().endpoints) {
    const MessagingEndpoint& endpoint = one.object;
    const PartState* const state = state_of(site, facts, endpoint_part(endpoint.name));
    const std::string host = host_of(facts, endpoint);
    if (!one.valid || state == nullptr || state->fault ||
        !has_host(site, *facts.infra, facts.key, host)) {
      continue;
    }
    for (const MessagingEndpoint::Export& what : endpoint.exports) {
      const std::string_view resource = export_resource(what.kind);
      if (!resource.empty()) {
        out.push_back({resource, export_object({&endpoint, &what, host, external_ports(endpoint),
                                                state->ports, state->authority})});
      }
    }
  }
  return out;
}

net::Task<Outcome> remove_space_parts(Site& site, ObjectRefKey key) {
  std::vector<PartInput> inputs = inputs_of(site, key);
  for (PartInput& one : inputs) {
    net::Task<Outcome> removing = site.ends().remove(std::move(one));
    const Outcome outcome = co_await removing;
    if (outcome.kind != Outcome::Kind::kDone) {
      co_return outcome;
    }
  }
  co_return Outcome::done();
}

}  // namespace kintsugi::workers
