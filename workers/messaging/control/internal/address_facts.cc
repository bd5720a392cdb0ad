#include "workers/messaging/control/internal/address_facts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/control/internal/parts.h"
#include "workers/messaging/model/address_plans.h"
#include "workers/messaging/model/condition_of.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

Condition invalid(std::string_view reason, std::string message) {
  return condition_of("Validated", ConditionStatus::kFalse, reason, std::move(message));
}

const CachedAddress* find_address(const Site& site, const ObjectRefKey& key) {
  return Directory::find(site.directory().addresses_of(key.kind), key.key.view());
}

/// The name at brokers that the target's status says, "" while it says none.
std::string target_name(const Site& site, const AddressFacts& facts, const std::string& local) {
  const auto target = facts.place.space->targets.find(local);
  if (!target) {
    return {};
  }
  const CachedAddress* const cached =
      find_address(site, facts.place.infra->work->object(target->object));
  std::string said =
      cached == nullptr ? "" : std::string(cached->status_json().text({"brokerAddress"}));
  const EnteredAddress* const entered = facts.place.infra->entered.find(target->object);
  const bool knows = !said.empty() && entered != nullptr && entered->named;
  return knows ? entered->broker_name(qualified_address(facts.place.space->space_id, local))
               : std::move(said);
}

/// MS-074: a forwarder goes to a connector of the space, or of the tenant's namespace.
std::optional<Condition> connector_missing(const Site& site, const AddressFacts& facts) {
  return forwarder_refused(facts.address(), [&](const std::string& name) {
    const MessagingSpace& space = facts.space->space->parsed.object;
    const auto& own = space.connectors;
    return std::any_of(own.begin(), own.end(),
                       [&name](const auto& one) { return one.object.name == name; }) ||
           (space.is_tenant() && Directory::find(*site.directory().connectors,
                                                 {space.id.cluster, space.id.ns, name}) != nullptr);
  });
}

/// Whether a status says that its address is made, or about to be: the place is said first (10.2).
bool is_made(const krm::Json& status) {
  const krm::Json* const validated = find_condition(status, "Validated");
  return !status.text({"spaceId"}).empty() &&
         (validated == nullptr || validated->text({"status"}) == "True");
}

void uncount(OwnedInfra& infra, const EnteredAddress& entered) {
  const auto at = infra.phases.find({entered.type, address_phases()[entered.phase]});
  if (entered.phase != 0 && at != infra.phases.end() && --at->second == 0) {
    infra.phases.erase(at);
  }
}

}  // namespace

AddressFacts address_facts(Site& site, const ObjectRefKey& key, const CachedAddress& cached) {
  AddressFacts facts;
  facts.key = key;
  facts.cached = &cached;
  facts.parsed = cached.parsed(key.key.view());
  const MessagingAddress& address = facts.address();
  facts.space = site.directory().space(key.key.view(), address.space);
  if (facts.space) {
    facts.place = site.place(*facts.space);
  }
  if (facts.place.space != nullptr) {
    facts.number = facts.place.infra->work->number(key);
  }
  const Directory::AddressPlanFound plan = site.directory().plan_of(address, key.kind);
  facts.plan = plan.plan;
  facts.effective = effective_settings(address, plan.plan);
  if (plan.missing) {
    facts.refused = invalid("PlanNotFound", "spec.plan: there is no address plan " + address.plan);
  } else if (facts.effective.refused) {
    facts.refused = facts.effective.refused;
  }
  return facts;
}

void enter_space(Site& site, AddressFacts& facts, Priority others) {
  OwnedInfra& infra = *facts.place.infra;
  OwnedSpace& space = *facts.place.space;
  EnteredAddress& entered = infra.entered[facts.number];
  entered.space = space.number;
  entered.type = facts.address().type;
  if (!facts.parsed.valid) {
    return;  // what was made of it before stays, and so do its claims
  }
  const MessagingAddress& address = facts.address();
  const Age age = age_of(facts.address().id, facts.number);
  const OldestWins::Key name =
      OldestWins::key_of(conflict_key(qualified_address(space.space_id, address.address)));
  entered.age = age;
  entered.name = name;
  // Seconds are all that tells who was first, and what is made is not taken from its owner for a
  // uid.
  const auto takes_over = [&](ObjectId owner) {
    const CachedAddress* const other = find_address(site, infra.work->object(owner));
    return is_made(facts.status()) && (other == nullptr || !is_made(other->status_json()));
  };
  site.look_at(*infra.work, infra.addresses.claim(name, age, takes_over), others);
  if (infra.addresses.has(name, facts.number)) {
    const AddressSettings& settings = facts.effective.settings;
    site.look_at(
        *infra.work,
        space.targets.set(facts.number, address.address, address.type,
                          {settings.expiry_queue, settings.dead_letter_queue, address.topic}),
        others);
  } else {
    site.look_at(*infra.work, space.targets.remove(facts.number), others);
  }
  space.limit.add(age);
  site.look_at(*infra.work, space.limit.take_changed(), others);
}

void leave_infra(Site& site, OwnedInfra& infra, ObjectId number) {
  const EnteredAddress* const at = infra.entered.find(number);
  if (at == nullptr) {
    return;
  }
  const EnteredAddress entered = *at;
  infra.entered.erase(number);
  uncount(infra, entered);
  site.look_at(*infra.work, infra.addresses.release(entered.name, entered.age));
  if (OwnedSpace* const space = infra.space(entered.space)) {
    OwnedSpace& of = *space;
    site.look_at(*infra.work, of.targets.targets(number));  // they may have waited for it
    site.look_at(*infra.work, of.targets.remove(number));
    of.limit.remove(entered.age);
    site.look_at(*infra.work, of.limit.take_changed());
    site.look_soon(infra, of);
  }
  infra.scheduler.remove(number);
  site.decide(infra);
  site.look_soon(infra.work->key());  // it counts what brokers have
}

void note_phase(const Site& site, const AddressFacts& facts, std::string_view phase) {
  if (facts.place.space == nullptr) {
    return;
  }
  OwnedInfra& infra = *facts.place.infra;
  EnteredAddress* const at = infra.entered.find(facts.number);
  if (at == nullptr) {
    return;
  }
  const bool silent = at->phase == 0 || at->keeps;
  at->keeps =
      (facts.refused || !facts.parsed.valid) && !facts.status().text({"configuration"}).empty();
  if (silent && !at->keeps && !infra.work->is_complete()) {
    site.look_soon(infra.work->key());  // it may have been the last one
  }
  if (const std::uint8_t now = address_phase(phase); at->phase != now) {
    uncount(infra, *at);
    at->phase = now;
    ++infra.phases[{at->type, address_phases()[now]}];
  }
}

void judge_address(const Site& site, AddressFacts& facts) {
  const OwnedInfra& infra = *facts.place.infra;
  const OwnedSpace& space = *facts.place.space;
  const MessagingAddress& address = facts.address();
  if (facts.refused || !facts.parsed.valid) {
    return;
  }
  if (const std::string_view fault =
          address_fault(address.address, address.type, space.space_id.size());
      !fault.empty()) {
    facts.refused = invalid("InvalidAddress", "spec.address: " + std::string(fault));
    return;
  }
  const OldestWins::Key name =
      OldestWins::key_of(conflict_key(qualified_address(space.space_id, address.address)));
  if (!infra.addresses.has(name, facts.number)) {
    const auto owner = infra.addresses.owner(name);
    facts.refused = address_conflict(owner ? infra.work->object(*owner).key.name : std::string());
    facts.conflicts = true;
    return;
  }
  facts.refused = plan_not_allowed(
      space.address_plans, facts.plan == nullptr ? std::string_view() : facts.plan->id.name);
  if (!facts.refused) {
    facts.refused = connector_missing(site, facts);
  }
  if (!facts.refused) {
    facts.refused = space.targets.check(facts.number);
  }
  if (!facts.refused && !space.limit.is_in(age_of(facts.address().id, facts.number))) {
    facts.refused = space.limit.refused();
  }
}

AddressDemand address_demand(const AddressFacts& facts, std::vector<std::string> recorded) {
  const MessagingAddress& address = facts.address();
  const OwnedSpace& space = *facts.place.space;
  const AddressSettings& settings = facts.effective.settings;
  AddressDemand out;
  out.age = age_of(facts.address().id, facts.number);
  out.type = address.type;
  out.memory = settings.requests_memory.value_or(0);
  out.partitions_min = settings.partitions_min.value_or(1);
  out.partitions_max = settings.partitions_max.value_or(out.partitions_min);
  if (space.transactional) {
    out.pinned_to = space.number;
  } else if (address.type == AddressType::kSubscription) {
    if (const auto topic = space.targets.find(address.topic)) {
      out.pinned_to = topic->object;
    }
  }
  for (const std::string* one : {&settings.expiry_queue, &settings.dead_letter_queue}) {
    const auto target = one->empty() ? std::nullopt : space.targets.find(*one);
    if (target && target->type == AddressType::kQueue) {
      out.targets.push_back(target->object);
    }
  }
  out.recorded = std::move(recorded);
  out.reschedule = address.reschedule;
  return out;
}

std::vector<std::string> recorded_brokers(const krm::Json& status) {
  std::vector<std::string> out;
  if (const krm::Json* brokers = status.find("brokers")) {
    for (const krm::Json& one : brokers->items()) {
      out.emplace_back(one.text({"host"}));
    }
  }
  return out;
}

std::string_view recorded_name(std::string_view said, std::string_view qualified) {
  const std::string_view has = class_of(said);
  std::string_view rest = said;
  rest.remove_prefix(has.empty() ? 0 : has.size() + 1);
  return rest == qualified ? said : std::string_view();
}

void note_broker_name(const AddressFacts& facts, std::string_view name) {
  EnteredAddress* const at = facts.place.infra->entered.find(facts.number);
  if (at != nullptr && !at->named && !name.empty()) {
    EnteredAddress& entered = *at;
    const std::string_view of_class = class_of(name);
    std::copy_n(of_class.begin(), std::min(of_class.size(), entered.settings_class.size()),
                entered.settings_class.begin());
    entered.named = true;
  }
}

std::optional<SettingsChoice> address_settings(const Site& site, const AddressFacts& facts) {
  const AddressSettings& settings = facts.effective.settings;
  const OwnedSpace& space = *facts.place.space;
  const std::string expiry =
      settings.expiry_queue.empty() ? "" : target_name(site, facts, settings.expiry_queue);
  const std::string dead_letter = settings.dead_letter_queue.empty()
                                      ? ""
                                      : target_name(site, facts, settings.dead_letter_queue);
  if ((expiry.empty() && !settings.expiry_queue.empty()) ||
      (dead_letter.empty() && !settings.dead_letter_queue.empty())) {
    return std::nullopt;
  }
  SettingsInput input;
  input.type = facts.address().type;
  input.plan = facts.plan;
  input.effective = &facts.effective;
  input.space_memory = space.limits.queue_memory;
  input.policy = facts.infra().brokers.policy;
  input.space_id = space.space_id;
  input.transactional = space.transactional;
  input.expiry_name = expiry;
  input.dead_letter_name = dead_letter;
  const std::string qualified = qualified_address(space.space_id, facts.address().address);
  const EnteredAddress* const entered = facts.place.infra->entered.find(facts.number);
  const std::string named = entered == nullptr ? std::string() : entered->broker_name(qualified);
  input.recorded = named.empty() ? recorded_name(facts.status().text({"brokerAddress"}), qualified)
                                 : std::string_view(named);
  return choose_settings(input, qualified);
}

DesiredEntities desired_of_address(const AddressFacts& facts, const SettingsChoice& settings,
                                   const std::vector<std::string>& hosts) {
  const OwnedSpace& space = *facts.place.space;
  const InfraWork& work = *facts.place.infra->work;
  std::vector<BrokerLink> brokers;
  for (const std::string& host : hosts) {
    brokers.push_back(broker_link(work.owner(), facts.infra(), host));
  }
  std::vector<BrokerLink> connectors;
  for (const Forwarder& one : facts.address().extra().forwarders) {
    MessagingConnector named;
    named.name = one.connector;
    connectors.push_back({one.connector, connector_name(work.owner(), space.space_id, named)});
  }
  PlacedAddress placed;
  placed.address = &facts.address();
  placed.owner = work.owner();
  placed.space_id = space.space_id;
  placed.transactional = space.transactional;
  placed.brokers = brokers;
  placed.broker_name = settings.broker_name;
  placed.exact = settings.exact ? &*settings.exact : nullptr;
  placed.connectors = connectors;
  DesiredEntities out = address_entities(placed);
  if (!settings.settings_class.empty()) {
    for (DesiredEntities::OnBroker& broker : out.brokers) {
      broker.entities.insert(broker.entities.begin(),
                             class_settings_entity(settings.settings_class, settings.of_class));
    }
  }
  return out;
}

namespace {

/// Brokers of a status of which this process knows nothing. One that does not fit to what the same
/// status says was applied was edited; what then fits is kept.
std::vector<std::string> verified_brokers(const Site& site, const AddressFacts& facts) {
  std::vector<std::string> recorded = recorded_brokers(facts.status());
  const std::string_view applied = facts.status().text({"configuration"});
  if (recorded.empty() || applied.empty()) {
    return recorded;
  }
  const std::optional<SettingsChoice> settings = address_settings(site, facts);
  const auto fits = [&](const std::vector<std::string>& hosts) {
    return configuration_of(desired_of_address(facts, *settings, hosts)) == applied;
  };
  if (!settings || fits(recorded)) {
    return recorded;
  }
  for (const Component& one : facts.place.infra->components) {
    if (one.broker && fits({one.endpoint.host})) {
      return {one.endpoint.host};
    }
  }
  return recorded;  // something else was changed
}

}  // namespace

std::vector<std::string> hosts_of(const Site& site, const AddressFacts& facts) {
  const OwnedInfra& infra = *facts.place.infra;
  if (!infra.work->seen(facts.number)) {
    return verified_brokers(site, facts);
  }
  std::vector<std::string> hosts = infra.scheduler.placing(facts.number).hosts;
  return hosts.empty() ? recorded_brokers(facts.status()) : std::move(hosts);
}

std::string configuration_of(std::span<const DesiredEntity> entities) {
  return configuration_of(DesiredEntities{{}, {entities.begin(), entities.end()}});
}

std::string configuration_of(const DesiredEntities& entities) {
  std::string text;
  const auto add = [&text](const DesiredEntity& entity) {
    const ContentHash hash = content_hash(entity);
    text.append(reinterpret_cast<const char*>(hash.data()), hash.size());
  };
  for (const DesiredEntities::OnBroker& broker : entities.brokers) {
    text.append(broker.host);
    std::for_each(broker.entities.begin(), broker.entities.end(), add);
  }
  std::for_each(entities.routers.begin(), entities.routers.end(), add);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  return hex_encode({reinterpret_cast<const char*>(bytes.digest), sizeof bytes.digest});
}

std::vector<DesiredEntity> render_address(Site& site, const ObjectRefKey& key,
                                          const InfraComponent& component) {
  const CachedAddress* const cached = find_address(site, key);
  if (cached == nullptr) {
    return {};
  }
  AddressFacts facts = address_facts(site, key, *cached);
  if (facts.place.space == nullptr) {
    return {};
  }
  const std::optional<SettingsChoice> settings = address_settings(site, facts);
  if (!settings) {
    return {};
  }
  DesiredEntities all = desired_of_address(facts, *settings, hosts_of(site, facts));
  // What is refused is not sent; what was applied before may be the same.
  judge_address(site, facts);
  if ((facts.refused || !facts.parsed.valid) &&
      configuration_of(all) != facts.status().text({"configuration"})) {
    return {};
  }
  if (component.kind == ComponentKind::kRouter) {
    return std::move(all.routers);
  }
  for (DesiredEntities::OnBroker& broker : all.brokers) {
    if (broker.host == component.where.host) {
      return std::move(broker.entities);
    }
  }
  return {};
}

}  // namespace kintsugi::workers
