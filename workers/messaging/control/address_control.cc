#include "workers/messaging/control/address_control.h"

#include <algorithm>

#include "workers/messaging/control/internal/address_report.h"
#include "workers/messaging/model/names.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);
constexpr int kMostLooks = 4;  ///< of one reconcile

const CachedAddress* find_address(const Site& site, const ObjectRefKey& key) {
  return Directory::find(site.directory().addresses_of(key.kind), key.key.view());
}

bool same_hosts(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

/// A space that is to go waits for its addresses.
void look_at_waiting_space(const Site& site, OwnedInfra& infra, ObjectId address) {
  const EnteredAddress* const entered = infra.entered.find(address);
  const OwnedSpace* const space = entered == nullptr ? nullptr : infra.space(entered->space);
  if (space == nullptr) {
    return;
  }
  const ObjectRefKey& key = space->key;
  const auto* const cached = Directory::find(site.directory().spaces_of(key.kind), key.key.view());
  if (cached != nullptr && cached->meta.deleting) {
    site.look_at(key);
  }
}

/// Once its status says its name at brokers those that wait for that can go on.
void tell_referrers(const Site& site, const AddressFacts& facts) {
  EnteredAddress* const at = facts.place.infra->entered.find(facts.number);
  if (at != nullptr && !at->said) {
    at->said = true;
    site.look_at(*facts.place.infra->work, facts.place.space->targets.referrers(facts.number));
  }
}

Condition waits_for_target() {
  Condition out;
  out.type = "Scheduled";
  out.status = ConditionStatus::kFalse;
  out.reason = "WaitingForTarget";
  out.message = "a queue for expired or dead letters is not placed yet";
  return out;
}

}  // namespace

net::Task<Outcome> AddressControl::reconcile(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedAddress* const cached = find_address(site_, key);
  if (cached == nullptr) {
    co_return Outcome::done();
  }
  const bool deleting = cached->deleting(), for_change = site_.is_for_change(key.kind);
  net::Task<Outcome> work = deleting ? take_away(key, for_change) : make(key, for_change);
  const Outcome outcome = co_await work;
  co_return outcome;
}

net::Task<Outcome> AddressControl::make(ObjectRefKey key, bool for_change) {
  for (int looks = 0; looks < kMostLooks; ++looks) {
    Turn turn = look(key, for_change);
    switch (turn.kind) {
      case Turn::Kind::kFinalizer: {
        net::Task<Outcome> finalizing = site_.add_finalizer(key);
        const Outcome finalized = co_await finalizing;
        if (finalized.kind != Outcome::Kind::kDone) {
          co_return finalized;
        }
        break;
      }
      case Turn::Kind::kPlace: {
        net::Task<Outcome> saying = site_.write_status(key, std::move(turn.status), true);
        const Outcome said = co_await saying;
        if (said.kind != Outcome::Kind::kDone) {
          co_return said;
        }
        break;
      }
      case Turn::Kind::kTell: {
        net::Task<Outcome> saying = site_.write_status(key, std::move(turn.status), turn.precise);
        const Outcome outcome = co_await saying;
        co_return outcome;
      }
      case Turn::Kind::kNothing:
        co_return Outcome::done();
      case Turn::Kind::kLater:
        co_return Outcome::requeue_after(turn.again);
    }
    const CachedAddress* const cached = find_address(site_, key);
    if (cached == nullptr || cached->deleting()) {
      co_return Outcome::done();  // its deletion has a turn of its own
    }
  }
  co_return Outcome::requeue_after(kNotSynced);
}

AddressControl::Turn AddressControl::look(const ObjectRefKey& key, bool for_change) {
  const CachedAddress& cached = *find_address(site_, key);
  AddressFacts facts = address_facts(site_, key, cached);
  if (facts.space && site_.begins_later(*facts.space->space)) {
    if (for_change) {
      site_.look_first(key);
    }
    return {Turn::Kind::kNothing, {}, false, {}};  // entering the space looks at all of it
  }
  if (facts.place.space != nullptr) {
    if (for_change) {
      facts.place.infra->work->set_urgent(facts.number, true);
    }
    const std::size_t had = facts.place.space->targets.size();
    enter_space(site_, facts);
    if (facts.place.space->targets.size() != had) {
      site_.look_soon(*facts.place.infra, *facts.place.space);
    }
    judge_address(site_, facts);
    if (!facts.refused && facts.parsed.valid) {
      return cached.has_finalizer(kMessagingFinalizer)
                 ? place(facts)
                 : Turn{Turn::Kind::kFinalizer, {}, false, {}};
    }
  }
  // What was applied before stays as it is.
  const bool withdrawn = facts.conflicts && withdraw(facts);
  krm::Json status = AddressReport(site_, facts).status(site_.now());
  if (withdrawn) {
    status.erase("configuration");
  }
  return {Turn::Kind::kTell, std::move(status), false, {}};
}

/// Of two that routers cannot tell apart the one that has the name no more goes from them, so that
/// the other can be made. Its queue stays, with its messages.
bool AddressControl::withdraw(const AddressFacts& facts) {
  InfraWork& work = *facts.place.infra->work;
  const std::vector<std::string> hosts = hosts_of(site_, facts);
  if (work.first_sight(facts.number) && !facts.status().text({"configuration"}).empty()) {
    if (const auto settings = address_settings(site_, facts)) {
      assume(facts, desired_of_address(facts, *settings, hosts));
    }
  }
  work.want_nothing(facts.key, ComponentKind::kRouter);
  return work.settled(facts.key, ComponentKind::kRouter);
}

/// Where it is to be, and by what name: said before the first request is sent (10.2).
AddressControl::Turn AddressControl::place(AddressFacts& facts) {
  OwnedInfra& infra = *facts.place.infra;
  const krm::Json& has = facts.status();
  const bool at_brokers = is_broker_type(facts.address().type);
  std::vector<std::string> hosts;
  std::optional<AddressPlacing> placing;
  if (at_brokers) {
    infra.scheduler.set(facts.number, address_demand(facts, hosts_of(site_, facts)));
    site_.decide(infra, facts.number);
    placing = infra.scheduler.placing(facts.number);
    hosts = placing->hosts;
  }
  const std::optional<SettingsChoice> settings = address_settings(site_, facts);
  if (settings) {
    note_broker_name(facts, settings->broker_name);
  }
  const std::string_view name =
      settings && at_brokers ? std::string_view(settings->broker_name) : std::string_view();
  const bool placed = settings && (!placing || placing->scheduled());
  // Of a type that is not at brokers the status keeps what it said of them.
  const bool told = !at_brokers || (same_hosts(recorded_brokers(has), hosts) &&
                                    (name.empty() || has.text({"brokerAddress"}) == name));
  if (placed && told && has.text({"spaceId"}) == facts.place.space->space_id) {
    tell_referrers(site_, facts);
    return apply(facts, *settings);
  }
  AddressReport report(site_, facts);
  if (placing) {
    report.set_placing(std::move(*placing));
  }
  if (settings) {
    report.set_broker_name(std::string(name));
  } else {
    report.refuse(waits_for_target());
  }
  if (placed && has.find("conditions") == nullptr && site_.is_busy(infra)) {
    return {Turn::Kind::kPlace, report.placement(hosts), true, {}};
  }
  if (placed) {
    report.add_components(desired_of_address(facts, *settings, hosts), hosts);
  }
  return {placed ? Turn::Kind::kPlace : Turn::Kind::kTell, report.status(site_.now()), true, {}};
}

/// Tells components what they are to hold.
AddressControl::Turn AddressControl::apply(const AddressFacts& facts,
                                           const SettingsChoice& settings) {
  InfraWork& work = *facts.place.infra->work;
  const InfraWork::OwnTurn turn(work, facts.number);
  const std::vector<std::string> hosts = recorded_brokers(facts.status());
  const DesiredEntities entities = desired_of_address(facts, settings, hosts);
  const std::string_view applied = facts.status().text({"configuration"});
  if (work.first_sight(facts.number) && !applied.empty() && applied == configuration_of(entities)) {
    assume(facts, entities);
  }
  want(facts, entities);
  AddressReport report(site_, facts);
  report.add_components(entities, hosts);
  if (report.is_unheard() && applied == configuration_of(entities)) {
    return {Turn::Kind::kNothing, {}, false, {}};  // what is heard of them looks at it
  }
  if (site_.is_busy(*facts.place.infra) && report.is_on_its_way()) {
    // What has come to its end is told at once.
    return {Turn::Kind::kLater, {}, false, site_.told_after(*facts.place.infra)};
  }
  if (is_broker_type(facts.address().type)) {
    report.set_placing(facts.place.infra->scheduler.placing(facts.number));
    report.set_broker_name(settings.broker_name);
  }
  krm::Json status = report.status(site_.now());
  if (work.settled(facts.key, ComponentKind::kBroker) &&
      work.settled(facts.key, ComponentKind::kRouter)) {
    status["configuration"] = configuration_of(entities);
  } else {
    status.erase("configuration");
  }
  if (same_status(facts.status(), status)) {
    work.set_urgent(facts.number, false);
    return {Turn::Kind::kNothing, {}, false, {}};
  }
  return {Turn::Kind::kTell, std::move(status), false, {}};
}

void AddressControl::want(const AddressFacts& facts, const DesiredEntities& entities) {
  InfraWork& work = *facts.place.infra->work;
  for (const auto& one : work.components()) {
    if (one->kind != ComponentKind::kBroker) {
      continue;
    }
    const auto here =
        std::find_if(entities.brokers.begin(), entities.brokers.end(),
                     [&](const auto& broker) { return broker.host == one->where.host; });
    work.want(facts.key, *one,
              here == entities.brokers.end() ? std::span<const DesiredEntity>() : here->entities);
  }
  if (work.settled(facts.key, ComponentKind::kBroker)) {
    work.want_at_routers(facts.key, entities.routers);
  }
}

void AddressControl::assume(const AddressFacts& facts, const DesiredEntities& entities) {
  InfraWork& work = *facts.place.infra->work;
  const krm::Json* const ready = find_condition(facts.status(), "Ready");
  const bool active = ready != nullptr && ready->text({"status"}) == "True" &&
                      ready->text({"reason"}) == "Ready";  // not Degraded
  for (const auto& one : work.components()) {
    if (one->kind == ComponentKind::kRouter) {
      work.assume(facts.key, *one, entities.routers, active);
      continue;
    }
    for (const DesiredEntities::OnBroker& broker : entities.brokers) {
      if (broker.host == one->where.host) {
        work.assume(facts.key, *one, broker.entities);
      }
    }
  }
}

net::Task<Outcome> AddressControl::take_away(ObjectRefKey key, bool for_change) {
  bool gone = true;
  krm::Json status;
  {
    const CachedAddress& cached = *find_address(site_, key);
    if (!cached.has_finalizer(kMessagingFinalizer)) {
      co_return Outcome::done();
    }
    AddressFacts facts = address_facts(site_, key, cached);
    if (facts.space && site_.begins_later(*facts.space->space)) {
      if (for_change) {
        site_.look_first(key);
      }
      co_return Outcome::requeue_after(kNotSynced);
    }
    AddressReport report(site_, facts);
    if (facts.place.space != nullptr) {
      InfraWork& work = *facts.place.infra->work;
      const auto blocker = facts.place.space->targets.blocker(facts.number);
      const std::vector<std::string> hosts = hosts_of(site_, facts);
      if (blocker) {
        gone = false;
        report.set_waits(*blocker);
      } else {
        if (work.first_sight(facts.number)) {
          if (const auto settings = address_settings(site_, facts)) {
            assume(facts, desired_of_address(facts, *settings, hosts));
          }
        }
        // Routers first, so that nothing is sent into a queue that goes.
        work.want_nothing(key, ComponentKind::kRouter);
        gone = work.settled(key, ComponentKind::kRouter);
        if (gone) {
          work.want_nothing(key, ComponentKind::kBroker);
          gone = work.settled(key, ComponentKind::kBroker);
        }
        report.add_components({}, hosts);
      }
    }
    status = report.status(site_.now());
  }
  net::Task<Outcome> ending =
      gone ? site_.remove_finalizer(key) : site_.write_status(key, std::move(status), false);
  const Outcome outcome = co_await ending;
  co_return outcome;
}

void AddressControl::forget(const ObjectRefKey& key) {
  site_.each_infra([&](OwnedInfra& infra) {
    if (const std::optional<ObjectId> number = infra.work->known(key)) {
      look_at_waiting_space(site_, infra, *number);
      leave_infra(site_, infra, *number);
      infra.work->forget(key);
    }
  });
}

}  // namespace kintsugi::workers
