#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "net/task.h"
#include "workers/delivery/agent/manifest_record.h"
#include "workers/delivery/agent/target.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// A kind as a logical cluster serves it.
struct TargetKind {
  Resource resource;
  bool namespaced = false;
  /// Of an object, below the server's path.
  [[nodiscard]] std::string path(const std::string& cluster, const ManifestRecord& record) const;
};

/// An order by its client's cluster and id, and its uid.
struct OrderName {
  std::string cluster, client, uid;
  bool operator==(const OrderName&) const = default;
  /// By the uid first: all orders of a client begin alike.
  std::strong_ordering operator<=>(const OrderName& other) const noexcept {
    return std::tie(uid, client, cluster) <=> std::tie(other.uid, other.client, other.cluster);
  }
};

/// Which kinds logical clusters serve, and the objects of orders there: one watch for each cluster
/// and kind that orders ask for, ended a while after the last. Source: CM-32.
/// Threads: the unit's loop. Lifetime: the unit outlives it.
class TargetWatches {
 public:
  /// @param changed  the object of an order
  TargetWatches(Unit& unit, std::function<void(const OrderName&)> changed);

  /// nullopt: it is not served. @error kUnavailable: nobody says
  [[nodiscard]] net::Task<Expected<std::optional<TargetKind>>> kind(std::string cluster,
                                                                    std::string api_version,
                                                                    std::string kind);
  /// When it makes sense to ask again for a kind that is not served.
  [[nodiscard]] Duration ask_again(const std::string& cluster,
                                   const std::string& api_version) const;
  /// What is known of it is asked again.
  void forget_kind(const std::string& cluster, const std::string& api_version);

  /// The order's object is watched from now on; no more with an earlier name.
  void watch(const OrderName& order, const TargetKind& kind, const ManifestRecord& record);
  void unwatch(const OrderName& order);
  /// The objects of the order's kind; null: it is not watched.
  [[nodiscard]] ObjectCache<Target>* cache(const OrderName& order);
  /// Of the HTTP answers that end its watch, 0: none.
  [[nodiscard]] int refusal(const OrderName& order) const;
  /// Key of the order's object in that cache. @returns false: it is not watched
  [[nodiscard]] bool find(const OrderName& order, shards::ObjectKey& key) const;
  [[nodiscard]] std::size_t watches() const noexcept { return watches_.size(); }

 private:
  struct Place {
    std::string watch;  // cluster and collection
    std::string cluster, ns, name;
  };
  struct Watch {
    CacheUse<Target> use;
    CacheCore::HandlerId handler = 0;
    std::size_t orders = 0;
    std::string cluster;  // as its keys have it: an order may name it by its path
    std::multimap<std::pair<std::string, std::string>, OrderName> by_name;
  };
  struct Known {
    TimePoint until{};
    bool served = false;
    bool asking = false;  // one asks, others wait
    unsigned misses = 0;  // answers in a row without a kind that was asked for
    std::map<std::string, TargetKind> kinds;
  };

  Unit& unit_;
  std::function<void(const OrderName&)> changed_;
  std::map<std::string, Known> known_;  // by cluster and version
  std::map<std::string, Watch> watches_;
  std::map<OrderName, Place> places_;
};

}  // namespace kintsugi::workers
