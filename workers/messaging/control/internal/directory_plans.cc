// Plans, infras and who is concerned by a change.
#include <algorithm>

#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

Key key_of(const ObjectIdentity& id) { return {id.cluster, id.ns, id.name}; }

/// An infra is chosen without a ref while it is so.

}  // namespace

Chosen<MessagingPlan> Directory::plan(const CachedSpace& space) const {
  const MessagingSpace& object = space.parsed.object;
  const ObjectCache<CachedPlan>& cache = object.is_tenant() ? *messaging_plans : *space_plans;
  std::vector<const MessagingPlan*> plans;
  if (object.plan.empty()) {
    (void)cache.each([&](const shards::ObjectKey&, const CachedPlan& plan) {
      if (plan.parsed.object.is_default && plan.parsed.valid) {
        plans.push_back(&plan.parsed.object);
      }
    });
  } else {
    for (const LookupPlace& place : lookup_places(object.id, object.plan, params_.infra_clusters)) {
      if (const auto* const found = find(cache, {place.cluster, place.ns, object.plan.name})) {
        plans.push_back(&found->parsed.object);
      }
    }
  }
  return choose_plan(object, plans, view(object.id), params_.infra_clusters);
}

Chosen<MessagingInfra> Directory::wanted_infra(const CachedSpace& space,
                                               const Chosen<MessagingPlan>& chosen) const {
  const ObjectIdentity& id = space.id();
  const MessagingSpace& object = space.parsed.object;
  const MessagingPlan* const plan = chosen.object;
  if (plan == nullptr && !chosen.reason.empty() && object.infra.empty()) {
    return {};  // the plan that is not there would say it
  }
  ObjectRef ref = object.infra;
  std::vector<InfraCandidate> candidates;
  const auto add = [&](const CachedInfra& infra) {
    candidates.push_back({&infra.parsed.object, infra.active, infra.meta.deleting});
  };
  if (ref.empty() && plan != nullptr && !plan->infra.empty()) {
    // As the plan says it: its namespace and cluster are meant.
    ref = plan->infra;
    ref.ns = ref.ns.empty() ? plan->id.ns : ref.ns;
    if (const auto* const found = find(*infras, {plan->id.cluster, ref.ns, ref.name})) {
      add(*found);
    }
  } else if (!ref.empty()) {
    for (const LookupPlace& place : lookup_places(id, ref, params_.infra_clusters)) {
      if (const auto* const found = find(*infras, {place.cluster, place.ns, ref.name})) {
        add(*found);
        break;
      }
    }
  } else {
    (void)infras->each([&](const shards::ObjectKey&, const CachedInfra& infra) { add(infra); });
  }
  const std::string bound = space.bound ? space.bound->ns + "/" + space.bound->name : std::string();
  return choose_infra(candidates, view(id), ref, bound);
}

std::optional<Key> Directory::infra(const CachedSpace& space) const {
  if (space.bound && find(*infras, space.bound->view()) != nullptr) {
    return space.bound;
  }
  const Chosen<MessagingInfra> wanted = wanted_infra(space, plan(space));
  return wanted.object == nullptr ? space.bound : std::optional(key_of(wanted.object->id));
}

NamespaceView Directory::view(const ObjectIdentity& of) const {
  const CachedNamespace* const found = find(*namespaces, {of.cluster, "", of.ns});
  return {of.ns, found == nullptr || found->labels.is_null() ? nullptr : &found->labels};
}

Directory::AddressPlanFound Directory::plan_of(const MessagingAddress& object,
                                               MessagingKind kind) const {
  const ObjectCache<CachedAddressPlan>& cache =
      kind == MessagingKind::kAddress ? *address_plans : *messaging_address_plans;
  const auto where = lookup_places(object.id, {}, params_.infra_clusters);
  AddressPlanFound out;
  if (!object.plan.empty()) {
    for (const LookupPlace& place : where) {
      if (const auto* const found = find(cache, {place.cluster, place.ns, object.plan})) {
        out.plan = &found->parsed.object;
        return out;
      }
    }
    out.missing = true;
    return out;
  }
  std::size_t rank = where.size();
  (void)cache.each([&](const shards::ObjectKey&, const CachedAddressPlan& plan) {
    const AddressPlan& one = plan.parsed.object;
    if (!one.is_default || !plan.parsed.valid || one.type != object.type) {
      return;
    }
    const auto at = std::find(where.begin(), where.end(), LookupPlace{one.id.cluster, one.id.ns});
    const auto place = static_cast<std::size_t>(at - where.begin());
    if (place < rank || (place == rank && out.plan != nullptr && is_older(one.id, out.plan->id))) {
      rank = place;
      out.plan = &one;
    }
  });
  return out;
}

std::string Directory::ring_key_of(const CachedSpace& space) const {
  const std::optional<Key> bound = infra(space);
  return bound ? infra_text(*bound) : space.id().cluster + "|" + space.id().ns;
}

std::string Directory::ring_key(MessagingKind kind, const QueueKey& key) const {
  std::optional<SpaceFound> owner;
  switch (kind) {
    case MessagingKind::kInfra:
      return infra_text({std::string(key.cluster), std::string(key.ns), std::string(key.name)});
    case MessagingKind::kAddressSpace:
    case MessagingKind::kTenant:
    case MessagingKind::kProject:
      if (const CachedSpace* const space = find(spaces_of(kind), key)) {
        return ring_key_of(*space);
      }
      break;
    case MessagingKind::kAddress:
    case MessagingKind::kMessagingAddress:
      if (const CachedAddress* const address = find(addresses_of(kind), key)) {
        owner = space(key, address->space(key.name));
      }
      break;
    case MessagingKind::kEndpoint:
    case MessagingKind::kConnector:
      owner = tenant(key.cluster, key.ns);
      break;
    case MessagingKind::kNamespace:
      return std::string(key.cluster).append("|").append(key.name);
    default:
      break;
  }
  return owner ? ring_key_of(*owner->space) : std::string(key.cluster).append("|").append(key.ns);
}

}  // namespace kintsugi::workers
