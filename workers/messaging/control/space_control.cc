#include "workers/messaging/control/space_control.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/internal/migrate.h"
#include "workers/messaging/control/internal/space_parts.h"
#include "workers/messaging/model/infra_status.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);
/// Connectors go up and down without a word; what is known of them is looked at so often.
constexpr Duration kWhileDown = seconds(2);

const CachedSpace* find_space(const Site& site, const ObjectRefKey& key) {
  return Directory::find(site.directory().spaces_of(key.kind), key.key.view());
}

/// What the status is made of, as far as the facts say it. `rest` adds what it knows besides.
template <class Rest>
krm::Json status_of(const SpaceFacts& facts, const std::string& now, const Redactor* redactor,
                    Rest&& rest) {
  SpaceStatusInput input;
  const MessagingSpace& space = facts.space();
  input.space = &space;
  input.conditions = &facts.cached->parsed.conditions;
  input.space_id = facts.space_id;
  input.plan = facts.plan.object == nullptr ? std::string_view() : facts.plan.object->id.name;
  input.plan_refused = facts.plan_refused;
  input.plan_needed = !space.is_tenant();
  const std::string infra =
      facts.infra_key ? facts.infra_key->ns + "/" + facts.infra_key->name : std::string();
  input.infra = infra;
  input.infra_refused = facts.infra_refused;
  input.duplicate = facts.duplicate;
  input.transactions = facts.transactional;
  input.deleting = facts.cached->meta.deleting;
  std::vector<ComponentView> routers;
  if (facts.infra != nullptr) {
    const InfraWork& work = *facts.infra->work;
    const MessagingInfra& object = facts.infra->object;
    input.min_ready = routers_needed(object, work.count(ComponentKind::kRouter));
    input.connections_per_router =
        connections_per_router(facts.limits(), facts.infra->declared_routers());
    for (const auto& one : work.components()) {
      if (one->kind == ComponentKind::kRouter) {
        routers.push_back({one->where.host, one->kind, one->pipeline->is_connected(),
                           work.progress(facts.key, *one), std::nullopt});
      }
    }
    if (const auto owned = facts.infra->spaces.find(text_of(facts.key));
        owned != facts.infra->spaces.end()) {
      input.addresses = static_cast<std::int64_t>(owned->second.targets.size());
    }
  }
  input.routers = routers;
  std::optional<AddressPlacing> placing;
  if (facts.transactional && facts.infra != nullptr) {
    placing = facts.infra->scheduler.placing(facts.number);
    input.placing = &*placing;
    const InfraComponent* const broker =
        placing->hosts.empty()
            ? nullptr
            : facts.infra->work->find(ComponentKind::kBroker, placing->hosts.front());
    input.broker_connected = broker != nullptr && broker->pipeline->is_connected();
  }
  rest(input);
  krm::Json out = space_status(input, facts.status, now, redactor);
  // One that is refused stays where it was.
  if (facts.infra_key && !facts.refused()) {
    out["infra"] = krm::Json::object({{"cluster", facts.infra_key->cluster},
                                      {"name", facts.infra_key->name},
                                      {"namespace", facts.infra_key->ns}});
  }
  return out;
}

krm::Json status_of(const SpaceFacts& facts, const std::string& now) {
  return status_of(facts, now, nullptr, [](SpaceStatusInput&) {});
}

/// @param made  whether routers may hold it of which nobody here knows.
/// @returns whether none holds it any more.
bool take_from_routers(const Site& site, const SpaceFacts& facts, bool made) {
  InfraWork& work = *facts.infra->work;
  if (work.first_sight(facts.number) && made) {
    const auto entities =
        desired_of_space(site, facts, std::string(facts.status.text({"broker", "host"})));
    for (const auto& one : work.components()) {
      if (one->kind == ComponentKind::kRouter) {
        work.assume(facts.key, *one, entities);
      }
    }
  }
  work.want_nothing(facts.key, ComponentKind::kRouter);
  return work.settled(facts.key, ComponentKind::kRouter);
}

/// A tenant that does not count may have counted before: the one that does has its host.
bool withdraw(const Site& site, const SpaceFacts& facts) {
  return take_from_routers(site, facts, !facts.status.text({"configuration"}).empty());
}

}  // namespace

net::Task<Outcome> SpaceControl::reconcile(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedSpace* const cached = find_space(site_, key);
  if (cached == nullptr) {
    co_return Outcome::done();
  }
  if (!cached->parsed.object.shared) {  // another controller's (MR-1)
    if (!cached->parsed.object.migrates || cached->meta.deleting) {
      co_return Outcome::done();
    }
    net::Task<Outcome> migrating = migrate_space(site_, key);
    const Outcome migrated = co_await migrating;
    co_return migrated;
  }
  if (site_.begins_later(*cached)) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const bool deleting = cached->meta.deleting;
  net::Task<Outcome> work = deleting ? take_away(key) : make(key);
  const Outcome outcome = co_await work;
  co_return outcome;
}

net::Task<Outcome> SpaceControl::make(ObjectRefKey key) {
  net::Task<std::optional<Outcome>> beginning = site_.begin_making(key, judge(key));
  const std::optional<Outcome> over = co_await beginning;
  if (over) {
    co_return *over;
  }
  Binding binding = bind(key);
  if (binding.status) {
    net::Task<Outcome> saying = site_.write_status(key, std::move(*binding.status), true);
    const Outcome said = co_await saying;
    if (said.kind != Outcome::Kind::kDone || !binding.bound) {
      co_return said;
    }
  }
  net::Task<Outcome> preparing = prepare_space_parts(site_, key);
  const Outcome prepared = co_await preparing;
  if (prepared.kind != Outcome::Kind::kDone) {
    co_return prepared;
  }
  std::optional<krm::Json> placed = place_parts(key);
  if (placed) {
    net::Task<Outcome> saying = site_.write_status(key, std::move(*placed), true);
    const Outcome said = co_await saying;
    if (said.kind != Outcome::Kind::kDone) {
      co_return said;
    }
  }
  net::Task<Outcome> serving = serve(key);
  const Outcome served = co_await serving;
  if (served.kind != Outcome::Kind::kDone) {
    co_return served;
  }
  std::optional<Applied> applied = apply(key);
  if (!applied) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  net::Task<Outcome> finishing = finish_parts(key, std::move(applied->replaced));
  const Outcome finished = co_await finishing;
  if (finished.kind != Outcome::Kind::kDone) {
    co_return finished;
  }
  net::Task<Outcome> saying = site_.write_status(key, std::move(applied->status), false);
  const Outcome outcome = co_await saying;
  if (outcome.kind != Outcome::Kind::kDone || applied->again == Duration{}) {
    co_return outcome;
  }
  co_return Outcome::requeue_after(applied->again);
}

std::optional<krm::Json> SpaceControl::place_parts(const ObjectRefKey& key) {
  const CachedSpace* const cached = find_space(site_, key);
  if (cached == nullptr || cached->parsed.object.endpoints.empty()) {
    return std::nullopt;
  }
  const SpaceFacts facts = space_facts(site_, key, *cached);
  if (facts.refused()) {
    return std::nullopt;
  }
  claim_space_hosts(site_, facts);
  return place_space_parts(site_, facts);
}

/// Services of its endpoints, where an operator makes the routers.
net::Task<Outcome> SpaceControl::serve(ObjectRefKey key) {
  std::vector<krm::Json> wanted;
  std::vector<std::string> recorded;
  Key infra;
  {
    const CachedSpace* const cached = find_space(site_, key);
    if (cached == nullptr || !cached->bound) {
      co_return Outcome::done();
    }
    const SpaceFacts facts = space_facts(site_, key, *cached);
    if (facts.refused()) {
      co_return Outcome::done();
    }
    infra = *cached->bound;
    wanted = space_resources(site_, facts);
    recorded = recorded_resources(facts.status);
  }
  net::Task<Outcome> settling =
      services_.settle(key, std::move(infra), std::move(wanted), std::move(recorded));
  const Outcome outcome = co_await settling;
  co_return outcome;
}

/// Secrets of which nobody has the files any more, and exports.
net::Task<Outcome> SpaceControl::finish_parts(ObjectRefKey key, std::vector<std::string> replaced) {
  std::vector<SpaceExport> exports;
  Key infra;
  {
    const CachedSpace* const cached = find_space(site_, key);
    if (cached == nullptr || cached->parsed.object.endpoints.empty()) {
      exports.clear();
    } else if (const SpaceFacts facts = space_facts(site_, key, *cached); !facts.refused()) {
      exports = space_exports(site_, facts);
    }
    if (cached != nullptr && cached->bound) {
      infra = *cached->bound;
    }
  }
  for (std::string& name : replaced) {
    net::Task<Outcome> removing = site_.ends().remove_secret(key, infra, std::move(name));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  for (SpaceExport& one : exports) {
    net::Task<Outcome> writing =
        site_.ends().write_export(key, one.resource, std::move(one.object));
    const Outcome written = co_await writing;
    if (written.kind != Outcome::Kind::kDone) {
      co_return written;
    }
  }
  co_return Outcome::done();
}

/// @returns the status of one that is not to be made; what was applied before stays as it is.
std::optional<krm::Json> SpaceControl::judge(const ObjectRefKey& key) {
  SpaceFacts facts = space_facts(site_, key, *find_space(site_, key));
  if (!facts.refused()) {
    admit_space(site_, facts);
  }
  if (!facts.refused()) {
    return std::nullopt;
  }
  const bool withdrawn = facts.duplicate && facts.infra != nullptr && withdraw(site_, facts);
  krm::Json status = status_of(facts, site_.now());
  if (withdrawn) {
    status.erase("configuration");
  }
  return status;
}

SpaceControl::Binding SpaceControl::bind(const ObjectRefKey& key) {
  Binding out;
  const CachedSpace* const cached = find_space(site_, key);
  if (cached == nullptr) {
    return out;
  }
  SpaceFacts facts = space_facts(site_, key, *cached);
  if (facts.refused()) {
    return out;
  }
  out.bound = true;
  if (facts.transactional) {
    AddressDemand demand;
    demand.age = age_of(cached->id(), facts.number);
    demand.memory = facts.requests().queue_memory;
    if (const std::string_view host = facts.status.text({"broker", "host"}); !host.empty()) {
      demand.recorded.emplace_back(host);
    }
    facts.infra->scheduler.set(facts.number, demand);
    site_.decide(*facts.infra, facts.number);
    out.bound = facts.infra->scheduler.placing(facts.number).scheduled();
  }
  krm::Json status = status_of(facts, site_.now());
  const krm::Json& has = facts.status;
  if (!cached->bound || infra_text(*cached->bound) != infra_text(*facts.infra_key) ||
      has.text({"spaceId"}) != status.text({"spaceId"}) ||
      has.text({"broker", "host"}) != status.text({"broker", "host"}) || !out.bound) {
    out.status = std::move(status);
  }
  return out;
}

std::optional<SpaceControl::Applied> SpaceControl::apply(const ObjectRefKey& key) {
  const CachedSpace* const cached = find_space(site_, key);
  if (cached == nullptr) {
    return std::nullopt;
  }
  const SpaceFacts facts = space_facts(site_, key, *cached);
  if (facts.refused() || !cached->bound) {
    return std::nullopt;
  }
  const auto has = facts.infra->spaces.find(text_of(key));
  const PlanLimits limits = facts.limits();
  if (has == facts.infra->spaces.end() || has->second.transactional != facts.transactional ||
      has->second.limits != limits || has->second.address_plans != facts.address_plans()) {
    (void)enter_infra(site_, facts);
  }
  note_whose(*facts.infra, facts);
  claim_space_hosts(site_, facts);
  InfraWork& work = *facts.infra->work;
  const std::string broker(facts.status.text({"broker", "host"}));
  const std::vector<DesiredEntity> entities = desired_of_space(site_, facts, broker);
  const std::string configuration =
      configuration_of(desired_of_space(site_, facts, broker, SecretForm::kVersion));
  const std::string_view recorded = facts.status.text({"configuration"});
  const bool first = work.first_sight(facts.number);
  if (first && recorded == configuration) {
    for (const auto& one : work.components()) {
      if (one->kind == ComponentKind::kRouter) {
        work.assume(key, *one, entities);
      }
    }
  }
  work.want_at_routers(key, entities, true);
  const bool settled = work.settled(key, ComponentKind::kRouter);
  OwnedSpace& owned = facts.infra->spaces.at(text_of(key));
  const bool kept = owned.keeps;
  owned.keeps = (first ? !recorded.empty() : kept) && has_unknown_part(site_, facts);
  if ((kept || !owned.wanted) && !owned.keeps) {
    site_.look_soon(work.key());  // orphans may be looked for
  }
  owned.wanted = true;
  if (settled && !owned.made) {
    owned.made = true;
    site_.look_at_addresses(key);
    site_.directory().each_end_of(key.key.cluster, key.key.ns,
                                  [this](MessagingKind kind, const QueueKey& end) {
                                    site_.look_at(kind, end, Priority::kRetry);
                                  });
  }
  SpaceParts parts;
  look_at_parts(site_, facts, services_.find(key), parts);
  Applied out;
  out.status = status_of(facts, site_.now(), &parts.redactor, [&parts](SpaceStatusInput& input) {
    input.connectors = parts.connectors;
    input.endpoints = parts.endpoints;
  });
  if (settled) {
    out.status["configuration"] = configuration;
  } else {
    out.status.erase("configuration");
  }
  if (parts.authority.empty()) {
    out.status.erase("caCert");
  } else {
    out.status["caCert"] = base64_encode(parts.authority);
  }
  out.replaced = record_parts(site_, facts, settled, out.status);
  out.again = site_.ends().again(key);
  const bool waits = std::any_of(parts.endpoints.begin(), parts.endpoints.end(),
                                 [](const EndpointView& one) { return !one.ready; });
  if (!parts.connectors.empty() || waits) {
    const bool down =
        std::any_of(parts.connectors.begin(), parts.connectors.end(), [](const ConnectorView& one) {
          return std::any_of(one.routers.begin(), one.routers.end(),
                             [](const auto& router) { return !router.connected; });
        });
    const Duration look = down ? kWhileDown : site_.config().counters;
    out.again = out.again == Duration{} ? look : std::min(out.again, look);
  }
  return out;
}

net::Task<Outcome> SpaceControl::take_away(ObjectRefKey key) {
  bool gone = true;
  krm::Json status;
  std::vector<std::string> services;
  Key infra;
  {
    const CachedSpace& cached = *find_space(site_, key);
    if (!cached.meta.has_finalizer(kMessagingFinalizer)) {
      co_return Outcome::done();
    }
    const SpaceFacts facts = space_facts(site_, key, cached);
    std::string first;
    std::size_t addresses = 0;
    site_.directory().each_address_of(key, [&](MessagingKind, const QueueKey& address) {
      first = first.empty() || address.name < first ? std::string(address.name) : first;
      ++addresses;
    });
    std::string waits;
    if (addresses > 0) {
      waits = waits_for("address", first, addresses);
      gone = false;
    } else if (facts.infra != nullptr) {
      gone = take_from_routers(site_, facts, true);
      services = recorded_resources(facts.status);
      infra = facts.infra->work->key();
    }
    status = status_of(facts, site_.now(), nullptr,
                       [&waits](SpaceStatusInput& input) { input.waits = waits; });
  }
  if (!services.empty()) {
    net::Task<Outcome> removing = services_.remove(key, std::move(infra), std::move(services));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  if (gone) {
    net::Task<Outcome> removing = remove_space_parts(site_, key);
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

void SpaceControl::forget(const ObjectRefKey& key) {
  services_.forget(key);
  site_.ends().forget(key);
  site_.each_infra([&](OwnedInfra& infra) {
    leave_infra(site_, infra, key);
    site_.look_at(MessagingKind::kInfra, infra.work->key().view());
  });
  site_.look_at_addresses(key);
}

}  // namespace kintsugi::workers
