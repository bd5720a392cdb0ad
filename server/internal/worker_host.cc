#include "server/internal/worker_host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/version.h"

namespace kintsugi::server {
namespace {

constexpr Duration kBeat = seconds(1);

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

/// Times of requests follow those of the Lease, so that short ones hold, too.
workers::RingNodeParams ring_params(const WorkerRoleConfig& config) {
  workers::RingNodeParams ring;
  ring.duration = config.lease_duration;
  ring.renew = config.lease_renew;
  ring.give_up = config.lease_give_up;
  ring.retry = std::min<Duration>(ring.retry, config.lease_give_up / 4);
  ring.request_timeout = std::min<Duration>(ring.request_timeout, config.lease_give_up / 2);
  return ring;
}

/// @param server  of the config, "": that of the access
workers::WorkerParams worker_params(const WorkerRoleConfig& config, const WorkerAccess& access,
                                    const std::string& server) {
  workers::WorkerParams params;
  params.slice_cluster = config.slice_cluster;
  params.slice = config.slice;
  params.server = server.empty() ? access.proxy.scheme + "://" + access.proxy.authority() : server;
  params.allowed_endpoint_hosts = config.allowed_endpoint_hosts;
  params.lease_clusters = config.lease_clusters;
  params.user_agent =
      "kintsugi-worker/" + std::string(product_version()) + " (" + config.name + ")";
  params.identity_host = host_name();
  params.upstream = [tls = access.tls](const net::Url& url) -> Expected<net::UpstreamParams> {
    if (url.scheme == "https" && tls == nullptr) {
      return fail(Errc::kConfig, "the kubeconfig has no TLS for " + url.authority());
    }
    net::UpstreamParams out;
    out.url = url;
    out.tls = url.scheme == "https" ? tls : nullptr;
    out.ping_after = seconds(30);  // RT-28
    out.ping_timeout = seconds(15);
    return out;
  };
  if (access.headers.size() != 0) {
    params.credentials = [headers = access.headers] { return headers; };
  }
  params.ring = ring_params(config);
  params.journal_max_bytes = config.journal_max;
  params.writes_per_second = config.writes_per_second;
  params.burst = config.burst;
  return params;
}

}  // namespace

WorkerHost::WorkerHost(net::Loop& main, const WorkerRoleConfig& config, const std::string& data_dir,
                       workers::Role role, const WorkerAccess& access)
    : main_(main), role_(config.name), loop_(config.name), beat_(main) {
  std::vector<std::string> servers = config.servers;
  if (servers.empty()) {
    servers.emplace_back();
  }
  for (const std::string& server : servers) {
    workers::WorkerParams params = worker_params(config, access, server);
    params.data_dir = data_dir;
    workers_.push_back(std::make_unique<workers::Worker>(loop_, std::move(params), role));
  }
}

WorkerHost::~WorkerHost() {
  if (thread_.joinable()) {
    loop_.stop();
    thread_.join();
  }
}

Expected<void> WorkerHost::start() {
  for (const auto& worker : workers_) {
    if (auto started = worker->start(); !started) {
      return started;
    }
  }
  running_ = workers_.size();
  heard_ = Clock::now();
  thread_ = std::thread([this] { loop_.run(); });
  beat();
  return {};
}

void WorkerHost::stop(std::function<void()> done) {
  stopping_ = true;
  loop_.post([this, done = std::move(done)]() mutable {
    runs_out_ = true;
    for (const auto& worker : workers_) {
      worker->stop([this, done] {
        if (--running_ == 0) {
          main_.post(done);
        }
      });
    }
  });
}

void WorkerHost::set_pressure(bool pressure) {
  if (std::exchange(pressure_, pressure) != pressure) {
    loop_.post([this, pressure] {
      for (const auto& worker : workers_) {
        worker->set_pressure(pressure);
      }
    });
  }
}

template <class Answer>
void WorkerHost::ask(std::function<Answer()> make, std::function<void(Answer)> done) {
  loop_.post([this, make = std::move(make), done = std::move(done)]() mutable {
    main_.post([done = std::move(done), answer = make()]() mutable { done(std::move(answer)); });
  });
}

void WorkerHost::beat() {
  ask<bool>([] { return true; }, alive_.guard([this](bool) { heard_ = Clock::now(); }));
  beat_.start(kBeat, [this] { beat(); });
}

/// On the loop.
std::string WorkerHost::not_ready() const {
  if (runs_out_) {
    return "is stopping";
  }
  for (const auto& worker : workers_) {
    if (std::string why = worker->not_ready(); !why.empty()) {
      return why;
    }
  }
  return {};
}

void WorkerHost::ask_health(std::function<void(RoleHealth)> done) {
  const bool alive = Clock::now() - heard_ < kSilence;
  if (stopping_ || !alive) {
    done({role_, alive, stopping_ ? "is stopping" : "its loop takes no turns"});
    return;
  }
  ask<std::string>([this] { return not_ready(); },
                   [role = role_, done = std::move(done)](std::string why) {
                     done({role, true, std::move(why)});
                   });
}

void WorkerHost::ask_metrics(std::function<void(std::string)> done) {
  ask<WorkerReport>(
      [this] {
        WorkerReport report;
        report.role = role_;
        for (const auto& worker : workers_) {
          report.add(*worker, loop_.now());
        }
        return report;
      },
      [pressure = pressure_, done = std::move(done)](const WorkerReport& report) {
        done(worker_metrics_text(report, pressure));
      });
}

void WorkerHost::ask_errors(std::function<void(HealthPage)> done) {
  ask<HealthPage>(
      [this] {
        krm::Json list = krm::Json::array();
        bool has = false;
        for (const auto& worker : workers_) {
          has = worker->add_errors(list) || has;
        }
        return has ? errors_page(list) : HealthPage{404, "404 page not found\n"};
      },
      std::move(done));
}

}  // namespace kintsugi::server
