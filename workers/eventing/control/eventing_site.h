#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/alive.h"
#include "workers/eventing/control/internal/dispatcher_pool.h"
#include "workers/eventing/control/internal/eventing_objects.h"
#include "workers/eventing/control/internal/kafka_book.h"
#include "workers/eventing/control/internal/member_asker.h"
#include "workers/eventing/eventing_config.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/unit/event_writer.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// What the controllers of one unit share: objects, pools that are ours, and who is told when a
/// pool decides. Groups are those of the endpoint; the pools' pods, StatefulSets and contracts
/// stand in the logical cluster that has the unit's Leases, which is known once it joins its ring.
/// Threads: the unit's loop's.
class EventingSite {
 public:
  EventingSite(Unit& unit, EventingConfig config);
  EventingSite(const EventingSite&) = delete;
  EventingSite& operator=(const EventingSite&) = delete;

  /// Whose keys are what is decided about, told or scaled: groups, pods, pools (by the
  /// StatefulSet's name).
  void set_controllers(Controller& groups, Controller& pods, Controller& pools);

  [[nodiscard]] Unit& unit() noexcept { return unit_; }
  [[nodiscard]] const EventingConfig& config() const noexcept { return config_; }
  [[nodiscard]] ObjectCache<CachedGroup>& groups() const noexcept { return *groups_; }
  [[nodiscard]] ObjectCache<CachedConsumer>& consumers() const noexcept { return *consumers_; }
  [[nodiscard]] KafkaBook& kafka() noexcept { return kafka_; }
  [[nodiscard]] const KafkaBook& kafka() const noexcept { return kafka_; }
  [[nodiscard]] std::string now() const;

  /// Begins to read what stands beside the Leases. @returns whether all is read
  [[nodiscard]] bool open_home();
  [[nodiscard]] const CachedPod* pod(std::string_view name) const;
  [[nodiscard]] const CachedSet* set(std::string_view name) const;
  [[nodiscard]] const CachedMap* contract(std::string_view name) const;
  /// Answers of writes, which reads give until the watch has them.
  void lay_pod(const krm::Json& object);
  void lay_contract(const krm::Json& object);
  void lay_group(const krm::Json& object) { groups_->lay(object, unit_.loop().now()); }
  void lay_consumer(const krm::Json& object) { consumers_->lay(object, unit_.loop().now()); }
  /// "/clusters/<of the Leases>/<base>/namespaces/<of the pools>/<plural>".
  [[nodiscard]] std::string home_path(const Resource& resource) const;

  /// A pool whose groups are all known; nullptr: it is not ours, or has not begun.
  [[nodiscard]] DispatcherPool* pool(std::string_view name) const;
  /// Reads all that is placed on it, before anything is decided (5.4). @returns whether it was not
  /// there yet
  bool begin_pool(std::string_view name);
  /// Those whose StatefulSet's partition has gone.
  void end_pools(const Unit::Goes& goes);
  template <class Visit>
  void each_pool(Visit&& visit) const {
    for (const auto& [name, pool] : pools_) {
      visit(static_cast<const DispatcherPool&>(*pool));
    }
  }

  /// Decides now what is due: whom it concerns gets a turn.
  void decide(DispatcherPool& pool);
  /// The same soon.
  void wake(DispatcherPool& pool);
  /// The scheduler learns of a group. @returns whether that is news
  static bool tell(DispatcherPool& pool, PooledGroup& group, const PoolGroup& fresh);
  /// It is not placed any more.
  void forget(DispatcherPool& pool, const std::string& key);
  /// Contracts with an entry of the group get a turn.
  void look_at_pods_of(const DispatcherPool& pool, const std::string& key);

  /// Tells people of a group by an event.
  void announce(const Key& group, std::string_view uid, const Tale& tale);
  /// The same of another object. @param by  whose key it is
  void announce(const Resource& kind, const Controller& by, const Key& key, std::string_view uid,
                const Tale& tale);
  [[nodiscard]] const EventWriter& events() const noexcept { return events_; }

  /// For placement_…: pods whose contracts were written, and how often.
  struct Counts {
    std::uint64_t contracts = 0, annotations = 0, scales = 0, overtaken = 0, consumers = 0;
  };
  Counts counts{};

 private:
  void on_pod(const CacheChange& change);
  void on_set(const CacheChange& change);
  void show_pod(DispatcherPool& pool, const std::string& name);
  void look_at_group(const std::string& key, Priority priority);
  void look_at_pod(const std::string& name, Priority priority);
  void note_moves(const DispatcherPool& pool, const PoolChanges& changes);
  void scale(DispatcherPool& pool);
  void ask_members();
  void heard(const std::string& pod, const DispatcherMembers& members);
  [[nodiscard]] DispatcherPool* pool_of_pod(std::string_view pod) const;

  Unit& unit_;
  const EventingConfig config_;
  CacheUse<CachedGroup> groups_;
  CacheUse<CachedConsumer> consumers_;
  struct Home {
    CacheUse<CachedPod> pods;
    CacheUse<CachedSet> sets;
    CacheUse<CachedMap> contracts;
    std::string cluster;  ///< that keys of its caches have
  };
  std::optional<Home> home_;
  Controller* group_control_ = nullptr;
  Controller* pod_control_ = nullptr;
  Controller* pool_control_ = nullptr;
  std::map<std::string, std::unique_ptr<DispatcherPool>, std::less<>> pools_;
  std::map<std::string, net::Timer, std::less<>> timers_;  // of pools
  KafkaBook kafka_;
  EventWriter events_;
  MemberAsker members_;
  Alive alive_;
};

}  // namespace kintsugi::workers
