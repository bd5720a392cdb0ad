#include "workers/messaging/control/internal/space_facts.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/internal/space_parts.h"
#include "workers/messaging/model/condition_of.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

void find_infra(Site& site, SpaceFacts& facts) {
  const Directory& directory = site.directory();
  const Chosen<MessagingInfra> wanted = directory.wanted_infra(*facts.cached, facts.plan);
  facts.infra_key = directory.infra(*facts.cached);
  if (facts.infra_key) {
    if (const auto* const found = Directory::find(*directory.infras, facts.infra_key->view())) {
      facts.infra_object = &found->parsed.object;
    }
    facts.infra = site.infra(*facts.infra_key);
  }
  if (wanted.object == nullptr && !wanted.reason.empty()) {
    facts.infra_refused = refusal("InfraBound", wanted.reason, wanted.message);
  } else if (facts.infra_object == nullptr) {
    facts.infra_refused =
        !facts.infra_key && facts.plan_refused
            ? refusal("InfraBound", "WaitingForPlan", "its plan would say which infra")
            : refusal("InfraBound", "InfraNotFound",
                      facts.infra_key ? "there is no infra " + infra_text(*facts.infra_key)
                                      : "there is no active infra for this namespace");
  } else if (facts.infra == nullptr) {
    facts.infra_refused = refusal("InfraBound", "InfraNotReady",
                                  "the infra " + facts.infra_key->name + " is not begun yet");
  } else if (wanted.object != nullptr) {
    const OwnedSpace* const owned = site.place({facts.key, facts.cached}).space;
    facts.infra_refused =
        infra_moved(facts.infra_object->id, wanted.object->id,
                    owned == nullptr ? 0 : static_cast<std::int64_t>(owned->targets.size()));
  }
}

}  // namespace

SpaceFacts space_facts(Site& site, const ObjectRefKey& key, const CachedSpace& cached) {
  SpaceFacts facts;
  facts.key = key;
  facts.cached = &cached;
  facts.status = cached.status_json();
  const ObjectIdentity& id = cached.id();
  facts.space_id = space_id(id.cluster, id.ns, id.name);
  facts.transactional = cached.parsed.object.transactions;
  if (cached.parsed.object.is_tenant()) {
    const auto counts = site.directory().tenant(id.cluster, id.ns);
    if (counts && counts->key.kind != key.kind) {
      facts.duplicate = duplicate_tenant(resource_of(counts->key.kind).kind + " " + id.name);
    }
  }
  if (const auto other = site.directory().namesake(key)) {
    facts.contested = true;
    if (!facts.duplicate && is_older(other->space->id(), id)) {
      facts.duplicate = duplicate_space(resource_of(other->key.kind).kind + " " + id.name);
    }
  }
  facts.plan = site.directory().plan(cached);
  if (facts.plan.object == nullptr && !facts.plan.reason.empty()) {
    facts.plan_refused = refusal("PlanFound", facts.plan.reason, facts.plan.message);
  }
  find_infra(site, facts);
  if (!facts.plan_refused && !facts.infra_refused && facts.plan.object != nullptr) {
    if (auto why = space_refused(facts.space(), *facts.plan.object, *facts.infra_object)) {
      (why->type == "PlanFound" ? facts.plan_refused : facts.infra_refused) = std::move(why);
    }
  }
  if (facts.infra != nullptr) {
    facts.number = facts.infra->work->number(key);
  }
  return facts;
}

void admit_space(Site& site, SpaceFacts& facts) {
  OwnedInfra& infra = *facts.infra;
  const PlanRequests had = infra.admission.requested();
  infra.admission.set_space(age_of(facts.cached->id(), facts.number), facts.requests(),
                            facts.cached->bound.has_value());
  std::vector<ObjectId> others = infra.admission.take_changed();
  std::erase(others, facts.number);
  site.look_at(*infra.work, others);
  if (infra.admission.requested() != had) {
    site.look_soon(infra.work->key());  // it says how much that is
  }
  if (auto why = infra.admission.refused(facts.number)) {
    facts.infra_refused = std::move(why);
  }
}

void note_whose(OwnedInfra& infra, const SpaceFacts& facts) {
  if (facts.contested) {
    infra.space_ids.erase(facts.space_id);
  } else {
    infra.space_ids.insert(facts.space_id);
  }
}

OwnedSpace& enter_infra(Site& site, const SpaceFacts& facts) {
  OwnedInfra& infra = *facts.infra;
  OwnedSpace& space = infra.spaces[text_of(facts.key)];
  space.key = facts.key;
  space.number = facts.number;
  space.space_id = facts.space_id;
  note_whose(infra, facts);
  space.transactional = facts.transactional;
  space.limits = facts.limits();
  space.address_plans = facts.address_plans();
  space.limit.set_limit(space.limits.addresses);
  claim_space_hosts(site, facts);
  const Directory& directory = site.directory();
  // All are known before one is placed: what is recorded keeps its place. Those that refer to
  // others are placed when these are known.
  std::vector<ObjectRefKey> later;
  const auto place = [&](const AddressFacts& address) {
    std::vector<std::string> recorded = recorded_brokers(address.status());
    if (!recorded.empty() && is_broker_type(address.address().type)) {
      infra.scheduler.set(address.number, address_demand(address, std::move(recorded)));
    }
  };
  const auto find = [&](const ObjectRefKey& ref) {
    return Directory::find(directory.addresses_of(ref.kind), ref.key.view());
  };
  directory.each_cached_of(facts.key, [&](MessagingKind kind, const QueueKey& key,
                                          const CachedAddress& cached) {
    ObjectRefKey ref{kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
    AddressFacts address = address_facts(site, ref, cached);
    if (address.place.space != &space) {
      return;
    }
    enter_space(site, address, Priority::kRetry);  // all have a turn anyway
    const AddressSettings& settings = address.effective.settings;
    if (settings.expiry_queue.empty() && settings.dead_letter_queue.empty() &&
        address.address().topic.empty()) {
      place(address);
    } else {
      later.push_back(std::move(ref));
    }
  });
  for (const ObjectRefKey& ref : later) {
    place(address_facts(site, ref, *find(ref)));
  }
  site.look_at_addresses(facts.key);
  return space;
}

void leave_infra(Site& site, OwnedInfra& infra, const ObjectRefKey& space) {
  const std::optional<ObjectId> number = infra.work->known(space);
  if (!number) {
    return;
  }
  release_hosts(site, infra, space);
  if (const auto at = infra.spaces.find(text_of(space)); at != infra.spaces.end()) {
    infra.space_ids.erase(at->second.space_id);  // another infra may have a space of that name
    infra.spaces.erase(at);
  }
  infra.admission.remove(*number);
  infra.scheduler.remove(*number);
  site.look_at(*infra.work, infra.admission.take_changed());
  site.decide(infra);
  infra.work->forget(space);
}

std::vector<DesiredEntity> desired_of_space(const Site& site, const SpaceFacts& facts,
                                            const std::string& broker, SecretForm form) {
  const InfraWork& work = *facts.infra->work;
  const MessagingInfra& infra = facts.infra->object;
  const PlanLimits limits = facts.limits();
  std::optional<BrokerLink> link;
  if (facts.transactional && !broker.empty()) {
    link = broker_link(work.owner(), infra, broker);
  }
  SpaceInput input;
  input.owner = work.owner();
  input.space_id = facts.space_id;
  input.id = &facts.cached->id();
  input.limits = &limits;
  input.declared_routers = facts.infra->declared_routers();
  for (SpaceAlias& one : space_aliases(site, facts)) {
    input.aliases.push_back(std::move(one.host));
  }
  input.transactional = link ? &*link : nullptr;
  std::vector<DesiredEntity> out = space_entities(input);
  std::vector<DesiredEntity> parts = space_part_entities(site, facts, form);
  std::move(parts.begin(), parts.end(), std::back_inserter(out));
  return out;
}

std::vector<DesiredEntity> render_space(Site& site, const ObjectRefKey& key,
                                        const InfraComponent& component) {
  const auto* const cached = Directory::find(site.directory().spaces_of(key.kind), key.key.view());
  if (cached == nullptr || component.kind != ComponentKind::kRouter) {
    return {};
  }
  const SpaceFacts facts = space_facts(site, key, *cached);
  if (facts.infra == nullptr) {
    return {};
  }
  return desired_of_space(site, facts, std::string(facts.status.text({"broker", "host"})));
}

}  // namespace kintsugi::workers
