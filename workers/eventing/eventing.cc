#include "workers/eventing/eventing.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workers/eventing/control/eventing_site.h"
#include "workers/eventing/control/group_control.h"
#include "workers/eventing/control/pod_control.h"
#include "workers/eventing/control/source_control.h"
#include "workers/eventing/control/trigger_control.h"
#include "workers/eventing/model/placeable.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kReadAgain = milliseconds(100);

/// Series of eventing_families(), by position.
enum EventingFamily : std::size_t {
  kGroupsFamily,
  kPodsFamily,
  kUnitsFamily,
  kMovingFamily,
  kContractsFamily,
  kAnnotationsFamily,
  kScalesFamily,
  kOvertakenFamily,
  kConsumerStatusesFamily,
  kEventsFamily,
  kKafkaFamily,
  kDeletionsFamily
};

std::vector<RoleFamily> eventing_families() {
  return {
      {"eventing_groups", "Consumer groups, by how far they have come.", false, {"phase"}},
      {"eventing_dispatcher_pods", "Dispatcher pods.", false, {"pool"}},
      {"eventing_placed_vreplicas", "Units that statuses place on pods.", false, {"pool"}},
      {"eventing_moving_groups", "Groups with units on their way to another pod.", false, {"pool"}},
      {"eventing_contract_writes_total", "Contracts of pods that were written.", true, {}},
      {"eventing_pod_annotations_total", "Pods that were told what they hold.", true, {}},
      {"eventing_scales_total", "Changes of the number of dispatcher pods.", true, {}},
      {"eventing_overtaken_total", "Contracts left alone, of a later epoch.", true, {}},
      {"eventing_consumer_statuses_total", "Writes of statuses of Consumers.", true, {}},
      {"eventing_events_total", "Writes of events about groups.", true, {}},
      {"eventing_kafka_questions_total", "Questions to Kafka, by outcome.", true, {"result"}},
      {"eventing_kafka_deletions_total", "Tries to delete a group of Kafka.", true, {"result"}}};
}

/// "kafka-source-dispatcher-3" is of the StatefulSet "kafka-source-dispatcher".
std::string pool_of_pod_key(const QueueKey& key) {
  return std::string(key.name.substr(0, key.name.rfind('-')));
}

/// The controllers of one unit.
class EventingWork final : public RoleWork {
 public:
  EventingWork(Unit& unit, const EventingConfig& config)
      : unit_(unit),
        site_(unit, config),
        groups_(site_),
        pods_(site_),
        group_control_(unit.control(
            named("consumergroup", config), [this](const QueueKey& key) { return pool_of(key); },
            [this](Key key) { return groups_.reconcile(std::move(key)); })),
        pod_control_(unit.control(named("dispatcherpod", config), pool_of_pod_key,
                                  [this](Key key) { return pods_.reconcile(std::move(key)); })),
        sources_(site_),
        source_control_(unit.control(
            named("kafkasource", config),
            [](const QueueKey&) { return std::string(kEventingPools[2]); },
            [this](Key key) { return sources_.reconcile(std::move(key)); })),
        triggers_(site_),
        trigger_control_(unit.control(
            named("trigger", config),
            [](const QueueKey&) { return std::string(kEventingPools[0]); },
            [this](Key key) { return triggers_.reconcile(std::move(key)); })),
        pool_control_(unit.control(
            named("dispatcherpool", config),
            [](const QueueKey& key) { return std::string(key.name); },
            [this](Key key) { return keep_pool(std::move(key)); })) {
    site_.set_controllers(group_control_, pod_control_, pool_control_);
    groups_.set_controller(group_control_);
    pods_.set_controller(pod_control_);
    sources_.set_controller(source_control_);
    triggers_.set_controller(trigger_control_);
    site_.groups().add_handler([this](const CacheChange& change) {
      unit_.when_deleted(
          site_.groups(), change,
          [this, key = Key{std::string(change.key.cluster), std::string(change.key.ns),
                           std::string(change.key.name)}] { groups_.forget(key); });
    });
    unit.drive(group_control_, site_.groups());
    unit.drive(source_control_, sources_.owners());
    unit.drive(trigger_control_, triggers_.owners());
    unit.drive(pool_control_, [this](const Unit::Visit& visit) {
      for (const std::string_view name : kEventingPools) {
        visit({"-", site_.config().pool_namespace, name});
      }
    });
    unit.when_partitions_go([this](const Unit::Goes& goes) { site_.end_pools(goes); });
  }

  [[nodiscard]] std::string not_ready() const override {
    for (const std::string_view name : kEventingPools) {
      if (unit_.may_act(name) && site_.pool(name) == nullptr) {
        return std::string(name) + ": is being taken over";
      }
    }
    return {};
  }

  void count(RoleSeries& out) const override {
    for (const auto& [key, phase] : groups_.phases()) {
      out[{kGroupsFamily, {std::string(phase)}}] += 1;
    }
    site_.each_pool([&out](const DispatcherPool& pool) {
      std::int64_t units = 0;
      for (const auto& [key, group] : pool.groups) {
        units += group.told ? sum_of_placements(group.told->status) : 0;
      }
      out[{kPodsFamily, {pool.name}}] += static_cast<double>(pool.pods.size());
      out[{kUnitsFamily, {pool.name}}] += static_cast<double>(units);
      out[{kMovingFamily, {pool.name}}] += static_cast<double>(pool.scheduler.moving());
    });
    const auto add = [&out](EventingFamily family, std::uint64_t value) {
      out[{family, {}}] += static_cast<double>(value);
    };
    add(kContractsFamily, site_.counts.contracts);
    add(kAnnotationsFamily, site_.counts.annotations);
    add(kScalesFamily, site_.counts.scales);
    add(kOvertakenFamily, site_.counts.overtaken);
    add(kConsumerStatusesFamily, site_.counts.consumers);
    add(kEventsFamily, site_.events().sent());
    out[{kKafkaFamily, {"answered"}}] += static_cast<double>(site_.kafka().counts().good);
    out[{kKafkaFamily, {"failed"}}] += static_cast<double>(site_.kafka().counts().bad);
    const auto& deletions = site_.kafka().counts().deletions;
    constexpr std::string_view kResults[] = {"deleted", "not_offered", "failed"};
    for (std::size_t i = 0; i < deletions.size(); ++i) {
      out[{kDeletionsFamily, {std::string(kResults[i])}}] += static_cast<double>(deletions[i]);
    }
  }

  void count_placements(PlacementCounts& out) const override {
    site_.each_pool([&out](const DispatcherPool& pool) {
      out.moves["move"] += pool.scheduler.moves_total();
      out.pending["pods"] += pool.scheduler.pending_groups();
      for (std::size_t i = 0; i < pool.decisions.counts.size(); ++i) {
        out.decisions.counts[i] += pool.decisions.counts[i];
      }
      out.decisions.count += pool.decisions.count;
      out.decisions.sum += pool.decisions.sum;
    });
  }

 private:
  static Controller::Params named(const char* name, const EventingConfig& config) {
    Controller::Params params;
    params.name = name;
    params.most = config.reconciles;
    return params;
  }

  /// All claims of a pool go to one worker.
  [[nodiscard]] std::string pool_of(const QueueKey& key) const {
    const CachedGroup* const found = find_in(site_.groups(), key.cluster, key.ns, key.name);
    return std::string(found == nullptr ? kEventingPools[2] : found->pool);
  }

  /// A pool that became ours begins; then its StatefulSet is what it is to be.
  net::Task<Outcome> keep_pool(Key key) {
    const Step step = unit_.step(pool_control_, key.view());
    if (!site_.open_home() || !site_.groups().synced() || !site_.consumers().synced()) {
      co_return Outcome::requeue_after(kReadAgain);
    }
    site_.begin_pool(key.name);
    DispatcherPool* const pool = site_.pool(key.name);
    const CachedSet* const set = site_.set(key.name);
    if (!pool->scale_to || set == nullptr) {
      co_return Outcome::done();
    }
    const std::int64_t replicas = *std::exchange(pool->scale_to, std::nullopt);
    ApiWrite write;
    write.method = "PATCH";
    write.path = site_.home_path(kStatefulSets).append("/").append(key.name).append("/scale");
    write.content_type = kMergePatch;
    write.body = krm::Json::object(
                     {{"metadata", krm::Json::object({{"resourceVersion", set->resource_version}})},
                      {"spec", krm::Json::object({{"replicas", replicas}})}})
                     .dump();
    net::Task<ApiAnswer> writing = unit_.write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (answer.ok()) {
      ++site_.counts.scales;
      co_return Outcome::done();  // the watch tells
    }
    if (DispatcherPool* const still = site_.pool(key.name)) {
      still->scaler.answered();  // what was read since decides anew
      site_.wake(*still);
    }
    const Outcome outcome = outcome_of(answer, RequestKind::kUpdate);
    co_return outcome.kind == Outcome::Kind::kDone ? Outcome::error() : outcome;
  }

  Unit& unit_;
  EventingSite site_;
  GroupControl groups_;
  PodControl pods_;
  Controller& group_control_;
  Controller& pod_control_;
  SourceControl sources_;
  Controller& source_control_;
  TriggerControl triggers_;
  Controller& trigger_control_;
  Controller& pool_control_;
};

}  // namespace

Role eventing_role(const EventingConfig& config) {
  return {"eventing",
          [config](Unit& unit) -> std::unique_ptr<RoleWork> {
            return std::make_unique<EventingWork>(unit, config);
          },
          eventing_families(), false};
}

}  // namespace kintsugi::workers
