#include "workers/runtime/unit/unit.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kLookAgain = seconds(2);  // for a cluster that may hold Leases
constexpr Duration kDrainLook = milliseconds(20);
constexpr Duration kWeigh = seconds(10);
constexpr int kSeldom = 6;                                 // of these, for what only changed
constexpr std::size_t kCoordinatorSlot = kRingPartitions;  // of the journal's epochs

/// The path of the endpoint's URL, without a slash at its end.
std::string path_of(const std::string& url) {
  auto parsed = net::Url::parse(url);
  return parsed ? parsed->path : std::string();
}

/// What leads to the logical clusters of the endpoint's own shard: all before the virtual
/// workspace.
std::string home_of(const std::string& path) {
  return path.substr(0, path.find(krm::kServicesPrefix));
}

ApiClient::Params client_params(const UnitParams& params, std::string prefix) {
  ApiClient::Params out;
  out.prefix = std::move(prefix);
  out.user_agent = params.user_agent;
  out.credentials = params.credentials;
  out.writes_per_second = params.writes_per_second;
  out.burst = params.burst;
  return out;
}

}  // namespace

std::string Resource::base() const {
  return group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
}

Unit::Unit(net::Loop& loop, net::Upstream& upstream, UnitParams params)
    : loop_(loop),
      upstream_(upstream),
      params_(std::move(params)),
      path_(path_of(params_.url)),
      home_path_(home_of(path_)),
      api_(loop, upstream, client_params(params_, path_)),
      home_(loop, upstream, client_params(params_, home_path_)),
      server_(loop, upstream, client_params(params_, {})),
      reflectors_(loop, upstream,
                  {.headers = worker_headers(params_.credentials, params_.user_agent),
                   .seed = params_.seed}),
      drain_timer_(loop),
      weigh_timer_(loop),
      patience_(loop),
      cluster_timer_(loop),
      take_overs_(loop, server_, {params_.role, params_.lease_clusters, params_.ring.duration}) {
  api_.set_guard(
      [this] { return ring_ != nullptr && ring_->node().member_lease().may_write(loop_.now()); });
}

Unit::~Unit() { end(); }

void Unit::end() noexcept {
  begin_.end();
  alive_.renew();
  ring_.reset();
  controllers_.clear();
  journal_.reset();
}

Controller& Unit::control(Controller::Params params, RingKey ring_key,
                          Controller::Reconcile reconcile) {
  auto controlled = std::make_unique<Controlled>();
  controlled->ring_key = std::move(ring_key);
  params.seed ^= params_.seed;
  Controlled* const one = controlled.get();
  one->controller = std::make_unique<Controller>(
      loop_, std::move(params), std::move(reconcile), [this, one](const QueueKey& key) {
        return ring_ != nullptr && ring_->may_start(one->partition(key)) &&
               (!rights_.may_act || rights_.may_act(key.cluster));
      });
  one->controller->set_pressure(pressure_);
  controllers_.push_back(std::move(controlled));
  return *one->controller;
}

void Unit::set_pressure(bool pressure) {
  pressure_ = pressure;
  for (const auto& one : controllers_) {
    one->controller->set_pressure(pressure);
  }
}

void Unit::add_source(Source source) { sources_.push_back(std::move(source)); }

void Unit::on_change(Controller& controller, const CacheChange& change) {
  const bool only_changed = change.kind == CacheChange::Kind::kUpdated;
  weigh_in_ = only_changed ? (weigh_in_ == 0 ? kSeldom : weigh_in_) : 1;
  if (is_ignored_cluster(change.key.cluster)) {
    return;
  }
  note_shown(change);
  if (!change.echo) {
    controller.add({change.key.cluster, change.key.ns, change.key.name},
                   change.initial ? Priority::kInitial
                   : change.minor ? Priority::kRetry
                                  : Priority::kLive);
  }
}

void Unit::note_shown(const CacheChange& change) {
  if (!rights_.seen || change.key.id == shards::KeyTable::kNone) {
    return;  // an own write that the watch never had
  }
  if (change.kind == CacheChange::Kind::kAdded) {
    if (shown_.add(change.key.cluster)) {
      rights_.seen(change.key.cluster);
    }
  } else if (change.kind == CacheChange::Kind::kDeleted && shown_.remove(change.key.cluster)) {
    cluster_timer_.start(Duration{}, [this] { settle_clusters(); });
  }
}

void Unit::park(std::string_view cluster) {
  shown_.park(cluster);
  cluster_timer_.start(Duration{}, [this] { settle_clusters(); });
}

void Unit::let_gone(std::string_view text) {
  if (ring_ != nullptr) {
    ring_->let_gone(text);
  }
}

void Unit::act(std::string_view cluster) {
  if (!shown_.act(cluster)) {
    return;
  }
  for (const Source& source : sources_) {
    source.each([&](const QueueKey& key) {
      if (key.cluster == cluster) {
        source.of->controller->add(key, Priority::kRetry);
      }
    });
  }
}

void Unit::settle_clusters() {
  const auto runs = [this](std::string_view cluster) {
    bool found = false;
    for (const auto& one : controllers_) {
      one->controller->each_running(
          [&](const QueueKey& key) { found = found || key.cluster == cluster; });
    }
    return found;
  };
  const auto go = [this](const std::string& cluster, const ClusterRights::Tell& tell) {
    if (clusters_go_) {
      clusters_go_(cluster);
    }
    take_overs_.forget(cluster);
    tell(cluster);
  };
  shown_.settle(
      runs, [&](const std::string& cluster) { go(cluster, rights_.parked); },
      [&](const std::string& cluster) { go(cluster, rights_.gone); });
  if (shown_.waits()) {
    cluster_timer_.start(kDrainLook, [this] { settle_clusters(); });
  }
}

void Unit::when_deleted(const CacheCore& cache, const CacheChange& change,
                        std::function<void()> act) {
  if (change.kind != CacheChange::Kind::kDeleted || is_ignored_cluster(change.key.cluster)) {
    return;
  }
  if (change.announced || !rights_.doubt) {
    if (may_delete(change.key.cluster)) {
      act();
    }
    return;
  }
  ObjectSample object{
      {},
      {std::string(change.key.cluster), std::string(change.key.ns), std::string(change.key.name)}};
  const std::size_t everywhere = everywhere_path(path_, "").size();
  reflectors_.each([&](const Reflector& reflector) {
    if (&reflector.cache() == &cache) {
      object.collection = reflector.spec().target.substr(everywhere);
    }
  });
  rights_.doubt(object, change.uid, [this, object, act = std::move(act)] {
    if (!revision(object)) {
      act();
    }
  });
}

std::optional<ObjectSample> Unit::sample(std::string_view cluster) const {
  const std::string everywhere = everywhere_path(path_, "");
  std::optional<ObjectSample> out;
  reflectors_.each([&](const Reflector& reflector) {
    const std::string& target = reflector.spec().target;
    if (out || !target.starts_with(everywhere)) {
      return;
    }
    if (const auto key = reflector.cache().any_of(cluster)) {
      out = ObjectSample{target.substr(everywhere.size()),
                         {std::string(key->cluster), std::string(key->ns), std::string(key->name)}};
    }
  });
  return out;
}

std::optional<std::uint64_t> Unit::revision(const ObjectSample& sample) const {
  const std::string target = everywhere_path(path_, sample.collection);
  const shards::ObjectKey key{sample.key.cluster, sample.key.ns, sample.key.name};
  std::optional<std::uint64_t> out;
  reflectors_.each([&](const Reflector& reflector) {
    if (!out && reflector.spec().target == target) {
      out = reflector.cache().revision(key);
    }
  });
  return out;
}

Expected<std::string> Unit::routed_path(const ObjectSample& sample) const {
  const std::size_t plural = sample.collection.rfind('/');
  std::string path = sample.collection.substr(0, plural);
  if (!sample.key.ns.empty()) {
    path += "/namespaces/" + sample.key.ns;
  }
  path += sample.collection.substr(plural) + "/" + sample.key.name;
  return cluster_path(path_.substr(home_path_.size()), sample.key.cluster, path);
}

Unit::Controlled& Unit::controlled(const Controller& controller) const {
  return **std::find_if(controllers_.begin(), controllers_.end(),
                        [&](const auto& one) { return one->controller.get() == &controller; });
}

Step Unit::step(const Controller& controller, const QueueKey& key) const {
  Step out{controlled(controller).partition(key), 0};
  if (ring_ != nullptr) {
    out.epoch = ring_->epoch(out.partition);
  }
  return out;
}

net::Task<ApiAnswer> Unit::write(Step step, ApiWrite write) {
  write.may_write = [this, step] {
    return ring_ != nullptr && ring_->may_write(step.partition, step.epoch);
  };
  net::Task<ApiAnswer> writing = api_.write(std::move(write));
  ApiAnswer answer = co_await writing;
  co_return answer;
}

net::Task<ApiAnswer> Unit::write_home(Step step, ApiWrite write) {
  write.may_write = [this, step] {
    return ring_ != nullptr && ring_->node().member_lease().may_write(loop_.now()) &&
           ring_->may_write(step.partition, step.epoch);
  };
  net::Task<ApiAnswer> writing = home_.write(std::move(write));
  ApiAnswer answer = co_await writing;
  co_return answer;
}

Expected<void> Unit::start() {
  if (!params_.journal_directory.empty()) {
    JournalParams journal;
    journal.directory = params_.journal_directory;
    journal.boot_id = read_boot_id();
    journal.max_bytes = params_.journal_max_bytes;
    auto opened = JournalKeeper::open(loop_, std::move(journal));
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    journal_ = std::move(*opened);
  }
  trouble_ = "looks for a logical cluster of its shard that holds Leases";
  begin_ = net::Job(begin());
  return {};
}

net::Task<> Unit::begin() {
  std::string cluster;
  while (cluster.empty()) {
    net::Task<std::string> looking = find_lease_cluster();
    cluster = co_await looking;
    if (cluster.empty()) {
      net::Sleep rest(loop_, kLookAgain);
      co_await rest;
    }
  }
  join(cluster);
}

/// "": none of them is, for now; `trouble_` says why.
net::Task<std::string> Unit::find_lease_cluster() {
  std::string why;
  for (std::size_t i = 0; i < params_.lease_clusters.size(); ++i) {
    const std::string cluster = params_.lease_clusters[i];
    const std::string ns = krm::cluster_root(cluster) + "/api/v1/namespaces";
    net::Task<ApiAnswer> asking = home_.get(ns + "/" + std::string(kLeaseNamespace));
    const ApiAnswer there = co_await asking;
    if (there.ok()) {
      co_return cluster;
    }
    // 404 of a namespace is one of its own cluster; of a cluster that is elsewhere it names none.
    if (there.is(404) && there.body.text({"details", "kind"}) == "namespaces") {
      ApiWrite making;
      making.method = "POST";
      making.path = ns;
      making.kind = WriteKind::kLease;
      making.body =
          krm::Json::object({{"apiVersion", "v1"},
                             {"kind", "Namespace"},
                             {"metadata", krm::Json::object({{"name", kLeaseNamespace}})}})
              .dump();
      net::Task<ApiAnswer> creating = home_.write(std::move(making));
      const ApiAnswer made = co_await creating;
      if (made.ok() || made.is(409)) {
        co_return cluster;
      }
      why += (why.empty() ? "" : "; ") + cluster + ": " + made.text();
      continue;
    }
    why += (why.empty() ? "" : "; ") + cluster + ": " + there.text();
  }
  if (why != trouble_) {
    trouble_ = why;
    log_warn("no logical cluster of the shard can hold Leases yet",
             {{"role", params_.role}, {"unit", params_.name}, {"err", why}});
  }
  co_return std::string();
}

void Unit::join(const std::string& cluster) {
  trouble_.clear();
  lease_cluster_ = cluster;
  log_info("joins the ring",
           {{"role", params_.role}, {"unit", params_.name}, {"cluster", cluster}});
  RingDriver::Params params;
  params.node = params_.ring;
  params.node.role = params_.role;
  if (journal_ != nullptr) {
    const Journal& known = journal_->use();
    params.node.coordinator_epoch = static_cast<std::int64_t>(known.epoch(kCoordinatorSlot));
    for (std::size_t p = 0; p < kRingPartitions; ++p) {
      params.node.partition_epoch =
          std::max(params.node.partition_epoch, static_cast<std::uint32_t>(known.epoch(p)));
    }
  }
  params.node.seed = params_.seed;
  params.cluster_path = krm::cluster_root(cluster);
  params.prefix = home_path_;
  params.headers = worker_headers(params_.credentials, params_.user_agent);
  params.seed = params_.seed;
  RingCallbacks callbacks;
  callbacks.started = [this](PartitionId partition) { on_started(partition); };
  callbacks.draining = [this](PartitionId partition) { on_draining(partition); };
  callbacks.stopped = [this](PartitionId partition) { on_stopped(partition); };
  callbacks.asked = [this](std::string_view text) {
    if (rights_.asked) {
      rights_.asked(text);
    }
  };
  callbacks.joined = [this] {
    if (weigh_in_ > 0) {
      count_weights();
    }
  };
  callbacks.left = [this] { finish(); };
  ring_ = std::make_unique<RingDriver>(loop_, home_, upstream_, std::move(params),
                                       std::move(callbacks));
  ring_->start();
  weigh_timer_.start(kWeigh, [this] { weigh(); });
}

void Unit::on_started(PartitionId partition) {
  if (journal_ != nullptr) {  // what fails is its state
    (void)journal_->use().note_epoch(partition, ring_->epoch(partition));
  }
  started_.set(partition);
  draining_.remove(partition);
  if (!std::exchange(loading_, true)) {
    loop_.post(alive_.guard([this] { load_started(); }));
  }
}

/// What became ours in one turn is looked for once.
void Unit::load_started() {
  loading_ = false;
  if (journal_ != nullptr) {
    (void)journal_->use().note_epoch(kCoordinatorSlot,
                                     static_cast<std::uint64_t>(std::max<std::int64_t>(
                                         ring_->node().coordinator_lease().epoch(), 0)));
  }
  for (const Source& source : sources_) {
    source.each([&](const QueueKey& key) {
      if (!is_ignored_cluster(key.cluster) && started_.test(source.of->partition(key))) {
        source.of->controller->add(key, Priority::kInitial);
      }
    });
  }
  started_.reset();
}

void Unit::on_draining(PartitionId partition) {
  draining_.add(partition);
  drain_timer_.start(Duration{}, [this] { look_at_drains(); });
}

void Unit::look_at_drains() {
  PartitionSet busy;
  for (const auto& one : controllers_) {
    one->controller->each_running([&](const QueueKey& key) { busy.set(one->partition(key)); });
  }
  const PartitionSet idle = draining_.take_idle(busy);
  const Alive::Guard alive = alive_.weak();
  give_away(idle, partitions_go_, [&](PartitionId partition) {
    ring_->drained(partition);
    return static_cast<bool>(alive);
  });
  if (alive && draining_.any()) {
    drain_timer_.start(kDrainLook, [this] { look_at_drains(); });
  }
}

void Unit::on_stopped(PartitionId partition) {
  draining_.remove(partition);
  started_.reset(partition);
  for (const auto& one : controllers_) {
    one->controller->cut([&](const QueueKey& key) { return one->partition(key) == partition; });
  }
  if (partitions_go_) {
    partitions_go_([&](std::string_view ring_key) { return partition_of(ring_key) == partition; });
  }
}

bool Unit::may_act(std::string_view ring_key) const noexcept {
  return ring_ != nullptr && ring_->may_start(partition_of(ring_key));
}

/// Walks all objects.
void Unit::count_weights() {
  weigh_in_ = 0;
  weights_.fill(0);
  for (const Source& source : sources_) {
    source.each([&](const QueueKey& key) { ++weights_[source.of->partition(key)]; });
  }
  ring_->set_weights(weights_);
}

/// Counted is only when there are others than before, and once a minute when some have changed, and
/// not by a worker that is alone: quiet must not cost what objects cost.
void Unit::weigh() {
  if (!ring_->is_alone() && weigh_in_ > 0 && --weigh_in_ == 0) {
    count_weights();
  }
  weigh_timer_.start(kWeigh, [this] { weigh(); });
}

std::string Unit::not_ready() const {
  if (stopping_) {
    return "is stopping";
  }
  if (ring_ == nullptr) {
    return trouble_;
  }
  if (!ring_->settled()) {
    return "waits for its place in the ring";
  }
  if (journal_ != nullptr) {
    if (std::string why = journal_->not_ready(); !why.empty()) {
      return why;
    }
  }
  std::string why;
  const std::string everywhere = everywhere_path(path_, "");
  reflectors_.each([&](const Reflector& reflector) {
    if (!reflector.spec().target.starts_with(everywhere)) {
      return;  // follow_home(): the role's matter
    }
    if (!reflector.cache().synced()) {
      why = reflector.spec().target + " is not read yet";
    } else if (const int status = reflector.machine().refusal(); status != 0) {
      why = reflector.spec().target + ": HTTP " + std::to_string(status);
    }
  });
  return why;
}

void Unit::stop(Duration patience, std::function<void()> done) {
  stopping_ = true;
  done_ = std::move(done);
  begin_.end();
  weigh_timer_.cancel();
  busy_ = controllers_.size();
  const auto idle = [this] {
    if (--busy_ == 0) {
      patience_.cancel();
      if (ring_ != nullptr) {
        ring_->leave();
      } else {
        finish();
      }
    }
  };
  patience_.start(patience, [this] {  // what runs now is cut
    for (const auto& one : controllers_) {
      one->controller->cut([](const QueueKey&) { return true; });
    }
  });
  for (const auto& one : controllers_) {
    one->controller->drain(idle);
  }
  if (controllers_.empty()) {
    busy_ = 1;
    idle();
  }
}

void Unit::finish() {
  if (done_) {
    loop_.post(alive_.guard([this] { std::exchange(done_, nullptr)(); }));
  }
}

}  // namespace kintsugi::workers
