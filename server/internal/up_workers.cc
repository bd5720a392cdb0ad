#include "server/internal/up_workers.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/log.h"
#include "base/secret_file.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/internal/up_broker.h"
#include "server/internal/up_files.h"
#include "server/internal/worker_pages.h"
#include "server/internal/worker_socket.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

constexpr Duration kProbePause = milliseconds(20);
constexpr Duration kTellPause = seconds(10);

std::vector<std::string> shards_of(const UpOptions& options) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    out.push_back(shard_name(i));
  }
  return out;
}

/// An answer over a socket.
struct Page {
  int status = 0;
  std::string body;
};

}  // namespace

Expected<void> check_up_workers(const UpOptions& options) {
  for (const std::string& role : options.workers) {
    if (auto plan = plan_role(role); !plan) {
      return fail(std::move(plan.error()).at("--workers"));
    }
  }
  return check_delivery(options);
}

Expected<std::unique_ptr<UpWorkers>> UpWorkers::make(net::Loop& loop, const UpOptions& options,
                                                     Events events) {
  std::unique_ptr<UpWorkers> made(new UpWorkers(loop, options, std::move(events)));
  for (const std::string& role : options.workers) {
    auto plan = plan_role(role);
    if (!plan) {
      return fail(std::move(plan.error()).at("--workers"));
    }
    made->places_.push_back(std::make_unique<Place>(Place{std::move(*plan), {}}));
  }
  return made;
}

void UpWorkers::begin() {
  if (auto connected = connect(); !connected) {
    events_.done(std::move(connected));
    return;
  }
  job_ = net::Job(start_all());
}

Expected<void> UpWorkers::connect() {
  const Pki pki(options_.layout.pki());
  RoleInstaller::Params params;
  params.proxy = {"https", local_host(options_), options_.port, ""};
  params.ca_file = pki.certificate("serving-ca");
  params.certificate_file = pki.certificate("admin");
  params.key_file = pki.key("admin");
  params.shards = shards_of(options_);
  params.targets = clusters_of_clients(options_);
  auto made = RoleInstaller::make(loop_, std::move(params));
  if (!made) {
    return fail(std::move(made.error()));
  }
  installer_ = std::move(*made);
  return {};
}

net::Task<> UpWorkers::start_all() {
  for (const auto& place : places_) {
    net::Task<Expected<void>> starting = start_role(*place);
    Expected<void> started = co_await starting;
    if (!started) {
      events_.done(fail(std::move(started.error()).at(place->plan.names.process())));
      co_return;
    }
  }
  for (const auto& place : places_) {
    net::Task<> waiting = await_ready(place->plan.names);
    co_await waiting;
  }
  started_ = true;
  events_.done({});
}

net::Task<Expected<void>> UpWorkers::start_role(Place& place) {
  const RoleNames& names = place.plan.names;
  waits_ = {names.process(), "its kinds are being installed"};
  events_.tell("installing what workers of role " + names.role + " need …");
  net::Task<Expected<std::vector<std::string>>> installing =
      installer_->install(place.plan, place.shards);
  Expected<std::vector<std::string>> shards = co_await installing;
  if (!shards) {
    co_return fail(std::move(shards.error()));
  }
  place.shards = std::move(*shards);
  Expected<bool> written = write_kubeconfig(names);
  if (!written) {
    co_return fail(std::move(written.error()));
  }
  if (Expected<void> told = write_config(place); !told) {
    co_return told;
  }
  events_.tell("starting " + names.process() + " …");
  co_return events_.start(names);
}

net::Task<> UpWorkers::await_ready(RoleNames names) {
  TimePoint told = Clock::now();
  const std::string socket = options_.layout.worker_health(names.role);
  while (true) {
    net::Answer<Page> answer;
    const auto take = answer.callback();
    const SocketFetch asking(loop_, socket, "/readyz?verbose",
                             [&take](int status, std::string body) {
                               take({status, std::move(body)});
                             });
    Page page = co_await answer;
    if (page.status == 200) {
      co_return;
    }
    waits_ = {names.process(), reason_of(page.status, page.body)};
    if (Clock::now() - told >= kTellPause) {
      told = Clock::now();
      log_info("a worker is not ready", {{"process", names.process()}, {"why", waits_.second}});
      events_.tell(names.process() + " is not ready: " + waits_.second);
    }
    co_await net::sleep(loop_, kProbePause);
  }
}

void UpWorkers::renew() {
  if (!started_ || job_.active()) {
    return;
  }
  for (const auto& place : places_) {
    const RoleNames& names = place->plan.names;
    const auto renewed = write_kubeconfig(names);
    if (!renewed) {
      log_error("a worker's certificate cannot be renewed",
                {{"process", names.process()}, {"error", renewed.error().to_string()}});
    } else if (*renewed) {
      log_info("certificates renewed", {{"process", names.process()}});
      events_.signal(names.process(), SIGHUP);
    }
  }
  if (auto connected = connect(); !connected) {
    log_error("workers cannot be looked after", {{"error", connected.error().to_string()}});
    return;
  }
  job_ = net::Job(look_for_shards());
}

net::Task<> UpWorkers::look_for_shards() {
  net::Task<Expected<std::vector<std::string>>> listing = installer_->registered();
  Expected<std::vector<std::string>> listed = co_await listing;
  for (const auto& place : places_) {
    const std::vector<std::string> before = place->shards;
    const bool all_known =
        !listed || std::all_of(listed->begin(), listed->end(), [&](const std::string& shard) {
          return std::find(before.begin(), before.end(), shard) != before.end();
        });
    if (all_known) {
      continue;
    }
    net::Task<Expected<std::vector<std::string>>> installing =
        installer_->install(place->plan, before);
    Expected<std::vector<std::string>> shards = co_await installing;
    if (!shards || *shards == before) {
      continue;
    }
    place->shards = std::move(*shards);
    const std::string process = place->plan.names.process();
    if (Expected<void> told = write_config(*place); !told) {
      log_error("a worker cannot be told of a shard",
                {{"process", process}, {"error", told.error().to_string()}});
      continue;
    }
    log_info("shards have joined; a worker starts again", {{"process", process}});
    events_.signal(process, SIGTERM);
  }
}

Expected<bool> UpWorkers::write_kubeconfig(const RoleNames& names) const {
  const Pki pki(options_.layout.pki());
  const std::string path = options_.layout.worker_kubeconfig(names.role);
  if (auto made = make_directories(options_.layout.worker(names.role)); !made) {
    return fail(std::move(made.error()));
  }
  if (auto made = pki.ensure_client(names.process(), names.user(), names.group()); !made) {
    return fail(std::move(made.error()));
  }
  const auto ca = read_file(pki.certificate("serving-ca"));
  const auto certificate = read_file(pki.certificate(names.process()));
  const auto key = read_secret_file(pki.key(names.process()));
  if (!ca || !certificate || !key) {
    return fail(Errc::kIo, "the certificates in " + pki.folder() + " cannot be read");
  }
  const Secret text(render_kubeconfig({{"base", url_of_proxy(options_)}}, names.user(), *ca,
                                      *certificate, key->view()));
  if (const auto had = read_secret_file(path); had && *had == text) {
    return false;
  }
  if (auto written = write_file(path, text.view(), 0600); !written) {
    return fail(std::move(written.error()));
  }
  return true;
}

Expected<void> UpWorkers::write_config(const Place& place) const {
  const RoleNames& names = place.plan.names;
  WorkerConfig config = config_of_role(options_.layout, names, place.shards);
  config.tracing = options_.tracing;
  if (place.plan.in_provider.empty()) {
    aim_at_clients(config, options_);
  }
  return write_file(options_.layout.worker_config(names.role),
                    "# Written by `kintsugi up` at each start.\n" + render_worker_config(config));
}

}  // namespace kintsugi::server
