#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/alive.h"
#include "http/headers.h"
#include "krm/path_prefixes.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "workers/runtime/client/api_client.h"
#include "workers/runtime/control/controller.h"
#include "workers/runtime/endpoints/endpoint_url.h"
#include "workers/runtime/journal/journal_keeper.h"
#include "workers/runtime/placement/ring_policy.h"
#include "workers/runtime/reflector/reflector_pool.h"
#include "workers/runtime/ring/ring_driver.h"
#include "workers/runtime/unit/internal/drains.h"
#include "workers/runtime/unit/internal/shown_clusters.h"
#include "workers/runtime/unit/internal/take_overs.h"

namespace kintsugi::workers {

/// A collection of the endpoint, over all clusters.
struct Resource {
  std::string group, version, name;  ///< "" is the core group; the plural name
  std::string kind;                  ///< of its objects
  /// "/apis/<group>/<version>", "/api/v1".
  [[nodiscard]] std::string base() const;
};

struct UnitParams {
  std::string role;
  std::string url;   ///< of the endpoint, as its slice says
  std::string name;  ///< short, stable, unique: for logs, metrics and folders
  /// Logical clusters that may hold Leases; the first that is on the endpoint's own shard does
  /// (RT-50).
  std::vector<std::string> lease_clusters;
  std::string user_agent;
  std::function<http::HeaderList()> credentials;
  RingNodeParams ring;            ///< without role
  std::string journal_directory;  ///< "": none, epochs are not remembered
  std::uint64_t journal_max_bytes = std::uint64_t{8} << 30;
  double writes_per_second = 200, burst = 400;
  std::uint64_t seed = 1;
};

/// What a reconcile may write by: the partition of its key, and the epoch with which it was ours
/// when the reconcile began (RT-66).
struct Step {
  PartitionId partition = 0;
  std::uint32_t epoch = 0;
};

/// An object of a collection ("/apis/<group>/<version>/<plural>"), of whatever unit.
struct ObjectSample {
  std::string collection;
  Key key;
};

/// What a unit says of clusters, and asks, where other units may show them, too (RT-14): `seen`
/// with the first object of one, `gone` when it shows none and nothing runs, `parked` as the answer
/// to park(). ClusterOwners has the rules.
struct ClusterRights {
  using Tell = std::function<void(std::string_view cluster)>;
  using Ask = std::function<bool(std::string_view cluster)>;
  Tell seen, gone, parked;
  /// Units of other processes ask to let go of clusters, all that they ask as let_go_text().
  /// Answer: Unit::let_gone.
  std::function<void(std::string_view asked)> asked;
  Ask may_act, may_delete;
  /// Asks whether an object that is not shown any more was deleted; calls `deleted` if so. Empty:
  /// there is nobody to ask. @param uid  uid_hash() of it
  std::function<void(const ObjectSample& object, std::uint32_t uid, std::function<void()> deleted)>
      doubt;
};

/// One endpoint as one role sees it: its caches, controllers, place in the ring, client. Nothing of
/// it waits for another unit (RT-12). Source: sections 3, 6 and 8.
/// Threads: its loop's. Lifetime: the upstream outlives it.
class Unit {
 public:
  Unit(net::Loop& loop, net::Upstream& upstream, UnitParams params);
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  [[nodiscard]] net::Loop& loop() noexcept { return loop_; }
  [[nodiscard]] const UnitParams& params() const noexcept { return params_; }
  /// Reads; paths begin with "/clusters/<cluster>".
  [[nodiscard]] ApiClient& api() noexcept { return api_; }
  /// Null: there is none.
  [[nodiscard]] JournalKeeper* journal() noexcept { return journal_.get(); }
  [[nodiscard]] const JournalKeeper* journal() const noexcept { return journal_.get(); }

  /// The objects of a resource, of all clusters. The cache is there at once and filled as they
  /// come.
  template <class T>
  [[nodiscard]] CacheUse<T> follow(const Resource& resource, const Projection<T>& projection) {
    ReflectorSpec spec;
    spec.target = everywhere_path(path_, resource.base() + "/" + resource.name);
    spec.kind = resource.kind;
    spec.one_shard = path_.starts_with(krm::kShardsPrefix);
    return reflectors_.use<T>(spec, projection);
  }

  /// The objects of one logical cluster of the endpoint's shard, as the worker's user may see them
  /// there, that a selector chooses ("labelSelector=…", encoded). The unit is ready without them.
  template <class T>
  [[nodiscard]] CacheUse<T> follow_home(const std::string& cluster, const Resource& resource,
                                        const std::string& selector,
                                        const Projection<T>& projection) {
    ReflectorSpec spec;
    spec.target = home_path_ + krm::cluster_root(cluster) + resource.base() + "/" + resource.name;
    spec.kind = resource.kind;
    spec.selector = selector;
    spec.default_cluster = cluster;
    return reflectors_.use<T>(spec, projection);
  }

  /// By which part of its key an object goes to one worker and no other (section 8.2).
  using RingKey = std::function<std::string(const QueueKey&)>;
  /// Keys of other workers are not worked on. The controller dies with the unit.
  Controller& control(Controller::Params params, RingKey ring_key, Controller::Reconcile reconcile);
  /// Every change of these objects is the controller's work, and so is each object whose partition
  /// becomes ours. Objects of `system:` clusters are left out (RT-13), and so are echoes of own
  /// writes (CacheChange). @param cache  lives as long
  /// as the unit's work
  template <class T>
  void drive(Controller& controller, const CacheUse<T>& cache) {
    drive(controller, *cache);
  }
  template <class T>
  void drive(Controller& controller, ObjectCache<T>& cache) {
    ObjectCache<T>* const objects = &cache;
    add_source({&controlled(controller), [objects](const Visit& visit) {
                  objects->each_known([&](const shards::ObjectKey& key, const T&) {
                    visit({key.cluster, key.ns, key.name});
                  });
                }});
    objects->add_handler(
        [this, &controller](const CacheChange& change) { on_change(controller, change); });
  }

  using Visit = std::function<void(const QueueKey&)>;
  /// Keys of no cache: those that `each` visits are the controller's work when their partition
  /// becomes ours.
  void drive(Controller& controller, std::function<void(const Visit&)> each) {
    add_source({&controlled(controller), std::move(each)});
  }

  /// Says of a ring key whether its partition goes.
  using Goes = std::function<bool(std::string_view ring_key)>;
  /// `go` is called when partitions go, before another worker may have them: what a role holds for
  /// such keys besides reconciles ends within that call, so that nothing of it is open at the end
  /// of the turn.
  void when_partitions_go(std::function<void(const Goes&)> go) { partitions_go_ = std::move(go); }
  /// Whether something may be begun for a ring key now.
  [[nodiscard]] bool may_act(std::string_view ring_key) const noexcept;

  /// Before the unit's work begins. Without it the unit acts for all clusters that it shows.
  void share_clusters(ClusterRights rights) { rights_ = std::move(rights); }
  /// No more keys of the cluster are begun; ClusterRights::parked when none runs, in a later turn.
  void park(std::string_view cluster);
  /// Of ClusterRights::asked, those for which nothing is done any more, as let_go_text().
  void let_gone(std::string_view text);
  /// Whether no worker of another shard acts any more for a cluster that came from there. The first
  /// call asks them; call again. Bounded: at most twice the duration of a Lease.
  /// @param epoch  of who had it there: the same cluster that comes again is asked for again
  [[nodiscard]] bool is_free_of(const std::string& cluster, const std::string& shard,
                                std::int64_t epoch) {
    return take_overs_.is_free(cluster, shard, epoch);
  }
  /// The opposite: its keys are looked at.
  void act(std::string_view cluster);
  /// Called for a cluster that another unit may act for from then on, or that is gone: what a role
  /// holds for it besides reconciles ends within that call.
  void when_clusters_go(std::function<void(std::string_view cluster)> go) {
    clusters_go_ = std::move(go);
  }
  /// To be told every change of a cache: `act` runs for an object that was deleted, at once where
  /// its last state said so, else when the proxy says that nobody has it. It does not run for what
  /// went with its cluster to another shard, nor while the cluster is shown twice, nor for what is
  /// there again.
  void when_deleted(const CacheCore& cache, const CacheChange& change, std::function<void()> act);
  /// One of the objects of a cluster. Cost: O(collections).
  [[nodiscard]] std::optional<ObjectSample> sample(std::string_view cluster) const;
  /// shards::revision_number() of the same object here; nullopt: it is not shown.
  [[nodiscard]] std::optional<std::uint64_t> revision(const ObjectSample& sample) const;
  /// Path of the object where the proxy looks for its shard: that of the endpoint without the
  /// shard. @error kInvalid: the cluster's name would change the path
  [[nodiscard]] Expected<std::string> routed_path(const ObjectSample& sample) const;

  /// Of the key of a reconcile that runs.
  [[nodiscard]] Step step(const Controller& controller, const QueueKey& key) const;
  /// Writes if the key is still ours, with the same epoch, when it is sent (6.5); else the answer
  /// is kCancelled.
  [[nodiscard]] net::Task<ApiAnswer> write(Step step, ApiWrite write);
  /// The endpoint's shard besides the export: what the worker's user may do there by the rights of
  /// each logical cluster. Paths as those of api(). Writes are guarded as above.
  [[nodiscard]] ApiClient& home() noexcept { return home_; }
  [[nodiscard]] net::Task<ApiAnswer> write_home(Step step, ApiWrite write);

  /// Opens the journal and looks for a place in the ring. @error of the journal: kConfig when
  /// another process has it
  [[nodiscard]] Expected<void> start();
  /// Runs out: no new reconciles, those that run may end within `patience`, then the ring is left
  /// and `done` called, once, in a later turn (RT-4, RT-11).
  void stop(Duration patience, std::function<void()> done);
  /// At once, what runs is cut: before the role's work dies.
  void end() noexcept;

  /// Memory is short: controllers leave low work alone (RT-5).
  void set_pressure(bool pressure);

  /// "": it works. Else why it does not, for /readyz.
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] const RingDriver* ring() const noexcept { return ring_.get(); }
  /// Where its Leases are; "" before it joins the ring.
  [[nodiscard]] const std::string& lease_cluster() const noexcept { return lease_cluster_; }
  [[nodiscard]] const ReflectorPool& reflectors() const noexcept { return reflectors_; }
  [[nodiscard]] const ApiClient& client() const noexcept { return api_; }
  /// Of Leases, the ring, and home().
  [[nodiscard]] const ApiClient& home_client() const noexcept { return home_; }
  template <class Visit>
  void each_controller(Visit&& visit) const {
    for (const auto& one : controllers_) {
      visit(static_cast<const Controller&>(*one->controller));
    }
  }

 private:
  struct Controlled {
    std::unique_ptr<Controller> controller;
    RingKey ring_key;
    [[nodiscard]] PartitionId partition(const QueueKey& key) const {
      return partition_of(ring_key(key));
    }
  };
  struct Source {
    Controlled* of;
    std::function<void(const Visit&)> each;
  };
  [[nodiscard]] net::Task<> begin();
  [[nodiscard]] net::Task<std::string> find_lease_cluster();
  void join(const std::string& cluster);
  void add_source(Source source);
  void on_change(Controller& controller, const CacheChange& change);
  void note_shown(const CacheChange& change);
  void settle_clusters();
  [[nodiscard]] bool may_delete(std::string_view cluster) const {
    return !rights_.may_delete || rights_.may_delete(cluster);
  }
  [[nodiscard]] Controlled& controlled(const Controller& controller) const;
  void on_started(PartitionId partition);
  void load_started();
  void on_draining(PartitionId partition);
  void look_at_drains();
  void on_stopped(PartitionId partition);
  void weigh();
  void count_weights();
  void finish();

  net::Loop& loop_;
  net::Upstream& upstream_;
  UnitParams params_;
  const std::string path_, home_path_;  // of the endpoint; of its shard's logical clusters
  ApiClient api_, home_, server_;
  ReflectorPool reflectors_;
  std::vector<std::unique_ptr<Controlled>> controllers_;
  std::vector<Source> sources_;
  std::string trouble_ = "has not begun";
  PartitionSet started_;
  Drains draining_;
  bool loading_ = false;
  int weigh_in_ = 1;  // kWeigh until these are counted again; 0: nothing changed
  std::array<std::uint32_t, kRingPartitions> weights_{};
  std::unique_ptr<JournalKeeper> journal_;
  std::unique_ptr<RingDriver> ring_;
  net::Job begin_;
  net::Timer drain_timer_, weigh_timer_, patience_, cluster_timer_;
  std::size_t busy_ = 0;  // controllers that have not run out
  bool stopping_ = false, pressure_ = false;
  std::function<void()> done_;
  std::function<void(const Goes&)> partitions_go_;
  ClusterRights rights_;
  ShownClusters shown_;
  std::function<void(std::string_view)> clusters_go_;
  TakeOvers take_overs_;
  Alive alive_;
  std::string lease_cluster_;
};

}  // namespace kintsugi::workers
