#include "workers/eventing/control/eventing_site.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "krm/path_prefixes.h"
#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

constexpr std::string_view kPodSelector = "labelSelector=app.kubernetes.io/kind%3Dkafka-dispatcher";
constexpr std::string_view kMapSelector =
    "labelSelector=app.kubernetes.io/kind%3Dkafka-dispatcher-contract";

/// The parts of "<cluster>|<namespace>/<name>".
Key key_of(const std::string& text) {
  const std::size_t bar = text.find('|'), slash = text.find('/', bar);
  return {text.substr(0, bar), text.substr(bar + 1, slash - bar - 1), text.substr(slash + 1)};
}

/// Of one that is gone, by how its name is made (consumer_name()); "": cannot be said.
std::string_view group_of_consumer(std::string_view name) {
  for (const std::string_view pool : kEventingPools) {
    const std::size_t at = name.rfind("-" + std::string(pool) + "-");
    if (at != std::string_view::npos) {
      return name.substr(0, at);
    }
  }
  return {};
}

bool same_pod(const DispatcherPod& a, const DispatcherPod& b) {
  return a.zone == b.zone && a.bound == b.bound && a.deleting == b.deleting &&
         a.cordoned == b.cordoned && a.capacity == b.capacity;
}

bool same_group(const PoolGroup& a, const PoolGroup& b) {
  return a.uid == b.uid && a.created == b.created && a.wanted == b.wanted &&
         a.partitions == b.partitions && a.entry_bytes == b.entry_bytes && a.status == b.status;
}

PoolSettings pool_settings(const EventingConfig& config, std::string_view name) {
  PoolSettings out;
  out.stateful_set = name;
  out.capacity = config.pod_capacity;
  out.min_replicas = config.min_replicas;
  out.contract_bytes = static_cast<std::int64_t>(kPodContractBytes);
  out.moves.join = config.join;
  return out;
}

AutoscalerSettings scaler_settings(const EventingConfig& config) {
  AutoscalerSettings out;
  out.refresh = config.refresh;
  out.min_replicas = config.min_replicas;
  out.max_replicas = config.max_replicas;
  return out;
}

/// As it was when the worker before went away: what its status says it has.
PoolGroup as_stored(const CachedGroup& cached, const std::string& key, const krm::Json& object) {
  const krm::Json none = krm::Json::object();
  const krm::Json* const status = object.find("status");
  const krm::Json* const annotations = object.at({"metadata", "annotations"});
  const Placeable stored = read_status_placeable(status == nullptr ? none : *status).placeable;
  const ReplicasWish wish = read_replicas_field(object.at({"spec", "replicas"}), "spec.replicas",
                                                annotations == nullptr ? none : *annotations);
  const std::int64_t placed = sum_of_placements(stored.placements);
  PoolGroup out;
  out.key = key;
  out.uid = object.text({"metadata", "uid"});
  out.created = cached.created;
  out.partitions = stored.max_allowed;
  out.wanted = cached.deleting         ? 0
               : !wish.invalid.empty() ? placed
               : stored.max_allowed    ? std::min(wish.requested, *stored.max_allowed)
               : wish.unbounded        ? wish.requested
                                       : placed;
  out.status = stored.placements;
  return out;
}

}  // namespace

EventingSite::EventingSite(Unit& unit, EventingConfig config)
    : unit_(unit),
      config_(std::move(config)),
      groups_(unit.follow<CachedGroup>(kConsumerGroups, group_projection())),
      consumers_(unit.follow<CachedConsumer>(kConsumers, consumer_projection())),
      kafka_(unit.loop(), config_.partitions_every,
             [this](const std::string& key) { look_at_group(key, Priority::kLive); }),
      events_(unit, {.controller = "kintsugi.dev/eventing", .instance = unit.params().name}),
      members_(unit.loop(), [this](const std::string& name, const DispatcherMembers& found) {
        heard(name, found);
      }) {
  consumers_->add_handler([this](const CacheChange& change) {
    const CachedConsumer* const one =
        find_in(*consumers_, change.key.cluster, change.key.ns, change.key.name);
    if (!change.initial && !change.echo && one != nullptr && !one->group.empty()) {
      look_at_group(one->group, Priority::kLive);
    }
    if (change.kind == CacheChange::Kind::kDeleted) {
      if (const std::string_view group = group_of_consumer(change.key.name); !group.empty()) {
        look_at_group(seen_key(change.key.cluster, change.key.ns, group), Priority::kLive);
      }
    }
  });
}

void EventingSite::set_controllers(Controller& groups, Controller& pods, Controller& pools) {
  group_control_ = &groups;
  pod_control_ = &pods;
  pool_control_ = &pools;
}

void EventingSite::announce(const Key& group, std::string_view uid, const Tale& tale) {
  announce(kConsumerGroups, *group_control_, group, uid, tale);
}

void EventingSite::announce(const Resource& kind, const Controller& by, const Key& key,
                            std::string_view uid, const Tale& tale) {
  const std::string version = kind.group + "/" + kind.version;
  events_.tell({key.cluster, version, kind.kind, key.ns, key.name, uid}, tale,
               [this, &by, key] { return unit_.step(by, key.view()); });
}

std::string EventingSite::now() const { return rfc3339(unix_seconds()); }

bool EventingSite::open_home() {
  const std::string& cluster = unit_.lease_cluster();
  if (cluster.empty()) {
    return false;
  }
  if (!home_) {
    home_.emplace();
    home_->cluster = cluster;
    home_->pods =
        unit_.follow_home<CachedPod>(cluster, kPods, std::string(kPodSelector), pod_projection());
    home_->sets = unit_.follow_home<CachedSet>(cluster, kStatefulSets, "", set_projection());
    home_->contracts = unit_.follow_home<CachedMap>(cluster, kContractMaps,
                                                    std::string(kMapSelector), map_projection());
    home_->pods->add_handler([this](const CacheChange& change) { on_pod(change); });
    home_->sets->add_handler([this](const CacheChange& change) { on_set(change); });
    home_->contracts->add_handler([this](const CacheChange& change) {
      if (change.key.ns == config_.pool_namespace) {
        home_->cluster = change.key.cluster;
      }
      if (!change.initial && !change.echo && change.key.ns == config_.pool_namespace) {
        look_at_pod(std::string(change.key.name), Priority::kLive);
      }
    });
  }
  return home_->pods->synced() && home_->sets->synced() && home_->contracts->synced();
}

const CachedPod* EventingSite::pod(std::string_view name) const {
  return home_ ? find_in(*home_->pods, home_->cluster, config_.pool_namespace, name) : nullptr;
}
const CachedSet* EventingSite::set(std::string_view name) const {
  return home_ ? find_in(*home_->sets, home_->cluster, config_.pool_namespace, name) : nullptr;
}
const CachedMap* EventingSite::contract(std::string_view name) const {
  return home_ ? find_in(*home_->contracts, home_->cluster, config_.pool_namespace, name) : nullptr;
}
void EventingSite::lay_pod(const krm::Json& object) {
  home_->pods->lay(object, unit_.loop().now());
}
void EventingSite::lay_contract(const krm::Json& object) {
  home_->contracts->lay(object, unit_.loop().now());
}

std::string EventingSite::home_path(const Resource& resource) const {
  return krm::cluster_root(unit_.lease_cluster())
      .append(resource.base())
      .append("/namespaces/")
      .append(config_.pool_namespace)
      .append("/")
      .append(resource.name);
}

DispatcherPool* EventingSite::pool(std::string_view name) const {
  const auto at = pools_.find(name);
  return at == pools_.end() ? nullptr : at->second.get();
}

DispatcherPool* EventingSite::pool_of_pod(std::string_view pod) const {
  const std::size_t dash = pod.rfind('-');
  return dash == std::string_view::npos ? nullptr : pool(pod.substr(0, dash));
}

void EventingSite::look_at_group(const std::string& key, Priority priority) {
  const Key of = key_of(key);
  group_control_->add(of.view(), priority);
}

void EventingSite::look_at_pod(const std::string& name, Priority priority) {
  pod_control_->add({"-", config_.pool_namespace, name}, priority);
}

void EventingSite::on_pod(const CacheChange& change) {
  if (change.key.ns != config_.pool_namespace) {
    return;
  }
  home_->cluster = change.key.cluster;
  const std::string name(change.key.name);
  if (DispatcherPool* const of = pool_of_pod(name)) {
    show_pod(*of, name);
    wake(*of);
  }
  look_at_pod(name, change.initial ? Priority::kInitial : Priority::kLive);
}

void EventingSite::on_set(const CacheChange& change) {
  if (change.key.ns != config_.pool_namespace) {
    return;
  }
  home_->cluster = change.key.cluster;
  if (DispatcherPool* const of = pool(change.key.name)) {
    const CachedSet* const found = set(change.key.name);
    of->replicas = found == nullptr ? std::nullopt : std::optional(found->replicas);
    of->scheduler.set_replicas(of->replicas.value_or(0), unit_.loop().now());
    of->scaler.answered();
    wake(*of);
  }
}

/// The scheduler learns what the pod is, and what it says.
void EventingSite::show_pod(DispatcherPool& of, const std::string& name) {
  const TimePoint now = unit_.loop().now();
  const CachedPod* const found = pod(name);
  const auto known = of.pods.find(name);
  if (found == nullptr) {
    if (known != of.pods.end()) {
      of.pods.erase(known);
      of.gone_since.emplace(name, now);
      of.scheduler.pod_gone(name, now);
    }
  } else {
    of.gone_since.erase(name);
    if (known == of.pods.end() || !same_pod(known->second, found->pod)) {
      of.pods[name] = found->pod;
      if (const auto told = of.scheduler.set_pod(found->pod, now); !told) {
        log_warn("a dispatcher pod is not as it should be",
                 {{"pod", name}, {"err", std::string(told.error().message())}});
      }
    }
    of.scheduler.told(name, found->seen);
  }
  for (const std::string& key : of.scheduler.groups_on(name)) {
    look_at_group(key, Priority::kLive);
  }
}

bool EventingSite::begin_pool(std::string_view name) {
  if (pool(name) != nullptr) {
    return false;
  }
  const TimePoint now = unit_.loop().now();
  auto made =
      std::make_unique<DispatcherPool>(pool_settings(config_, name), scaler_settings(config_));
  DispatcherPool& of = *made;
  const CachedSet* const found = set(name);
  of.replicas = found == nullptr ? std::nullopt : std::optional(found->replicas);
  of.scheduler.set_replicas(of.replicas.value_or(0), now);
  home_->pods->each_known([&](const shards::ObjectKey& key, const CachedPod& one) {
    if (key.ns == config_.pool_namespace && pod_ordinal(name, key.name)) {
      of.pods[one.pod.name] = one.pod;
      (void)of.scheduler.set_pod(one.pod, now);  // said when it changes
    }
  });
  std::vector<PoolGroup> stored;
  groups_->each_known([&](const shards::ObjectKey& key, const CachedGroup& one) {
    if (one.pool != name) {
      return;
    }
    const krm::Json object = one.object.value();
    const std::string text = seen_key(key.cluster, key.ns, key.name);
    PooledGroup& group = of.groups[text];
    group.key = {std::string(key.cluster), std::string(key.ns), std::string(key.name)};
    group.generation = one.generation;
    group.uid = object.text({"metadata", "uid"});
    group.entry = group_entry(key.ns, key.name, object, config_.contract_format);
    PoolGroup fresh = as_stored(one, text, object);
    fresh.entry_bytes = group.entry.bytes;
    if (!fresh.status.empty()) {
      stored.push_back(fresh);
      group.told = std::move(fresh);
    }
  });
  std::vector<PoolScheduler::MoveRow> rows;
  if (JournalKeeper* const journal = unit_.journal()) {
    const auto read = journal->use().scan(0, [&](const JournalKey& key, const JournalRow& row) {
      const std::string text = seen_key(key.cluster, key.ns, key.name);
      if (of.groups.contains(text)) {
        rows.push_back({text, std::string(row.payload)});
      }
      return true;
    });
    if (!read) {
      log_warn("the journal of moves cannot be read",
               {{"err", std::string(read.error().message())}});
    }
  }
  const PoolScheduler::Loaded loaded = of.scheduler.load(stored, rows, now);
  log_info("a pool is placed from here", {{"pool", of.name},
                                          {"groups", std::to_string(of.groups.size())},
                                          {"placed", std::to_string(stored.size())},
                                          {"pods", std::to_string(of.pods.size())},
                                          {"moves", std::to_string(loaded.moves)}});
  for (const std::string& key : loaded.normalised) {
    log_warn("placements in a status were put right", {{"group", key}});
  }
  pools_.emplace(std::string(name), std::move(made));
  for (const auto& [pod_name, one] : of.pods) {
    of.scheduler.told(pod_name, pod(pod_name)->seen);
    look_at_pod(pod_name, Priority::kInitial);
  }
  for (const auto& [key, group] : of.groups) {
    look_at_group(key, Priority::kInitial);
  }
  wake(of);
  return true;
}

void EventingSite::end_pools(const Unit::Goes& goes) {
  std::erase_if(pools_, [&](const auto& one) { return goes(one.first); });
  std::erase_if(timers_, [&](const auto& one) { return !pools_.contains(one.first); });
  ask_members();
}

void EventingSite::wake(DispatcherPool& of) {
  if (std::exchange(of.woken, true)) {
    return;
  }
  unit_.loop().post(alive_.guard([this, name = of.name] {
    if (DispatcherPool* const still = pool(name)) {
      still->woken = false;
      decide(*still);
    }
  }));
}

/// Rows of moves are written before pods and groups follow.
void EventingSite::note_moves(const DispatcherPool& of, const PoolChanges& changes) {
  JournalKeeper* const journal = unit_.journal();
  if (journal == nullptr) {
    return;
  }
  for (const std::string& key : changes.moves) {
    const Key at = key_of(key);
    const JournalKey row_key{at.cluster, at.ns, at.name};
    const std::optional<std::string> row = of.scheduler.move_row(key);
    const auto written =
        row ? journal->use().put(0, row_key, {0, {}, *row}) : journal->use().erase(0, row_key);
    if (!written) {  // a restart goes back to what the status says
      log_warn("a move is not in the journal",
               {{"group", key}, {"err", std::string(written.error().message())}});
    }
  }
}

void EventingSite::decide(DispatcherPool& of) {
  const TimePoint begin = Clock::now();
  const PoolChanges changes = of.scheduler.decide(unit_.loop().now());
  if (!changes.empty()) {
    of.decisions.add(Clock::now() - begin);
  }
  note_moves(of, changes);
  for (const std::string& key : changes.groups) {
    look_at_group(key, Priority::kLive);
  }
  for (const std::string& name : changes.pods) {
    look_at_pod(name, Priority::kLive);
  }
  scale(of);
  ask_members();
}

/// Pods are asked for their members while moves wait for these.
void EventingSite::ask_members() {
  std::map<std::string, std::string> urls;
  for (const auto& [name, of] : pools_) {
    for (const PoolScheduler::Joining& one : of->scheduler.joining()) {
      const CachedPod* const found = pod(one.pod);
      if (found != nullptr && !found->status_url.empty()) {
        urls.emplace(one.pod, found->status_url);
      }
    }
  }
  members_.ask(urls);
}

void EventingSite::heard(const std::string& name, const DispatcherMembers& members) {
  DispatcherPool* const of = pool_of_pod(name);
  if (of == nullptr) {
    return;
  }
  for (const PoolScheduler::Joining& one : of->scheduler.joining()) {
    const auto group = of->groups.find(one.key);
    const auto at = group == of->groups.end() ? members.end() : members.find(group->second.uid);
    if (one.pod == name && at != members.end()) {
      of->scheduler.joined(name, one.key, at->second);
    }
  }
  wake(*of);
}

void EventingSite::scale(DispatcherPool& of) {
  const TimePoint now = unit_.loop().now();
  if (of.replicas) {
    AutoscalerView view = of.scheduler.view();
    // What is being written is decided anew behind it: until then nobody knows whether it fits.
    view.coming = view.coming || (of.writing > 0 && view.wanted <= view.replicas);
    const AutoscalerStep step = of.scaler.look(view, now);
    if (step.scale_to) {
      of.scale_to = step.scale_to;
      pool_control_->add({"-", config_.pool_namespace, of.name}, Priority::kLive);
    }
    if (step.compact) {
      of.scaler.moved(of.scheduler.compact(now), now);
      wake(of);
    } else if (step.rebalance) {
      of.scaler.moved(of.scheduler.rebalance(now), now);
      wake(of);
    }
  }
  std::optional<TimePoint> next = of.scheduler.next_timer();
  if (const auto other = of.scaler.next_timer();
      of.replicas && other && (!next || *other < *next)) {
    next = other;
  }
  auto [timer, is_new] = timers_.try_emplace(of.name, unit_.loop());
  if (next) {
    timer->second.start(std::max<Duration>(*next - now, milliseconds(1)), [this, name = of.name] {
      if (DispatcherPool* const still = pool(name)) {
        wake(*still);
      }
    });
  } else {
    timer->second.cancel();
  }
}

bool EventingSite::tell(DispatcherPool& of, PooledGroup& group, const PoolGroup& fresh) {
  if (group.told && same_group(*group.told, fresh)) {
    return false;
  }
  group.told = fresh;
  of.scheduler.set(fresh);
  return true;
}

void EventingSite::forget(DispatcherPool& of, const std::string& key) {
  const Key at = key_of(key);
  look_at_pods_of(of, key);
  of.scheduler.remove(key);
  if (const auto group = of.groups.find(key); group != of.groups.end()) {
    of.writing -= group->second.writing ? 1 : 0;
    of.groups.erase(group);
  }
  kafka_.forget(key);
  if (JournalKeeper* const journal = unit_.journal()) {
    (void)journal->use().erase(0, {at.cluster, at.ns, at.name});  // else nobody's row
  }
  wake(of);
}

void EventingSite::look_at_pods_of(const DispatcherPool& of, const std::string& key) {
  for (const Placed& placed : of.scheduler.contract(key)) {
    look_at_pod(placed.host, Priority::kLive);
  }
}

}  // namespace kintsugi::workers
