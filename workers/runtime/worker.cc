#include "workers/runtime/worker.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "shards/informer.h"
#include "workers/runtime/lease/lease_record.h"

namespace kintsugi::workers {
namespace {

constexpr std::string_view kSlices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";

std::string host_of(const std::string& url) {
  auto parsed = net::Url::parse(url);
  return parsed ? parsed->host : std::string();
}

}  // namespace

struct Worker::Place {
  std::unique_ptr<net::Upstream> upstream;
  std::unique_ptr<Unit> unit;
  std::unique_ptr<RoleWork> work;  // dies first
  bool runs_out = false;
  SharedClusters* clusters = nullptr;
  ~Place() {
    if (clusters != nullptr) {
      clusters->remove(*unit);
    }
    if (unit != nullptr) {
      unit->end();
    }
  }
};

/// Hears of the slice.
class Worker::SliceSink final : public shards::InformerSink {
 public:
  explicit SliceSink(Worker& worker)
      : worker_(worker),
        informer_(worker.loop_, params_of(worker),
                  worker_headers(worker.params_.credentials, worker.params_.user_agent), *this) {
    informer_.start(*worker.upstream_);
  }
  void on_upsert(const shards::ObjectKey& key, const krm::Json& object) override {
    if (key.name != worker_.params_.slice) {
      return;
    }
    auto urls = endpoint_urls(object);
    if (!urls) {
      log_warn("an APIExportEndpointSlice cannot be read; the endpoints stay as they are",
               {{"role", worker_.role()}, {"err", urls.error().message()}});
      return;
    }
    there_ = true;
    tell(std::move(*urls));
  }
  void on_delete(const shards::ObjectKey& key) override {
    if (key.name == worker_.params_.slice) {
      there_ = false;
      tell({});
    }
  }
  void on_synced() override { synced_ = true; }

  [[nodiscard]] std::string not_ready() const {
    const std::string what =
        "APIExportEndpointSlice " + worker_.params_.slice_cluster + "|" + worker_.params_.slice;
    if (const int status = informer_.machine().refusal(); status != 0) {
      return what + ": HTTP " + std::to_string(status);
    }
    return !synced_ ? what + " is not read yet" : !there_ ? what + " does not exist" : "";
  }

 private:
  static shards::InformerParams params_of(const Worker& worker) {
    shards::InformerParams params = shards::reflector_params(
        krm::cluster_root(worker.params_.slice_cluster) + std::string(kSlices),
        "APIExportEndpointSlice");
    params.reflector.selector = "fieldSelector=metadata.name%3D" + worker.params_.slice;
    params.seed = random_number();
    return params;
  }
  void tell(std::vector<std::string> urls) {
    worker_.loop_.post(worker_.alive_.guard([&worker = worker_, urls = std::move(urls)] {
      worker.take(worker.endpoints_.update(urls, worker.loop_.now()));
    }));
  }

  Worker& worker_;
  bool there_ = false, synced_ = false;
  shards::Informer informer_;
};

Worker::Worker(net::Loop& loop, WorkerParams params, Role role)
    : loop_(loop),
      params_(std::move(params)),
      role_(std::move(role)),
      endpoints_({host_of(params_.server), params_.allowed_endpoint_hosts}),
      clusters_(loop, role_.name),
      again_(loop) {}

Worker::~Worker() = default;

Expected<void> Worker::start() {
  if (params_.slice.empty()) {
    take(endpoints_.update({params_.server}, loop_.now()));
    return {};
  }
  auto url = net::Url::parse(params_.server);
  if (!url) {
    return fail(std::move(url.error()).at("server"));
  }
  url->path.clear();
  auto upstream = params_.upstream(*url);
  if (!upstream) {
    return fail(std::move(upstream.error()));
  }
  upstream_ = net::Upstream::make(loop_, std::move(*upstream));
  ApiClient::Params asking;
  asking.user_agent = params_.user_agent;
  asking.credentials = params_.credentials;
  clusters_.ask_at(*upstream_, std::move(asking));
  slice_ = std::make_unique<SliceSink>(*this);
  return {};
}

void Worker::take(EndpointChange change) {
  if (done_) {
    return;
  }
  for (const RefusedEndpoint& refused : change.refused) {
    log_warn("an endpoint is refused: no credential is sent there",
             {{"role", role()}, {"url", refused.url}, {"err", refused.reason}});
  }
  for (const UnitEndpoint& endpoint : change.drain) {
    log_info("an endpoint is gone", {{"role", role()}, {"unit", endpoint.name}});
    run_out(endpoint.name);
  }
  for (const UnitEndpoint& endpoint : change.start) {
    begin(endpoint);
  }
}

void Worker::begin(const UnitEndpoint& endpoint) {
  auto place = make(endpoint);
  if (!place) {
    std::string why(place.error().message());
    log_error("a unit cannot begin and is tried again",
              {{"role", role()}, {"unit", endpoint.name}, {"err", why}});
    failed_[endpoint.name] = {endpoint, std::move(why)};
    again_.start(params_.begin_again, [this] { begin_again(); });
    return;
  }
  log_info("an endpoint is there", {{"role", role()}, {"unit", endpoint.name}});
  places_[endpoint.name] = std::move(*place);
}

void Worker::begin_again() {
  for (const auto& [name, failed] : std::exchange(failed_, {})) {
    begin(failed.first);
  }
}

Expected<std::unique_ptr<Worker::Place>> Worker::make(const UnitEndpoint& endpoint) {
  auto url = net::Url::parse(endpoint.url);
  if (!url) {
    return fail(std::move(url.error()));
  }
  auto upstream = params_.upstream(*url);
  if (!upstream) {
    return fail(std::move(upstream.error()));
  }
  auto place = std::make_unique<Place>();
  upstream->ping_after = seconds(30);  // RT-28
  upstream->ping_timeout = seconds(15);
  // Requests name their whole path.
  upstream->url.path.clear();
  place->upstream = net::Upstream::make(loop_, std::move(*upstream));
  UnitParams params;
  params.role = role();
  params.url = endpoint.url;
  params.name = endpoint.name;
  params.lease_clusters = params_.lease_clusters;
  params.user_agent = params_.user_agent;
  params.credentials = params_.credentials;
  params.ring = params_.ring;
  auto identity = lease_identity(params_.identity_host, ::getpid(), random_bytes(16));
  params.ring.identity = identity ? std::move(*identity) : std::string();
  params.writes_per_second = params_.writes_per_second;
  params.burst = params_.burst;
  params.seed = random_number();
  if (!params_.data_dir.empty()) {
    params.journal_directory = params_.data_dir + "/" + role() + "/" + endpoint.name;
    params.journal_max_bytes = params_.journal_max_bytes;
  }
  place->unit = std::make_unique<Unit>(loop_, *place->upstream, std::move(params));
  place->unit->set_pressure(pressure_);
  place->clusters = &clusters_;
  clusters_.add(*place->unit);
  place->work = role_.start(*place->unit);
  if (auto started = place->unit->start(); !started) {
    return fail(std::move(started.error()));
  }
  return place;
}

void Worker::run_out(const std::string& name) {
  if (failed_.erase(name) != 0) {
    on_run_out(name);
    return;
  }
  const auto found = places_.find(name);
  if (found == places_.end() || std::exchange(found->second->runs_out, true)) {
    return;
  }
  found->second->unit->stop(params_.patience, [this, name] { on_run_out(name); });
}

void Worker::on_run_out(const std::string& name) {
  places_.erase(name);
  const std::optional<UnitEndpoint> again = endpoints_.on_drained(name, loop_.now());
  if (done_) {
    if (places_.empty()) {
      loop_.post(alive_.guard([this] { std::exchange(done_, nullptr)(); }));
    }
  } else if (again) {
    begin(*again);
  }
}

void Worker::stop(std::function<void()> done) {
  slice_.reset();
  again_.cancel();
  failed_.clear();
  done_ = std::move(done);
  if (places_.empty()) {
    loop_.post(alive_.guard([this] { std::exchange(done_, nullptr)(); }));
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) {
    names.push_back(name);
  }
  for (const std::string& name : names) {
    run_out(name);
  }
}

void Worker::set_pressure(bool pressure) {
  pressure_ = pressure;
  for (const auto& [name, place] : places_) {
    place->unit->set_pressure(pressure);
  }
}

std::vector<const Unit*> Worker::units() const {
  std::vector<const Unit*> out;
  for (const auto& [name, place] : places_) {
    out.push_back(place->unit.get());
  }
  return out;
}

RoleSeries Worker::series() const {
  RoleSeries out;
  for (const auto& [name, place] : places_) {
    if (place->work != nullptr) {
      place->work->count(out);
    }
  }
  return out;
}

PlacementCounts Worker::placements() const {
  constexpr std::string_view kRing = "ring";
  PlacementCounts out;
  out.moves[kRing] = out.pending[kRing] = 0;
  for (const auto& [name, place] : places_) {
    if (place->work != nullptr) {
      place->work->count_placements(out);
    }
    if (const RingDriver* const ring = place->unit->ring(); ring != nullptr) {
      const RingCoordinatorFsm& decides = ring->node().coordinator();
      out.moves[kRing] += decides.counters().moves;
      out.pending[kRing] += decides.in_office() ? decides.table().moving() : 0;
    }
  }
  return out;
}

bool Worker::add_errors(krm::Json& list) const {
  for (const auto& [name, place] : places_) {
    if (place->work != nullptr) {
      place->work->add_errors(list);
    }
  }
  return role_.tells_errors;
}

std::string Worker::not_ready() const {
  if (slice_ != nullptr) {
    if (std::string why = slice_->not_ready(); !why.empty()) {
      return why;
    }
  }
  if (!failed_.empty()) {
    return failed_.begin()->first + ": " + failed_.begin()->second.second;
  }
  for (const auto& [name, place] : places_) {
    if (place->runs_out) {
      continue;
    }
    std::string why = place->unit->not_ready();
    if (why.empty()) {
      why = place->work->not_ready();
    }
    if (!why.empty()) {
      return name + ": " + why;
    }
  }
  return {};
}

}  // namespace kintsugi::workers
