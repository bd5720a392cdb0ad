#include "workers/messaging/control/endpoint_control.h"

#include <algorithm>

#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/internal/end_place.h"
#include "workers/messaging/control/internal/end_reports.h"
#include "workers/messaging/model/operator_plan.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);

const CachedEndpoint* find_endpoint(const Site& site, const ObjectRefKey& key) {
  return Directory::find(*site.directory().endpoints, key.key.view());
}

std::string host_of(const EndPlace& at, const MessagingEndpoint& endpoint) {
  return at.space == nullptr
             ? endpoint.host
             : endpoint_host(endpoint, at.space->space_id, at.infra->object.routers.domain);
}

PartInput input_of(const ObjectRefKey& key, const CachedEndpoint& cached, const EndPlace& at) {
  PartInput out;
  out.object = key;
  out.part = endpoint_part(cached.parsed.object.name);
  out.infra = at.infra->work->key();
  out.space_id = at.space == nullptr ? std::string() : at.space->space_id;
  out.host = host_of(at, cached.parsed.object);
  out.generation = cached.id().generation;
  out.endpoint = cached.parsed.object;
  out.record = record_of_object(cached.status_json());
  return out;
}

EndpointReport report_of(const CachedEndpoint& cached, const EndPlace& at,
                         const std::string& host) {
  EndpointReport out;
  out.endpoint = &cached.parsed.object;
  out.conditions = &cached.parsed.conditions;
  out.project = at.tenant ? std::string_view(at.tenant->key.key.name) : std::string_view();
  out.project_ready = at.ready();
  out.host = host;
  return out;
}

std::size_t http_listeners(const MessagingEndpoint& endpoint) {
  return static_cast<std::size_t>(std::count_if(
      endpoint.protocols.begin(), endpoint.protocols.end(),
      [](Protocol one) { return one == Protocol::kAmqpWs || one == Protocol::kAmqpWss; }));
}

bool has_services(const OwnedInfra& infra) { return operator_makes_routers(infra.object); }

/// None where the infra names its routers, and while somebody else has its host.
std::vector<krm::Json> resources_of(const Site& site, const CachedEndpoint& cached,
                                    const EndPlace& at) {
  const MessagingEndpoint& endpoint = cached.parsed.object;
  if (!at.ready() || !cached.parsed.valid || !has_services(*at.infra)) {
    return {};
  }
  const std::string host = host_of(at, endpoint);
  if (!has_host(site, *at.infra, at.tenant->key, host)) {
    return {};
  }
  return endpoint_resources({&endpoint, &at.infra->object, at.space->space_id, host,
                             record_of_object(cached.status_json()).ports});
}

/// All routers have let go of it, but for listeners that cannot be deleted.
bool is_gone(Site& site, const ObjectRefKey& key, std::size_t http, bool* tombstones) {
  bool gone = true;
  site.each_infra([&](OwnedInfra& infra) {
    if (!infra.work->known(key)) {
      return;
    }
    for (const ComponentView& one : router_views(*infra.work, key)) {
      const bool left = only_http_left(one.progress, http);
      *tombstones = *tombstones || left;
      gone = gone && (one.progress.settled() || left);
    }
  });
  return gone;
}

}  // namespace

net::Task<Outcome> EndpointControl::reconcile(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedEndpoint* const cached = find_endpoint(site_, key);
  if (cached == nullptr) {
    co_return Outcome::done();
  }
  if (end_place(site_, key).not_begun) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const bool deleting = cached->meta.deleting;
  net::Task<Outcome> work = deleting ? take_away(key) : make(key);
  const Outcome outcome = co_await work;
  co_return outcome;
}

net::Task<Outcome> EndpointControl::make(ObjectRefKey key) {
  net::Task<std::optional<Outcome>> beginning = site_.begin_making(key, judge(key));
  const std::optional<Outcome> over = co_await beginning;
  if (over) {
    co_return *over;
  }
  PartInput input;
  {
    const CachedEndpoint* const cached = find_endpoint(site_, key);
    const EndPlace at = end_place(site_, key);
    if (cached == nullptr || at.space == nullptr) {
      co_return Outcome::requeue_after(kNotSynced);
    }
    input = input_of(key, *cached, at);
  }
  const Key infra = input.infra;
  net::Task<Outcome> preparing = site_.ends().prepare(std::move(input));
  const Outcome prepared = co_await preparing;
  if (prepared.kind != Outcome::Kind::kDone) {
    co_return prepared;
  }
  std::optional<krm::Json> placed = place(key);
  if (placed) {
    net::Task<Outcome> saying = site_.write_status(key, std::move(*placed), true);
    const Outcome said = co_await saying;
    if (said.kind != Outcome::Kind::kDone) {
      co_return said;
    }
  }
  net::Task<Outcome> serving = serve(key, infra);
  const Outcome served = co_await serving;
  if (served.kind != Outcome::Kind::kDone) {
    co_return served;
  }
  std::optional<Applied> applied = apply(key);
  if (!applied) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  if (!applied->replaced.empty()) {
    net::Task<Outcome> removing = site_.ends().remove_secret(key, infra, applied->replaced);
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  net::Task<Outcome> saying = site_.write_status(key, std::move(applied->status), false);
  const Outcome said = co_await saying;
  if (said.kind != Outcome::Kind::kDone || applied->again == Duration{}) {
    co_return said;
  }
  co_return Outcome::requeue_after(applied->again);
}

/// @returns the status of one that is not to be made. What an invalid one had stays as it is; what
/// has no tenant any more goes.
std::optional<krm::Json> EndpointControl::judge(const ObjectRefKey& key) {
  const CachedEndpoint& cached = *find_endpoint(site_, key);
  const EndPlace at = end_place(site_, key);
  if (cached.parsed.valid && at.ready()) {
    return std::nullopt;
  }
  if (at.space == nullptr) {
    (void)take_off_routers(site_, key);
  }
  if (!cached.parsed.valid && cached.status_json().text({"configuration"}).empty()) {
    end_has_spoken(site_, key);
  }
  const std::string host = host_of(at, cached.parsed.object);
  return endpoint_status(report_of(cached, at, host), cached.status_json(), site_.now());
}

std::optional<krm::Json> EndpointControl::place(const ObjectRefKey& key) {
  const CachedEndpoint* const cached = find_endpoint(site_, key);
  const EndPlace at = end_place(site_, key);
  if (cached == nullptr || at.space == nullptr) {
    return std::nullopt;
  }
  const MessagingEndpoint& endpoint = cached->parsed.object;
  OwnedInfra& infra = *at.infra;
  claim_hosts(site_, infra, key, age_of(cached->id(), infra.work->number(key)),
              {host_of(at, endpoint)});
  krm::Json status = cached->status_json();
  PartRecord record = record_of_object(status);
  std::optional<Condition> fault;
  ProtocolPorts ports = allocate_ports(infra.ports, cached->id(), endpoint, record.ports, &fault);
  const std::vector<std::string> before = recorded_resources(status);
  std::vector<std::string> all = before;
  const std::vector<std::string> now = resource_texts(resources_of(site_, *cached, at));
  for (const std::string& one : left_over(now, before)) {
    all.push_back(one);
  }
  if (ports == record.ports && all == before) {
    return std::nullopt;
  }
  record.ports = std::move(ports);
  write_record(status, record);
  record_resources(status, all);
  return status;
}

net::Task<Outcome> EndpointControl::serve(ObjectRefKey key, Key infra) {
  std::vector<krm::Json> wanted;
  std::vector<std::string> recorded;
  {
    const CachedEndpoint* const cached = find_endpoint(site_, key);
    if (cached == nullptr) {
      co_return Outcome::done();
    }
    wanted = resources_of(site_, *cached, end_place(site_, key));
    recorded = recorded_resources(cached->status_json());
  }
  net::Task<Outcome> settling =
      services_.settle(key, std::move(infra), std::move(wanted), std::move(recorded));
  const Outcome outcome = co_await settling;
  co_return outcome;
}

std::optional<EndpointControl::Applied> EndpointControl::apply(const ObjectRefKey& key) {
  const CachedEndpoint* const cached = find_endpoint(site_, key);
  const EndPlace at = end_place(site_, key);
  if (cached == nullptr || !at.ready()) {
    return std::nullopt;
  }
  const MessagingEndpoint& endpoint = cached->parsed.object;
  const std::string part = endpoint_part(endpoint.name);
  const krm::Json has = cached->status_json();
  PartRecord record = record_of_object(has);
  site_.ends().set_ports(key, part, record.ports);
  const PartState* const state = site_.ends().find(key, part);
  if (state == nullptr) {
    return std::nullopt;
  }
  OwnedInfra& infra = *at.infra;
  InfraWork& work = *infra.work;
  const std::string host = host_of(at, endpoint);
  EndpointReport report = report_of(*cached, at, host);
  report.state = state;
  report.min_ready = least_ready(infra);
  report.has_service = has_services(infra);
  report.service = services_.find(key);
  (void)allocate_ports(infra.ports, cached->id(), endpoint, record.ports, &report.refused);
  if (!has_host(site_, infra, at.tenant->key, host)) {
    report.refused = host_refused(infra, host);
  }
  Applied out;
  const bool conflict = report.refused && report.refused->type == "Created";
  std::vector<DesiredEntity> entities;
  if (const MessagingEndpoint* const made = to_hold(cached->parsed, state); made && !conflict) {
    entities = endpoint_part_entities(part_place(site_, infra, at.space->space_id), *made, *state);
  }
  const std::string configuration = configuration_of(entities);
  if (work.first_sight(work.number(key)) && has.text({"configuration"}) == configuration) {
    assume_at_routers(work, key, entities);
  }
  work.want_at_routers(key, entities, true);
  end_has_spoken(site_, key);
  const bool settled = work.settled(key, ComponentKind::kRouter);
  const std::vector<ComponentView> routers = router_views(work, key);
  report.routers = routers;
  out.status = endpoint_status(report, has, site_.now());
  if (settled) {
    out.replaced = replaced_secret(record, *state);
    record.certificate = state->profile;
    out.status["configuration"] = configuration;
  } else {
    out.status.erase("configuration");
  }
  release_ports(infra.ports, cached->id(), endpoint.name, record.ports, settled);
  write_record(out.status, record);
  record_resources(out.status, resource_texts(resources_of(site_, *cached, at)));
  out.again = site_.ends().again(key);
  const bool unserved = report.service && report.service->status != ConditionStatus::kTrue;
  if (report.refused || unserved) {  // a port or the host may become free, a kind be served
    const Duration look = site_.config().counters;
    out.again = out.again == Duration{} ? look : std::min(out.again, look);
  }
  return out;
}

net::Task<Outcome> EndpointControl::take_away(ObjectRefKey key) {
  bool gone = true;
  krm::Json status;
  std::optional<PartInput> written;
  std::vector<std::string> services;
  {
    const CachedEndpoint& cached = *find_endpoint(site_, key);
    if (!cached.meta.has_finalizer(kMessagingFinalizer)) {
      co_return Outcome::done();
    }
    const EndPlace at = end_place(site_, key);
    const MessagingEndpoint& endpoint = cached.parsed.object;
    if (at.space != nullptr) {
      InfraWork& work = *at.infra->work;
      if (work.first_sight(work.number(key))) {
        PartState state;
        const PartRecord record = record_of_object(cached.status_json());
        state.profile = record.certificate;
        state.ports = record.ports;
        assume_at_routers(work, key,
                          endpoint_part_entities(part_place(site_, *at.infra, at.space->space_id),
                                                 endpoint, state));
      }
      release_hosts(site_, *at.infra, key);
      site_.look_at(at.tenant->key);  // its vhost has the alias
    }
    (void)take_off_routers(site_, key);
    end_has_spoken(site_, key);
    bool tombstones = false;
    gone = is_gone(site_, key, http_listeners(endpoint), &tombstones);
    if (at.infra != nullptr) {
      // Others than HTTP listeners are not there any more.
      release_ports(at.infra->ports, cached.id(), endpoint.name,
                    {{Protocol::kAmqpWs, 0}, {Protocol::kAmqpWss, 0}}, gone);
      release_ports(at.infra->ports, cached.id(), endpoint.name, {}, gone && !tombstones);
      written = input_of(key, cached, at);
      services = recorded_resources(cached.status_json());
    }
    const std::string host = host_of(at, endpoint);
    EndpointReport report = report_of(cached, at, host);
    report.deleting = true;
    status = endpoint_status(report, cached.status_json(), site_.now());
  }
  if (written && !services.empty()) {
    net::Task<Outcome> removing = services_.remove(key, written->infra, std::move(services));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  if (gone && written) {
    net::Task<Outcome> removing = site_.ends().remove(std::move(*written));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  net::Task<Outcome> ending =
      gone ? site_.remove_finalizer(key) : site_.write_status(key, std::move(status), false);
  const Outcome outcome = co_await ending;
  co_return outcome;
}

void EndpointControl::forget(const ObjectRefKey& key) {
  services_.forget(key);
  site_.ends().forget(key);
  end_has_spoken(site_, key);
  site_.each_infra([&](OwnedInfra& infra) {
    if (infra.work->known(key)) {
      release_hosts(site_, infra, key);
      infra.work->forget(key);
    }
  });
}

std::vector<DesiredEntity> render_endpoint(Site& site, const ObjectRefKey& key,
                                           const InfraComponent& component) {
  const CachedEndpoint* const cached = find_endpoint(site, key);
  const EndPlace at = end_place(site, key);
  if (cached == nullptr || at.space == nullptr || component.kind != ComponentKind::kRouter) {
    return {};
  }
  const PartState* const state = site.ends().find(key, endpoint_part(cached->parsed.object.name));
  const MessagingEndpoint* const made = to_hold(cached->parsed, state);
  if (state == nullptr || made == nullptr ||
      !has_host(site, *at.infra, at.tenant->key, host_of(at, *made))) {
    return {};
  }
  return endpoint_part_entities(part_place(site, *at.infra, at.space->space_id), *made, *state);
}

}  // namespace kintsugi::workers
