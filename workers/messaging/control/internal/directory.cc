#include "workers/messaging/control/internal/directory.h"

#include <algorithm>

namespace kintsugi::workers {

namespace {

// Positions in the indexes of addresses.
constexpr std::size_t kBySpace = 0, kByPlan = 1;
// Of endpoints and connectors.
constexpr std::size_t kByNamespace = 0;
// Of infras.
constexpr std::size_t kByRouter = 0;

std::string router_text(const ComponentEndpoint& router) {
  return router.address + " " + std::to_string(router.port);
}

Projection<CachedInfra> infra_projection() {
  Projection<CachedInfra> out = cached_projection<CachedInfra>(parse_infra);
  out.same = asks_the_same<CachedInfra>;
  out.indexes.push_back(
      {"router", [](const shards::ObjectKey&, const CachedInfra& infra, IndexValues& values) {
         for (const ComponentEndpoint& one : infra.parsed.object.routers.endpoints) {
           values.add(router_text(one));
         }
       }});
  return out;
}

/// What all addresses of a space have in common: an AddressSpace by its name, a tenant without.
std::string space_text(std::string_view cluster, std::string_view ns, std::string_view space) {
  return std::string(cluster).append("|").append(ns).append("|").append(space);
}

Projection<CachedAddress> address_projection() {
  Projection<CachedAddress> out;
  using Key = shards::ObjectKey;
  out.make = [](const Key& key, const krm::Json& object) { return CachedAddress(key, object); };
  out.indexes.push_back(
      {"space", [](const Key& key, const CachedAddress& address, IndexValues& values) {
         values.add(space_text(key.cluster, key.ns, address.space(key.name)));
       }});
  // What people and other controllers change; the rest is what we write.
  out.same = [](const CachedAddress& before, const CachedAddress& after) {
    return before.generation() == after.generation() && before.deleting() == after.deleting() &&
           before.reschedule() == after.reschedule();
  };
  out.indexes.push_back({"plan", [](const Key&, const CachedAddress& address, IndexValues& values) {
                           values.add(address.plan());
                         }});
  return out;
}

template <class C>
Projection<C> by_namespace(Projection<C> out) {
  out.indexes.push_back(
      {"namespace", [](const shards::ObjectKey& key, const C&, IndexValues& values) {
         values.add(space_text(key.cluster, key.ns, ""));
       }});
  return out;
}

Projection<CachedNamespace> namespace_projection() {
  Projection<CachedNamespace> out;
  out.make = [](const shards::ObjectKey& key, const krm::Json& object) {
    CachedNamespace cached;
    cached.uid = object.text({"metadata", "uid"});
    cached.deleting = object.at({"metadata", "deletionTimestamp"}) != nullptr;
    if (const krm::Json* labels = object.at({"metadata", "labels"})) {
      cached.labels = *labels;
    }
    cached.tenant = tenant_of_namespace(object, &cached.unknown_value);
    if (cached.tenant) {
      cached.tenant->id.cluster = key.cluster;
    }
    return cached;
  };
  return out;
}

Key key_of(const ObjectIdentity& id) { return {id.cluster, id.ns, id.name}; }

}  // namespace

std::string text_of(const ObjectRefKey& object) {
  std::string out(1, static_cast<char>('a' + static_cast<int>(object.kind)));
  return out.append(object.key.cluster)
      .append("|")
      .append(object.key.ns)
      .append("|")
      .append(object.key.name);
}

ObjectRefKey object_of(std::string_view text) {
  ObjectRefKey out;
  if (text.empty()) {
    return out;
  }
  out.kind = static_cast<MessagingKind>(text[0] - 'a');
  text.remove_prefix(1);
  const std::size_t ns = text.find('|'), name = text.find('|', ns + 1);
  if (ns != std::string_view::npos && name != std::string_view::npos) {
    out.key = {std::string(text.substr(0, ns)), std::string(text.substr(ns + 1, name - ns - 1)),
               std::string(text.substr(name + 1))};
  }
  return out;
}

std::string infra_text(const Key& infra) {
  return infra.cluster + "|" + infra.ns + "/" + infra.name;
}

Directory::Directory(Unit& unit, Params params) : params_(std::move(params)) {
  const bool local = params_.allow_local_connectors;
  const auto of = [](MessagingKind kind) -> const Resource& { return resource_of(kind); };
  infras = unit.follow<CachedInfra>(of(MessagingKind::kInfra), infra_projection());
  auto plans = cached_projection<CachedPlan>(parse_plan);
  plans.same = asks_the_same<CachedPlan>;
  space_plans = unit.follow<CachedPlan>(of(MessagingKind::kAddressSpacePlan), plans);
  messaging_plans = unit.follow<CachedPlan>(of(MessagingKind::kMessagingPlan), plans);
  const auto address_plan = cached_projection<CachedAddressPlan>(parse_address_plan);
  address_plans = unit.follow<CachedAddressPlan>(of(MessagingKind::kAddressPlan), address_plan);
  messaging_address_plans =
      unit.follow<CachedAddressPlan>(of(MessagingKind::kMessagingAddressPlan), address_plan);
  const auto space = cached_projection<CachedSpace>(
      [local](const krm::Json& object) { return parse_space(object, local); });
  address_spaces = unit.follow<CachedSpace>(of(MessagingKind::kAddressSpace), space);
  tenants = unit.follow<CachedSpace>(of(MessagingKind::kTenant), space);
  projects = unit.follow<CachedSpace>(of(MessagingKind::kProject), space);
  addresses = unit.follow<CachedAddress>(of(MessagingKind::kAddress), address_projection());
  messaging_addresses =
      unit.follow<CachedAddress>(of(MessagingKind::kMessagingAddress), address_projection());
  endpoints = unit.follow<CachedEndpoint>(
      of(MessagingKind::kEndpoint),
      by_namespace(cached_projection<CachedEndpoint>(
          [](const krm::Json& object) { return parse_endpoint(object); })));
  connectors = unit.follow<CachedConnector>(
      of(MessagingKind::kConnector),
      by_namespace(cached_projection<CachedConnector>(
          [local](const krm::Json& object) { return parse_connector(object, local); })));
  namespaces = unit.follow<CachedNamespace>(of(MessagingKind::kNamespace), namespace_projection());
}

std::array<CacheCore*, 13> Directory::caches() const noexcept {
  return {&*infras,
          &*space_plans,
          &*messaging_plans,
          &*address_plans,
          &*messaging_address_plans,
          &*address_spaces,
          &*tenants,
          &*projects,
          &*addresses,
          &*messaging_addresses,
          &*endpoints,
          &*connectors,
          &*namespaces};
}

bool Directory::synced() const noexcept {
  const auto all = caches();
  return std::all_of(all.begin(), all.end(), [](const CacheCore* one) { return one->synced(); });
}

void Directory::when_synced(const std::function<void()>& done) const {
  for (CacheCore* const one : caches()) {
    one->when_synced([one_more = done](const Expected<void>&) { one_more(); }, TimePoint::max());
  }
}

ObjectCache<CachedSpace>& Directory::spaces_of(MessagingKind kind) const {
  return kind == MessagingKind::kAddressSpace ? *address_spaces
         : kind == MessagingKind::kTenant     ? *tenants
                                              : *projects;
}

ObjectCache<CachedAddress>& Directory::addresses_of(MessagingKind kind) const {
  return kind == MessagingKind::kAddress ? *addresses : *messaging_addresses;
}

std::optional<Directory::SpaceFound> Directory::tenant(std::string_view cluster,
                                                       std::string_view ns) const {
  const QueueKey key{cluster, ns, "default"};
  const CachedSpace* const tenant = find(*tenants, key);
  const CachedSpace* const project = find(*projects, key);
  if (tenant == nullptr && project == nullptr) {
    return std::nullopt;
  }
  const bool first =
      project == nullptr || (tenant != nullptr && is_older(tenant->id(), project->id()));
  const CachedSpace* const chosen = first ? tenant : project;
  return SpaceFound{
      {first ? MessagingKind::kTenant : MessagingKind::kProject, key_of(chosen->id())}, chosen};
}

std::optional<Directory::SpaceFound> Directory::space(const QueueKey& of,
                                                      std::string_view name) const {
  if (name.empty()) {
    return tenant(of.cluster, of.ns);
  }
  const CachedSpace* const found = find(*address_spaces, {of.cluster, of.ns, name});
  if (found == nullptr || !found->parsed.object.shared) {
    return std::nullopt;
  }
  return SpaceFound{{MessagingKind::kAddressSpace, key_of(found->id())}, found};
}

std::optional<Directory::SpaceFound> Directory::namesake(const ObjectRefKey& space) const {
  const Key& key = space.key;
  if (space.kind != MessagingKind::kAddressSpace) {
    return this->space(key.view(), key.name);
  }
  return key.name == "default" ? tenant(key.cluster, key.ns) : std::nullopt;
}

std::vector<std::string> Directory::others_with(const Key& infra,
                                                const ComponentEndpoint& router) const {
  std::vector<std::string> out;
  const std::string self = infra_text(infra);
  (void)infras->lookup(
      kByRouter, router_text(router), [&](const shards::ObjectKey& key, const CachedInfra&) {
        out.push_back(
            infra_text({std::string(key.cluster), std::string(key.ns), std::string(key.name)}));
      });
  std::erase(out, self);
  std::sort(out.begin(), out.end());
  return out;
}

void Directory::each_address_of(const ObjectRefKey& space, const Visit& visit) const {
  each_cached_of(space, [&visit](MessagingKind kind, const QueueKey& key, const CachedAddress&) {
    visit(kind, key);
  });
}

void Directory::each_cached_of(const ObjectRefKey& space, const VisitAddress& visit) const {
  const bool named = space.kind == MessagingKind::kAddressSpace;
  const std::string text =
      space_text(space.key.cluster, space.key.ns, named ? std::string_view(space.key.name) : "");
  for (const MessagingKind kind : {MessagingKind::kAddress, MessagingKind::kMessagingAddress}) {
    (void)addresses_of(kind).lookup(kBySpace, text,
                                    [&](const shards::ObjectKey& key, const CachedAddress& one) {
                                      visit(kind, {key.cluster, key.ns, key.name}, one);
                                    });
  }
}

void Directory::each_space(const Visit& visit) const {
  for (const MessagingKind kind :
       {MessagingKind::kAddressSpace, MessagingKind::kTenant, MessagingKind::kProject}) {
    (void)spaces_of(kind).each([&](const shards::ObjectKey& key, const CachedSpace&) {
      visit(kind, {key.cluster, key.ns, key.name});
    });
  }
}

void Directory::each_end_of(std::string_view cluster, std::string_view ns,
                            const Visit& visit) const {
  const std::string text = space_text(cluster, ns, "");
  const auto as = [&visit](MessagingKind kind) {
    return [&visit, kind](const shards::ObjectKey& key, const auto&) {
      visit(kind, {key.cluster, key.ns, key.name});
    };
  };
  (void)endpoints->lookup(kByNamespace, text, as(MessagingKind::kEndpoint));
  (void)connectors->lookup(kByNamespace, text, as(MessagingKind::kConnector));
}

void Directory::each_address_with_plan(std::string_view plan, const Visit& visit) const {
  for (const MessagingKind kind : {MessagingKind::kAddress, MessagingKind::kMessagingAddress}) {
    (void)addresses_of(kind).lookup(kByPlan, plan,
                                    [&](const shards::ObjectKey& key, const CachedAddress&) {
                                      visit(kind, {key.cluster, key.ns, key.name});
                                    });
  }
}

}  // namespace kintsugi::workers
