#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/control/internal/cached.h"
#include "workers/messaging/control/internal/cached_address.h"
#include "workers/messaging/control/internal/kinds.h"
#include "workers/messaging/model/binding.h"
#include "workers/runtime/reflector/object_cache.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// An object of one of the kinds.
struct ObjectRefKey {
  MessagingKind kind = MessagingKind::kInfra;
  Key key;
};

/// A key of maps, unique over kinds.
[[nodiscard]] std::string text_of(const ObjectRefKey& object);
/// The object of such a key.
[[nodiscard]] ObjectRefKey object_of(std::string_view text);

/// Text of an infra's key, by which everything of it goes to one worker: `<cluster>|<ns>/<name>`.
[[nodiscard]] std::string infra_text(const Key& infra);

/// The objects of a unit's clusters, and which belongs to which: a space's plan and infra, an
/// address's space and plan. All workers of the shard come to the same answers. Source:
/// docs/spec/messaging.md. Threads: the unit's loop's. Lifetime: of what reads give, until the
/// caller lets the loop go on.
class Directory {
 public:
  struct Params {
    std::vector<std::string> infra_clusters;  ///< on the same shard, besides a space's own
    bool allow_local_connectors = false;
  };
  Directory(Unit& unit, Params params);

  /// Every cache has its first list: before that nothing is decided.
  [[nodiscard]] bool synced() const noexcept;
  /// Calls `done` when that is so, within this call or later; perhaps several times. Caches keep
  /// it.
  void when_synced(const std::function<void()>& done) const;

  CacheUse<CachedInfra> infras;
  CacheUse<CachedPlan> space_plans, messaging_plans;
  CacheUse<CachedAddressPlan> address_plans, messaging_address_plans;
  CacheUse<CachedSpace> address_spaces, tenants, projects;
  CacheUse<CachedAddress> addresses, messaging_addresses;
  CacheUse<CachedEndpoint> endpoints;
  CacheUse<CachedConnector> connectors;
  CacheUse<CachedNamespace> namespaces;

  [[nodiscard]] ObjectCache<CachedSpace>& spaces_of(MessagingKind kind) const;
  [[nodiscard]] ObjectCache<CachedAddress>& addresses_of(MessagingKind kind) const;
  template <class T>
  [[nodiscard]] static const T* find(const ObjectCache<T>& cache, const QueueKey& key) {
    const Expected<const T*> found = cache.find({key.cluster, key.ns, key.name});
    return found ? *found : nullptr;
  }

  struct SpaceFound {
    ObjectRefKey key;
    const CachedSpace* space = nullptr;
  };
  /// The space of an address, or of a connector or endpoint (name ""): an AddressSpace, or the
  /// tenant of the namespace. nullopt: there is none.
  [[nodiscard]] std::optional<SpaceFound> space(const QueueKey& of, std::string_view name) const;
  /// The tenant that counts in a namespace: of a MessagingTenant and a MessagingProject the older
  /// one (MS-094).
  [[nodiscard]] std::optional<SpaceFound> tenant(std::string_view cluster,
                                                 std::string_view ns) const;

  /// Another one with the same id (MD-14): an AddressSpace `default` beside a tenant. nullopt:
  /// none.
  [[nodiscard]] std::optional<SpaceFound> namesake(const ObjectRefKey& space) const;
  /// Other infras of the shard that list the router, by infra_text(): entities there that nobody
  /// here knows may be theirs.
  [[nodiscard]] std::vector<std::string> others_with(const Key& infra,
                                                     const ComponentEndpoint& router) const;

  /// The plan of a space, as choose_plan() says.
  [[nodiscard]] Chosen<MessagingPlan> plan(const CachedSpace& space) const;
  /// The infra that a space and its plan ask for, as choose_infra() says, whatever its status says.
  /// Nothing, without a reason, while only a plan that is not there would say it.
  [[nodiscard]] Chosen<MessagingInfra> wanted_infra(const CachedSpace& space,
                                                    const Chosen<MessagingPlan>& chosen) const;
  /// The infra that a space is bound to, or would be; one that is gone counts only while there is
  /// no other. nullopt: none.
  [[nodiscard]] std::optional<Key> infra(const CachedSpace& space) const;

  /// The plan of an address. `missing`: it names one that is not there; without a name the default
  /// of its type, or none.
  struct AddressPlanFound {
    const AddressPlan* plan = nullptr;
    bool missing = false;
  };
  [[nodiscard]] AddressPlanFound plan_of(const MessagingAddress& address, MessagingKind kind) const;

  /// By which partition an object is worked on: the key of its infra, else of its namespace.
  [[nodiscard]] std::string ring_key(MessagingKind kind, const QueueKey& key) const;

  // Who is concerned by a change.
  using Visit = std::function<void(MessagingKind, const QueueKey&)>;
  void each_address_of(const ObjectRefKey& space, const Visit& visit) const;
  /// With what is kept of each.
  using VisitAddress = std::function<void(MessagingKind, const QueueKey&, const CachedAddress&)>;
  void each_cached_of(const ObjectRefKey& space, const VisitAddress& visit) const;
  void each_space(const Visit& visit) const;
  /// MessagingEndpoints and MessagingConnectors of a namespace: its tenant's.
  void each_end_of(std::string_view cluster, std::string_view ns, const Visit& visit) const;
  void each_address_with_plan(std::string_view plan, const Visit& visit) const;

 private:
  [[nodiscard]] std::array<CacheCore*, 13> caches() const noexcept;
  [[nodiscard]] NamespaceView view(const ObjectIdentity& of) const;
  [[nodiscard]] std::string ring_key_of(const CachedSpace& space) const;
  Params params_;
};

}  // namespace kintsugi::workers
