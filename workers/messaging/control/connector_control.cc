#include "workers/messaging/control/connector_control.h"

#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/internal/end_place.h"
#include "workers/messaging/control/internal/end_reports.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);
/// Links go up and down without a word; what is known of them is looked at so often.
constexpr Duration kWhileDown = seconds(2);

const CachedConnector* find_connector(const Site& site, const ObjectRefKey& key) {
  return Directory::find(*site.directory().connectors, key.key.view());
}

PartInput input_of(const ObjectRefKey& key, const CachedConnector& cached, const Key& infra,
                   const std::string& space_id) {
  PartInput out;
  out.object = key;
  out.part = connector_part(cached.parsed.object.name);
  out.infra = infra;
  out.space_id = space_id;
  out.generation = cached.id().generation;
  out.connector = cached.parsed.object;
  out.record = record_of_object(cached.status_json());
  return out;
}

/// What the status is made of, and the texts that it points into.
struct Links {
  std::vector<ComponentView> routers;
  std::vector<ConnectorView::AtRouter> links;
  std::deque<std::string> texts;
  bool any_down = false;
};

Links links_of(const InfraWork& work, const ObjectRefKey& key, const std::string& space_id,
               const MessagingConnector& connector) {
  Links out;
  out.routers = router_views(work, key);
  out.links = connector_links(work, connector_name(work.owner(), space_id, connector), out.texts);
  for (const ConnectorView::AtRouter& one : out.links) {
    out.any_down = out.any_down || !one.connected;
  }
  return out;
}

}  // namespace

net::Task<Outcome> ConnectorControl::reconcile(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedConnector* const cached = find_connector(site_, key);
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

net::Task<Outcome> ConnectorControl::make(ObjectRefKey key) {
  net::Task<std::optional<Outcome>> beginning = site_.begin_making(key, judge(key));
  const std::optional<Outcome> over = co_await beginning;
  if (over) {
    co_return *over;
  }
  PartInput input;
  {
    const CachedConnector* const cached = find_connector(site_, key);
    const EndPlace place = end_place(site_, key);
    if (cached == nullptr || !place.ready()) {
      co_return Outcome::requeue_after(kNotSynced);
    }
    input = input_of(key, *cached, place.infra->work->key(), place.space->space_id);
  }
  const Key infra = input.infra;
  net::Task<Outcome> preparing = site_.ends().prepare(std::move(input));
  const Outcome prepared = co_await preparing;
  if (prepared.kind != Outcome::Kind::kDone) {
    co_return prepared;
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
std::optional<krm::Json> ConnectorControl::judge(const ObjectRefKey& key) {
  const CachedConnector& cached = *find_connector(site_, key);
  const EndPlace place = end_place(site_, key);
  std::vector<Condition> conditions = cached.parsed.conditions;
  bool valid = cached.parsed.valid;
  if (valid && place.ready()) {
    std::optional<Condition> why =
        site_.ends().own_host(place.infra->work->key(), cached.parsed.object);
    if (!why) {
      return std::nullopt;
    }
    why->message.insert(0, "spec.");
    why->observed_generation = cached.id().generation;
    conditions.push_back(std::move(*why));
    valid = false;
  }
  if (place.space == nullptr) {
    (void)take_off_routers(site_, key);
  }
  if (!valid && cached.status_json().text({"configuration"}).empty()) {
    end_has_spoken(site_, key);
  }
  ConnectorReport report;
  report.connector = &cached.parsed.object;
  report.conditions = &conditions;
  report.space_message = place.message;
  Links links;
  if (place.ready() && place.infra->work->known(key)) {
    links = links_of(*place.infra->work, key, place.space->space_id, cached.parsed.object);
    report.routers = links.routers;
    report.links = links.links;
    report.min_ready = least_ready(*place.infra);
  }
  return connector_status(report, cached.status_json(), site_.now());
}

std::optional<ConnectorControl::Applied> ConnectorControl::apply(const ObjectRefKey& key) {
  const CachedConnector* const cached = find_connector(site_, key);
  const EndPlace at = end_place(site_, key);
  if (cached == nullptr || !at.ready()) {
    return std::nullopt;
  }
  const MessagingConnector& connector = cached->parsed.object;
  const PartState* const state = site_.ends().find(key, connector_part(connector.name));
  if (state == nullptr) {
    return std::nullopt;
  }
  InfraWork& work = *at.infra->work;
  const krm::Json has = cached->status_json();
  Applied out;
  std::string configuration;
  if (const MessagingConnector* const made = to_hold(cached->parsed, state)) {
    const PartPlace place = part_place(site_, *at.infra, at.space->space_id);
    const auto entities = connector_part_entities(place, *made, *state, SecretForm::kPlain);
    configuration =
        configuration_of(connector_part_entities(place, *made, *state, SecretForm::kVersion));
    if (work.first_sight(work.number(key)) && has.text({"configuration"}) == configuration) {
      assume_at_routers(work, key, entities);
    }
    work.want_at_routers(key, entities, true);
    end_has_spoken(site_, key);
    out.settled = !entities.empty() && work.settled(key, ComponentKind::kRouter);
  }
  const Links links = links_of(work, key, at.space->space_id, connector);
  ConnectorReport report;
  report.connector = &connector;
  report.conditions = &cached->parsed.conditions;
  report.refused = state->fault;
  report.routers = links.routers;
  report.links = links.links;
  report.min_ready = least_ready(*at.infra);
  report.waits_for_files = !state->fault && needs_certificate(connector) && state->profile.empty();
  const Redactor redactor = redactor_of(*state);
  out.status = connector_status(report, has, site_.now(), &redactor);
  PartRecord record = record_of_object(has);
  if (out.settled) {
    out.replaced = replaced_secret(record, *state);
    record.certificate = state->profile;
    out.status["configuration"] = configuration;
  } else {
    out.status.erase("configuration");
  }
  write_record(out.status, record);
  out.again = site_.ends().again(key);
  const Duration look = links.any_down ? kWhileDown : site_.config().counters;
  out.again = out.again == Duration{} ? look : std::min(out.again, look);
  return out;
}

net::Task<Outcome> ConnectorControl::take_away(ObjectRefKey key) {
  bool gone = true;
  krm::Json status;
  std::optional<PartInput> written;
  {
    const CachedConnector& cached = *find_connector(site_, key);
    if (!cached.meta.has_finalizer(kMessagingFinalizer)) {
      co_return Outcome::done();
    }
    const EndPlace at = end_place(site_, key);
    if (at.space != nullptr && cached.parsed.valid) {
      InfraWork& work = *at.infra->work;
      if (work.first_sight(work.number(key))) {
        // Of what another process made the names are enough.
        PartState state;
        state.usable = true;
        state.profile = record_of_object(cached.status_json()).certificate;
        assume_at_routers(work, key,
                          connector_part_entities(part_place(site_, *at.infra, at.space->space_id),
                                                  cached.parsed.object, state, SecretForm::kPlain));
      }
    }
    gone = take_off_routers(site_, key);
    end_has_spoken(site_, key);
    if (at.infra != nullptr) {
      written = input_of(key, cached, at.infra->work->key(), "");
    }
    ConnectorReport report;
    report.connector = &cached.parsed.object;
    report.conditions = &cached.parsed.conditions;
    report.deleting = true;
    status = connector_status(report, cached.status_json(), site_.now());
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

void ConnectorControl::forget(const ObjectRefKey& key) {
  site_.ends().forget(key);
  end_has_spoken(site_, key);
  site_.each_infra([&](OwnedInfra& infra) {
    if (infra.work->known(key)) {
      infra.work->forget(key);
    }
  });
}

std::vector<DesiredEntity> render_connector(Site& site, const ObjectRefKey& key,
                                            const InfraComponent& component) {
  const CachedConnector* const cached = find_connector(site, key);
  const EndPlace at = end_place(site, key);
  if (cached == nullptr || at.space == nullptr || component.kind != ComponentKind::kRouter) {
    return {};
  }
  const PartState* const state = site.ends().find(key, connector_part(cached->parsed.object.name));
  const MessagingConnector* const made = to_hold(cached->parsed, state);
  if (state == nullptr || made == nullptr) {
    return {};
  }
  return connector_part_entities(part_place(site, *at.infra, at.space->space_id), *made, *state,
                                 SecretForm::kPlain);
}

}  // namespace kintsugi::workers
