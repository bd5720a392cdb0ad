#include "workers/runtime/ring/ring_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "krm/json.h"
#include "workers/runtime/lease/lease_record.h"
#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {
namespace {

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string delete_options(const RingOp& op) {
  return krm::Json::object(
             {{"apiVersion", "v1"},
              {"kind", "DeleteOptions"},
              {"preconditions", krm::Json::object({{"uid", op.uid}, {"resourceVersion", op.rv}})}})
      .dump();
}

}  // namespace

/// One of the two collections that the node hears of besides its own requests.
class RingDriver::Watcher final : public shards::InformerSink {
 public:
  Watcher(RingDriver& driver, const std::string& path, bool leases)
      : driver_(driver),
        leases_(leases),
        informer_(driver.loop_, params_of(driver, path), driver.params_.headers, *this) {
    informer_.start(driver.upstream_);
  }

  void on_upsert(const shards::ObjectKey& key, const krm::Json& object) override {
    if (leases_) {
      if (auto lease = parse_lease(object)) {
        uids_[lease->name] = lease->uid;
        tell([lease = std::move(*lease)](RingDriver& driver) {
          driver.note_lease(lease.name, true);
          driver.perform(driver.node_.on_lease_event(lease, driver.loop_.now()));
        });
      }
    } else if (key.name == ring_name(driver_.params_.node.role)) {
      tell([rv = std::string(object.text({"metadata", "resourceVersion"})),
            text = std::string(ring_text(object))](RingDriver& driver) {
        driver.perform(driver.node_.on_ring_event(rv, text, driver.loop_.now()));
      });
    }
  }
  void on_delete(const shards::ObjectKey& key) override {
    if (leases_) {
      std::string uid;
      if (const auto known = uids_.find(key.name); known != uids_.end()) {
        uid = known->second;
        uids_.erase(known);
      }
      tell([name = std::string(key.name), uid](RingDriver& driver) {
        driver.note_lease(name, false);
        driver.perform(driver.node_.on_lease_deleted(name, uid, driver.loop_.now()));
      });
    } else if (key.name == ring_name(driver_.params_.node.role)) {
      tell([](RingDriver& driver) {
        driver.perform(driver.node_.on_ring_deleted(driver.loop_.now()));
      });
    }
  }
  void on_synced() override {}

 private:
  static shards::InformerParams params_of(const RingDriver& driver, const std::string& path) {
    shards::InformerParams params = shards::reflector_params(driver.params_.prefix + path, {});
    params.seed = driver.params_.seed;
    return params;
  }
  /// A callback of the ring may end things that this informer must outlive.
  void tell(std::function<void(RingDriver&)> what) {
    driver_.loop_.post(driver_.alive_.guard([&driver = driver_, what = std::move(what)] {
      if (!driver.left_) {
        what(driver);
      }
    }));
  }

  RingDriver& driver_;
  const bool leases_;
  std::map<std::string, std::string, std::less<>> uids_;
  shards::Informer informer_;
};

RingDriver::RingDriver(net::Loop& loop, ApiClient& api, net::Upstream& upstream, Params params,
                       RingCallbacks callbacks)
    : loop_(loop),
      api_(api),
      upstream_(upstream),
      params_(std::move(params)),
      callbacks_(std::move(callbacks)),
      node_(params_.node),
      timer_(loop) {}

RingDriver::~RingDriver() = default;

std::string RingDriver::leases() const {
  return params_.cluster_path + "/apis/coordination.k8s.io/v1/namespaces/" +
         std::string(kLeaseNamespace) + "/leases";
}

std::string RingDriver::config_maps() const {
  return params_.cluster_path + "/api/v1/namespaces/" + std::string(kLeaseNamespace) +
         "/configmaps";
}

void RingDriver::start() {
  lease_watch_ = std::make_unique<Watcher>(*this, leases(), true);
  ring_watch_ = std::make_unique<Watcher>(*this, config_maps(), false);
  perform(node_.start(loop_.now()));
}

void RingDriver::drained(PartitionId partition) {
  perform(node_.on_drained(partition, loop_.now()));
}

void RingDriver::let_gone(std::string_view text) { perform(node_.let_gone(text, loop_.now())); }

void RingDriver::set_weights(const std::array<std::uint32_t, kRingPartitions>& weights) {
  perform(node_.set_weights(weights, loop_.now()));
}

void RingDriver::leave() { perform(node_.leave(loop_.now())); }

void RingDriver::note_lease(std::string_view name, bool there) {
  const RingNodeParams& own = params_.node;
  const std::string_view identity = member_identity(own.role, name);
  if (identity.empty() || identity == own.identity) {
    return;
  }
  if (!there) {
    if (const auto known = others_.find(identity); known != others_.end()) {
      others_.erase(known);
    }
    return;
  }
  const bool was_alone = is_alone();
  others_.emplace(identity);
  if (was_alone) {
    callbacks_.joined();
  }
}

bool RingDriver::settled() const noexcept {
  return node_.member().listed() && node_.member_lease().holder();
}

void RingDriver::perform(RingOutput output) {
  const Alive::Guard alive = alive_.weak();
  for (const RingEvent& event : output.events) {
    switch (event.kind) {
      case RingEvent::Kind::kStart:
        callbacks_.started(event.partition);
        break;
      case RingEvent::Kind::kEpoch:
        break;  // asked for when it is needed
      case RingEvent::Kind::kDrain:
        callbacks_.draining(event.partition);
        break;
      case RingEvent::Kind::kStop:
        callbacks_.stopped(event.partition);
        break;
    }
    if (!alive) {
      return;
    }
  }
  for (RingOp& op : output.ops) {
    send(std::move(op));
  }
  if (output.asked) {  // later: what answers it comes back here
    loop_.post(alive_.guard([this, text = std::move(*output.asked)] { callbacks_.asked(text); }));
  }
  timer_.cancel();
  if (output.wake != TimePoint::max()) {
    timer_.start(std::max<Duration>(output.wake - loop_.now(), Duration{}),
                 [this] { perform(node_.on_timer(loop_.now())); });
  }
  if (output.left && !std::exchange(left_, true)) {
    timer_.cancel();
    loop_.post(alive_.guard([this] { callbacks_.left(); }));
  }
}

void RingDriver::send(RingOp op) {
  // In a turn of its own: the answer may come while the node's last output is still carried out.
  loop_.post(alive_.guard([this, op = std::move(op)] {
    if (!node_.may_send(op, loop_.now())) {
      perform(node_.on_answer(op.channel, {}, loop_.now()));
      return;
    }
    jobs_[static_cast<std::size_t>(op.channel)] = net::Job(exchange(op));
  }));
}

net::Task<> RingDriver::exchange(RingOp op) {
  ApiWrite write;
  write.kind = WriteKind::kLease;
  bool reads = false;
  switch (op.kind) {
    case RingOp::Kind::kGetLease:
      reads = true;
      write.path = leases() + "/" + op.name;
      break;
    case RingOp::Kind::kListLeases:
      reads = true;
      write.path = leases();
      break;
    case RingOp::Kind::kGetRing:
      reads = true;
      write.path = config_maps() + "/" + op.name;
      break;
    case RingOp::Kind::kCreateLease:
      write.method = "POST";
      write.path = leases();
      write.body = lease_body(op.lease, wall_clock_us()).dump();
      break;
    case RingOp::Kind::kUpdateLease:
      write.method = "PUT";
      write.path = leases() + "/" + op.name;
      write.body = lease_body(op.lease, wall_clock_us()).dump();
      break;
    case RingOp::Kind::kDeleteLease:
      write.method = "DELETE";
      write.path = leases() + "/" + op.name;
      write.body = delete_options(op);
      break;
    case RingOp::Kind::kCreateRing:
      write.method = "POST";
      write.path = config_maps();
      write.body = op.body.dump();
      break;
    case RingOp::Kind::kUpdateRing:
      write.method = "PUT";
      write.path = config_maps() + "/" + op.name;
      write.body = op.body.dump();
      break;
  }
  write.timeout = op.timeout;
  net::Task<ApiAnswer> asking =
      reads ? api_.get(std::move(write.path), op.timeout) : api_.write(std::move(write));
  ApiAnswer answer = co_await asking;
  const auto retry = std::chrono::duration_cast<std::chrono::seconds>(answer.retry_after).count();
  const RingAnswer told = ring_answer(op.kind, answer.status, static_cast<int>(retry), answer.raw);
  perform(node_.on_answer(op.channel, told, loop_.now()));
}

}  // namespace kintsugi::workers
