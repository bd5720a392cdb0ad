#include "workers/messaging/control/infra_control.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "workers/messaging/control/connector_control.h"
#include "workers/messaging/control/endpoint_control.h"
#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/internal/end_place.h"
#include "workers/messaging/control/internal/infra_scale.h"
#include "workers/messaging/control/internal/space_facts.h"
#include "workers/messaging/model/infra_holder.h"
#include "workers/messaging/model/infra_status.h"
#include "workers/messaging/model/names.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);
constexpr Duration kNotFree = milliseconds(50);  ///< its last holder has not let go yet
/// Of an infra whose components operators make.
constexpr Duration kLook = seconds(1);
constexpr Duration kTellFor = seconds(1);  ///< of its status (RT-81)

const CachedInfra* find_infra(const Site& site, const Key& key) {
  return Directory::find(*site.directory().infras, key.view());
}

ObjectRefKey ref_of(const Key& key) { return {MessagingKind::kInfra, key}; }

/// A connector to each broker, the same on each router.
std::vector<DesiredEntity> connectors(const OwnedInfra& infra) {
  std::vector<DesiredEntity> out;
  for (const Component& one : infra.components) {
    const ComponentEndpoint& broker = one.endpoint;
    if (one.broker && !broker.address.empty()) {
      out.push_back(broker_connector_entity(
          broker_link(infra.work->owner(), infra.object, broker.host), broker, infra.object));
    }
  }
  return out;
}

/// As a process before this one made them.
void assume_connectors(OwnedInfra& infra, const ObjectRefKey& object) {
  const std::vector<DesiredEntity> made = connectors(infra);
  for (const auto& one : infra.work->components()) {
    if (one->kind == ComponentKind::kRouter) {
      infra.work->assume(object, *one, made);
    }
  }
}

/// What the status says of components; the texts that it refers to.
struct Components {
  std::vector<RouterView> routers;
  std::vector<InfraBrokerView> brokers;
  std::vector<BrokenConnector> broken;
  std::int64_t up = 0;
  std::deque<std::string> texts;

  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

void look_at_router(const OwnedInfra& infra, const InfraComponent& one, Components& out) {
  const ComponentPipeline& pipeline = *one.pipeline;
  RouterView view;
  view.host = one.where.host;
  view.group = one.where.group;
  view.connected = pipeline.is_connected();
  view.synchronized = pipeline.synchronized();
  view.configured = one.configured;
  view.last_sync = one.last_sync > 0 ? out.keep(rfc3339(one.last_sync)) : std::string_view();
  view.entities = static_cast<std::int64_t>(pipeline.entities());
  view.pending = static_cast<std::int64_t>(pipeline.pending());
  if (pipeline.trouble()) {
    view.trouble = pipeline.trouble()->reason;
    view.error = pipeline.trouble()->message;
  }
  out.routers.push_back(view);
  if (!view.connected) {
    return;
  }
  for (const Component& each : infra.components) {
    const ComponentEndpoint& broker = each.endpoint;
    if (!each.broker || broker.address.empty()) {
      continue;
    }
    const BrokerLink link = broker_link(infra.work->owner(), infra.object, broker.host);
    const LinkStatus status = pipeline.connector(link.connector);
    if (status.state == LinkState::kActive) {
      ++out.up;
    } else if (status.state == LinkState::kInactive) {
      out.broken.push_back({one.where.host, out.keep(broker.host), out.keep(status.message)});
    }
  }
}

InfraComponent::Reach reach_of(const ComponentPipeline& pipeline) noexcept {
  using Reach = InfraComponent::Reach;
  return pipeline.is_looked_at() ? Reach::kConnected
         : pipeline.is_unheard() ? Reach::kUnheard
                                 : Reach::kLost;
}

/// Who else has its routers; "": nobody.
std::string shared_routers(const Site& site, const OwnedInfra& infra) {
  for (const auto& one : infra.work->components()) {
    if (one->kind != ComponentKind::kRouter) {
      continue;
    }
    const std::vector<std::string> others =
        site.directory().others_with(infra.work->key(), one->where);
    if (!others.empty()) {
      const std::string rest =
          others.size() > 1 ? " and " + std::to_string(others.size() - 1) + " more" : "";
      return "router " + one->where.host + " is one of infra " + others.front() + rest +
             ", too: what neither of them wants stays there";
    }
  }
  return {};
}

void look_at_broker(const OwnedInfra& infra, const InfraComponent& one, Components& out) {
  const ComponentPipeline& pipeline = *one.pipeline;
  const AddressScheduler::BrokerUse use = infra.scheduler.use(one.where.host);
  InfraBrokerView view;
  view.host = one.where.host;
  view.connected = pipeline.is_connected();
  view.synchronized = pipeline.synchronized();
  view.queues = use.queues;
  view.memory = use.memory;
  view.classes = static_cast<std::int64_t>(pipeline.classes());
  if (pipeline.trouble()) {
    view.trouble = pipeline.trouble()->reason;
    view.error = pipeline.trouble()->message;
  }
  out.brokers.push_back(view);
}

}  // namespace

net::Task<Outcome> InfraControl::reconcile(Key key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedInfra* const cached = find_infra(site_, key);
  if (cached == nullptr) {
    co_return Outcome::done();
  }
  const bool deleting = cached->meta.deleting;
  net::Task<Outcome> work = deleting ? take_away(key) : make(key);
  const Outcome outcome = co_await work;
  co_return outcome;
}

net::Task<Outcome> InfraControl::make(Key key) {
  net::Task<Outcome> finalizing = site_.add_finalizer(ref_of(key));
  const Outcome finalized = co_await finalizing;
  if (finalized.kind != Outcome::Kind::kDone) {
    co_return finalized;
  }
  if (find_infra(site_, key) == nullptr) {
    co_return Outcome::done();
  }
  net::Task<Outcome> taking = take_over(key);
  const Outcome taken = co_await taking;
  if (taken.kind != Outcome::Kind::kDone) {
    co_return taken;
  }
  if (find_infra(site_, key) == nullptr) {
    co_return Outcome::done();
  }
  net::Task<Outcome> looking = look(key);
  const Outcome looked = co_await looking;
  if (looked.kind != Outcome::Kind::kDone) {
    co_return looked;
  }
  if (find_infra(site_, key) == nullptr) {
    co_return Outcome::done();
  }
  Applied applied = apply(key);
  if (applied.certificates) {  // before the routers that read them
    net::Task<> preparing = certificates_.prepare(key);
    co_await preparing;
  }
  if (!applied.plan.apply.empty() || !applied.plan.remove.empty()) {
    net::Task<Outcome> writing = operators_.write(key, std::move(applied.plan));
    const Outcome written = co_await writing;
    if (written.kind != Outcome::Kind::kDone) {
      co_return written;
    }
  }
  net::Task<Outcome> saying = say(key, std::move(applied.status));
  const Outcome outcome = co_await saying;
  if (outcome.kind != Outcome::Kind::kDone || !applied.operators) {
    co_return outcome;
  }
  co_return Outcome::requeue_after(kLook);
}

/// Writes it, if it says something else, once a second, but at once that it is ready or no longer.
/// The echo of that is no turn: a second later one comes, until there is nothing new.
net::Task<Outcome> InfraControl::say(Key key, krm::Json status) {
  OwnedInfra* const infra = site_.infra(key);
  const CachedInfra* const cached = find_infra(site_, key);
  if (infra == nullptr || cached == nullptr) {
    co_return Outcome::done();
  }
  const krm::Json has = cached->status_json();
  if (same_status(has, status)) {
    co_return Outcome::done();
  }
  const TimePoint now = site_.unit().loop().now();
  const TimePoint due = infra->told + kTellFor;
  if (infra->told != TimePoint{} && now < due && !is_transition(has, status, "Ready")) {
    co_return Outcome::requeue_after(due - now);
  }
  infra->told = now;
  net::Task<Outcome> writing = site_.write_status(ref_of(key), std::move(status), false);
  const Outcome outcome = co_await writing;
  co_return outcome.kind == Outcome::Kind::kDone ? Outcome::requeue_after(kTellFor) : outcome;
}

/// Before anything is begun with its components: nobody at another shard has them any more, and
/// the status says that it is here. @returns kDone: so it is
net::Task<Outcome> InfraControl::take_over(Key key) {
  const CachedInfra& cached = *find_infra(site_, key);
  const std::string uid = cached.id().uid;
  krm::Json status = cached.status_json();
  const OwnedInfra* const owned = site_.infra(key);
  const InfraHolder holder =
      infra_holder(status, owned == nullptr ? site_.owner() : owned->work->owner());
  const std::string_view here = shard_of_endpoint(site_.unit().params().url);
  if (holder.shard == here) {
    if (owned != nullptr) {
      co_return Outcome::done();
    }
    // What is shown may have left already; the shard does not give it then.
    net::Task<ApiAnswer> asking =
        site_.unit().api().get(object_path(MessagingKind::kInfra, key.view(), ""));
    const ApiAnswer answer = co_await asking;
    if (answer.ok()) {
      const bool same = answer.body.text({"metadata", "uid"}) == uid;
      co_return same ? Outcome::done() : Outcome::requeue_after(kNotSynced);
    }
    const Outcome refused = outcome_of(answer, RequestKind::kRead);
    co_return refused.kind == Outcome::Kind::kDone ? Outcome::requeue_after(kLook) : refused;
  }
  if (!holder.shard.empty()) {  // else nobody has, or somebody took our note out
    site_.disown(key);          // another one has had it meanwhile
    if (!site_.unit().is_free_of(key.cluster, holder.shard, holder.epoch)) {
      co_return Outcome::requeue_after(kNotFree);
    }
  }
  write_holder(status, next_holder(holder, here));
  net::Task<Outcome> writing = site_.write_status(ref_of(key), std::move(status), true);
  const Outcome written = co_await writing;
  co_return written;
}

net::Task<Outcome> InfraControl::look(Key key) {
  const CachedInfra& cached = *find_infra(site_, key);
  const MessagingInfra& object = cached.parsed.object;
  if (!has_operators(object)) {
    operators_.forget(key);
    co_return Outcome::done();
  }
  const OwnedInfra* const infra = site_.infra(key);
  const Operators::Known* const known = operators_.find(key);
  // Another process may have had it in between.
  const Duration age =
      infra == nullptr || known == nullptr ? Duration{} : operators_age(*infra, *known);
  net::Task<Outcome> reading =
      operators_.read(key, operator_makes_routers(object), operator_makes_brokers(object), age);
  const Outcome read = co_await reading;
  // What is known stays in use while it cannot be read.
  co_return operators_.find(key) == nullptr ? read : Outcome::done();
}

OwnedInfra& InfraControl::begin(const Key& key, const MessagingInfra& object) {
  InfraWork::Callbacks calls;
  calls.render = [this](const ObjectRefKey& of, const InfraComponent& at) {
    switch (of.kind) {
      case MessagingKind::kInfra: {
        OwnedInfra* const infra = site_.infra(of.key);
        return infra == nullptr || at.kind == ComponentKind::kBroker ? std::vector<DesiredEntity>()
                                                                     : connectors(*infra);
      }
      case MessagingKind::kAddress:
      case MessagingKind::kMessagingAddress:
        return render_address(site_, of, at);
      case MessagingKind::kConnector:
        return render_connector(site_, of, at);
      case MessagingKind::kEndpoint:
        return render_endpoint(site_, of, at);
      default:
        return render_space(site_, of, at);
    }
  };
  calls.changed = [this](const ObjectRefKey& of, Priority priority) {
    site_.look_at(of.kind, of.key.view(), priority);
  };
  calls.reach = [this](const ObjectRefKey& of) {
    site_.look_at(of.kind, of.key.view(), Priority::kRetry);
  };
  calls.repaired = [this, key](const ObjectRefKey* of, const InfraComponent& at,
                               const DriftRepair& repair) {
    site_.tell(of == nullptr ? ref_of(key) : *of, tale_of(repair, at.kind, at.where.host));
  };
  calls.busy = [this, key] {
    const OwnedInfra* const infra = site_.infra(key);
    return infra != nullptr && site_.is_busy(*infra);
  };
  calls.facts = [this, key] { site_.look_soon(key); };
  calls.ours = [this, key](std::string_view name) {
    const OwnedInfra* const infra = site_.infra(key);
    return infra != nullptr && infra->is_ours(name);
  };
  calls.shared = [this, key](const InfraComponent& at) {
    return at.kind == ComponentKind::kRouter &&
           !site_.directory().others_with(key, at.where).empty();
  };
  calls.may_act = [this, text = infra_text(key)] { return site_.unit().may_act(text); };
  const InfraHolder holder = infra_holder(find_infra(site_, key)->status_json(), site_.owner());
  OwnedInfra& infra = site_.own(key, object, holder.names, std::move(calls));
  infra.scheduler.set_scale(object.brokers.min, object.most_brokers());
  site_.directory().each_space([&](MessagingKind kind, const QueueKey& space) {
    const ObjectRefKey ref{
        kind, {std::string(space.cluster), std::string(space.ns), std::string(space.name)}};
    const auto* const cached = Directory::find(site_.directory().spaces_of(kind), space);
    if (cached != nullptr && cached->bound && infra_text(*cached->bound) == infra_text(key)) {
      SpaceFacts facts = space_facts(site_, ref, *cached);
      admit_space(site_, facts);
      (void)enter_infra(site_, facts);
    }
    site_.look_at(kind, space, Priority::kRetry);
  });
  enter_ends(site_, infra);
  return infra;
}

InfraControl::Applied InfraControl::apply(const Key& key) {
  const CachedInfra& cached = *find_infra(site_, key);
  const MessagingInfra& object = cached.parsed.object;
  OwnedInfra* infra = site_.infra(key);
  if (infra == nullptr) {
    infra = &begin(key, object);
  }
  Operators::Known* const known = operators_.find(key);
  const std::int64_t declared = infra->declared_routers();
  const std::int64_t generation = infra->object.id.generation;
  if (cached.parsed.valid && site_.trouble().empty()) {
    infra->object = object;
    infra->ports.set_range(object.routers.first_port, object.routers.last_port);
    follow_components(*infra, known);
  }
  const bool reaches_others = tell_of_connections(*infra);
  const MessagingInfra& used = infra->object;
  Components components;
  std::int64_t told = 0;
  for (const auto& one : infra->work->components()) {
    if (one->kind == ComponentKind::kRouter) {
      look_at_router(*infra, *one, components);
      continue;
    }
    look_at_broker(*infra, *one, components);
    if (one->pipeline->classes() > kManySettingsClasses) {
      site_.tell(ref_of(key), tale_of_classes(one->where.host));
    }
    const std::int64_t size = one->pipeline->broker().global_max_size;
    told = size > 0 && (told == 0 || size < told) ? size : told;
  }
  for (const Component& one : infra->components) {
    if (one.broker && one.endpoint.address.empty()) {
      InfraBrokerView view;
      view.host = one.endpoint.host;
      view.error = "its pod has no address yet";
      components.brokers.push_back(view);
    }
  }
  const std::optional<std::int64_t> memory = broker_memory(used, told);
  infra->scheduler.set_scale(used.brokers.min, used.most_brokers());
  std::vector<std::string> hosts;
  for (const Component& broker : infra->components) {
    if (!broker.broker) {
      continue;
    }
    const std::string& host = broker.endpoint.host;
    const InfraComponent* const one = infra->work->find(ComponentKind::kBroker, host);
    hosts.push_back(host);
    infra->scheduler.set_broker({host, broker.index, memory.value_or(0),
                                 one != nullptr && one->pipeline->is_usable(), false});
  }
  for (const std::string& host : std::exchange(infra->brokers, hosts)) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) {
      infra->scheduler.broker_gone(host);
    }
  }
  site_.decide(*infra);
  const InfraCapacity capacity = infra_capacity(used, memory);
  infra->admission.set_capacity(capacity);
  site_.look_at(*infra->work, infra->admission.take_changed());
  Applied out;
  out.operators = known != nullptr;
  if (known != nullptr && cached.parsed.valid && site_.trouble().empty()) {
    out.plan = scale(*infra, *known);
  }
  if (infra->declared_routers() != declared || infra->object.id.generation != generation ||
      reaches_others) {
    site_.look_at_spaces(*infra);
  }
  infra->work->want_at_routers(ref_of(key), connectors(*infra), true);
  if (!infra->work->is_complete() && infra->is_complete()) {  // looks at all
    infra->work->set_complete();
  }

  const std::string shared = shared_routers(site_, *infra);
  InfraStatusInput input;
  input.infra = &used;
  input.shared = shared;
  input.conditions = &cached.parsed.conditions;
  input.wanted = is_wanted(*infra, known);
  if (operator_makes_routers(used)) {
    out.certificates = known != nullptr && input.wanted;
    const RouterCertificates::Known* const has = certificates_.find(key);
    input.makes_certificates = true;
    input.ca_created = has == nullptr ? nullptr : &has->ca;
    input.cert_created = has == nullptr ? nullptr : &has->certificate;
  }
  if (known != nullptr) {
    input.routers_refused = known->routers_fault;
    input.brokers_refused = known->brokers_fault;
    input.groups_spread = groups_spread(used, router_zones(used, known->view));
  } else {
    input.groups_spread = groups_spread(used, {});
  }
  input.routers_wanted = infra->declared_routers();
  input.brokers_wanted = used.brokers.endpoints.empty()
                             ? infra->scheduler.brokers_wanted()
                             : static_cast<std::int64_t>(used.brokers.endpoints.size());
  input.routers = components.routers;
  input.brokers = components.brokers;
  input.broken = components.broken;
  input.connectors_up = components.up;
  input.capacity = capacity;
  input.requested = infra->admission.requested();
  out.status = infra_status(input, cached.status_json(), site_.now());
  return out;
}

bool InfraControl::tell_of_connections(OwnedInfra& infra) {
  using Reach = InfraComponent::Reach;
  std::vector<const InfraComponent*> changed;
  std::int64_t routers_before = 0, routers_now = 0;
  bool routers_changed = false, was_unheard = false, is_unheard = false;
  for (const auto& one : infra.work->components()) {
    // One that was away for a moment was lost, and one that comes back is so until it is looked at.
    const bool again = std::exchange(one->looks, one->pipeline->looks()) != one->pipeline->looks();
    const Reach was = again && one->told == Reach::kConnected ? Reach::kLost : one->told;
    Reach is = reach_of(*one->pipeline);
    is = is == Reach::kUnheard && was == Reach::kLost ? was : is;
    one->told = is;
    if (one->kind == ComponentKind::kRouter) {
      routers_before += was == Reach::kConnected ? 1 : 0;
      routers_now += is == Reach::kConnected ? 1 : 0;
      routers_changed = routers_changed || was != is;
      was_unheard = was_unheard || was == Reach::kUnheard;
      is_unheard = is_unheard || is == Reach::kUnheard;
    } else if (was != is) {
      changed.push_back(one.get());
    }
  }
  const std::int64_t needed =
      routers_needed(infra.object, infra.work->count(ComponentKind::kRouter));
  // Once the last one is heard of those that waited for it have their turn.
  const bool everyone = (was_unheard && !is_unheard) ||
                        (routers_changed && std::min(routers_before, routers_now) < needed);
  if (!changed.empty() || everyone) {
    infra.work->reach_those_at(changed, everyone);
  }
  return !changed.empty() || routers_changed;
}

net::Task<Outcome> InfraControl::take_away(Key key) {
  if (!find_infra(site_, key)->meta.has_finalizer(kMessagingFinalizer)) {
    co_return Outcome::done();
  }
  net::Task<Outcome> taking = take_over(key);
  const Outcome taken = co_await taking;
  if (taken.kind != Outcome::Kind::kDone) {
    co_return taken;
  }
  if (find_infra(site_, key) == nullptr) {
    co_return Outcome::done();
  }
  net::Task<Outcome> looking = look(key);
  const Outcome looked = co_await looking;
  if (looked.kind != Outcome::Kind::kDone) {
    co_return looked;
  }
  if (find_infra(site_, key) == nullptr) {
    co_return Outcome::done();
  }
  bool gone = true, certificates = false;
  OperatorPlan plan;
  krm::Json status;
  {
    const CachedInfra& cached = *find_infra(site_, key);
    Operators::Known* const known = operators_.find(key);
    std::string first;
    std::size_t spaces = 0;
    site_.directory().each_space([&](MessagingKind kind, const QueueKey& of) {
      const auto* const space = Directory::find(site_.directory().spaces_of(kind), of);
      if (space != nullptr && space->bound && infra_text(*space->bound) == infra_text(key)) {
        const std::string name = std::string(of.ns) + "/" + std::string(of.name);
        first = first.empty() || name < first ? name : first;
        ++spaces;
      }
    });
    const MessagingInfra& object = cached.parsed.object;
    certificates = operator_makes_routers(object);
    OwnedInfra* infra = site_.infra(key);
    const bool begun = infra != nullptr;
    infra = begun ? infra : &begin(key, object);
    if (cached.parsed.valid && site_.trouble().empty()) {
      infra->object = object;
      follow_components(*infra, known);
    }
    std::string waits;
    if (spaces > 0) {
      if (!begun) {
        infra->work->want_at_routers(ref_of(key), connectors(*infra), true);
      }
      waits = waits_for("address space", first, spaces);
      gone = false;
    } else {
      if (!begun) {
        assume_connectors(*infra, ref_of(key));
      }
      infra->work->want_nothing(ref_of(key), ComponentKind::kRouter);
      // Routers that go take what they hold with them.
      gone = operator_makes_routers(object) ||
             infra->work->settled(ref_of(key), ComponentKind::kRouter);
      if (gone && known != nullptr) {
        plan = operator_removal(object, known->view);
        gone = plan.gone;
        waits = gone ? "" : "its routers and brokers are being deleted";
      }
    }
    InfraStatusInput input;
    input.infra = &cached.parsed.object;
    input.conditions = &cached.parsed.conditions;
    input.deleting = true;
    input.waits = waits;
    status = infra_status(input, cached.status_json(), site_.now());
  }
  const bool again = !plan.gone;
  if (!plan.remove.empty()) {
    net::Task<Outcome> writing = operators_.write(key, std::move(plan));
    const Outcome written = co_await writing;
    if (written.kind != Outcome::Kind::kDone) {
      co_return written;
    }
  }
  if (gone && certificates) {
    net::Task<Outcome> removing = certificates_.remove(key);
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  net::Task<Outcome> ending = gone ? site_.remove_finalizer(ref_of(key))
                                   : site_.write_status(ref_of(key), std::move(status), false);
  const Outcome outcome = co_await ending;
  if (again && outcome.kind == Outcome::Kind::kDone) {
    co_return Outcome::requeue_after(kLook);
  }
  co_return outcome;
}

void InfraControl::forget(const Key& key) {
  operators_.forget(key);
  certificates_.forget(key);
  site_.disown(key);
}

}  // namespace kintsugi::workers
