#include "workers/runtime/unit/internal/take_overs.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "krm/path_prefixes.h"
#include "workers/runtime/ring/ring_driver.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kLook = milliseconds(50);
constexpr Duration kPatience = seconds(2);  // with one request

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool TakeOvers::is_free(const std::string& cluster, const std::string& shard, std::int64_t epoch) {
  const auto [at, is_new] = asked_.try_emplace(cluster + "|" + shard + "|" + std::to_string(epoch));
  if (is_new) {
    at->second.job = net::Job(ask(cluster, shard, &at->second));
  }
  return at->second.done;
}

void TakeOvers::forget(std::string_view cluster) {
  const std::string prefix = std::string(cluster) + "|";
  for (auto at = asked_.lower_bound(prefix); at != asked_.end() && at->first.starts_with(prefix);) {
    at = asked_.erase(at);
  }
}

/// Path of the Leases of that shard's ring; "": none of the lease clusters is there.
net::Task<std::string> TakeOvers::find_leases(std::string shard) {
  for (std::size_t i = 0; i < params_.lease_clusters.size(); ++i) {
    std::string path = std::string(krm::kShardsPrefix) + shard;
    path.append(krm::cluster_root(params_.lease_clusters[i]))
        .append("/apis/coordination.k8s.io/v1/namespaces/")
        .append(kLeaseNamespace)
        .append("/leases");
    net::Task<ApiAnswer> asking = client_.get(path, kPatience);
    const ApiAnswer answer = co_await asking;
    if (answer.ok()) {
      co_return path;
    }
  }
  co_return std::string();
}

net::Task<> TakeOvers::ask(std::string cluster, std::string shard, Asking* of) {
  LetGoFsm fsm({params_.role, {cluster, std::to_string(random_number())}, params_.duration},
               loop_.now());
  std::string path;
  while (!fsm.done()) {
    net::Sleep rest(loop_, kLook);
    co_await rest;
    if (path.empty()) {
      net::Task<std::string> looking = find_leases(shard);
      path = co_await looking;
    }
    RingAnswer leases;
    if (!path.empty()) {
      net::Task<ApiAnswer> asking = client_.get(path, kPatience);
      const ApiAnswer answer = co_await asking;
      leases = ring_answer(RingOp::Kind::kListLeases, answer.status, 0, answer.raw);
    }
    if (leases.kind != RingAnswer::Kind::kOk) {
      fsm.on_unreadable(loop_.now());
      continue;
    }
    const std::vector<LeaseWrite> updates = fsm.on_leases(leases.leases, loop_.now());
    for (std::size_t i = 0; i < updates.size(); ++i) {
      ApiWrite write;
      write.method = "PUT";
      write.path = path + "/" + updates[i].name;
      write.body = lease_body(updates[i], wall_clock_us()).dump();
      write.kind = WriteKind::kLease;
      write.timeout = kPatience;
      net::Task<ApiAnswer> writing = client_.write(std::move(write));
      const ApiAnswer answer = co_await writing;
      if (answer.ok()) {
        fsm.on_taken(updates[i].uid);
      }
    }
  }
  if (fsm.gave_up()) {
    log_warn("a worker of another shard does not say that it has let go of a logical cluster",
             {{"role", params_.role}, {"cluster", cluster}, {"shard", shard}});
  }
  of->done = true;
}

}  // namespace kintsugi::workers
